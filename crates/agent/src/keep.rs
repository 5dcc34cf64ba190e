//! The folder in which a memory server keeps its named regions over restarts.
//!
//! A region is a file that is mapped here, and by clients of this machine that belong to the server's user: bytes that were
//! stored are in the kernel's pages of the file, whichever process dies. What regions there are stands in a journal
//! (`outboard_keep`), whose records are written before what they tell is acknowledged.

mod begin;
mod error;
mod folder;
mod process;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use outboard_keep::{JournalRecord, KeptRegion, KeptState, RECORD_MAX};
use outboard_link::memory::Segment;
use outboard_settings::KeepSync;
use outboard_wire::control::ControlFailure;
use outboard_wire::{RegionId, StoreId};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::store::No;
pub use error::KeepError;
pub(crate) use process::{is_alive, started_at};

/// How much room the journal has ahead, so that a full disk refuses a new region rather than to lose the end of one.
const JOURNAL_ROOM: u64 = 64 << 10;

/// A longer journal is written anew, if most of it is over.
const JOURNAL_LONG: u64 = 1 << 20;

/// The folder of a server that keeps its regions. No other server has it as long as this lives.
pub(crate) struct Keep {
    path: PathBuf,
    folder: OwnedFd,
    /// Locked as long as it is open.
    _lock: File,
    sync: KeepSync,
    log: Mutex<Log>,
    /// The regions that are there, for those who bring them to the disk.
    regions: Mutex<BTreeMap<RegionId, Weak<Segment>>>,
}

/// The journal, and what it says.
struct Log {
    file: File,
    len: u64,
    /// How far the file system has room for it.
    room: u64,
    records: u32,
    state: KeptState,
    /// Why nothing can be noted any more.
    failed: Option<String>,
}

/// The regions of a server that is started again.
pub(crate) struct KeptRegions {
    /// The store that the server goes on with.
    pub(crate) store: StoreId,
    /// The regions, each with its memory.
    pub(crate) regions: Vec<(KeptRegion, Segment)>,
    /// No region had a higher number.
    pub(crate) last: RegionId,
    /// Why clients of the server's former life cannot go on with it, if they cannot.
    pub(crate) is_other: Option<&'static str>,
}

impl Keep {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<RegionId, Weak<Segment>>> {
        self.regions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where it is, for people.
    pub(crate) fn shown(&self) -> String {
        format!(
            "keeps named regions in {}, on the disk {}",
            self.path.display(),
            match self.sync {
                KeepSync::Always => "before they are acknowledged".to_owned(),
                KeepSync::Every(_) => format!("every {}", self.sync),
                KeepSync::Never => "when the kernel likes".to_owned(),
            }
        )
    }

    /// Notes something, before it is acknowledged.
    pub(crate) fn note(&self, record: &JournalRecord) -> Result<(), No> {
        let mut log = self.log();
        let noted = self.try_note(&mut log, record);
        let failed = |what: &str| {
            let detail = format!("the journal in {} cannot be written: {what}", self.path.display());
            (ControlFailure::NoCapacity, detail)
        };
        match noted {
            Ok(()) => Ok(()),
            Err(error) => Err(failed(log.failed.as_deref().unwrap_or(&error.to_string()))),
        }
    }

    fn try_note(&self, log: &mut Log, record: &JournalRecord) -> Result<(), Errno> {
        if log.failed.is_some() {
            return Err(Errno::IO);
        }
        let mut bytes = Vec::new();
        outboard_keep::append(log.records, record, &mut bytes);
        if bytes.len() > RECORD_MAX {
            return Err(Errno::TOOBIG);
        }
        let end = log.len + bytes.len() as u64;
        if end > log.room {
            let more = end - log.room + JOURNAL_ROOM;
            rustix::fs::fallocate(&log.file, FallocateFlags::KEEP_SIZE, log.room, more)?;
            log.room += more;
        }
        let written = log.file.write_all_at(&bytes, log.len).map_err(of_io);
        let settled = written.and_then(|()| match self.sync {
            KeepSync::Always => rustix::fs::fdatasync(&log.file),
            _ => Ok(()),
        });
        if let Err(error) = settled {
            // Whatever of it is there must not be taken for a record.
            let cut = rustix::fs::ftruncate(&log.file, log.len);
            log.failed = Some(format!("{error}; start the server again when its disk is well"));
            tracing::error!("the journal in {} cannot be written: {error} ({cut:?})", self.path.display());
            return Err(error);
        }
        log.state.apply(record);
        (log.len, log.records) = (end, log.records + 1);
        if log.len > JOURNAL_LONG && log.records as usize > 8 * (log.state.regions.len() + 1) {
            self.shorten(log);
        }
        Ok(())
    }

