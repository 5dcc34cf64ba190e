//! What is lost for good with its memory server: said on the standard error, and told to those who listen.
//!
//! Fault threads find out, and must not run anybody's code. They put the loss on a board and ring; whoever listens takes
//! it from there on a thread of its own.

use std::collections::VecDeque;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use outboard_link::{LinkError, Peer};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use super::region::PagedRegion;
use super::service::say;
use super::uninterrupted::Uninterrupted;
use super::{OnLoss, Pages};

/// Why what a memory server had cannot be had any more.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossReason {
    /// It was away for longer than the grace period.
    Away {
        /// How long that is.
        grace: Duration,
    },
    /// Another life of it, which knows nothing of the first, has taken its place.
    StartedAnew,
    /// It is there, but does not give the region any more, for example because another process has it.
    Refused {
        /// In its own words.
        why: String,
    },
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Away { grace } if grace.is_zero() => f.write_str("it is gone"),
            Self::Away { grace } => write!(f, "it has been away for {} s", grace.as_secs_f32()),
            Self::StartedAnew => f.write_str("it has been started anew and no longer has it"),
            Self::Refused { why } => f.write_str(why),
        }
    }
}

/// Regions that were lost together.
#[derive(Debug)]
pub struct Loss {
    /// Which of the memory servers had them.
    pub at: usize,
    /// Who that was, if it was ever reached.
    pub server: Option<Peer>,
    /// What is lost.
    pub regions: Vec<Arc<PagedRegion>>,
    /// Why.
    pub why: LossReason,
}

/// How many losses are remembered for those who have not heard of them.
const KEPT: usize = 32;
/// How many regions a line names.
const NAMED: usize = 8;
/// How long anybody sleeps at once.
const NAP: Duration = Duration::from_secs(3600);

/// Where losses are put up.
#[derive(Default)]
pub(super) struct Bulletin {
    board: Mutex<Board>,
    listeners: AtomicU32,
}

#[derive(Default)]
struct Board {
    /// The latest, in order.
    losses: VecDeque<Arc<Loss>>,
    /// How many there have been.
    posted: u64,
    bells: Vec<Weak<OwnedFd>>,
    is_closed: bool,
}

impl Board {
    /// The number of the first loss that is remembered.
    fn first(&self) -> u64 {
        self.posted - self.losses.len() as u64
    }

    fn ring(&self) {
        self.bells.iter().filter_map(Weak::upgrade).for_each(|bell| ring(&bell, 1));
    }
}

fn ring(bell: &OwnedFd, times: u64) {
    // It is refused only if it has been rung very often, and then it is heard anyway.
    let _ = rustix::io::write(bell, &times.to_ne_bytes());
}

impl Bulletin {
    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn post(&self, loss: Loss) {
        let mut board = self.board();
        if board.losses.len() == KEPT {
            board.losses.pop_front();
        }
        board.losses.push_back(Arc::new(loss));
        board.posted += 1;
        board.ring();
    }

    /// Whether anybody wants to be told of losses.
    pub(super) fn has_listeners(&self) -> bool {
        self.listeners.load(Ordering::Acquire) > 0
    }

    /// Nothing can be lost any more.
    pub(super) fn close(&self) {
        let _uninterrupted = Uninterrupted::new();
        let mut board = self.board();
        board.is_closed = true;
        board.ring();
    }
}

/// Hears of every loss once, those from before it began to listen included. Its descriptor is readable while there are
/// any that it has not heard of.
pub struct LossListener {
    pages: Arc<Pages>,
    bell: Arc<OwnedFd>,
    /// How many losses it has heard of.
    heard: u64,
}

impl LossListener {
    /// Begins to listen. From now on a server that is away is given up after the grace period even if nobody needs it:
    /// somebody wants to know.
    pub fn new(pages: &Arc<Pages>) -> Result<Self, Errno> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let _uninterrupted = Uninterrupted::new();
        let mut board = pages.bulletin.board();
        if !board.losses.is_empty() {
            ring(&bell, board.losses.len() as u64);
        }
        board.bells.push(Arc::downgrade(&bell));
        pages.bulletin.listeners.fetch_add(1, Ordering::AcqRel);
        let heard = board.first();
        drop(board);
        Ok(Self { pages: Arc::clone(pages), bell, heard })
    }

    /// The next loss, if there is one.
    pub fn take(&mut self) -> Option<Arc<Loss>> {
        let _uninterrupted = Uninterrupted::new();
        let board = self.pages.bulletin.board();
        self.heard = self.heard.max(board.first());
        let loss = board.losses.get((self.heard - board.first()) as usize).cloned();
        self.heard += u64::from(loss.is_some());
        if self.heard == board.posted && !board.is_closed {
            // Nothing to read means that whoever has the descriptor has read it.
            let _ = rustix::io::read(&*self.bell, &mut [0; 8]);
        }
        loss
    }

    /// Sleeps until there may be something to hear, for `span` at most.
    pub fn sleep(&self, span: Duration) {
        let span = span.min(NAP);
        let timeout = Timespec { tv_sec: span.as_secs() as i64, tv_nsec: span.subsec_nanos().into() };
        // Whoever is interrupted looks, and sleeps again.
        let _ = poll(&mut [PollFd::from_borrowed_fd(self.as_fd(), PollFlags::IN)], Some(&timeout));
    }

    /// Whether nothing can be lost any more, because far memory has ended.
    pub fn is_over(&self) -> bool {
        let _uninterrupted = Uninterrupted::new();
        self.pages.bulletin.board().is_closed
    }
}

