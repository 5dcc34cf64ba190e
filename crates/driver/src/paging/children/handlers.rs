//! The handlers of `pthread_atfork`: the steps before and after a process forks, whichever of its libraries does it.
//!
//! `_Fork`, raw `clone` and `vfork` run no handlers. The child of the first two has none of the far memory, as without snapshots;
//! that of the last has the memory of its parent itself.

use std::cell::UnsafeCell;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

use outboard_paging::application::{PagedRegion, Process, SnapshotId, Span};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::mm::Advice;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::super::ProcessPages;
use super::super::uninterrupted::Uninterrupted;
use super::entry::{self, Plan, PlannedRange};

/// How long it is waited before it is looked again whether chunks have been read for the server.
const LOOK: Duration = Duration::from_millis(1);

/// A range of addresses of an object, which a child has too.
pub struct ChildRange {
    /// Which addresses.
    pub span: Span,
    /// The parts of the object, in the order of stripes. They stay mapped in this process until it has forked.
    pub parts: Vec<Arc<PagedRegion>>,
}

/// A child that was forked, or is gone already.
pub struct NewChild {
    /// The snapshot that it sees.
    pub id: SnapshotId,
    /// Where it sends its userfaultfd. It is closed when the child ends or runs another program.
    pub socket: OwnedFd,
    /// The objects that it sees.
    pub ranges: Vec<ChildRange>,
}

/// The forks of a process, as far as its far memory takes part in them.
pub struct Forks {
    pages: Arc<ProcessPages>,
    /// How long a fork may take that waits for the memory server.
    patience: Duration,
    /// Has fault threads do what has waited.
    look: Box<dyn Fn() + Send + Sync>,
    newborn: Mutex<Vec<NewChild>>,
}

impl Forks {
    /// Has children that are forked from now on see `pages`, until [`end`](Self::end).
    pub fn begin(
        pages: &Arc<ProcessPages>,
        patience: Duration,
        look: impl Fn() + Send + Sync + 'static,
    ) -> Result<Arc<Self>, Errno> {
        let (pages, look) = (Arc::clone(pages), Box::new(look));
        let forks = Arc::new(Self { pages, patience, look, newborn: Mutex::default() });
        install()?;
        let _uninterrupted = Uninterrupted::new();
        // No process is forked in which the list is locked for ever.
        FORKING.lock();
        all().push(Arc::clone(&forks));
        FORKING.unlock();
        Ok(forks)
    }

    /// No child sees it any more that is forked from now on.
    pub fn end(self: &Arc<Self>) {
        let _uninterrupted = Uninterrupted::new();
        FORKING.lock();
        all().retain(|other| !Arc::ptr_eq(other, self));
        FORKING.unlock();
    }