    /// Writes the journal anew, without what is over. Where that fails the long one goes on.
    fn shorten(&self, log: &mut Log) {
        match folder::write_journal(&self.folder, &mut log.state) {
            Ok((file, len)) => {
                (log.records, log.room) = (log.state.records().len() as u32, len);
                (log.file, log.len) = (file, len);
            }
            Err(error) => tracing::warn!("the journal in {} stays long: {error}", self.path.display()),
        }
    }

    /// A file for the bytes of a new region. One whose room is not taken as it is written has it from the start.
    pub(crate) fn create(&self, region: RegionId, len: u64, is_sparse: bool) -> Result<Segment, No> {
        let segment = folder::create(&self.folder, region, len, (is_sparse, self.sync != KeepSync::Never));
        segment.map_err(|error| {
            let why = match error {
                Errno::NOSPC | Errno::DQUOT => {
                    "its file system is full; free regions, or give the server a larger one"
                }
                Errno::OPNOTSUPP => "its file system cannot set room aside; use ext4, xfs, btrfs or tmpfs",
                _ => "the operating system refused",
            };
            let detail = format!("no region in {}: {why} ({error})", self.path.display());
            (ControlFailure::NoCapacity, detail)
        })
    }

    /// From now on what is written to a region is brought to the disk.
    pub(crate) fn watch(&self, region: RegionId, memory: &Arc<Segment>) {
        self.known().insert(region, Arc::downgrade(memory));
    }

    /// The file of a region is of no use any more.
    pub(crate) fn remove(&self, region: RegionId) {
        self.known().remove(&region);
        // The journal must not tell of a file that is gone, after a crash of the machine.
        let is_told = self.sync == KeepSync::Never || rustix::fs::fdatasync(&self.log().file).is_ok();
        if is_told {
            folder::remove(&self.folder, region);
        }
    }

    /// Whether what is asked of the server has to be on the disk before it is acknowledged.
    #[inline]
    pub(crate) fn is_always_synced(&self) -> bool {
        self.sync == KeepSync::Always
    }

    /// Brings everything to the disk.
    fn settle(&self) -> Result<(), Errno> {
        let regions: Vec<Arc<Segment>> = self.known().values().filter_map(Weak::upgrade).collect();
        // Without the lock: it takes as long as the disk does.
        regions.iter().try_for_each(|region| region.settle())?;
        let file = self.log().file.try_clone().map_err(of_io)?;
        rustix::fs::fdatasync(file)
    }

    /// Brings everything to the disk as often as is wanted, until it is told to end.
    pub(crate) fn run(&self, until: &Receiver<()>) {
        let Some(interval) = self.sync.interval() else { return };
        while let Err(RecvTimeoutError::Timeout) = until.recv_timeout(interval) {
            if let Err(error) = self.settle() {
                tracing::error!(
                    "what is kept in {} could not be brought to its disk: {error}",
                    self.path.display()
                );
            }
        }
    }

    /// The server has ended as it was asked to, and nothing changes any more.
    pub(crate) fn end(&self) {
        let ended = self.settle().and_then(|()| {
            let mut log = self.log();
            self.try_note(&mut log, &JournalRecord::Ended)?;
            rustix::fs::fsync(&log.file)
        });
        if let Err(error) = ended {
            tracing::error!(
                "what is kept in {} could not be brought to its disk: {error}",
                self.path.display()
            );
        }
    }
}

fn of_io(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}
