//! Writes to regions of a memory server that choose their path, write by write.

mod connect;
mod error;
mod groups;
mod options;

use std::collections::VecDeque;
use std::time::Duration;

use outboard_driver::Connection;
use outboard_link::{LinkError, Loss};
use outboard_writing::{BeginError, Completed, NotYet, Write};

pub use error::WriteError;
pub use options::{WriteOptions, WriterOptions};

pub use outboard_writing::{Hint, WriteId, WritePath, WriterStats};

use crate::error::OpenError;
use crate::memory::FarRegion;
use crate::outboard::Outboard;
use connect::Writing;
use groups::Groups;

/// Completions that wait to be asked for before no other write begins.
const COMPLETED_MAX: usize = 16384;

/// Writes to regions of one memory server.
///
/// A write either goes straight into the server's memory (*offload*) or into a ring from which a processor there copies
/// it home (*unload*); each write takes the path that is expected to be faster, and no reader sees a difference but time:
///
/// - When a write is complete its bytes are visible to all readers of the region.
/// - Two writes of one writer to the same bytes apply in the order in which they were begun.
/// - Rights and bounds are enforced on both paths, with the same errors; nothing of a refused write is written.
///
/// A write has begun when its call returns, and its bytes are free for other use. It goes on while any call of this
/// writer is made: [`poll`](Self::poll), [`wait`](Self::wait) or [`flush`](Self::flush) at the latest. A write that
/// fails is told by [`poll`](Self::poll), with or without a signal.
///
/// A call that has waited for as long as the writer's [deadline](Self::with_deadline) ends with [`WriteError::Deadline`];
/// the writer goes on, and so does what is under way. After [`WriteError::Lost`] every call says so at once.
///
/// ```
/// # let _server = outboard_nearby::start();
/// use outboard::Outboard;
///
/// let outboard = Outboard::find()?;
/// let mut writer = outboard.writer()?;
/// let mut memory = outboard.memory()?;
/// let region = memory.reserve(1 << 20, None)?;
/// let target = writer.open(&region)?;
/// writer.write(target, 4096, b"somewhere")?;
/// writer.flush()?; // all of it is visible now
/// println!("{}", writer.explain().join("\n"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Writer {
    connection: Connection<Writing>,
    deadline: Duration,
    completed: VecDeque<WriteCompletion>,
    groups: Groups,
    /// The first write since the latest flush that has failed.
    failure: Option<WriteError>,
}

/// A region that a [`Writer`] has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WriteTarget {
    slot: u32,
}

/// A write that has ended.
#[derive(Clone, Debug)]
pub struct WriteCompletion {
    /// Which.
    pub id: WriteId,
    /// By which path it went; of a vectored write, its last part.
    pub path: WritePath,
    /// Visible, or why not.
    pub result: Result<(), WriteError>,
}

impl WriteCompletion {
    fn new(Completed { id, path, result }: Completed) -> Self {
        Self { id, path, result: result.map_err(WriteError::from) }
    }
}

impl Writer {
    /// Connects to the memory server, and where the options want it to the agent. An agent that cannot be reached is done
    /// without.
    pub(crate) fn start(outboard: &Outboard, options: WriterOptions) -> Result<Self, OpenError> {
        let connection = connect::open(outboard, &options)?;
        let (completed, groups) = (VecDeque::new(), Groups::default());
        let writer = Self { connection, deadline: outboard.deadline, completed, groups, failure: None };
        Ok(writer.with_deadline(outboard.deadline))
    }

