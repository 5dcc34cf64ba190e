//! The memory servers of one caller, and the calls that go on from one to another.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outboard_calling::{
    Ashore, Begin, CallBeginError, CallEnded, CallOutcome, Crossing, FunctionImage, Leaving, NoRoom,
    NotCrossed, Placement, RegisterError, Shore, SiteReport, SlotTable, Wanted,
};
use outboard_driver::calling::CallerThread;
use outboard_link::ofi::OfiLink;
use outboard_link::shm::ShmLink;
use outboard_link::tcp::TcpLink;
use outboard_link::{Clock, Link, LinkError, Loss, Peer, WaitOn, sleep_on};
use outboard_steering::Site;
use outboard_wire::Time;

use super::{CallCompletion, CallError, CallId, CallReply};
use crate::any_link::AnyLink;

/// How long to look for answers before sleeping, where looking costs no system call.
const SPIN: Duration = Duration::from_micros(20);

/// A caller over one kind of link to its memory server. Chosen once, when connecting.
pub(super) enum AnyDispatcher {
    Shm(Box<CallerThread<ShmLink, AnyLink>>),
    /// Shared with the thread that shows that we live while the application computes.
    Tcp(Arc<Mutex<CallerThread<TcpLink, AnyLink>>>),
    /// As over TCP.
    Ofi(Arc<Mutex<CallerThread<OfiLink, AnyLink>>>),
}

