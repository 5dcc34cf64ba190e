//! Sends the calls of one caller to the sites where they are to run. It has neither a thread nor a clock: the caller makes
//! its turns, and says what the time is.

mod calls;
mod config;
mod crossing;
mod elsewhere;
mod flight;
mod here;
mod leaving;
mod lost_agent;
mod moving;
mod register;
mod report;
mod silence;
mod site_link;
mod sleep;
mod watch;

use std::collections::VecDeque;
use std::time::Duration;

use outboard_contract::{FrameSendError, Link, LinkError, Redial, RemoteMemory};
use outboard_steering::Site;
use outboard_wire::calling::{Call, CallFailure, CallerId};
use outboard_wire::{Flow, FrameHead, Time, mutant};

use crate::{NoReply, SlotTable, Submitted, is_of_call};
pub use calls::{CallFault, Calls};
pub use config::{CallPlacement, DispatcherConfig};
pub use crossing::{Crossing, CrossingError, CrossingServer, NotCrossed};
use flight::{Flight, bit, patience_us, recycle};
use here::LocalSite;
pub use leaving::Leaving;
use lost_agent::Reminder;
pub use register::{FunctionNeeds, RegisterError};
use register::{Known, Registration};
use report::Reporter;
use silence::Silence;
pub use site_link::{CallBeginError, NoRoom, SiteLink};
use site_link::{Heard, Said};
pub use watch::SiteReport;
use watch::Watch;

/// How a call ended: what the function returned and replied, or why not.
pub type CallOutcome<'a> = Result<(u64, &'a [u8]), CallFault>;

/// Hears of a call that has ended.
pub type TellEnded<'a> = dyn FnMut(u64, CallOutcome<'_>) + 'a;

/// How a call ended, kept until the program asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallEnded {
    /// Its name.
    pub call: u64,
    /// What the function returned and replied, or why not.
    pub result: Result<(u64, Vec<u8>), CallFault>,
}

/// A call that is to begin.
#[derive(Clone, Copy, Debug)]
pub struct Begin<'a> {
    /// The function's number.
    pub handle: u32,
    /// Its slot; calls of one slot go to the same site.
    pub slot: u8,
    /// What the function is given.
    pub arguments: &'a [u8],
    /// How long it may take.
    pub patience: Option<Duration>,
}

/// A caller with its sites: a memory server by a link `L`, perhaps an agent by a link `A`, and the caller's own thread.
pub struct Dispatcher<L, A> {
    server: SiteLink<L>,
    agent: Option<SiteLink<A>>,
    here: LocalSite,
    calls: Calls<Flight>,
    functions: Vec<Known>,
    placement: CallPlacement,
    table: SlotTable,
    watch: Watch,
    reporter: Reporter,
    reminder: Reminder,
    /// That of the server and that of the agent.
    silences: [Silence; 2],
    server_given_up: u64,
    redial: Redial,
    /// Calls that are to begin again at another site, and why.
    again: VecDeque<(u64, Option<CallFailure>)>,
    /// Calls that have begun at one site and are to go on at another, as they travel.
    moving: VecDeque<Vec<u8>>,
    moved_total: u64,
    /// Calls that go on at another memory server.
    leaving: VecDeque<Leaving>,
    /// What names of calls begin at.
    first_id: u64,
    /// Buffers for arguments that wait for their next use.
    spare: Vec<Vec<u8>>,
    /// Calls that ended while the program waited for something else.
    kept: VecDeque<CallEnded>,
    /// Functions are to be known here as well.
    is_wanted_here: bool,
    /// The one of them that is to be looked at.
    unprepared: Option<u32>,
    registration: Option<Registration>,
    now: Time,
    /// Why the latest calls ended because of their site.
    lost: Option<LinkError>,
}

