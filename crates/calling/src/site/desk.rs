//! Where the calls of many links arrive at a site.

mod registering;

use std::collections::HashMap;
use std::ops::AddAssign;
use std::sync::Arc;

use outboard_contract::memory::Window;
use outboard_contract::{Disposition, Frame, LinkId, Outbox};
use outboard_wire::calling::{
    Allowed, CALL, CODE, CONTINUE, Call, CallFailure, CallerId, Continue, FAILED, FORWARDED, Failed,
    FunctionName, Moving, OPEN, Open, RECALL, REGISTER, REPLY, RESUME, RETURNED, Recall, ReplyHead,
};
use outboard_wire::{Flow, FrameHead, Time};

use super::meter::{Metering, SiteMeter};
use crate::{
    Answered, ExecutionOutcome, Executor, ExecutorClient, ExecutorConfig, NoReply, Recalled, Refused,
    SharedCalls, SiteHost, Submitted, Ticket,
};
pub(crate) use registering::{Regions, find_all};

/// How much fuel is spent on calls before links have their turn again: some tens of microseconds.
const FUEL_PER_TURN: u64 = 50_000;

/// Replies that are longer are looked after: of shorter ones there are never so many that they matter.
const LONG_REPLY: usize = 1024;

/// Finds the regions of functions for a [`CallingDesk`].
pub trait FindRegion {
    /// What functions know of a region.
    type Region;

    /// The region, if its caller may call functions there that do `allowed.rights`. Nothing, if that is not known yet:
    /// the caller asks again.
    fn find(&mut self, by: CallerId, allowed: &Allowed) -> Result<Option<Self::Region>, Refused>;
}

/// What has happened at a desk since the last question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeskCounts {
    /// Calls that ended with a reply, or that go on at another memory server.
    pub replied: u64,
    /// Calls that ended without.
    pub failed: u64,
    /// Fuel that they took.
    pub fuel: u64,
    /// Functions that were not taken.
    pub refused: u64,
    /// Frames that mean nothing here.
    pub meaningless: u64,
}

impl AddAssign for DeskCounts {
    fn add_assign(&mut self, more: Self) {
        self.replied += more.replied;
        self.failed += more.failed;
        self.fuel += more.fuel;
        self.refused += more.refused;
        self.meaningless += more.meaningless;
    }
}

/// The calls of one worker's links: takes them in, runs them by turns on regions that are known as `R`, and answers.
pub struct CallingDesk<R> {
    shared: Arc<SharedCalls>,
    executor: Executor<R>,
    links: HashMap<LinkId, Caller>,
    /// The link that brought the latest call, which brings the next most of the time.
    latest: Option<(LinkId, ExecutorClient)>,
    /// The link of every client, by its number.
    clients: Vec<LinkId>,
    /// Those who do not take their answers, so that none of their calls runs.
    paused: Vec<(LinkId, ExecutorClient)>,
    answer: Vec<u8>,
    counts: DeskCounts,
    metering: Metering,
    /// What answers say of the table of slots that is known here.
    label: Flow,
}

/// Who calls by one link.
struct Caller {
    client: ExecutorClient,
    caller: CallerId,
    /// A function's code, as far as it has come.
    arriving: Option<(FunctionName, Vec<u8>)>,
    /// The latest function whose code was not taken.
    refused: Option<(FunctionName, Refused)>,
}

fn fail(outbox: &mut Outbox, (link, label): (LinkId, Flow), call: u64, failure: CallFailure) {
    let head = FrameHead::new(FAILED).with_tag(call as u32).with_flow(label);
    outbox.push_copy(link, head, &Failed { call, failure }.encode());
}

/// Notes who does not take its answers.
fn pause_if_full(
    outbox: &Outbox,
    whose: (LinkId, ExecutorClient),
    paused: &mut Vec<(LinkId, ExecutorClient)>,
) {
    if !outbox.has_room(whose.0) && !paused.contains(&whose) {
        paused.push(whose);
    }
}

impl<R> CallingDesk<R> {
    /// A desk without clients.
    pub fn new(shared: Arc<SharedCalls>, config: ExecutorConfig) -> Self {
        Self {
            shared,
            executor: Executor::new(config),
            links: HashMap::new(),
            latest: None,
            clients: Vec::new(),
            paused: Vec::new(),
            answer: Vec::new(),
            counts: DeskCounts::default(),
            metering: Metering::default(),
            label: Flow(0),
        }
    }

