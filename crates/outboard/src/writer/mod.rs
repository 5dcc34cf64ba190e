//! Writes to regions of a memory server that choose their path, write by write.

mod any;
mod groups;
mod options;

use std::collections::VecDeque;
use std::time::Duration;

use outboard_link::{AccessError, Address, ConnectError, Identity, LinkError, Loss};
use outboard_settings::LinkSettings;
use outboard_writing::{BeginError, Completed, NotYet, PolicyExplanation, Write, WriterCounts};

pub use options::{WriteOptions, WriterOptions};
use thiserror::Error;

pub use outboard_writing::{Hint, Path as WritePath, PolicyExplanation as WriteExplanation, WriteId};

use crate::find::{FindError, Found};
use crate::job::Job;
use crate::memory::FarRegion;
use any::AnyWriter;
use groups::Groups;

/// Completions that wait to be asked for before no other write begins.
const COMPLETED_MAX: usize = 16384;

/// Writes to regions of one memory server.
///
/// A write either goes straight into the server's memory (*offload*) or into a ring from which a processor there copies
/// it home (*unload*); each write takes the path that is expected to be faster, and nobody sees a difference but time:
///
/// - When a write is complete its bytes are visible to whoever reads the region.
/// - Two writes of one writer to the same bytes apply in the order in which they were begun.
/// - Rights and bounds are enforced on both paths, with the same errors; nothing of a refused write is written.
///
/// A write has begun when its call returns, and its bytes are free for other use. It goes on while any call of this
/// writer is made: [`poll`](Self::poll), [`wait`](Self::wait) or [`flush`](Self::flush) at the latest. A write that
/// fails is told by [`poll`](Self::poll), with or without a signal.
///
/// A call that has waited for as long as the writer's [patience](Self::with_patience) ends with [`AccessError::Lost`] and
/// [`Loss::Stalled`]; the writer goes on, and so does what is under way. After any other loss every call says so at once.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use outboard::{Job, Writer, WriterOptions};
///
/// let mut job = Job::join()?;
/// let mut writer = Writer::new(&mut job, WriterOptions::default())?;
/// let region = job.memory().expect("a memory server").reserve(1 << 20, None)?;
/// let target = writer.open(&region)?;
/// writer.write(target, 4096, b"somewhere")?;
/// writer.flush()?; // all of it is visible now
/// println!("{}", writer.explain());
/// # Ok(())
/// # }
/// ```
pub struct Writer {
    any: AnyWriter,
    patience: Duration,
    completed: VecDeque<WriteCompletion>,
    groups: Groups,
    /// The first write since the latest flush that has failed.
    failure: Option<AccessError>,
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
    pub result: Result<(), AccessError>,
}

impl From<Completed> for WriteCompletion {
    fn from(Completed { id, path, result }: Completed) -> Self {
        Self { id, path, result }
    }
}

/// Why there is no writer.
#[derive(Error)]
#[non_exhaustive]
pub enum WriterError {
    /// The job has no memory server.
    #[error(
        "the job has no memory server to write to: start one with `outboard up`, or name one with OUTBOARD_JOB_MEMORY or `outboard run --job-memory ADDRESS`"
    )]
    NoServer,
    /// The process names no memory server, and none was found.
    #[error(transparent)]
    Find(#[from] FindError),
    /// The memory server cannot be reached once more.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Its address cannot be read.
    #[error("the memory server's address “{address}” cannot be read")]
    BadAddress {
        /// As it was given.
        address: String,
    },
}

outboard_wire::debug_with_causes!(WriterError);

impl Writer {
    /// A writer to the memory server of a job, with links of its own.
    pub fn new(job: &mut Job, options: WriterOptions) -> Result<Self, WriterError> {
        let memory = job.memory().ok_or(WriterError::NoServer)?;
        let address = memory.client().peer().address().to_owned();
        let Ok(parsed) = address.parse() else { return Err(WriterError::BadAddress { address }) };
        Ok(Self::connect(&parsed, job.identity().clone(), job.link(), options)?)
    }

