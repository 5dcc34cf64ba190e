//! Forked children that see far memory as it was at the fork: the thread of their parent that serves them.
//!
//! It answers the faults of all children, and copies what the server has of a chunk before that is written for the first time since
//! a child was forked. No thread that answers the parent's own faults waits for it.

mod child;
mod copies;
mod retired;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use outboard_driver::paging::{
    ChunkCopy, Forks, PagedRegion, PagerThreads, Process, ProcessPages, Uninterrupted,
};
use outboard_link::Address;

use super::FarError;
use crate::outboard::Outboard;
use child::Child;
use copies::Copies;
pub(super) use retired::Retired;

/// How long until a server is asked again that did not answer, or had no room.
const AGAIN: Duration = Duration::from_millis(20);
/// How many chunks are copied before the faults of children have their turn.
const COPIED_MAX: usize = 16;

/// The thread that serves forked children. It ends, and with it what they see, when this is dropped.
pub(super) struct ChildrenThread {
    pages: Arc<ProcessPages>,
    forks: Arc<Forks>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ChildrenThread {
    /// Starts it. Children that are forked from now on see far memory.
    pub(super) fn start(
        (pages, threads): (&Arc<ProcessPages>, &PagerThreads),
        outboard: &Outboard,
        servers: &[Address],
        retired: &Arc<Retired>,
    ) -> Result<Self, FarError> {
        let patience = outboard.deadline;
        let forks = Forks::begin(pages, patience, threads.looker());
        let forks = forks.map_err(|errno| FarError::of_threads(std::io::Error::from(errno)))?;
        let is_over = Arc::new(AtomicBool::new(false));
        let mut keeper = Keeper {
            pages: Arc::clone(pages),
            forks: Arc::clone(&forks),
            look: Box::new(threads.looker()),
            retired: Arc::clone(retired),
            copies: Copies::new(outboard, servers),
            children: Vec::new(),
            asked: VecDeque::new(),
            refused_since: None,
            is_waiting: false,
        };
        let must_stop = Arc::clone(&is_over);
        // A handler of the application that touched far memory would keep children waiting. The new thread inherits the mask.
        let uninterrupted = Uninterrupted::new();
        let thread = std::thread::Builder::new().name("outboard-children".to_owned());
        let thread = thread.spawn(move || {
            while !must_stop.load(Ordering::Acquire) {
                keeper.turn();
            }
            keeper.end();
        });
        drop(uninterrupted);
        let thread = thread.map_err(FarError::of_threads)?;
        Ok(Self { pages: Arc::clone(pages), forks, is_over, thread: Some(thread) })
    }
}

impl Drop for ChildrenThread {
    fn drop(&mut self) {
        self.forks.end();
        self.is_over.store(true, Ordering::Release);
        self.pages.space().tell_keeper();
        if let Some(thread) = self.thread.take() {
            // One that panicked has nothing left to end.
            let _ = thread.join();
        }
    }
}

/// What the thread has.
struct Keeper {
    pages: Arc<ProcessPages>,
    forks: Arc<Forks>,
    /// Has fault threads save what has waited for a copy.
    look: Box<dyn Fn() + Send>,
    retired: Arc<Retired>,
    copies: Copies,
    children: Vec<Child>,
    /// The chunks to be copied.
    asked: VecDeque<(Arc<PagedRegion>, std::ops::Range<u32>)>,
    /// Since when no copy could be made.
    refused_since: Option<Instant>,
    /// Whether servers that are away are to be given up in time, for a child waits for them.
    is_waiting: bool,
}

impl Keeper {
    fn turn(&mut self) {
        self.sleep();
        for child in self.forks.take() {
            self.children.push(Child::new(child, self.pages.buffer()));
        }
        self.asked.extend(self.pages.take_asked());
        self.make_copies();
        let mut ended = Vec::new();
        for at in (0..self.children.len()).rev() {
            if !self.children[at].turn(&self.pages, &mut self.copies) {
                ended.push(self.children.swap_remove(at));
            }
        }
        ended.into_iter().for_each(|child| self.forget(&child));
        self.wait_for_servers(self.children.iter().any(Child::is_waiting));
    }

    /// Waits until there is something to do.
    fn sleep(&self) {
        let soon = self.refused_since.is_some() || self.children.iter().any(Child::is_waiting);
        let limit = match () {
            () if soon => Some(AGAIN),
            () if !self.asked.is_empty() => Some(Duration::ZERO),
            () => None,
        };
        self.forks.sleep(self.children.iter().flat_map(Child::descriptors), limit);
    }

    /// Copies chunks that are to be written, as long as children need what the servers have of them.
    fn make_copies(&mut self) {
        let mut copied = 0;
        while copied < COPIED_MAX
            && let Some((region, chunks)) = self.asked.pop_front()
        {
            let mut rest = chunks.clone();
            while copied < COPIED_MAX && !rest.is_empty() {
                match self.make_copy(&region, rest.start) {
                    Ok(did) => {
                        copied += usize::from(did);
                        rest.start += 1;
                    }
                    Err(error) => {
                        self.asked.push_front((region, rest));
                        return self.was_refused(&error);
                    }
                }
            }
            if !rest.is_empty() {
                self.asked.push_front((region, rest));
            }
        }
        self.refused_since = None;
        if copied > 0 {
            self.pages.space().announce();
            (self.look)();
        }
    }

    /// Copies a chunk if that is needed. Returns whether bytes were copied.
    fn make_copy(&mut self, region: &PagedRegion, index: u32) -> Result<bool, FarError> {
        while let Some((id, kept)) = self.pages.to_keep(region, index) {
            if kept == ChunkCopy::Bytes && !region.is_lost() {
                self.copies.make(id, region, index)?;
            }
            if self.pages.kept(id, region, index, kept) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A copy could not be made. If that lasts, children lose what they see, so that the parent can go on.
    fn was_refused(&mut self, error: &FarError) {
        let since = *self.refused_since.get_or_insert_with(Instant::now);
        if since.elapsed() < self.pages.config().grace {
            return;
        }
        self.refused_since = None;
        self.pages.space().say(&format!(
            "outboard: forked children lose the far memory that is not in their own: no copy can be made of what is to be \
             written here ({error})\n"
        ));
        for child in &mut self.children {
            if child.lose() {
                self.copies.free(&self.pages.end_snapshot(child.id()));
            }
        }
        (self.look)();
    }

    /// A child has ended.
    fn forget(&mut self, child: &Child) {
        if !child.has_lost() {
            self.copies.free(&self.pages.end_snapshot(child.id()));
        }
        self.retired.release(|id| !self.pages.needs_snapshot(id));
        // Nothing has to wait for copies any more, if this was the last.
        self.pages.space().announce();
        (self.look)();
    }

    /// Servers that are away are given up after the grace period if a child waits for them, as if the parent did.
    fn wait_for_servers(&mut self, is_waiting: bool) {
        if is_waiting != self.is_waiting {
            match is_waiting {
                true => self.pages.listeners.fetch_add(1, Ordering::AcqRel),
                false => self.pages.listeners.fetch_sub(1, Ordering::AcqRel),
            };
            self.is_waiting = is_waiting;
            // Fault threads count from when the server was lost, once they look.
            (self.look)();
        }
    }

    /// Far memory ends, and with it what children see.
    fn end(mut self) {
        for child in self.forks.take() {
            self.children.push(Child::new(child, 0));
        }
        for child in std::mem::take(&mut self.children) {
            self.forget(&child);
        }
        self.wait_for_servers(false);
    }
}