impl<L: Link + RemoteMemory, A: Link> Dispatcher<L, A> {
    /// A caller by a link to a memory server, with which calls run there and here, and by one to an agent if there is any.
    pub fn new(link: L, agent: Option<SiteLink<A>>, caller: CallerId, config: DispatcherConfig) -> Self {
        let server = link.peer().incarnation();
        Self {
            server: SiteLink::new(link, caller, server),
            agent,
            here: LocalSite::new(config.ambient),
            calls: Calls::new(config.under_way_max),
            functions: Vec::new(),
            placement: config.placement,
            table: SlotTable::default(),
            watch: Watch::default(),
            reporter: Reporter::default(),
            reminder: Reminder::default(),
            silences: [Silence::new(config.silence_max), Silence::new(config.silence_max)],
            server_given_up: 0,
            redial: Redial::default(),
            again: VecDeque::new(),
            moving: VecDeque::new(),
            moved_total: 0,
            leaving: VecDeque::new(),
            first_id: 0,
            spare: Vec::new(),
            kept: VecDeque::new(),
            is_wanted_here: false,
            unprepared: None,
            registration: None,
            now: Time::ZERO,
            lost: None,
        }
    }

    /// Puts a call into the batch that the next [`flush`](Self::flush) or [`turn`](Self::turn) sends, and returns its
    /// name. A call without patience does not look at the clock.
    #[inline]
    pub fn begin(&mut self, begin: &Begin<'_>, clock: impl Fn() -> Time) -> Result<u64, CallBeginError> {
        let number = self.calls.next().ok_or(CallBeginError::Full(NoRoom::UnderWay))?;
        let meant = self.choose(begin.handle, begin.slot)?;
        let may_probe = self.watch.is_probe_due(self.now);
        let site = if may_probe { self.probe_instead(meant, begin.handle) } else { meant };
        let call = Call { call: number, handle: begin.handle, patience_us: patience_us(begin.patience) };
        let until = begin.patience.map(|patience| {
            self.now = clock();
            self.now + patience
        });
        self.begin_at(site, &call, begin.slot, begin.arguments).map_err(|error| self.refused(site, error))?;
        let mut tried = bit(site);
        if may_probe {
            tried |= self.probe((meant, site), &call, (begin.slot, begin.arguments), clock);
        }
        let arguments = self.may_begin_again(begin.handle, site).then(|| {
            let mut kept = self.spare.pop().unwrap_or_default();
            kept.clear();
            kept.extend_from_slice(begin.arguments);
            kept
        });
        let (handle, slot) = (begin.handle, begin.slot);
        let id = self.first_id + number;
        let flight = Flight { id, site, tried, handle, slot, arguments, travelled: None, past: None };
        self.calls.begin(number, until, flight);
        Ok(id)
    }

    /// Where a call goes.
    #[inline]
    pub(super) fn choose(&self, handle: u32, slot: u8) -> Result<Site, CallBeginError> {
        let wanted = match self.placement {
            CallPlacement::Steered => self.table.site(slot),
            CallPlacement::Hinted(site) | CallPlacement::Fixed(site) => site,
        };
        if self.is_usable(wanted, handle) {
            return Ok(wanted);
        }
        self.choose_another(wanted, handle)
    }

    #[inline]
    pub(super) fn is_usable(&self, site: Site, handle: u32) -> bool {
        self.knows(site, handle) && !self.watch.is_silent(site) && self.lost_of(site).is_none()
    }

    #[inline]
    pub(super) fn knows(&self, site: Site, handle: u32) -> bool {
        self.functions.get(handle as usize).is_some_and(|function| function.is_at(site))
    }

    /// Gives a call to a site.
    #[inline]
    fn begin_at(
        &mut self,
        site: Site,
        call: &Call,
        slot: u8,
        arguments: &[u8],
    ) -> Result<(), CallBeginError> {
        self.send_to(site, call, slot, arguments)?;
        self.watch.begun(site, call.call);
        Ok(())
    }