    /// Lets every call wait for `deadline` at most. An agent that has not answered after half of it is
    /// done without.
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self.connection.client_mut().initiator_mut().set_relay_patience(deadline / 2);
        self
    }

    /// Opens a region for writing.
    pub fn open(&mut self, region: &FarRegion) -> Result<WriteTarget, WriteError> {
        let opened = self.connection.client_mut().open(&region.descriptor().grant, self.deadline);
        let slot = opened.map_err(|error| self.told(WriteError::from(error)))?;
        Ok(WriteTarget { slot })
    }

    /// Gives a region back when all writes have ended.
    pub fn close_region(&mut self, target: WriteTarget) -> Result<(), WriteError> {
        self.until_idle()?;
        // Failures are told in terms of the region.
        self.look_and_gather();
        self.connection.client_mut().close_region(target.slot);
        Ok(())
    }

    /// The longest write, by either path, in bytes. Cut longer ones, or use [`write_vectored`](Self::write_vectored).
    pub fn longest(&self) -> usize {
        self.connection.client().initiator().longest()
    }

    /// Begins a write that is told of only if it fails.
    #[inline]
    pub fn write(&mut self, target: WriteTarget, offset: u64, bytes: &[u8]) -> Result<(), WriteError> {
        self.write_with(target, offset, bytes, WriteOptions::default()).map(|_| ())
    }

    /// Begins a write whose end [`poll`](Self::poll) and [`wait`](Self::wait) tell.
    #[inline]
    pub fn write_with_signal(
        &mut self,
        target: WriteTarget,
        offset: u64,
        bytes: &[u8],
    ) -> Result<WriteId, WriteError> {
        self.write_with(target, offset, bytes, WriteOptions { signal: true, ..WriteOptions::default() })
    }

    /// Begins a write; waits if others have to end first.
    ///
    /// # Errors
    /// [`WriteError::NotPolled`] if 16384 completions wait for a [`poll`](Self::poll).
    #[inline]
    pub fn write_with(
        &mut self,
        target: WriteTarget,
        offset: u64,
        bytes: &[u8],
        options: WriteOptions,
    ) -> Result<WriteId, WriteError> {
        let WriteOptions { hint, path, signal } = options;
        let write = Write { slot: target.slot, offset, bytes, hint, path, signal };
        match connect::begin(&mut self.connection, &write) {
            Ok(id) => Ok(id),
            Err(BeginError::Access(error)) => Err(WriteError::from(error)),
            Err(BeginError::NotYet(why)) => self.begin_later(write, why),
        }
    }

    #[cold]
    fn begin_later(&mut self, write: Write<'_>, why: NotYet) -> Result<WriteId, WriteError> {
        let awaited = match why {
            NotYet::Full => "room for a write",
            NotYet::Ordered => "a write to the same bytes",
            NotYet::Fenced => "the writes before a fence",
            NotYet::Untold => "the program to ask for completions",
        };
        self.until(self.deadline, awaited, |writer| match connect::begin(&mut writer.connection, &write) {
            Ok(id) => Some(Ok(id)),
            Err(BeginError::Access(error)) => Some(Err(WriteError::from(error))),
            Err(BeginError::NotYet(NotYet::Untold)) => {
                writer.look_and_gather();
                // Only the caller can ask for them, so that waiting would be in vain.
                let kept = writer.completed.len();
                (kept >= COMPLETED_MAX).then_some(Err(WriteError::NotPolled { kept }))
            }
            Err(BeginError::NotYet(_)) => None,
        })?
    }

    /// Begins several writes, in order; [`poll`](Self::poll) and [`wait`](Self::wait) tell once when all have ended, or how
    /// the first that failed did. All are checked before the first begins. If one cannot begin after that, the error is
    /// returned, and the parts before it are told as one write.
    pub fn write_vectored(
        &mut self,
        target: WriteTarget,
        parts: &[(u64, &[u8])],
    ) -> Result<WriteId, WriteError> {
        let options = WriteOptions { signal: true, ..WriteOptions::default() };
        let Some(((offset, bytes), others)) = parts.split_first() else {
            return self.write_with(target, 0, &[], options);
        };
        for (offset, bytes) in parts {
            let judged = self.connection.client().initiator().judge(target.slot, *offset, bytes.len());
            judged.map_err(WriteError::from)?;
        }
        let mut last = self.write_with(target, *offset, bytes, options)?;
        self.groups.begin(last, others.len());
        for (offset, bytes) in others {
            last = match self.write_with(target, *offset, bytes, options) {
                Ok(id) => id,
                Err(error) => {
                    self.completed.extend(self.groups.give_up());
                    return Err(error);
                }
            };
            self.groups.go_on(last);
        }
        Ok(last)
    }

    /// Orders everything: writes from now on begin when all before have ended.
    pub fn fence(&mut self) {
        self.connection.client_mut().initiator_mut().fence();
    }

    /// Waits until every write has ended.
    ///
    /// # Errors
    /// If not all writes since the latest flush are visible now: the loss of the server, or how the first that failed did.
    /// [`poll`](Self::poll) tells of each.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        // Where writes end at once, the latest look whether the server lives may be old.
        self.connection.client_mut().turn();
        let waited = self.until_idle();
        self.gather();
        let failure = self.failure.take();
        match self.lost() {
            Some(lost) => Err(WriteError::Lost(lost)),
            None => failure.map_or(waited, Err),
        }
    }

    fn until_idle(&mut self) -> Result<(), WriteError> {
        self.until(self.deadline, "writes to end", |writer| writer.is_idle().then_some(()))
    }

    /// The next write that has ended and was to be told of, or that has failed.
    pub fn poll(&mut self) -> Option<WriteCompletion> {
        if self.completed.is_empty() {
            self.look_and_gather();
        }
        self.completed.pop_front()
    }

    /// Where writes end at once, the latest look whether the server lives may be old: writes that have ended are told as
    /// visible only after such a look.
    fn look_and_gather(&mut self) {
        self.connection.client_mut().turn();
        self.gather();
    }

    fn gather(&mut self) {
        while let Some(completed) = self.next_completed().map(WriteCompletion::new) {
            if let (None, Err(error)) = (&self.failure, &completed.result) {
                self.failure = Some(error.clone());
            }
            if let Some(completion) = self.groups.filter(completed) {
                self.completed.push_back(completion);
            }
        }
        let most = COMPLETED_MAX.saturating_sub(self.completed.len());
        self.connection.client_mut().initiator_mut().set_untold_max(most);
    }

    /// Waits for the next completion. `None` if `deadline` has passed, or if nothing is under way that could bring one.
    pub fn wait(&mut self, deadline: Duration) -> Option<WriteCompletion> {
        let mut found = None;
        // Only time can run out here: a loss is told by the completions themselves.
        let _ = self.until(deadline, "a completion", |writer| {
            found = writer.poll();
            (found.is_some() || writer.is_idle()).then_some(())
        });
        found.or_else(|| self.poll())
    }

    /// Whether no write is under way.
    fn is_idle(&self) -> bool {
        self.connection.client().initiator().is_idle()
    }

    /// Why the memory server is gone, if it is.
    fn lost(&self) -> Option<LinkError> {
        self.connection.client().initiator().lost().cloned()
    }

    fn next_completed(&mut self) -> Option<Completed> {
        self.connection.client_mut().initiator_mut().next_completed()
    }

    /// Calls `step` until it returns something, letting writes go on in between.
    fn until<T>(
        &mut self,
        limit: Duration,
        awaited: &'static str,
        mut step: impl FnMut(&mut Self) -> Option<T>,
    ) -> Result<T, WriteError> {
        let clock = self.connection.client().clock();
        let began = clock.now();
        let mut idle_since = began;
        loop {
            if let Some(value) = step(self) {
                return Ok(value);
            }
            let moved = self.connection.client_mut().turn();
            if let Some(lost) = self.lost() {
                return step(self).ok_or(WriteError::Lost(lost));
            }
            let now = clock.now();
            if now.since(began) >= limit {
                return Err(WriteError::Deadline {
                    peer: self.connection.client().awaited().clone(),
                    waited: now.since(began),
                    awaited,
                });
            }
            // The awaited thing may be among those that have moved: look before sleeping.
            if moved {
                idle_since = now;
            } else if now.since(idle_since) >= self.connection.spin() {
                self.connection.client_mut().sleep(began + limit).map_err(WriteError::Lost)?;
                idle_since = clock.now();
            }
            std::hint::spin_loop();
        }
    }

    /// How paths are chosen at present and why, for people.
    pub fn explain(&self) -> Vec<String> {
        let client = self.connection.client();
        let policy = client.initiator().explain(client.clock().now()).to_string();
        let drained = format!("what is unloaded is drained by {}", client.drained_by());
        policy.lines().map(str::to_owned).chain([drained]).collect()
    }

    /// The process that drains unloaded writes.
    pub fn drained_by(&self) -> String {
        self.connection.client().drained_by().to_string()
    }

    /// The counts so far.
    pub fn stats(&self) -> WriterStats {
        self.connection.client().initiator().counts()
    }

    /// A server that lives was not lost: it was too slow.
    fn told(&self, error: WriteError) -> WriteError {
        match error {
            WriteError::Lost(LinkError { peer, loss: Loss::Stalled { silent: waited, awaited } })
                if self.lost().is_none() =>
            {
                WriteError::Deadline { peer, waited, awaited }
            }
            error => error,
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.connection.client_mut().close();
    }
}
