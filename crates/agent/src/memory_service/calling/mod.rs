//! Calls of functions, run by the workers that their links belong to.

mod shared;
mod site;

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use outboard_calling::{Binding, Client, Executor, ExecutorConfig, Found, FunctionImage, Outcome, Submitted};
use outboard_driver::{LinkId, Outbox};
use outboard_link::memory::Window;
use outboard_link::{Disposition, Frame};
use outboard_wire::calling::{
    CALL, CODE, Call, CallerId, CodePart, FAILED, Failed, Failure, FunctionName, OPEN, Open, REGISTER,
    REGISTERED, REPLY, Register, RegisterRefusal, Registered, Reply, Verdict,
};
use outboard_wire::{FrameHead, Rights, Time};

use super::{MemoryService, SharedStore};
use crate::store::Gate;
pub(crate) use shared::SharedCalling;
use site::ServerSite;

/// How much fuel is spent on calls before links have their turn again: some tens of microseconds.
const FUEL_PER_TURN: u64 = 50_000;

/// Why a function is not registered.
type No = (RegisterRefusal, String);

/// What one worker does about calls.
pub(super) struct Calling {
    executor: Executor<ServerSite>,
    site: ServerSite,
    links: HashMap<LinkId, Calls>,
    /// The link of every client, by its number.
    clients: Vec<LinkId>,
    answer: Vec<u8>,
}

/// What one link brings.
struct Calls {
    client: Client,
    caller: CallerId,
    /// A function's code, as far as it has come.
    arriving: Option<(FunctionName, Vec<u8>)>,
    /// The latest function whose code was not taken.
    refused: Option<(FunctionName, No)>,
}

impl Calling {
    pub(super) fn new() -> Self {
        Self {
            executor: Executor::new(ExecutorConfig::default()),
            site: ServerSite::new(),
            links: HashMap::new(),
            clients: Vec::new(),
            answer: Vec::new(),
        }
    }
}

fn fail(outbox: &mut Outbox, link: LinkId, call: u64, failure: Failure) {
    let head = FrameHead::new(FAILED).with_tag(call as u32);
    outbox.push_copy(link, head, &Failed { call, failure }.encode());
}

impl MemoryService {
    /// Does what a frame about calls asks.
    pub(super) fn on_calling(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        let payload = frame.payload;
        match frame.head.kind {
            CALL => return self.take_call(link, payload, now),
            REGISTER => self.register(link, &payload.to_vec()),
            CODE => self.take_code(link, &payload.to_vec()),
            OPEN => self.open_calls(link, &payload.to_vec()),
            // Answers to questions that a server does not ask.
            _ => self.counts.questions_refused_total.add(1),
        }
        Disposition::Taken
    }

    fn open_calls(&mut self, link: LinkId, bytes: &[u8]) {
        let Ok(Open { caller }) = Open::decode(bytes) else { return };
        self.calls_lost(link);
        let Some(window) = self.store.calling.window(caller) else { return };
        let calling = &mut self.calling;
        let client = calling.executor.open(window);
        if client.index() >= calling.clients.len() {
            calling.clients.resize(client.index() + 1, link);
        }
        calling.clients[client.index()] = link;
        calling.links.insert(link, Calls { client, caller, arriving: None, refused: None });
    }

    fn take_call(&mut self, link: LinkId, payload: Window<'_>, now: Time) -> Disposition {
        let Some(length) = payload.len().checked_sub(Call::LEN) else {
            self.counts.questions_refused_total.add(1);
            return Disposition::Taken;
        };
        let head = payload.array::<{ Call::LEN }>(0);
        let number = u64::from_le_bytes(payload.array(0));
        let submitted = match (Call::decode(head), self.calling.links.get(&link)) {
            (Ok(call), Some(calls)) => {
                let fill = |buffer: &mut [u8]| payload.part(Call::LEN, length).read(0, buffer);
                self.calling.executor.submit(now, calls.client, &call, (length, fill))
            }
            _ => Submitted::Failed(Failure::NoFunction),
        };
        match submitted {
            Submitted::Taken => Disposition::Taken,
            Submitted::Full => Disposition::Deferred,
            Submitted::Failed(failure) => {
                self.store.calling.counts.calls_failed_total.add(1);
                fail(&mut self.outbox, link, number, failure);
                Disposition::Taken
            }
        }
    }

    fn take_code(&mut self, link: LinkId, bytes: &[u8]) {
        let Some(calls) = self.calling.links.get_mut(&link) else { return };
        let Ok((part, code)) = CodePart::decode(bytes) else { return };
        let max = self.store.calling.functions().image_bytes_max();
        if part.total as usize > max {
            let detail = format!("the function has {} bytes and this site takes {max}", part.total);
            calls.refused = Some((part.name, (RegisterRefusal::TooMuch, detail)));
            return;
        }
        if part.offset == 0 {
            calls.arriving = Some((part.name, Vec::with_capacity(part.total as usize)));
        }
        let Some((name, arrived)) = &mut calls.arriving else { return };
        if *name != part.name || arrived.len() != part.offset as usize {
            // Registering will show that the code is still needed.
            calls.arriving = None;
            return;
        }
        arrived.extend_from_slice(code);
        if arrived.len() < part.total as usize {
            return;
        }
        let image = FunctionImage::from_bytes(std::mem::take(arrived));
        calls.arriving = None;
        calls.refused = offer(&self.store, part.name, image).err().map(|no| (part.name, no));
    }