    /// Does what a frame about calls asks. What is to be said goes into `outbox`.
    pub fn on_frame(
        &mut self,
        (link, frame, now): (LinkId, Frame<'_>, Time),
        regions: &mut impl FindRegion<Region = R>,
        outbox: &mut Outbox,
    ) -> Disposition {
        let payload = frame.payload;
        match frame.head.kind {
            CALL => return self.take_call(link, payload, now, outbox),
            REGISTER => self.register(link, &payload.to_vec(), regions, outbox),
            CONTINUE => return self.take_rest(link, &payload.to_vec(), now, outbox),
            RESUME => return self.take_moving(link, &payload.to_vec(), now, outbox),
            RECALL => self.recall(link, &payload.to_vec(), outbox),
            CODE => self.take_code(link, &payload.to_vec()),
            OPEN => self.open(link, &payload.to_vec()),
            // Answers to questions that a site does not ask.
            _ => self.counts.meaningless += 1,
        }
        Disposition::Taken
    }

    fn open(&mut self, link: LinkId, bytes: &[u8]) {
        if let Ok(Open { caller, .. }) = Open::decode(bytes) {
            self.open_for(link, caller);
        }
    }

    /// Whether a client calls by this link.
    pub fn has(&self, link: LinkId) -> bool {
        self.links.contains_key(&link)
    }

    /// From now on this link brings calls of that caller.
    pub fn open_for(&mut self, link: LinkId, caller: CallerId) {
        self.on_lost(link);
        let Some(window) = self.shared.window(caller) else { return };
        let client = self.executor.open(window);
        if client.index() >= self.clients.len() {
            self.clients.resize(client.index() + 1, link);
        }
        self.clients[client.index()] = link;
        self.links.insert(link, Caller { client, caller, arriving: None, refused: None });
    }

    #[inline]
    fn client(&mut self, link: LinkId) -> Option<ExecutorClient> {
        match self.latest {
            Some((latest, client)) if latest == link => Some(client),
            _ => {
                let client = self.links.get(&link)?.client;
                self.latest = Some((link, client));
                Some(client)
            }
        }
    }

    fn take_call(
        &mut self,
        link: LinkId,
        payload: Window<'_>,
        now: Time,
        outbox: &mut Outbox,
    ) -> Disposition {
        let Some(length) = payload.len().checked_sub(Call::LEN) else {
            self.counts.meaningless += 1;
            return Disposition::Taken;
        };
        let head = payload.array::<{ Call::LEN }>(0);
        let number = u64::from_le_bytes(payload.array(0));
        let submitted = match (Call::decode(head), self.client(link)) {
            (Ok(call), Some(client)) => {
                let fill = |buffer: &mut [u8]| payload.part(Call::LEN, length).read(0, buffer);
                self.executor.submit(now, client, &call, (length, fill))
            }
            _ => Submitted::Failed(CallFailure::NoFunction),
        };
        match submitted {
            Submitted::Taken => Disposition::Taken,
            Submitted::Full => Disposition::Deferred,
            Submitted::Failed(failure) => {
                self.counts.failed += 1;
                fail(outbox, (link, self.label), number, failure);
                Disposition::Taken
            }
        }
    }

    /// Takes a call that has begun at another memory server.
    fn take_rest(&mut self, link: LinkId, bytes: &[u8], now: Time, outbox: &mut Outbox) -> Disposition {
        let Ok((rest, arguments)) = Continue::decode(bytes) else {
            self.counts.meaningless += 1;
            return Disposition::Taken;
        };
        let submitted = match self.client(link) {
            Some(client) => self.executor.submit_rest(now, client, &rest, arguments),
            None => Submitted::Failed(CallFailure::NoFunction),
        };
        self.answer_at_once(link, rest.call.call, submitted, outbox)
    }

    /// Answers a call that is not taken.
    fn answer_at_once(
        &mut self,
        link: LinkId,
        call: u64,
        submitted: Submitted,
        outbox: &mut Outbox,
    ) -> Disposition {
        match submitted {
            Submitted::Taken => Disposition::Taken,
            Submitted::Full => Disposition::Deferred,
            Submitted::Failed(failure) => {
                self.counts.failed += 1;
                fail(outbox, (link, self.label), call, failure);
                Disposition::Taken
            }
        }
    }

    /// Gives calls back that are to go on elsewhere.
    fn recall(&mut self, link: LinkId, bytes: &[u8], outbox: &mut Outbox) {
        let (Ok(Recall { calls }), Some(client)) = (Recall::decode(bytes), self.client(link)) else {
            self.counts.meaningless += 1;
            return;
        };
        let Self { executor, answer, label, .. } = self;
        executor.recall(client, &calls, |recalled| match recalled {
            Recalled::Waiting(call) => fail(outbox, (link, *label), call, CallFailure::Recalled),
            Recalled::Suspended(moving) => {
                answer.clear();
                moving.encode(answer);
                outbox.push_copy(link, FrameHead::new(RETURNED).with_tag(moving.call as u32), answer);
            }
        });
    }

    /// Takes a call that has begun elsewhere.
    fn take_moving(&mut self, link: LinkId, bytes: &[u8], now: Time, outbox: &mut Outbox) -> Disposition {
        let Ok(moving) = Moving::decode(bytes) else {
            self.counts.meaningless += 1;
            return Disposition::Taken;
        };
        let submitted = match self.client(link) {
            Some(client) => self.executor.admit(now, client, &moving),
            None => Submitted::Failed(CallFailure::NotResumed),
        };
        self.answer_at_once(link, moving.call, submitted, outbox)
    }

    /// Runs calls for a while. Returns whether there were any.
    pub fn run(&mut self, now: Time, site: &mut impl SiteHost<Region = R>, outbox: &mut Outbox) -> bool {
        self.go_on_with_paused(outbox);
        let is_idle = self.executor.is_idle();
        self.metering.turn(now, self.executor.calls(), !is_idle);
        if is_idle {
            return false;
        }
        let Self { executor, clients, counts, label, paused, answer, .. } = self;
        let before = counts.replied + counts.failed;
        let fuel = executor.run(now, site, FUEL_PER_TURN, |ExecutionOutcome { client, call, result }| {
            let link = clients[client.index()];
            match result {
                Ok((value, reply)) => {
                    counts.replied += 1;
                    let head = FrameHead::new(REPLY).with_tag(call as u32).with_flow(*label);
                    outbox.push_parts(link, head, [&ReplyHead { call, value }.encode(), reply]);
                    if reply.len() > LONG_REPLY {
                        pause_if_full(outbox, (link, client), paused);
                    }
                }
                Err(NoReply::Failed(failure)) => {
                    counts.failed += 1;
                    fail(outbox, (link, *label), call, failure);
                }
                Err(NoReply::Forwarded(forwarded)) => {
                    counts.replied += 1;
                    answer.clear();
                    forwarded.encode(answer);
                    let head = FrameHead::new(FORWARDED).with_tag(call as u32).with_flow(*label);
                    outbox.push_copy(link, head, answer);
                    pause_if_full(outbox, (link, client), paused);
                }
            }
        });
        counts.fuel += fuel;
        self.paused.iter().for_each(|(_, client)| self.executor.pause(*client, true));
        self.metering.ended(counts.replied + counts.failed - before);
        true
    }

    /// Gives those turns again who have taken their answers.
    #[inline]
    fn go_on_with_paused(&mut self, outbox: &Outbox) {
        let executor = &mut self.executor;
        self.paused.retain(|(link, client)| {
            let is_paused = !outbox.has_room(*link);
            if !is_paused {
                executor.pause(*client, false);
            }
            is_paused
        });
    }

    /// The regions cannot be reached any more: every call ends.
    pub fn abandon(&mut self, outbox: &mut Outbox) {
        let Self { executor, clients, counts, label, .. } = self;
        executor.abandon(|ExecutionOutcome { client, call, result }| {
            if let Err(NoReply::Failed(failure)) = result {
                counts.failed += 1;
                fail(outbox, (clients[client.index()], *label), call, failure);
            }
        });
    }

    /// An access of a suspended call has ended; it goes on in the next [`run`](Self::run).
    pub fn complete(&mut self, ticket: Ticket, answered: Answered<'_>) {
        self.executor.complete(ticket, answered);
    }

    /// A link is gone. Its caller may come by another.
    pub fn on_lost(&mut self, link: LinkId) {
        self.latest = self.latest.filter(|(latest, _)| *latest != link);
        self.paused.retain(|(paused, _)| *paused != link);
        if let Some(caller) = self.links.remove(&link) {
            self.executor.close(caller.client);
            self.shared.link_lost(caller.caller);
        }
    }

    /// The load that the controller reads from this worker.
    pub fn meter(&self) -> &Arc<SiteMeter> {
        self.metering.meter()
    }

    /// From now on answers say that this table of slots is known here.
    pub fn set_label(&mut self, label: Flow) {
        self.label = label;
    }

    /// A frame has come that means nothing here.
    pub(crate) fn note_meaningless(&mut self) {
        self.counts.meaningless += 1;
    }

    /// What has happened since this was last asked.
    pub fn take_counts(&mut self) -> DeskCounts {
        std::mem::take(&mut self.counts)
    }
}