    /// The children that were forked since it was asked last.
    pub fn take(&self) -> Vec<NewChild> {
        let _uninterrupted = Uninterrupted::new();
        std::mem::take(&mut *self.newborn.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sleeps until there are new children or copies to make, one of these is readable, or a while has passed.
    pub fn sleep(&self, others: impl Iterator<Item = impl AsFd>, limit: Option<Duration>) {
        let Some(bell) = &self.pages.space().keeper else { return };
        let others: Vec<_> = others.collect();
        let mut polled = vec![PollFd::new(bell, PollFlags::IN)];
        polled.extend(others.iter().map(|other| PollFd::new(other, PollFlags::IN)));
        let limit = limit
            .map(|limit| Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() });
        // A thread that is interrupted looks, and sleeps again.
        let _ = poll(&mut polled, limit.as_ref());
        bell.hear();
    }

    fn is_of_this_process(&self) -> bool {
        self.pages.space().process == std::process::id()
    }

    /// Makes everything ready that parent and child need. The process is still until [`after`](Self::after).
    fn prepare(self: &Arc<Self>) -> Option<Prepared> {
        let pages = &self.pages;
        let ranges = ranges(pages.mapped());
        if ranges.is_empty() {
            return None;
        }
        pages.begin_fork();
        // Those that were mapped, or unmapped, before nothing could be.
        let ranges = self::ranges(pages.mapped());
        match self.settle().and_then(|()| self.connect(&ranges)) {
            Ok((plan, ours)) => {
                let id = pages.begin_snapshot();
                inherit(&ranges, Advice::LinuxDoFork);
                let child = NewChild { id, socket: ours, ranges };
                Some(Prepared { forks: Arc::clone(self), plan, child })
            }
            Err(why) => {
                pages.end_fork();
                (self.look)();
                pages.space().say(&format!(
                    "outboard: a child that is forked now has no far memory, touching it raises SIGSEGV: {why}\n"
                ));
                None
            }
        }
    }

    /// Waits until what is newer than at the server is in the regions.
    fn settle(&self) -> Result<(), String> {
        let until = Instant::now() + self.patience;
        while self.pages.settle() > 0 {
            if Instant::now() > until {
                return Err(format!("write-backs were not sent within {:?}", self.patience));
            }
            (self.look)();
            self.pages.space().wait_for_news(LOOK);
        }
        Ok(())
    }

    fn connect(&self, ranges: &[ChildRange]) -> Result<(Plan, OwnedFd), String> {
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let (ours, theirs) = pair.map_err(|errno| format!("no sockets to serve it: {errno}"))?;
        let planned = ranges.iter().map(|range| PlannedRange {
            start: range.span.start.get(),
            len: range.span.len,
            is_writable: range.parts.iter().any(|part| part.spec().writable),
        });
        let space = self.pages.space();
        let plan = Plan {
            route: space.route(),
            parent: space.process,
            socket: theirs,
            others: ours.as_raw_fd(),
            ranges: planned.collect(),
        };
        Ok((plan, ours))
    }
}

/// The objects that regions are parts of.
fn ranges(regions: Vec<Arc<PagedRegion>>) -> Vec<ChildRange> {
    let mut ranges: Vec<ChildRange> = Vec::new();
    for part in regions {
        let span = part.addresses();
        match ranges.last_mut().filter(|range| range.span.start == span.start) {
            Some(range) => range.parts.push(part),
            None => ranges.push(ChildRange { span, parts: vec![part] }),
        }
    }
    ranges.iter_mut().for_each(|range| range.parts.sort_by_key(|part| part.spec().stripes.part));
    ranges
}

/// Says whether children inherit the pages of ranges.
fn inherit(ranges: &[ChildRange], advice: Advice) {
    for range in ranges {
        // One that is being unmapped by another thread is as if it had been unmapped before.
        let Some(_kept) = range.parts.first().and_then(|part| part.range()) else { continue };
        // SAFETY: the range is mapped as long as `_kept` lives, and the advice changes nothing in this process.
        let _ = unsafe { rustix::mm::madvise(range.span.start.get() as *mut _, range.span.len, advice) };
    }
}

/// One far memory that takes part in a fork.
struct Prepared {
    forks: Arc<Forks>,
    plan: Plan,
    child: NewChild,
}

impl Prepared {
    /// The process has forked, or could not: then the socket of the child is closed, which ends what it would have seen.
    fn after(self) {
        let Self { forks, plan, child } = self;
        inherit(&child.ranges, Advice::LinuxDontFork);
        forks.pages.space().has_forked();
        forks.pages.end_fork();
        drop(plan);
        forks.newborn.lock().unwrap_or_else(PoisonError::into_inner).push(child);
        forks.pages.space().tell_keeper();
        (forks.look)();
    }
}

/// A fork under way.
struct Forking {
    prepared: Vec<Prepared>,
    /// Until the child has taken over its far memory a handler that touched it would read zeros.
    uninterrupted: Uninterrupted,
}

/// All far memory that takes part in forks.
static ALL: Mutex<Vec<Arc<Forks>>> = Mutex::new(Vec::new());
/// The work of the handler before the fork for those after it.
static PREPARED: AtomicPtr<Forking> = AtomicPtr::new(ptr::null_mut());
/// Held by the thread that forks, in the child too.
static FORKING: ForkLock = ForkLock(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));

/// A lock that is taken in one handler and let go in another.
struct ForkLock(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: it is a lock, made for use by many threads, and is never moved.
unsafe impl Sync for ForkLock {}

impl ForkLock {
    fn lock(&self) {
        // SAFETY: a static mutex.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
    }

    fn unlock(&self) {
        // SAFETY: this thread has locked it before the fork; in the child it is the copy of that thread.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }
}

fn all() -> MutexGuard<'static, Vec<Arc<Forks>>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has the handlers called from now on.
fn install() -> Result<(), Errno> {
    static ONCE: Once = Once::new();
    static REFUSED: Mutex<i32> = Mutex::new(0);
    ONCE.call_once(|| {
        // SAFETY: they are functions of this library, which is never unloaded while far memory lives.
        let refused = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
        *REFUSED.lock().unwrap_or_else(PoisonError::into_inner) = refused;
    });
    match *REFUSED.lock().unwrap_or_else(PoisonError::into_inner) {
        0 => Ok(()),
        refused => Err(Errno::from_raw_os_error(refused)),
    }
}

extern "C" fn before() {
    let uninterrupted = Uninterrupted::new();
    FORKING.lock();
    let all: Vec<_> = all().iter().filter(|forks| forks.is_of_this_process()).cloned().collect();
    let prepared = all.iter().filter_map(Forks::prepare).collect();
    let forking = Box::new(Forking { prepared, uninterrupted });
    PREPARED.store(Box::into_raw(forking), Ordering::Release);
}

extern "C" fn in_parent() {
    let forking = PREPARED.swap(ptr::null_mut(), Ordering::AcqRel);
    if forking.is_null() {
        return;
    }
    // SAFETY: made by `before` in this thread, and taken once.
    let Forking { prepared, uninterrupted } = *unsafe { Box::from_raw(forking) };
    prepared.into_iter().for_each(Prepared::after);
    FORKING.unlock();
    drop(uninterrupted);
}

/// Allocates nothing, and takes no lock that another thread of the parent may have held.
extern "C" fn in_child() {
    let forking = PREPARED.swap(ptr::null_mut(), Ordering::AcqRel);
    if forking.is_null() {
        return;
    }
    // All that the parent has made stays as it is: to drop it would be about the parent's threads.
    // SAFETY: made by `before`, and never freed in this process.
    let forking = unsafe { &*forking };
    forking.prepared.iter().for_each(|prepared| entry::enter(&prepared.plan));
    FORKING.unlock();
    // SAFETY: it is read once in this process, where no other code knows of it.
    drop(unsafe { ptr::read(&raw const forking.uninterrupted) });
}
