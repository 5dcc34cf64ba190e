//! Telling those who listen of what is lost for good.
//!
//! Fault threads find out, and must not run an application's code. They put the loss on a board and ring; those who listen take it from
//! there on threads of their own.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use outboard_paging::application::ServerLoss;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use super::ProcessPages;
use super::uninterrupted::Uninterrupted;

/// How many losses are remembered for those who have not heard of them.
const KEPT: usize = 32;
/// How long a listener sleeps at once.
const NAP: Duration = Duration::from_secs(3600);

/// Where losses are put up.
#[derive(Debug, Default)]
pub(super) struct Bulletin {
    board: Mutex<Board>,
}

#[derive(Debug, Default)]
struct Board {
    /// The latest, in order.
    losses: VecDeque<Arc<ServerLoss>>,
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

    pub(super) fn post(&self, loss: ServerLoss) {
        let mut board = self.board();
        if board.losses.len() == KEPT {
            board.losses.pop_front();
        }
        board.losses.push_back(Arc::new(loss));
        board.posted += 1;
        board.ring();
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
    pages: Arc<ProcessPages>,
    bell: Arc<OwnedFd>,
    /// How many losses it has heard of.
    heard: u64,
}

impl LossListener {
    /// Begins to listen. From now on a server that is away is given up after the grace period even if no thread needs it:
    /// the listener wants to know.
    pub fn new(pages: &Arc<ProcessPages>) -> Result<Self, Errno> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let _uninterrupted = Uninterrupted::new();
        let mut board = pages.space().bulletin.board();
        if !board.losses.is_empty() {
            ring(&bell, board.losses.len() as u64);
        }
        board.bells.push(Arc::downgrade(&bell));
        pages.listeners.fetch_add(1, Ordering::AcqRel);
        let heard = board.first();
        drop(board);
        Ok(Self { pages: Arc::clone(pages), bell, heard })
    }

    /// The next loss, if there is one.
    pub fn take(&mut self) -> Option<Arc<ServerLoss>> {
        let _uninterrupted = Uninterrupted::new();
        let board = self.pages.space().bulletin.board();
        self.heard = self.heard.max(board.first());
        let loss = board.losses.get((self.heard - board.first()) as usize).cloned();
        self.heard += u64::from(loss.is_some());
        if self.heard == board.posted && !board.is_closed {
            // Nothing to read means that the owner of the descriptor has read it.
            let _ = rustix::io::read(&*self.bell, &mut [0; 8]);
        }
        loss
    }

    /// Sleeps until there may be something to hear, for `span` at most.
    pub fn sleep(&self, span: Duration) {
        let span = span.min(NAP);
        let timeout = Timespec { tv_sec: span.as_secs() as i64, tv_nsec: span.subsec_nanos().into() };
        // A thread that is interrupted looks, and sleeps again.
        let _ = poll(&mut [PollFd::from_borrowed_fd(self.as_fd(), PollFlags::IN)], Some(&timeout));
    }

    /// Whether nothing can be lost any more, because far memory has ended.
    pub fn is_over(&self) -> bool {
        let _uninterrupted = Uninterrupted::new();
        self.pages.space().bulletin.board().is_closed
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
        self.pages
            .space()
            .bulletin
            .board()
            .bells
            .retain(|bell| !Weak::ptr_eq(bell, &Arc::downgrade(&self.bell)));
        self.pages.listeners.fetch_sub(1, Ordering::AcqRel);
    }
}
