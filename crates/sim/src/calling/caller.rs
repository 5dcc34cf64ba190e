//! A caller: one get, put or delete after the other, each where the table says.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use outboard_calling::{Outcome, SlotTable, slot_of};
use outboard_driver::{LinkId, Origin, Service};
use outboard_link::{Completion, Disposition, Frame, Link, LinkError, Peer, RemoteMemory, SendError};
use outboard_steering::Site;
use outboard_wire::calling::{
    CALL, Call, FAILED, Failed, Failure, OBSERVED, Observed, REPLY, Reply, Seen, TABLE, Table, TrapReason,
};
use outboard_wire::{FrameHead, Role, Time};

use super::agent::Afar;
use super::history::{Event, Op};
use super::{desk, table};
use crate::{Boot, Recorder};

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_millis(60);
/// One of so many calls goes to any site.
const PROBE_ONE_OF: u8 = 16;
/// How often the server is told what was seen of sites.
const REPORT_EVERY: Duration = Duration::from_millis(1);

/// Everything that was done, by everybody.
#[derive(Default)]
pub(super) struct History {
    pub(super) events: Vec<Event>,
    /// A clock that shows which of two things was first.
    pub(super) now: u64,
    /// Calls that were answered by each site.
    pub(super) answered: [u64; 3],
}

/// What a caller does.
#[derive(Clone, Copy)]
pub(super) struct Habits {
    pub(super) keys: u8,
    pub(super) calls: u32,
    /// Takes a put for done whose answer did not come. It must not.
    pub(super) is_rash: bool,
}

/// What a site says of a call.
type Answer = Result<(u64, Vec<u8>), Failure>;

struct UnderWay {
    event: usize,
    call: u64,
    site: Site,
    began: Time,
    until: Time,
    /// What is not sent yet.
    frame: Option<(FrameHead, Vec<u8>)>,
}

/// One process. Its next life goes on where the last one ended, with calls of other numbers.
pub(super) struct Caller {
    recorder: Recorder,
    history: Rc<RefCell<History>>,
    left: Rc<RefCell<u32>>,
    habits: Habits,
    random: Rng,
    table: SlotTable,
    server: Option<LinkId>,
    agent: Option<LinkId>,
    here: Afar,
    next_call: u64,
    under_way: Option<UnderWay>,
    next_at: Time,
    observed: Observed,
    report_at: Time,
    answers: VecDeque<(u64, Answer)>,
}

impl Caller {
    pub(super) fn new(
        boot: Boot,
        recorder: Recorder,
        (history, left): (Rc<RefCell<History>>, Rc<RefCell<u32>>),
        habits: Habits,
    ) -> Self {
        let mut random = boot.random;
        Self {
            recorder,
            history,
            left,
            habits,
            table: SlotTable::default(),
            server: None,
            agent: None,
            here: Afar::new(&mut random),
            random,
            next_call: 1,
            under_way: None,
            next_at: boot.now,
            observed: Observed::default(),
            report_at: boot.now,
            answers: VecDeque::new(),
        }
    }

    fn begin(&mut self, now: Time) {
        let key = self.random.u8(1..=self.habits.keys);
        let meant = self.table.site(slot_of(&[key, self.random.u8(..8)]));
        // Some calls show what calls cost at other sites.
        let is_probe = self.random.u8(..PROBE_ONE_OF) == 0;
        let meant = if is_probe { Site::ALL[self.random.usize(..Site::ALL.len())] } else { meant };
        let site = match meant {
            Site::Agent if self.agent.is_some() => Site::Agent,
            Site::Application if self.here.region.is_some() && self.server.is_some() => Site::Application,
            _ if self.server.is_some() => Site::Server,
            _ => return,
        };
        *self.left.borrow_mut() -= 1;
        let mut history = self.history.borrow_mut();
        history.now += 1;
        let op = match self.random.u8(..8) {
            0..3 => Op::Get(None),
            3..6 => Op::Put(history.now),
            _ => Op::Delete(false),
        };
        let (began, event) = (history.now, history.events.len());
        history.events.push(Event { key, op, began, ended: None, did_nothing: false });
        drop(history);
        let (handle, arguments) = table::arguments(key, op);
        let call = Call { call: self.next_call, handle, patience_us: 0 };
        self.next_call += 1;
        let mut frame = None;
        if let (Site::Application, Some(region)) = (site, &self.here.region) {
            let client = table::open(&mut self.here.executor, region);
            let fill = |buffer: &mut [u8]| buffer.copy_from_slice(&arguments);
            // A new client has room for a call.
            let _ = self.here.executor.submit(now, client, &call, (arguments.len(), fill));
        } else {
            frame = Some((FrameHead::new(CALL), [call.encode().as_slice(), &arguments].concat()));
        }
        let until = now + PATIENCE;
        self.under_way = Some(UnderWay { event, call: call.call, site, began: now, until, frame });
    }

    /// Whatever was said of the call that is under way.
    fn settle(&mut self, now: Time) {
        while let Some((call, result)) = self.answers.pop_front() {
            let Some(under_way) = self.under_way.take_if(|under_way| under_way.call == call) else {
                continue;
            };
            let mut history = self.history.borrow_mut();
            history.now += 1;
            history.answered[under_way.site as usize] += 1;
            let seen = &mut self.observed.sites[under_way.site as usize];
            seen.calls += 1;
            seen.round_trips_ns += now.since(under_way.began).as_nanos() as u64;
            let ended = history.now;
            let event = &mut history.events[under_way.event];
            match result {
                Ok((value, reply)) => match table::read(event.op, value, &reply) {
                    Ok(op) => {
                        event.did_nothing = op.is_none();
                        event.op = op.unwrap_or(event.op);
                        event.ended = Some(ended);
                    }
                    Err(promise) => self.recorder.fail(promise),
                },
                Err(Failure::NoFunction) => event.did_nothing = true,
                // The site has lost the server in the middle of it.
                Err(Failure::Trapped { reason: TrapReason::NotReached, .. }) => {
                    event.did_nothing = matches!(event.op, Op::Get(_));
                }
                Err(failure) => self.recorder.fail(format!("functions do not fail: {failure:?}")),
            }
            drop(history);
            self.next_at = now + Duration::from_micros(self.random.u64(1..300));
        }
    }