    #[inline]
    fn send_to(&mut self, site: Site, call: &Call, slot: u8, arguments: &[u8]) -> Result<(), CallBeginError> {
        let flow = Flow(slot.into());
        match (site, &mut self.agent) {
            (Site::Server, _) => self.server.begin(call, flow, arguments)?,
            (Site::Agent, Some(agent)) => agent.begin(call, flow, arguments)?,
            (Site::Agent, None) | (Site::Application, _) => {
                match self.here.submit(self.now, call, arguments) {
                    Submitted::Taken => {}
                    Submitted::Full => return Err(CallBeginError::Full(NoRoom::Site)),
                    Submitted::Failed(CallFailure::ArgumentsTooLong { max }) => {
                        return Err(CallBeginError::TooLong { max: max as usize });
                    }
                    Submitted::Failed(_) => return Err(CallBeginError::NoFunction),
                }
            }
        }
        Ok(())
    }

    /// Sends a frame about functions to a site. Where there is no site there is no room.
    fn send(&mut self, site: Site, head: FrameHead, payload: &[u8]) -> Result<(), FrameSendError> {
        match (site, &mut self.agent) {
            (Site::Server, _) => self.server.send(head, payload),
            (Site::Agent, Some(agent)) => agent.send(head, payload),
            (Site::Agent, None) | (Site::Application, _) => Err(FrameSendError::Full),
        }
    }

    /// What a site has said besides answers, if there is a link to it.
    fn heard(&mut self, site: Site) -> Option<&mut Heard> {
        match site {
            Site::Server => Some(&mut self.server.heard),
            Site::Agent => self.agent.as_mut().map(|agent| &mut agent.heard),
            Site::Application => None,
        }
    }

    /// Sends the batch.
    #[inline]
    pub fn flush(&mut self) {
        self.server.flush();
        if let Some(agent) = &mut self.agent {
            agent.flush();
        }
    }

    /// Does what there is to do now, and tells which calls have ended. Returns whether anything moved. The clock is looked at
    /// once, and again where a call ends that runs here and is timed: it takes its time within the turn.
    ///
    /// One function for all that listen: with a type for each of them, there would be a copy of all that a caller does.
    pub fn turn(&mut self, clock: &dyn Fn() -> Time, tell: &mut TellEnded<'_>) -> bool {
        let now = clock();
        self.now = now;
        let mut moved = !self.kept.is_empty();
        for CallEnded { call, result } in self.kept.drain(..) {
            let result = result.as_ref().map(|(value, reply)| (*value, reply.as_slice()));
            tell(call, result.map_err(|fault| *fault));
        }
        moved |= self.hear(now, clock, tell);
        self.look_after_sites(tell);
        self.introduce_here();
        self.look_for_agent();
        moved |= self.remind_agent();
        self.talk_of_sites();
        let Self { calls, watch, spare, .. } = self;
        calls.on_time(now, |call, flight| {
            moved = true;
            watch.ended(flight.site, call, None);
            let (id, at) = (flight.id, flight.site);
            recycle(spare, Some(flight));
            let may_have_run = !mutant("calling.late-denies-running");
            tell(id, Err(CallFault::Late { at, may_have_run }));
        });
        moved
    }

