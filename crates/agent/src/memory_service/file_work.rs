//! What takes a while: files are read and written, and regions given memory, by threads of their own.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use outboard_driver::{LinkId, WorkerHandle};
use outboard_link::memory::{LargePages, Segment};
use outboard_wire::control::{ControlAnswer, ControlFailure, RegionSharing};
use outboard_wire::{Generation, Incarnation, RegionId, RegionKey, Rights};
use rustix::io::Errno;

use super::{MemoryNote, MemoryService, SharedStore};
use crate::files::{DataDirectory, FileError, fill, plain_path};
use crate::room::{Room, STEP};
use crate::store::{LoadPlan, No, SyncPlan};

/// How many such threads there are at once; more are refused until one is done.
const TURNS_MAX: usize = 4;

/// The turns to have such a thread.
#[derive(Default)]
pub(super) struct Turns(Arc<AtomicUsize>);

/// One of the few things that are in work; its end makes room for another.
struct Turn(Arc<AtomicUsize>);

impl Turns {
    fn take(&self) -> Result<Turn, No> {
        let turn = Turn(Arc::clone(&self.0));
        if turn.0.fetch_add(1, Ordering::AcqRel) < TURNS_MAX {
            return Ok(turn);
        }
        let detail = format!(
            "{TURNS_MAX} files are being read or written, or regions given memory; ask again when one is done"
        );
        Err((ControlFailure::NoCapacity, detail))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Who asked.
#[derive(Clone, Copy)]
pub(super) struct Asker {
    pub(super) link: LinkId,
    pub(super) tag: u32,
    pub(super) process: Incarnation,
}

/// The answer to a question, from the thread that worked on it.
pub(crate) struct FileDone {
    pub(super) link: LinkId,
    pub(super) tag: u32,
    pub(super) answer: ControlAnswer,
}

impl From<FileError> for No {
    fn from(error: FileError) -> Self {
        (error.failure(), error.to_string())
    }
}

impl SharedStore {
    fn directory(&self) -> Result<&DataDirectory, FileError> {
        self.directory.as_ref().ok_or(FileError::NoDirectory)
    }
}

impl MemoryService {
    /// The region of a file that is loaded already; any other is read first.
    pub(super) fn load(
        &self,
        asker: Asker,
        path: &str,
        how: (Rights, RegionSharing),
    ) -> Result<Option<ControlAnswer>, No> {
        // One file is one region, however its name is spelled.
        let path = &plain_path(path)?;
        if let Some(there) = self.store.with(|store| store.loaded(asker.process, path, how)) {
            return Ok(Some(there));
        }
        let worker = self.worker()?;
        let (file, size) = self.store.directory()?.file(path)?;
        let turn = self.store.turns.take()?;
        let plan = self.store.with(|store| store.begin_load(path, size))?;
        let shared = Arc::clone(&self.store);
        Ok(by_thread((worker, asker), (plan, turn), move |(plan, _turn), may_begin| {
            let may_begin = may_begin.map_err(|error| unreadable(plan.path(), &error));
            let read = may_begin.and_then(|()| read_all(&plan, &shared.room, file));
            shared.with(|store| store.finish_load(asker.process, plan, how, read))
        }))
    }

    /// Writes a region to the file that it was loaded from.
    pub(super) fn sync(
        &self,
        asker: Asker,
        region: RegionId,
        generation: Generation,
        key: &RegionKey,
    ) -> Result<Option<ControlAnswer>, No> {
        let worker = self.worker()?;
        let turn = self.store.turns.take()?;
        let plan = self.store.with(|store| store.begin_sync(region, generation, key))?;
        let shared = Arc::clone(&self.store);
        Ok(by_thread((worker, asker), (plan, turn), move |(plan, _turn), may_begin| {
            let written = may_begin.map_err(not_begun).and_then(|()| write(&shared, &plan));
            shared.with(|store| store.finish_sync(&plan));
            match written {
                Ok(()) => ControlAnswer::Synced { bytes: plan.size() },
                Err((failure, detail)) => ControlAnswer::failed(failure, &detail),
            }
        }))
    }

    /// Takes memory for all of a region.
    pub(super) fn populate(
        &self,
        asker: Asker,
        region: RegionId,
        generation: Generation,
        key: &RegionKey,
    ) -> Result<Option<ControlAnswer>, No> {
        let worker = self.worker()?;
        let turn = self.store.turns.take()?;
        let memory = self.store.with(|store| store.whole_memory(region, generation, key))?;
        let room = Arc::clone(&self.store.room);
        Ok(by_thread((worker, asker), (memory, turn), move |(memory, _turn), may_begin| {
            let may_begin = may_begin.map_err(|error| not_populated(region, &error));
            match may_begin.and_then(|()| populate_all(&memory, &room, region)) {
                Ok(large) => ControlAnswer::Populated { large },
                Err((failure, detail)) => ControlAnswer::failed(failure, &detail),
            }
        }))
    }

    /// Where the answer goes.
    fn worker(&self) -> Result<WorkerHandle<MemoryNote>, No> {
        let worker = self.store.workers.get().and_then(|workers| workers.get(self.index)).cloned();
        worker.ok_or((ControlFailure::NotServed, "the server is starting; ask again".to_owned()))
    }
}

/// Has `work` done by a thread, which tells the worker its answer. Where there is no thread to be had, `work` is told
/// so and answers at once: it gives back what `plan` has taken, one way or the other.
fn by_thread<P, W>(
    (worker, asker): (WorkerHandle<MemoryNote>, Asker),
    plan: P,
    work: W,
) -> Option<ControlAnswer>
where
    P: Send + 'static,
    W: FnOnce(P, io::Result<()>) -> ControlAnswer + Send + 'static,
{
    let handed = Arc::new(Mutex::new(Some((plan, work))));
    let taken = Arc::clone(&handed);
    let body = move || {
        let task = taken.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((plan, work)) = task {
            let answer = work(plan, Ok(()));
            worker.tell(MemoryNote::File(Box::new(FileDone { link: asker.link, tag: asker.tag, answer })));
        }
    };
    let error = std::thread::Builder::new().name("file".to_owned()).spawn(body).err()?;
    let why = format!("no thread could be started (see ulimit -u, TasksMax= and memory limits): {error}");
    let error = io::Error::new(error.kind(), why);
    let left = handed.lock().unwrap_or_else(PoisonError::into_inner).take();
    left.map(|(plan, work)| work(plan, Err(error)))
}

/// Reads a file into the region that is made for it. Its pages become present as they are read.
fn read_all(plan: &LoadPlan, room: &Arc<Room>, mut file: File) -> Result<(), No> {
    let mut promise = room.promise(plan.size())?;
    for (start, len) in steps(plan.size()) {
        let read = promise.keep(len, || fill(plan.memory(), &mut file, start, len))?;
        read.map_err(|error| unreadable(plan.path(), &error))?;
    }
    Ok(())
}

/// Takes memory for all of a region, unless there is not enough of it. Returns how many bytes are in large pages.
fn populate_all(memory: &Segment, room: &Arc<Room>, region: RegionId) -> Result<u64, No> {
    let failed = |error: Errno| not_populated(region, &error.into());
    let size = memory.len() as u64;
    let mut promise = room.promise(size.saturating_sub(memory.present().map_err(failed)?))?;
    let mut pages = LargePages::of(memory.len());
    for (start, len) in steps(size) {
        let part = (start as usize, len as usize);
        promise.keep(len, || memory.populate_part(part, &mut pages))?.map_err(failed)?;
    }
    Ok(pages.bytes() as u64)
}

/// Where the steps begin in which `size` bytes are made present, and how long they are.
fn steps(size: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..size).step_by(STEP as usize).map(move |start| (start, STEP.min(size - start)))
}

fn unreadable(path: &str, error: &io::Error) -> No {
    (ControlFailure::NoSuchFile, format!("“{path}” could not be read: {error}"))
}

fn not_populated(region: RegionId, error: &io::Error) -> No {
    (ControlFailure::NoCapacity, format!("{region} could not be given memory as a whole: {error}"))
}

fn write(shared: &SharedStore, plan: &SyncPlan) -> Result<(), No> {
    Ok(shared.directory()?.replace(plan.path(), plan.memory(), plan.size())?)
}

fn not_begun(error: io::Error) -> No {
    (ControlFailure::NoCapacity, format!("the file was not written: {error}"))
}