macro_rules! on {
    ($any:expr, $site:ident => $body:expr) => {
        match $any {
            AnyDispatcher::Shm($site) => $body,
            AnyDispatcher::Tcp(shared) => {
                let $site = &mut *lock(shared);
                $body
            }
            AnyDispatcher::Ofi(shared) => {
                let $site = &mut *lock(shared);
                $body
            }
        }
    };
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AnyDispatcher {
    pub(super) fn register(
        &mut self,
        image: &FunctionImage,
        wanted: Wanted,
        patience: Duration,
    ) -> Result<u32, RegisterError> {
        on!(self, site => site.register(image, wanted, patience))
    }

    #[inline]
    pub(super) fn begin(&mut self, begin: &Begin<'_>) -> Result<u64, CallBeginError> {
        on!(self, site => site.begin(begin))
    }

    pub(super) fn flush(&mut self) {
        on!(self, site => site.dispatcher.flush());
    }

    #[inline]
    pub(super) fn turn(&mut self, tell: impl FnMut(u64, CallOutcome<'_>)) -> bool {
        on!(self, site => site.turn(tell))
    }

    pub(super) fn turn_and_keep(&mut self) -> bool {
        on!(self, site => site.turn_and_keep())
    }

    pub(super) fn next_kept(&mut self) -> Option<CallEnded> {
        on!(self, site => site.dispatcher.next_kept())
    }

    /// Sleeps until there may be something to do for one of them or at what is named, for `span` at most.
    pub(super) fn sleep<'a>(all: &'a mut [Self], on: Vec<WaitOn<'a>>, span: Duration) {
        let Some((first, others)) = all.split_first_mut() else {
            // A loss is told by the calls that it ends.
            let _ = sleep_on(on, span);
            return;
        };
        on!(first, site => {
            if let Some(span) = site.prepare_to_sleep(span) {
                let on = on.into_iter().chain(site.wait_on()).collect();
                Self::sleep(others, on, span);
            }
        });
    }

    pub(super) fn under_way(&self) -> usize {
        on!(self, site => site.dispatcher.under_way())
    }

    pub(super) fn lost(&self) -> Option<LinkError> {
        on!(self, site => site.dispatcher.lost().cloned())
    }

    pub(super) fn peer(&self) -> Peer {
        on!(self, site => site.dispatcher.link().peer().clone())
    }

    /// Whom calls at a site wait for.
    pub(super) fn peer_at(&self, at: Site) -> Peer {
        on!(self, site => site.dispatcher.peer_at(at).clone())
    }

    pub(super) fn sites(&self) -> [SiteReport; 3] {
        on!(self, site => site.dispatcher.sites())
    }

    pub(super) fn open_here(&mut self) {
        on!(self, site => site.dispatcher.open_here());
    }

    pub(super) fn table(&self) -> SlotTable {
        on!(self, site => *site.dispatcher.table())
    }

    pub(super) fn placement(&self) -> Placement {
        on!(self, site => site.dispatcher.placement())
    }

    pub(super) fn clock(&self) -> Clock {
        on!(self, site => site.clock())
    }

    pub(super) fn spin(&self) -> Duration {
        match self {
            Self::Shm(_) => outboard_limits::spin(SPIN),
            Self::Tcp(_) | Self::Ofi(_) => Duration::ZERO,
        }
    }

    pub(super) fn close(&mut self) {
        on!(self, site => site.dispatcher.close());
    }
}

impl Shore for AnyDispatcher {
    fn now(&self) -> Time {
        self.clock().now()
    }

    #[inline]
    fn next_leaving(&mut self) -> Option<Leaving> {
        on!(self, site => site.dispatcher.next_leaving())
    }

    fn take_over(&mut self, leaving: Leaving, until: Option<Time>) -> Result<(), (Leaving, CallBeginError)> {
        on!(self, site => site.take_over(leaving, until))
    }

    fn server_given_up(&self) -> u64 {
        on!(self, site => site.dispatcher.server_given_up())
    }
}

/// All servers that a caller has opened.
pub(super) struct Servers {
    /// By their numbers. There is always a first one.
    all: Vec<AnyDispatcher>,
    /// Calls that have left a server and are not at the next.
    crossing: Crossing,
    /// Functions that may go on elsewhere, by their servers and their numbers there.
    wanderers: HashSet<(u32, u32)>,
    /// Whether calls may be moved here, also from servers that are opened later.
    is_open_here: bool,
    /// Calls that have ended and were not told.
    ended: VecDeque<CallCompletion>,
}

impl Servers {
    /// The first server, and how long it may take nothing before it is given up.
    pub(super) fn new(first: AnyDispatcher, silence_max: Duration) -> Self {
        let mut servers = Self {
            all: Vec::new(),
            crossing: Crossing::default(),
            wanderers: HashSet::new(),
            is_open_here: false,
            ended: VecDeque::new(),
        };
        servers.push(first, silence_max);
        servers
    }

    /// One more.
    pub(super) fn push(&mut self, mut server: AnyDispatcher, silence_max: Duration) {
        if self.is_open_here {
            server.open_here();
        }
        self.all.push(server);
        self.crossing.add_server(silence_max);
    }

    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    pub(super) fn all(&self) -> &[AnyDispatcher] {
        &self.all
    }

    #[inline]
    pub(super) fn first(&self) -> &AnyDispatcher {
        &self.all[0]
    }

    /// The one of that number, which a function has.
    pub(super) fn at(&self, server: u8) -> &AnyDispatcher {
        self.all.get(usize::from(server)).unwrap_or(self.first())
    }

    pub(super) fn register(
        &mut self,
        server: u32,
        image: &FunctionImage,
        wanted: Wanted,
        patience: Duration,
    ) -> Result<u32, RegisterError> {
        let there = self.all.get_mut(server as usize).ok_or(RegisterError::NoServer { server })?;
        let handle = there.register(image, wanted, patience)?;
        if image.may_forward() {
            self.wanderers.insert((server, handle));
        }
        Ok(handle)
    }

    #[inline]
    pub(super) fn begin(&mut self, server: u8, begin: &Begin<'_>) -> Result<u64, CallBeginError> {
        if self.crossing.is_full() && self.wanderers.contains(&(server.into(), begin.handle)) {
            return Err(CallBeginError::Full(NoRoom::UnderWay));
        }
        self.all.get_mut(usize::from(server)).ok_or(CallBeginError::NoFunction)?.begin(begin)
    }

    /// The server for which too many wait to go on there, if that is why a function cannot be called, and how many do.
    pub(super) fn crowded(&self, server: u8, handle: u32) -> Option<(usize, usize)> {
        self.crossing.crowded().filter(|_| self.wanderers.contains(&(server.into(), handle)))
    }

    /// How many calls wait to go on at a server.
    pub(super) fn waiting_for(&self, server: usize) -> usize {
        self.crossing.waiting_for(server)
    }

    pub(super) fn flush(&mut self) {
        self.all.iter_mut().for_each(AnyDispatcher::flush);
    }

    /// Does what there is to do now, and tells which calls have ended.
    #[inline]
    pub(super) fn turn(&mut self, mut tell: impl FnMut(CallId, Result<(u64, &[u8]), CallError>)) {
        self.tell_ended(&mut tell);
        for server in &mut self.all {
            let mut failed = Vec::new();
            server.turn(|call, result| match result {
                Ok(answer) => tell(CallId(call), Ok(answer)),
                // Why is known only behind this turn.
                Err(fault) => failed.push((call, fault)),
            });
            for (call, fault) in failed {
                tell(CallId(call), Err(CallError::new(fault, server)));
            }
        }
        self.cross();
        self.tell_ended(&mut tell);
    }

    #[inline]
    fn tell_ended(&mut self, tell: &mut impl FnMut(CallId, Result<(u64, &[u8]), CallError>)) {
        for CallCompletion { id, result } in self.ended.drain(..) {
            match result {
                Ok(CallReply { value, bytes }) => tell(id, Ok((value, &bytes))),
                Err(error) => tell(id, Err(error)),
            }
        }
    }

    /// The same, where what has ended is kept. Returns whether anything moved.
    pub(super) fn turn_and_keep(&mut self) -> bool {
        let mut moved = false;
        for server in &mut self.all {
            moved |= server.turn_and_keep();
        }
        self.cross() | moved
    }

    /// Has calls go on that are between two servers. Returns whether any does.
    #[inline]
    fn cross(&mut self) -> bool {
        let mut ashore = Vec::new();
        let moved = self.crossing.cross(&mut self.all, |call| ashore.push(call));
        for NotCrossed { id, server, why } in ashore {
            let server = &self.all[server];
            let may_have_run = true;
            let error = match why {
                Ashore::Fault(fault) => CallError::new(fault, server),
                Ashore::Late => CallError::Deadline { peer: server.peer(), may_have_run },
                Ashore::Lost(error) => CallError::SiteLost { error, may_have_run },
                Ashore::Stuck(silent) => {
                    let loss = Loss::Stalled { silent, awaited: "room for calls" };
                    CallError::SiteLost { error: LinkError { peer: server.peer(), loss }, may_have_run }
                }
            };
            self.ended.push_back(CallCompletion { id: CallId(id), result: Err(error) });
        }
        moved
    }

    /// The next call that has ended and was kept.
    pub(super) fn next_kept(&mut self) -> Option<CallCompletion> {
        if let Some(ended) = self.ended.pop_front() {
            return Some(ended);
        }
        self.all.iter_mut().find_map(|server| {
            let CallEnded { call, result } = server.next_kept()?;
            let result = result
                .map(|(value, bytes)| CallReply { value, bytes })
                .map_err(|fault| CallError::new(fault, server));
            Some(CallCompletion { id: CallId(call), result })
        })
    }

    /// Keeps calls that were taken out and are for somebody else.
    pub(super) fn put_back(&mut self, ended: Vec<CallCompletion>) {
        ended.into_iter().rev().for_each(|ended| self.ended.push_front(ended));
    }

    /// Sleeps until there may be something to do, at most until `limit`. A loss is told by the calls that it ends.
    pub(super) fn sleep(&mut self, limit: Time) {
        if !self.ended.is_empty() {
            return;
        }
        let due = self.crossing.next_deadline().map_or(limit, |due| due.min(limit));
        let span = due.since(self.clock().now());
        AnyDispatcher::sleep(&mut self.all, Vec::new(), span);
    }

    /// How many calls are under way, or have ended and were not told.
    pub(super) fn under_way(&self) -> usize {
        let at_servers: usize = self.all.iter().map(AnyDispatcher::under_way).sum();
        at_servers + self.crossing.count() + self.ended.len()
    }

    pub(super) fn clock(&self) -> Clock {
        self.first().clock()
    }

    /// How long to look for answers before sleeping: where that costs system calls at one of them, not at all.
    pub(super) fn spin(&self) -> Duration {
        self.all.iter().map(AnyDispatcher::spin).min().unwrap_or_default()
    }

    pub(super) fn open_here(&mut self) {
        self.is_open_here = true;
        self.all.iter_mut().for_each(AnyDispatcher::open_here);
    }

    pub(super) fn close(&mut self) {
        self.all.iter_mut().for_each(AnyDispatcher::close);
    }
}
