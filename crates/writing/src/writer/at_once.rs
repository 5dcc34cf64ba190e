//! Links whose one-sided writes end while they are begun: nothing has to be remembered of those.

use outboard_steering::Preference;
use outboard_wire::Time;

use super::{Begun, EndedWrite, NotYet, Write, WriteFault, WriteId, WriteSequencer};
use crate::writer::policy::Lesson;
use crate::{WritePath, WriteSpan};

/// What to do for a write over a link whose one-sided writes end at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BegunAtOnce {
    /// Write its bytes now, and tell [`WriteSequencer::offloaded_at_once`].
    Offload(ImmediateWrite),
    /// It goes as any other.
    Other(Begun),
}

/// A write that is offloaded while it is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImmediateWrite {
    /// Which write.
    pub id: WriteId,
    span: WriteSpan,
    lesson: Lesson,
    began: Time,
    signal: bool,
}

impl WriteSequencer {
    /// Begins a write on a link whose one-sided writes have ended when the call returns. If the write is to be offloaded, nothing
    /// is remembered of it: write its bytes, and tell [`offloaded_at_once`](Self::offloaded_at_once).
    #[inline]
    pub fn begin_at_once(&mut self, now: Time, write: &Write<'_>) -> Result<BegunAtOnce, NotYet> {
        if self.ended.len() >= self.config.untold_max {
            return Err(NotYet::Untold);
        }
        let is_free = self.is_idle() || !(self.is_fenced || self.meets(write));
        let span = WriteSpan { slot: write.slot, offset: write.offset, len: write.bytes.len() as u64 };
        let (path, lesson) = match (write.path, self.config.preference) {
            _ if !is_free => (WritePath::Unload, Lesson::NONE),
            _ if self.is_stranded => (WritePath::Offload, Lesson::NONE),
            (Some(path), _) | (None, Preference::Fixed(path)) => (path, Lesson::NONE),
            _ if !self.is_attached => (WritePath::Offload, Lesson::NONE),
            _ => self.policy.choose(&span, write.hint),
        };
        if path == WritePath::Offload {
            let id = WriteId(self.next_id);
            self.next_id += 1;
            self.counts.offloaded += 1;
            self.is_fenced = false;
            return Ok(BegunAtOnce::Offload(ImmediateWrite {
                id,
                span,
                lesson,
                began: now,
                signal: write.signal,
            }));
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

    /// Begins such a write that needs no thought and of which nothing is to be told: it is offloaded, and teaches nothing.
    /// `None` if it is not one of those. Write its bytes; only if that fails there is something to
    /// [tell](Self::failed_in_passing).
    ///
    /// Hardly anything is noted of it, which is what matters where many go to memory that is in no cache: whatever is noted
    /// waits behind the bytes in the processor's queue of stores, and keeps the next bytes out of it.
    #[inline]
    pub fn begin_in_passing(&mut self, write: &Write<'_>) -> Option<WriteId> {
        let is_plain = self.is_attached && self.is_idle() && !self.is_fenced && !write.signal;
        if !is_plain || self.ended.len() >= self.config.untold_max {
            return None;
        }
        let needs_no_thought = match (write.path, self.config.preference) {
            (Some(path), _) | (None, Preference::Fixed(path)) => path == WritePath::Offload,
            _ => self.policy.passes(),
        };
        needs_no_thought.then(|| {
            let id = WriteId(self.next_id);
            self.next_id += 1;
            self.counts.offloaded += 1;
            id
        })
    }

    /// A write that was begun in passing has failed.
    #[cold]
    pub fn failed_in_passing(&mut self, id: WriteId, write: &Write<'_>, fault: WriteFault) {
        let span = WriteSpan { slot: write.slot, offset: write.offset, len: write.bytes.len() as u64 };
        self.end(EndedWrite { id, span, path: WritePath::Offload, result: Err(fault) }, false);
    }

    /// The target is gone, at an unknown time: whatever was offloaded and was not told yet may never have been
    /// seen by a reader.
    pub fn doubt_offloaded(&mut self) {
        let untold =
            self.ended.iter_mut().filter(|ended| ended.path == WritePath::Offload && ended.result.is_ok());
        for ended in untold {
            ended.result = Err(WriteFault::Lost);
            self.counts.failed += 1;
        }
    }

    fn meets(&self, write: &Write<'_>) -> bool {
        let span = WriteSpan { slot: write.slot, offset: write.offset, len: write.bytes.len() as u64 };
        self.offloads.overlaps(&span) || self.overlaps_unloaded(&span)
    }

    /// A one-sided write has ended, well or not, while it was begun.
    #[inline]
    pub fn offloaded_at_once(&mut self, now: Time, write: ImmediateWrite, result: Result<(), WriteFault>) {
        if result.is_ok() {
            self.policy.learn(now, write.lesson, now.since(write.began));
        }
        let ended = EndedWrite { id: write.id, span: write.span, path: WritePath::Offload, result };
        self.end(ended, write.signal);
    }
}

#[cfg(test)]
mod tests {
    use outboard_wire::Incarnation;
    use outboard_wire::access::AccessStatus;
    use outboard_wire::writing::{Drained, WriterId};

    use super::*;
    use crate::{Hint, WriterConfig};

    const WRITE: Write<'_> =
        Write { slot: 0, offset: 64, bytes: b"bytes", hint: Hint::None, path: None, signal: false };

    fn attached(preference: Preference<WritePath>) -> WriteSequencer {
        let (identity, config) = (WriterId([1; 16]), WriterConfig { preference, ..WriterConfig::default() });
        let mut writer = WriteSequencer::new(identity, config, Time::ZERO);
        assert_eq!(writer.begin_in_passing(&WRITE), None, "the target has not answered yet");
        let attempt = writer.attach(Incarnation(1)).attempt;
        let answer = Drained { writer: identity, attempt, through: 0, refusals: Vec::new() };
        writer.drained(Time::ZERO, &answer).unwrap();
        writer
    }

    #[test]
    fn of_writes_in_passing_only_failures_are_told() {
        let mut writer = attached(Preference::Fixed(WritePath::Offload));
        assert_eq!(writer.begin_in_passing(&WRITE), Some(WriteId(1)));
        assert_eq!(writer.begin_in_passing(&WRITE), Some(WriteId(2)));
        assert!(writer.is_idle() && writer.next_ended().is_none());
        writer.failed_in_passing(WriteId(2), &WRITE, WriteFault::Refused(AccessStatus::NotOpen));
        let told = writer.next_ended().unwrap();
        assert_eq!((told.id, told.span.offset), (WriteId(2), 64));
        assert_eq!(told.result, Err(WriteFault::Refused(AccessStatus::NotOpen)));
        assert_eq!((writer.counts().offloaded, writer.counts().failed), (2, 1));
    }

    #[test]
    fn what_was_not_told_before_the_target_was_gone_is_lost() {
        let mut writer = attached(Preference::Fixed(WritePath::Offload));
        let signalled = Write { signal: true, ..WRITE };
        for _ in 0..2 {
            let begun = writer.begin_at_once(Time::ZERO, &signalled).unwrap();
            let BegunAtOnce::Offload(at_once) = begun else { panic!("{begun:?}") };
            writer.offloaded_at_once(Time::ZERO, at_once, Ok(()));
        }
        assert_eq!(writer.next_ended().unwrap().result, Ok(()));
        writer.doubt_offloaded();
        assert_eq!(writer.next_ended().unwrap().result, Err(WriteFault::Lost));
        assert_eq!(writer.counts().failed, 1);
    }

    #[test]
    fn writes_that_need_thought_do_not_pass() {
        let mut writer = attached(Preference::Auto);
        assert_eq!(writer.begin_in_passing(&WRITE), None, "every write is looked at in the beginning");
        let offload = Write { path: Some(WritePath::Offload), ..WRITE };
        assert_eq!(writer.begin_in_passing(&Write { signal: true, ..offload }), None);
        assert_eq!(writer.begin_in_passing(&Write { path: Some(WritePath::Unload), ..WRITE }), None);
        assert!(writer.begin_in_passing(&offload).is_some());
        // Over bytes on their way home, and behind a fence, it has to wait.
        writer.begin(Time::ZERO, &Write { path: Some(WritePath::Unload), ..WRITE }).unwrap();
        assert_eq!(writer.begin_in_passing(&offload), None);
    }
}