    /// A writer to the memory server of this process: the one that the configuration file or the environment names
    /// (`job.memory`), or else the one that this user has started by `outboard up` or `outboard memory`. Regions come from
    /// [`Memory::find`](crate::Memory::find).
    pub fn find(options: WriterOptions) -> Result<Self, WriterError> {
        let found = Found::look()?;
        Self::connect(&found.address, found.identity(), &found.settings.link, options)
            .map_err(|error| FindError::new(&found.address, error).into())
    }

    /// Connects to the memory server at `address`, and where `options` name an agent that drains, to that as well. An
    /// agent that cannot be reached is done without.
    pub fn connect(
        address: &Address,
        identity: Identity,
        settings: &LinkSettings,
        options: WriterOptions,
    ) -> Result<Self, ConnectError> {
        let writer = Self {
            any: AnyWriter::connect(address, identity, settings, options)?,
            patience: settings.deadline,
            completed: VecDeque::new(),
            groups: Groups::default(),
            failure: None,
        };
        Ok(writer.with_patience(settings.deadline))
    }

    /// The same writer, waiting for `patience` at most in every call. An agent that has not answered after half of it is
    /// done without.
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self.any.set_patience(patience);
        self
    }

    /// Opens a region for writing.
    pub fn open(&mut self, region: &FarRegion) -> Result<WriteTarget, AccessError> {
        let slot = self.any.open(&region.descriptor.grant, self.patience)?;
        Ok(WriteTarget { slot })
    }

    /// Gives a region back when all writes have ended.
    pub fn close_region(&mut self, target: WriteTarget) -> Result<(), AccessError> {
        self.until_idle()?;
        // Failures are told in terms of the region.
        self.look_and_gather();
        self.any.close_region(target.slot);
        Ok(())
    }

    /// The longest write, by either path, in bytes. Cut longer ones, or use [`write_vectored`](Self::write_vectored).
    pub fn longest(&self) -> usize {
        self.any.longest()
    }

    /// Begins a write that is told of only if it fails.
    #[inline]
    pub fn write(&mut self, target: WriteTarget, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        self.write_with(target, offset, bytes, WriteOptions::default()).map(|_| ())
    }

    /// Begins a write whose end [`poll`](Self::poll) and [`wait`](Self::wait) tell.
    #[inline]
    pub fn write_with_signal(
        &mut self,
        target: WriteTarget,
        offset: u64,
        bytes: &[u8],
    ) -> Result<WriteId, AccessError> {
        self.write_with(target, offset, bytes, WriteOptions { signal: true, ..WriteOptions::default() })
    }

    /// Begins a write; waits if others have to end first.
    ///
    /// # Errors
    /// [`AccessError::Full`] if 16384 completions wait for somebody to [`poll`](Self::poll).
    #[inline]
    pub fn write_with(
        &mut self,
        target: WriteTarget,
        offset: u64,
        bytes: &[u8],
        options: WriteOptions,
    ) -> Result<WriteId, AccessError> {
        let WriteOptions { hint, path, signal } = options;
        let write = Write { slot: target.slot, offset, bytes, hint, path, signal };
        match self.any.begin(&write) {
            Ok(id) => Ok(id),
            Err(BeginError::Access(error)) => Err(error),
            Err(BeginError::NotYet(why)) => self.begin_later(write, why),
        }
    }

    #[cold]
    fn begin_later(&mut self, write: Write<'_>, why: NotYet) -> Result<WriteId, AccessError> {
        let awaited = match why {
            NotYet::Full => "room for a write",
            NotYet::Ordered => "a write to the same bytes",
            NotYet::Fenced => "the writes before a fence",
            NotYet::Untold => "somebody to ask for completions",
        };
        self.until(self.patience, awaited, |writer| match writer.any.begin(&write) {
            Ok(id) => Some(Ok(id)),
            Err(BeginError::Access(error)) => Some(Err(error)),
            Err(BeginError::NotYet(NotYet::Untold)) => {
                writer.look_and_gather();
                // Only the caller can ask for them, so that waiting would be in vain.
                (writer.completed.len() >= COMPLETED_MAX).then_some(Err(AccessError::Full))
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
    ) -> Result<WriteId, AccessError> {
        let options = WriteOptions { signal: true, ..WriteOptions::default() };
        let Some(((offset, bytes), others)) = parts.split_first() else {
            return self.write_with(target, 0, &[], options);
        };
        for (offset, bytes) in parts {
            self.any.judge(target.slot, *offset, bytes.len())?;
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
        self.any.fence();
    }

    /// Waits until every write has ended.
    ///
    /// # Errors
    /// If not all writes since the latest flush are visible now: the loss of the server, or how the first that failed did.
    /// [`poll`](Self::poll) tells of each.
    pub fn flush(&mut self) -> Result<(), AccessError> {
        // Where writes end at once nobody may have looked for long whether the server lives.
        self.any.turn();
        let waited = self.until_idle();
        self.gather();
        let failure = self.failure.take();
        match self.any.lost() {
            Some(lost) => Err(AccessError::Lost(lost)),
            None => failure.map_or(waited, Err),
        }
    }

    fn until_idle(&mut self) -> Result<(), AccessError> {
        self.until(self.patience, "writes to end", |writer| writer.any.is_idle().then_some(()))
    }

    /// The next write that has ended and was to be told of, or that has failed.
    pub fn poll(&mut self) -> Option<WriteCompletion> {
        if self.completed.is_empty() {
            self.look_and_gather();
        }
        self.completed.pop_front()
    }

    /// Where writes end at once nobody may have looked for long whether the server lives: what has ended is told as
    /// visible only after such a look.
    fn look_and_gather(&mut self) {
        self.any.turn();
        self.gather();
    }

    fn gather(&mut self) {
        while let Some(completed) = self.any.next_completed() {
            if let (None, Err(error)) = (&self.failure, &completed.result) {
                self.failure = Some(error.clone());
            }
            if let Some(completion) = self.groups.filter(completed.into()) {
                self.completed.push_back(completion);
            }
        }
        self.any.set_untold_max(COMPLETED_MAX.saturating_sub(self.completed.len()));
    }

    /// Waits for the next completion. `None` if `limit` has passed, or if nothing is under way that could bring one.
    pub fn wait(&mut self, limit: Duration) -> Option<WriteCompletion> {
        let mut found = None;
        // Only time can run out here: a loss is told by the completions themselves.
        let _ = self.until(limit, "a completion", |writer| {
            found = writer.poll();
            (found.is_some() || writer.any.is_idle()).then_some(())
        });
        found.or_else(|| self.poll())
    }

    /// Calls `step` until it returns something, letting writes go on in between.
    fn until<T>(
        &mut self,
        limit: Duration,
        awaited: &'static str,
        mut step: impl FnMut(&mut Self) -> Option<T>,
    ) -> Result<T, AccessError> {
        let clock = self.any.clock();
        let began = clock.now();
        let mut idle_since = began;
        loop {
            if let Some(value) = step(self) {
                return Ok(value);
            }
            let moved = self.any.turn();
            if let Some(lost) = self.any.lost() {
                return step(self).ok_or(AccessError::Lost(lost));
            }
            let now = clock.now();
            if now.since(began) >= limit {
                let loss = Loss::Stalled { silent: now.since(began), awaited };
                return Err(AccessError::Lost(LinkError { peer: self.any.awaited(), loss }));
            }
            // What has moved may be what is awaited: look before sleeping.
            if moved {
                idle_since = now;
            } else if now.since(idle_since) >= self.any.spin() {
                self.any.sleep(began + limit)?;
                idle_since = clock.now();
            }
            std::hint::spin_loop();
        }
    }

    /// How paths are chosen at present, and why.
    pub fn explain(&self) -> PolicyExplanation {
        self.any.explain()
    }

    /// Who drains what is unloaded.
    pub fn drained_by(&self) -> String {
        self.any.drained_by()
    }

    /// What was done so far.
    pub fn counts(&self) -> WriterCounts {
        self.any.counts()
    }

    /// Has what is unloaded drained by the agent at `address` from now on, for instance because it has been started again.
    pub fn drain_by(
        &mut self,
        address: &Address,
        identity: Identity,
        settings: &LinkSettings,
    ) -> Result<(), ConnectError> {
        self.any.drain_by(address, identity, settings)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.any.close();
    }
}