    fn register(&mut self, link: LinkId, bytes: &[u8]) {
        let (handle, judged) = match Register::decode(bytes) {
            Ok(register) => (register.handle, self.judge(link, &register)),
            Err(error) => (0, Err((RegisterRefusal::Malformed, error.to_string()))),
        };
        let (verdict, detail) = match judged {
            Ok(verdict) => (verdict, String::new()),
            Err((refusal, detail)) => {
                self.store.calling.counts.registrations_refused_total.add(1);
                (Verdict::Refused(refusal), detail)
            }
        };
        let answer = &mut self.calling.answer;
        answer.clear();
        Registered { handle, verdict, detail }.encode(answer);
        self.outbox.push_copy(link, FrameHead::new(REGISTERED).with_tag(handle), answer);
    }

    fn judge(&mut self, link: LinkId, register: &Register) -> Result<Verdict, No> {
        let config = *self.calling.executor.config();
        if register.fuel > config.fuel_max || register.reply_max > config.reply_max {
            let (fuel, reply) = (config.fuel_max, config.reply_max);
            let detail = format!("this site gives at most {fuel} of fuel and {reply} bytes of reply");
            return Err((RegisterRefusal::OverQuota, detail));
        }
        let regions = self.regions_of(register)?;
        let Some(calls) = self.calling.links.get_mut(&link) else {
            let detail = "nobody has opened this link for calls, or there are too many callers";
            return Err((RegisterRefusal::Malformed, detail.to_owned()));
        };
        let found = self.store.calling.functions().find(register.name);
        let function = match found {
            Found::Ready(function) => function,
            Found::Preparing => return Ok(Verdict::Preparing),
            Found::Bad(refusal, detail) => return Err((refusal, detail)),
            Found::Nothing => {
                return match calls.refused.take_if(|(name, _)| *name == register.name) {
                    Some((_, no)) => Err(no),
                    None => Ok(Verdict::NeedsCode),
                };
            }
        };
        let (fuel, reply_max) = (register.fuel, register.reply_max);
        let binding = Binding { function, regions, fuel, reply_max };
        for call in self.calling.executor.bind(calls.client, register.handle, binding) {
            fail(&mut self.outbox, link, call, Failure::NoFunction);
        }
        Ok(Verdict::Ready)
    }

    /// The regions that a function may use, if its caller has the keys to them.
    fn regions_of(&mut self, register: &Register) -> Result<Vec<(Weak<Gate>, Rights)>, No> {
        let mut regions = Vec::with_capacity(register.regions.len());
        for allowed in &register.regions {
            let region = allowed.region;
            let gate = self.gates.find(region, &self.store);
            let held = gate.as_ref().and_then(|gate| gate.rights(allowed.generation, &allowed.key));
            let (Some(gate), Some(held)) = (gate, held) else {
                return Err((RegisterRefusal::NoRegion, format!("no {region} with this generation and key")));
            };
            let wanted = allowed.rights.and(Rights::CALL);
            if !held.includes(wanted) {
                let detail = format!("the key to {region} allows {held}, and {wanted} is needed");
                return Err((RegisterRefusal::NoRight, detail));
            }
            regions.push((Arc::downgrade(&gate), allowed.rights));
        }
        Ok(regions)
    }

    /// Runs calls for a while. Returns whether there were any.
    pub(super) fn run_calls(&mut self, now: Time) -> bool {
        if self.calling.executor.is_idle() {
            return false;
        }
        let Calling { executor, site, clients, answer, .. } = &mut self.calling;
        let outbox = &mut self.outbox;
        let (mut done, mut failed) = (0, 0);
        let fuel = executor.run(now, site, FUEL_PER_TURN, |Outcome { client, call, result }| {
            let link = clients[client.index()];
            match result {
                Ok((value, reply)) => {
                    done += 1;
                    answer.clear();
                    answer.extend_from_slice(&Reply { call, value }.encode());
                    answer.extend_from_slice(reply);
                    outbox.push_copy(link, FrameHead::new(REPLY).with_tag(call as u32), answer);
                }
                Err(failure) => {
                    failed += 1;
                    fail(outbox, link, call, failure);
                }
            }
        });
        let counts = &self.store.calling.counts;
        counts.calls_total.add(done);
        counts.calls_failed_total.add(failed);
        counts.call_fuel_total.add(fuel);
        true
    }

    /// A link is gone. Its caller may come by another.
    pub(super) fn calls_lost(&mut self, link: LinkId) {
        if let Some(calls) = self.calling.links.remove(&link) {
            self.calling.executor.close(calls.client);
            self.store.calling.link_lost(calls.caller);
        }
    }
}

/// Takes a function's code, which is looked at in a thread of its own.
fn offer(store: &Arc<SharedStore>, name: FunctionName, image: FunctionImage) -> Result<(), No> {
    if image.name() != name {
        let detail = format!("the code that came is that of {}, not of {name}", image.name());
        return Err((RegisterRefusal::WrongName, detail));
    }
    if !store.calling.functions().offer(image)? {
        return Ok(());
    }
    let shared = Arc::clone(store);
    let prepare = move || shared.calling.prepare();
    let spawned = std::thread::Builder::new().name("outboard-functions".to_owned()).spawn(prepare);
    if let Err(error) = spawned {
        let detail = format!("the operating system gave no thread to look at functions: {error}");
        store.calling.functions().nobody_prepares(&detail);
    }
    Ok(())
}
