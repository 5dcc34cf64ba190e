//! Unloaded writes that the target does not take: they are offloaded instead.

use std::ops::Range;

use outboard_wire::Time;
use outboard_wire::writing::{EntryHead, WriterId};

use super::WriteSequencer;
use super::offloads::Offload;
use crate::WriteSpan;
use crate::writer::policy::Lesson;

/// An unloaded write that is to be written one-sidedly instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stranded {
    /// What the link calls it.
    pub token: u64,
    /// Where its bytes belong.
    pub span: WriteSpan,
    place: Range<usize>,
}

impl WriteSequencer {
    /// The target does not know this writer and takes nothing that it unloads: everything is offloaded until the writer
    /// is [renewed](Self::renew) and attached.
    pub fn strand(&mut self) {
        self.is_stranded = true;
        self.is_attached = false;
        self.sent = 0;
        self.batches.clear();
    }

    /// Whether nothing can be unloaded at present.
    pub fn is_stranded(&self) -> bool {
        self.is_stranded
    }

    /// Whether something is unloaded and not settled.
    pub fn has_unloaded(&self) -> bool {
        !self.unloaded.is_empty()
    }

    /// The oldest unloaded write of a stranded writer, if it can be offloaded now. Have the link write its
    /// [bytes](Self::stranded_bytes), and tell [`moved`](Self::moved) or [`not_moved`](Self::not_moved).
    pub fn next_stranded(&mut self, now: Time) -> Option<Stranded> {
        if !self.is_stranded {
            return None;
        }
        let first = self.unloaded.front()?;
        // One-sided writes have no order.
        if self.offloads.overlaps(&first.span) {
            return None;
        }
        let token = self.offloads.add(Offload {
            id: first.id,
            span: first.span,
            began: now,
            lesson: Lesson::NONE,
            signal: first.signal,
            is_doubtful: first.number <= self.sent_ever,
        })?;
        Some(Stranded { token, span: first.span, place: first.place.clone() })
    }

    /// The bytes to write.
    pub fn stranded_bytes(&self, stranded: &Stranded) -> &[u8] {
        let start = stranded.place.start + EntryHead::LEN;
        self.staging.slice(start..start + stranded.span.len as usize)
    }

    /// The link has begun it: from now on it is an offloaded write like any other.
    pub fn moved(&mut self) {
        let Some(first) = self.unloaded.pop_front() else { return };
        self.staging.pop(self.unloaded.front().map(|next| next.place.start));
        self.unloaded_pages.remove(&first.span);
        self.counts.unloaded -= 1;
        self.counts.offloaded += 1;
    }

    /// The link had no room for it.
    pub fn not_moved(&mut self, stranded: &Stranded) {
        self.offloads.take(stranded.token);
    }

    /// Begins anew under another name, when nothing is unloaded any more. Attach it next.
    ///
    /// # Panics
    /// If something is unloaded: its number would mean nothing.
    pub fn renew(&mut self, identity: WriterId) {
        assert!(self.unloaded.is_empty(), "a writer is renewed while something is unloaded");
        self.identity = identity;
        self.attempt = 0;
        self.settled = 0;
        self.sent_ever = 0;
    }
}
