//! Links whose one-sided writes end while they are begun: nothing has to be remembered of those.

use outboard_steering::Preference;
use outboard_wire::Time;

use super::{Begun, Ended, Fault, NotYet, Write, WriteId, Writer};
use crate::policy::Lesson;
use crate::{Path, Span};

/// What to do for a write over a link whose one-sided writes end at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BegunAtOnce {
    /// Write its bytes now, and tell [`Writer::offloaded_at_once`].
    Offload(AtOnce),
    /// It goes as any other.
    Other(Begun),
}

/// A write that is offloaded while it is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtOnce {
    /// Which write.
    pub id: WriteId,
    span: Span,
    lesson: Lesson,
    began: Time,
    signal: bool,
}

impl Writer {
    /// The same for a link whose one-sided writes have ended when the call returns. If the write is to be offloaded, nothing
    /// is remembered of it: write its bytes, and tell [`offloaded_at_once`](Self::offloaded_at_once).
    #[inline]
    pub fn begin_at_once(&mut self, now: Time, write: &Write<'_>) -> Result<BegunAtOnce, NotYet> {
        if self.ended.len() >= self.config.untold_max {
            return Err(NotYet::Untold);
        }
        let is_free = self.is_idle() || !(self.is_fenced || self.meets(write));
        let span = Span { slot: write.slot, offset: write.offset, len: write.bytes.len() as u64 };
        let (path, lesson) = match (write.path, self.config.preference) {
            _ if !is_free => (Path::Unload, Lesson::NONE),
            _ if self.is_stranded => (Path::Offload, Lesson::NONE),
            (Some(path), _) | (None, Preference::Fixed(path)) => (path, Lesson::NONE),
            _ if !self.is_attached => (Path::Offload, Lesson::NONE),
            _ => self.policy.choose(&span, write.hint),
        };
        if path == Path::Offload {
            let id = WriteId(self.next_id);
            self.next_id += 1;
            self.counts.offloaded += 1;
            self.is_fenced = false;
            return Ok(BegunAtOnce::Offload(AtOnce { id, span, lesson, began: now, signal: write.signal }));
        }
        if is_free && lesson != Lesson::NONE {
            let begun = self.unload(now, write, span, lesson);
            if begun != Err(NotYet::Full) {
                self.is_fenced = false;
                return begun.map(BegunAtOnce::Other);
            }
        }
        self.begin(now, write).map(BegunAtOnce::Other)
    }

    fn meets(&self, write: &Write<'_>) -> bool {
        let span = Span { slot: write.slot, offset: write.offset, len: write.bytes.len() as u64 };
        self.offloads.overlaps(&span) || self.overlaps_unloaded(&span)
    }

    /// A one-sided write has ended, well or not, while it was begun.
    #[inline]
    pub fn offloaded_at_once(&mut self, now: Time, write: AtOnce, result: Result<(), Fault>) {
        if result.is_ok() {
            self.policy.learn(now, write.lesson, now.since(write.began));
        }
        let ended = Ended { id: write.id, span: write.span, path: Path::Offload, result };
        self.end(ended, write.signal);
    }
}