    /// Tells the server what was seen of sites, when it is time.
    fn report<L: Link>(&mut self, link: &mut L, now: Time) -> Result<bool, LinkError> {
        if now < self.report_at {
            return Ok(false);
        }
        self.report_at = now + REPORT_EVERY;
        let mut observed = std::mem::take(&mut self.observed);
        let usable = [self.here.region.is_some(), self.agent.is_some(), true];
        for (site, seen) in Site::ALL.into_iter().zip(&mut observed.sites) {
            let here = self.under_way.as_ref().filter(|under_way| under_way.site == site);
            let oldest_ns = here.map_or(0, |under_way| now.since(under_way.began).as_nanos() as u64);
            *seen = Seen { is_usable: usable[site as usize], oldest_ns, ..*seen };
        }
        match link.send(FrameHead::new(OBSERVED), &observed.encode()) {
            Ok(()) => Ok(true),
            Err(SendError::Lost(lost)) => Err(lost),
            // What is not said now is said the next time, of other calls.
            Err(_) => Ok(false),
        }
    }

    /// Nothing will be heard of the call that is under way; whether it happens is open.
    fn give_up(&mut self, now: Time) {
        let Some(under_way) = self.under_way.take() else { return };
        self.next_at = now;
        let mut history = self.history.borrow_mut();
        history.now += 1;
        let ended = history.now;
        let event = &mut history.events[under_way.event];
        match event.op {
            // Nobody can tell whether it was read, and nobody needs to know.
            Op::Get(_) => event.did_nothing = true,
            Op::Put(_) if self.habits.is_rash => event.ended = Some(ended),
            _ => event.did_nothing = under_way.frame.is_some(),
        }
    }
}

impl Service for Caller {
    type Note = ();

    fn on_open(&mut self, link: LinkId, peer: &Peer, _: Origin, _: Time) {
        let is_server = peer.intro().role == Role::MemoryServer;
        *(if is_server { &mut self.server } else { &mut self.agent }) = Some(link);
    }

    fn on_frame(&mut self, _: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        let bytes = frame.payload.to_vec();
        match frame.head.kind {
            TABLE => match Table::decode(&bytes).map(|table| SlotTable::from_wire(&table)) {
                Ok(table) if table.epoch() >= self.table.epoch() => self.table = table,
                Ok(_) => {}
                Err(error) => self.recorder.fail(format!("tables can be read: {error}")),
            },
            REPLY => {
                if let Ok((Reply { call, value }, reply)) = Reply::decode(&bytes) {
                    self.answers.push_back((call, Ok((value, reply.to_vec()))));
                }
            }
            FAILED => {
                if let Ok(Failed { call, failure }) = Failed::decode(&bytes) {
                    self.answers.push_back((call, Err(failure)));
                }
            }
            _ => {}
        }
        self.settle(now);
        Disposition::Taken
    }

    fn on_completion(&mut self, _: LinkId, completion: Completion, _: Time) {
        self.here.on_completion(&completion);
    }

    fn send<L: Link + RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
        now: Time,
    ) -> Result<bool, LinkError> {
        let mut moved = false;
        if self.server == Some(id) {
            let Self { here, answers, .. } = self;
            moved |= here.run(link, now, |Outcome { call, result, .. }| {
                let result = result.map(|(value, reply)| (value, reply.to_vec()));
                answers.push_back((call, result.map_err(desk::failure)));
            })?;
            self.settle(now);
            moved |= self.report(link, now)?;
        }
        let (server, agent) = (self.server, self.agent);
        let Some(under_way) = &mut self.under_way else { return Ok(moved) };
        let goes_by = if under_way.site == Site::Agent { agent } else { server };
        if goes_by == Some(id)
            && let Some((head, payload)) = &under_way.frame
        {
            match link.send(*head, payload) {
                Ok(()) => (moved, under_way.frame) = (true, None),
                Err(SendError::Lost(lost)) => return Err(lost),
                Err(_) => {}
            }
        }
        Ok(moved)
    }

    fn on_lost(&mut self, link: LinkId, _: &LinkError, now: Time) {
        let is_agent = self.agent.take_if(|agent| *agent == link).is_some();
        if self.server.take_if(|server| *server == link).is_some() {
            self.here = Afar::new(&mut self.random);
        }
        if self.under_way.as_ref().is_some_and(|under_way| (under_way.site == Site::Agent) == is_agent) {
            self.give_up(now);
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        match &self.under_way {
            Some(under_way) => Some(under_way.until.min(self.report_at)),
            None => (*self.left.borrow() > 0 && self.server.is_some()).then_some(self.next_at),
        }
    }

    fn on_time(&mut self, now: Time) {
        if self.under_way.as_ref().is_some_and(|under_way| under_way.until <= now) {
            self.give_up(now);
        }
        if self.under_way.is_none() && now >= self.next_at && *self.left.borrow() > 0 {
            self.begin(now);
        }
    }
}