impl AsFd for LossListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Drop for LossListener {
    fn drop(&mut self) {
        let _uninterrupted = Uninterrupted::new();
        let bulletin = &self.pages.bulletin;
        bulletin.board().bells.retain(|bell| !Weak::ptr_eq(bell, &Arc::downgrade(&self.bell)));
        bulletin.listeners.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Pages {
    /// Regions of a server are lost for good: whoever touches what is not here gets SIGBUS, or ends.
    pub(super) fn lose(
        &self,
        at: usize,
        regions: &[Arc<PagedRegion>],
        server: Option<&Peer>,
        why: &LossReason,
    ) {
        let regions: Vec<_> = regions.iter().filter(|region| region.lose(why)).cloned().collect();
        if regions.is_empty() {
            return;
        }
        self.departed.fetch_add(1, Ordering::AcqRel);
        let who = server.map_or_else(|| "the memory server".to_owned(), ToString::to_string);
        let then = match self.config.on_loss {
            OnLoss::Signal => "touching what is not here raises SIGBUS",
            OnLoss::Exit => "whoever needs what is not here ends",
        };
        say(&format!("outboard: far memory {} is lost: {who}: {why}; {then}\n", names(&regions)));
        self.bulletin.post(Loss { at, server: server.cloned(), regions, why: why.clone() });
        self.announce();
    }

    /// The regions of a server that can still be lost.
    pub(super) fn regions_at(&self, server: usize) -> Vec<Arc<PagedRegion>> {
        let is_there = |region: &&Arc<PagedRegion>| {
            region.spec.at == server && !region.is_lost() && !region.is_closing()
        };
        self.regions().iter().filter(is_there).cloned().collect()
    }

    /// A link to a server is gone. Says so when it was the last, if anything is there.
    pub(super) fn link_lost(&self, server: usize, error: &LinkError) {
        let links = self.server_links[server].fetch_sub(1, Ordering::AcqRel);
        if links > 1
            || self.regions_at(server).is_empty()
            || self.is_away[server].swap(true, Ordering::AcqRel)
        {
            return;
        }
        let grace = self.config.grace;
        let then = match grace.is_zero() {
            true => String::new(),
            false => format!("; whoever needs what it has waits for it, {} s at most", grace.as_secs_f32()),
        };
        say(&format!("outboard: {error}{then}\n"));
    }

    /// A link to a server is open. Says so if it was missed, and is the one that was.
    pub(super) fn link_opened(&self, server: usize, peer: &Peer) {
        self.server_links[server].fetch_add(1, Ordering::AcqRel);
        let is_known = |region: &Arc<PagedRegion>| region.spec.server == peer.incarnation();
        if self.is_away[server].swap(false, Ordering::AcqRel) && self.regions_at(server).iter().any(is_known)
        {
            say(&format!("outboard: {peer} is back\n"));
        }
        self.announce();
    }

    /// Makes a chunk of a lost region raise SIGBUS where it is touched, unless the process is to end.
    pub(super) fn poison(&self, region: &PagedRegion, index: u32) {
        if self.config.on_loss == OnLoss::Exit {
            let name = &region.spec.name;
            end_process(&format!(
                "bytes of far memory “{name}” are needed that are lost with their memory server"
            ));
        }
        if region.has_forbidden.load(Ordering::Acquire) {
            // Pages with other rights are another mapping to the kernel, and it poisons one at a time.
            self.space.permit(region.place(index), region.chunk_bytes());
        }
        if !self.space.poison(region.place(index), region.chunk_bytes()) {
            self.cannot_signal();
        }
    }

    /// Ends the process: without the means to tell the thread that waits, waiting for ever is the alternative.
    pub(super) fn cannot_signal(&self) -> ! {
        say("outboard: this kernel cannot raise SIGBUS for far memory (Linux 6.6 can); the process ends\n");
        std::process::abort();
    }
}

/// What people call regions, or the first of them.
fn names(regions: &[Arc<PagedRegion>]) -> String {
    let named: Vec<String> =
        regions.iter().take(NAMED).map(|region| format!("“{}”", region.spec.name)).collect();
    match regions.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// Ends the process as [`OnLoss::Exit`] says, with a line on the standard error.
pub(super) fn end_process(why: &str) -> ! {
    say(&format!("outboard: {why}: ending\n"));
    // SAFETY: it ends the process, as it is. Handlers of an orderly exit may touch far memory, and it is this thread
    // that they would wait for.
    unsafe { libc::_exit(1) }
}
