//! A caller with its links, whatever kinds these are of.

use std::time::Duration;

use outboard_calling::{
    Begin, CallBeginError, CallEnded, CallPlacement, CrossingServer, FunctionImage, FunctionNeeds, Leaving,
    RegisterError, SiteReport, SlotTable, TellEnded,
};
use outboard_link::{Clock, Link, LinkError, Peer, RemoteMemory, WaitOn};
use outboard_steering::Site;
use outboard_wire::Time;

use super::CallerThread;
use crate::{Connection, Over};

/// A caller of functions over links of any kinds.
pub trait LinkedCaller: CrossingServer {
    /// As [`CallerThread::register`].
    fn register(
        &mut self,
        image: &FunctionImage,
        wanted: FunctionNeeds,
        patience: Duration,
    ) -> Result<u32, RegisterError>;

    /// As [`CallerThread::begin`].
    fn begin(&mut self, begin: &Begin<'_>) -> Result<u64, CallBeginError>;

    /// As [`Dispatcher::flush`](outboard_calling::Dispatcher::flush).
    fn flush(&mut self);

    /// As [`CallerThread::turn`].
    fn turn(&mut self, tell: &mut TellEnded<'_>) -> bool;

    /// As [`CallerThread::turn_and_keep`].
    fn turn_and_keep(&mut self) -> bool;

    /// As [`Dispatcher::next_kept`](outboard_calling::Dispatcher::next_kept).
    fn next_kept(&mut self) -> Option<CallEnded>;

    /// As [`CallerThread::prepare_to_sleep`].
    fn prepare_to_sleep(&mut self, limit: Duration) -> Option<Duration>;

    /// As [`CallerThread::wait_on`].
    fn wait_on(&self) -> Vec<WaitOn<'_>>;

    /// As [`Dispatcher::under_way`](outboard_calling::Dispatcher::under_way).
    fn under_way(&self) -> usize;

    /// As [`Dispatcher::lost`](outboard_calling::Dispatcher::lost).
    fn lost(&self) -> Option<&LinkError>;

    /// The memory server.
    fn peer(&self) -> &Peer;

    /// As [`Dispatcher::peer_at`](outboard_calling::Dispatcher::peer_at).
    fn peer_at(&self, at: Site) -> &Peer;

    /// As [`Dispatcher::sites`](outboard_calling::Dispatcher::sites).
    fn sites(&self) -> [SiteReport; 3];

    /// As [`Dispatcher::open_here`](outboard_calling::Dispatcher::open_here).
    fn open_here(&mut self);

    /// As [`Dispatcher::table`](outboard_calling::Dispatcher::table).
    fn table(&self) -> &SlotTable;

    /// As [`Dispatcher::placement`](outboard_calling::Dispatcher::placement).
    fn placement(&self) -> CallPlacement;

    /// The clock that it goes by.
    fn clock(&self) -> Clock;

    /// As [`Dispatcher::close`](outboard_calling::Dispatcher::close).
    fn close(&mut self);
}

impl<L: Link + RemoteMemory, A: Link + Send + 'static> LinkedCaller for CallerThread<L, A> {
    fn register(
        &mut self,
        image: &FunctionImage,
        wanted: FunctionNeeds,
        patience: Duration,
    ) -> Result<u32, RegisterError> {
        self.register(image, wanted, patience)
    }

    fn begin(&mut self, begin: &Begin<'_>) -> Result<u64, CallBeginError> {
        self.begin(begin)
    }

    fn flush(&mut self) {
        self.dispatcher.flush();
    }

    fn turn(&mut self, tell: &mut TellEnded<'_>) -> bool {
        self.turn(tell)
    }

    fn turn_and_keep(&mut self) -> bool {
        self.turn_and_keep()
    }

    fn next_kept(&mut self) -> Option<CallEnded> {
        self.dispatcher.next_kept()
    }

    fn prepare_to_sleep(&mut self, limit: Duration) -> Option<Duration> {
        self.prepare_to_sleep(limit)
    }

    fn wait_on(&self) -> Vec<WaitOn<'_>> {
        self.wait_on().collect()
    }

    fn under_way(&self) -> usize {
        self.dispatcher.under_way()
    }

    fn lost(&self) -> Option<&LinkError> {
        self.dispatcher.lost()
    }

    fn peer(&self) -> &Peer {
        self.dispatcher.link().peer()
    }

    fn peer_at(&self, at: Site) -> &Peer {
        self.dispatcher.peer_at(at)
    }

    fn sites(&self) -> [SiteReport; 3] {
        self.dispatcher.sites()
    }

    fn open_here(&mut self) {
        self.dispatcher.open_here();
    }

    fn table(&self) -> &SlotTable {
        self.dispatcher.table()
    }

    fn placement(&self) -> CallPlacement {
        self.dispatcher.placement()
    }

    fn clock(&self) -> Clock {
        self.clock()
    }

    fn close(&mut self) {
        self.dispatcher.close();
    }
}

// A caller that cannot begin the call gets it back, and it is large only then: see `CrossingServer`.
#[allow(clippy::result_large_err)]
impl<L: Link + RemoteMemory, A: Link + Send + 'static> CrossingServer for CallerThread<L, A> {
    fn now(&self) -> Time {
        self.clock().now()
    }

    #[inline]
    fn next_leaving(&mut self) -> Option<Leaving> {
        self.dispatcher.next_leaving()
    }

    fn take_over(&mut self, leaving: Leaving, until: Option<Time>) -> Result<(), (Leaving, CallBeginError)> {
        self.take_over(leaving, until)
    }

    fn server_given_up(&self) -> u64 {
        self.dispatcher.server_given_up()
    }
}

#[allow(clippy::result_large_err)]
impl<O: Over<Any = dyn LinkedCaller>> CrossingServer for Connection<O> {
    fn now(&self) -> Time {
        self.client().now()
    }

    #[inline]
    fn next_leaving(&mut self) -> Option<Leaving> {
        self.client_mut().next_leaving()
    }

    fn take_over(&mut self, leaving: Leaving, until: Option<Time>) -> Result<(), (Leaving, CallBeginError)> {
        self.client_mut().take_over(leaving, until)
    }

    fn server_given_up(&self) -> u64 {
        self.client().server_given_up()
    }
}