    /// Hears what all sites say.
    fn hear(&mut self, now: Time, clock: &dyn Fn() -> Time, tell: &mut TellEnded<'_>) -> bool {
        let Self { server, agent, here, calls, functions, watch, reminder, silences, .. } = self;
        let (again, spare, leaving) = (&mut self.again, &mut self.spare, &mut self.leaving);
        let mut cut_at = None;
        let mut settle = |site: Site, call: u64, said: Said<'_>| {
            watch.heard(site, now);
            watch.probe_answered(site, call, clock);
            if let Some(place) = silence::place_of(site) {
                silences[place].broken(now);
            }
            let Some(flight) = calls.get_mut(call) else { return };
            let id = flight.id;
            let fault = match said {
                Ok(answer) => {
                    watch.answered(flight.site, site, call, now);
                    match flight.past.take() {
                        None => tell(id, Ok(answer)),
                        Some(past) => tell(id, Ok((answer.0, &past.whole_reply(answer.1)))),
                    }
                    return recycle(spare, calls.end(call));
                }
                // It is under way elsewhere meanwhile.
                Err(_) if flight.site != site && !mutant("calling.former-site-ends-call") => return,
                Err(NoReply::Forwarded(forwarded)) => {
                    watch.answered(flight.site, site, call, now);
                    if let Err(fault) = leaving::depart(calls, functions, &forwarded, (leaving, spare)) {
                        tell(id, Err(fault));
                    }
                    return;
                }
                Err(NoReply::Failed(failure)) => {
                    if failure == CallFailure::NoFunction && site == Site::Agent {
                        functions[flight.handle as usize].set_at(site, false);
                        reminder.is_needed = true;
                    }
                    match elsewhere::verdict(functions, flight, failure) {
                        Err(fault) => flight.in_the_end(fault),
                        Ok(()) => return again.push_back((call, Some(failure))),
                    }
                }
            };
            if matches!(fault, CallFault::Lost { .. }) {
                cut_at = Some(site);
            }
            watch.ended(site, call, Some(now));
            recycle(spare, calls.end(call));
            tell(id, Err(fault));
        };
        let mut moved = server.listen(now, |call, said| settle(Site::Server, call, said));
        server.link.completions(|completion| {
            moved = true;
            if is_of_call(completion.token) {
                here.on_completion(&completion);
            }
        });
        if here.run(now, &mut server.link, |call, said| settle(Site::Application, call, said)) {
            moved = true;
            server.flush();
        }
        if let Some(agent) = agent {
            moved |= agent.listen(now, |call, said| settle(Site::Agent, call, said));
        }
        if let Some(site) = cut_at {
            self.explain_loss(site);
        }
        moved
    }

    /// As [`turn`](Self::turn), while the program waits for something else: calls that end are kept.
    pub fn turn_and_keep(&mut self, clock: &dyn Fn() -> Time) -> bool {
        let mut ended = std::mem::take(&mut self.kept);
        let before = ended.len();
        let mut moved = self.turn(clock, &mut |call, result| {
            let result = result.map(|(value, reply)| (value, reply.to_vec()));
            ended.push_back(CallEnded { call, result });
        });
        moved |= ended.len() > before;
        self.kept = ended;
        moved
    }

    /// The next call that has ended and was kept.
    pub fn next_kept(&mut self) -> Option<CallEnded> {
        self.kept.pop_front()
    }

    /// How many calls are under way, or have ended and were not told.
    pub fn under_way(&self) -> usize {
        self.calls.under_way() + self.kept.len() + self.leaving.len()
    }

    /// Where calls are wanted.
    pub fn placement(&self) -> CallPlacement {
        self.placement
    }

    /// Where calls of a slot go, as far as the memory server has said.
    pub fn table(&self) -> &SlotTable {
        &self.table
    }

    /// From now on calls go where this table says, if it is newer.
    pub fn adopt(&mut self, table: SlotTable) {
        if table.epoch() > self.table.epoch() || mutant("calling.old-table-adopted") {
            self.is_wanted_here |= table.counts()[Site::Application as usize] > 0;
            self.table = table;
            self.watch.forgive();
            self.recall();
        }
    }

    /// The link to the server, for those who ask who is at its other end.
    pub fn link(&self) -> &L {
        &self.server.link
    }

    /// What is known of the sites.
    pub fn sites(&self) -> [SiteReport; 3] {
        Site::ALL.map(|site| self.watch.report(site))
    }

    /// How many calls have gone on at another site in the middle of their run.
    pub fn moved_total(&self) -> u64 {
        self.moved_total
    }

    /// Why calls have ended because of their site, the latest time they did.
    pub fn lost(&self) -> Option<&LinkError> {
        self.lost.as_ref()
    }

    /// Says goodbye.
    pub fn close(&mut self) {
        self.server.close();
        if let Some(agent) = &mut self.agent {
            agent.close();
        }
    }
}
