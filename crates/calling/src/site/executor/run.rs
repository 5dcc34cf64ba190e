//! Runs of functions: those that are under way, and rooms for the next ones.

use std::collections::VecDeque;
use std::sync::Arc;

use outboard_ebpf::{
    Continuation, Engine as _, Exit, HelperAnswer, Instance, MemoryFault, ProgramLimits, Trap, Why,
};
use outboard_wire::calling::{CallFailure, Moving, TrapReason};

use super::forward::Forward;
use super::host::{Overlap, RunHost};
use super::session::{Binding, Bound};
use super::site::{AccessProgress, Answered, SiteHost, SiteOperation, Ticket};
use super::{ExecutorClient, ExecutorConfig};
use crate::helpers::{COMPARE_SWAP, FETCH, FETCH_ADD, READ, WRITE};

/// How a run ended.
pub(super) type Ended = Result<u64, CallFailure>;

/// The longest reply whose buffer is kept for the next run, in bytes.
const REPLY_KEPT: usize = 16 << 10;
/// How many rooms for runs are kept.
const ROOMS_KEPT: usize = 64;

/// One run, made once and used for many.
pub(super) struct Run<R> {
    instance: Instance,
    reply: Vec<u8>,
    /// What its accesses have cost.
    cost: u64,
    /// The client that called; `None` if it has gone.
    pub(super) client: Option<ExecutorClient>,
    pub(super) call: u64,
    pub(super) handle: u32,
    /// What is run, while it is suspended; afterwards what was, which is run next most of the time.
    binding: Option<Arc<Binding<R>>>,
    /// As which function it goes on when this one returns.
    pub(super) forward: Forward,
    /// Whether it is suspended because what it reads comes nearer meanwhile.
    pub(super) is_near: bool,
    /// How it ended, if it has. It is told from here: it would be put together in memory anyway, and to copy it at once
    /// would be to wait for its parts.
    pub(super) ended: Option<Ended>,
}

impl<R> Run<R> {
    /// Runs a call from its beginning, with so much fuel at most. Returns what it has cost.
    #[inline(always)]
    pub(super) fn start<S: SiteHost<Region = R>>(
        &mut self,
        (arguments, fuel_max): (&[u8], u64),
        bound: &Bound<R>,
        site: &mut S,
        overlap: Overlap,
    ) -> u64 {
        let binding = &bound.binding;
        let fuel = binding.fuel.min(fuel_max);
        self.reply.clear();
        // What it had before it came here is spent.
        self.cost = binding.fuel - fuel;
        if let Err(error) = self.instance.set_context(arguments) {
            self.ended = Some(Err(CallFailure::ArgumentsTooLong { max: error.limit as u32 }));
            return 0;
        }
        self.forward.to = None;
        self.begin(binding, fuel, site, overlap)
    }

    /// Ends without running any further, which costs nothing.
    #[cold]
    pub(super) fn end(&mut self, ended: Ended) -> u64 {
        self.ended = Some(ended);
        0
    }

    /// Runs a function from its beginning, on the arguments that are there.
    #[inline(always)]
    fn begin<S: SiteHost<Region = R>>(
        &mut self,
        binding: &Arc<Binding<R>>,
        fuel: u64,
        site: &mut S,
        overlap: Overlap,
    ) -> u64 {
        let (function, before) = (&binding.function, self.cost);
        let (reply, cost, forward) = (&mut self.reply, &mut self.cost, &mut self.forward);
        let mut host = RunHost { site, binding, reply, cost, forward, overlap };
        let exit = function.code.start(&mut self.instance, function.entry, &mut host, fuel);
        self.is_near = host.overlap == Overlap::Begun;
        let cost = fuel - self.instance.fuel() + self.cost - before;
        if exit == Exit::Suspended && !self.binding.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, binding)) {
            self.binding = Some(Arc::clone(binding));
        }
        self.ended = ended(exit);
        cost
    }

    /// Whether it is to go on as another function when this one has returned.
    #[inline]
    pub(super) fn is_forwarded(&self) -> bool {
        self.forward.to.is_some()
    }

    /// How much fuel is left of what its function has: for its code, and for its accesses.
    pub(super) fn fuel_left(&self, bound: Option<&Bound<R>>) -> u64 {
        let of_accesses = bound.map_or(u64::MAX, |bound| bound.binding.fuel.saturating_sub(self.cost));
        self.instance.fuel().min(of_accesses)
    }

    /// Goes on as another function, with what is left of the fuel, unless its arguments are too long.
    pub(super) fn go_on_as<S: SiteHost<Region = R>>(
        &mut self,
        handle: u32,
        bound: &Bound<R>,
        site: &mut S,
        overlap: Overlap,
    ) -> Option<u64> {
        self.instance.set_context(&self.forward.arguments).ok()?;
        self.handle = handle;
        let fuel = self.instance.fuel().min(bound.binding.fuel);
        Some(self.begin(&bound.binding, fuel, site, overlap))
    }

    /// Goes on with the read that it waited for at another site, which is begun again here.
    pub(super) fn read_again<S: SiteHost<Region = R>>(&mut self, site: &mut S, overlap: Overlap) -> u64 {
        let (Some(binding), Some(pending)) = (&self.binding, self.instance.pending()) else {
            return self.end(Err(CallFailure::NotResumed));
        };
        let (id, arguments) = (pending.helper.id, pending.arguments);
        let Some(mut memory) = self.instance.pending_memory() else {
            return self.end(Err(CallFailure::NotResumed));
        };
        let (reply, cost, forward) = (&mut self.reply, &mut self.cost, &mut self.forward);
        let mut host = RunHost { site, binding, reply, cost, forward, overlap: Overlap::Never };
        self.is_near = false;
        match host.read_again(id, &arguments, &mut memory) {
            HelperAnswer::Value(value) => self.resume(Ok(value), site, overlap),
            HelperAnswer::Pending => {
                self.ended = None;
                0
            }
            HelperAnswer::Trap(code) => self.resume(Err(reason_of(code)), site, overlap),
        }
    }

    /// Becomes a run that comes from another site, of the client that has registered `binding`.
    fn restore(&mut self, moving: &Moving<'_>, binding: &Arc<Binding<R>>) -> Option<()> {
        let continuation = Continuation::parse(moving.state).ok()?;
        let reads = matches!(continuation.helper(), READ | FETCH);
        let is_within = moving.reply.len() <= binding.reply_max as usize && moving.spent <= binding.fuel;
        if !reads || !is_within {
            return None;
        }
        self.instance.restore(binding.function.code.program(), &continuation, binding.fuel).ok()?;
        self.reply.clear();
        self.reply.extend_from_slice(moving.reply);
        self.cost = moving.spent;
        self.forward.to = None;
        self.binding = Some(Arc::clone(binding));
        Some(())
    }

    /// Goes on with the answer that it waited for.
    #[inline(always)]
    pub(super) fn resume<S: SiteHost<Region = R>>(
        &mut self,
        answer: Result<u64, TrapReason>,
        site: &mut S,
        overlap: Overlap,
    ) -> u64 {
        let value = match answer {
            Ok(value) => value,
            Err(reason) => return self.end(Err(self.trapped(reason))),
        };
        let Some(binding) = self.binding.take() else {
            return self.end(Err(self.trapped(TrapReason::Site)));
        };
        let before = (self.instance.fuel(), self.cost);
        let (reply, cost, forward) = (&mut self.reply, &mut self.cost, &mut self.forward);
        let mut host = RunHost { site, binding: &binding, reply, cost, forward, overlap };
        let exit = binding.function.code.resume(&mut self.instance, &mut host, value);
        self.is_near = host.overlap == Overlap::Begun;
        let cost = before.0 - self.instance.fuel() + self.cost - before.1;
        self.binding = Some(binding);
        self.ended = ended(exit);
        cost
    }

    /// How it ends if what it waits for ends so.
    pub(super) fn trapped(&self, reason: TrapReason) -> CallFailure {
        CallFailure::Trapped { index: self.instance.pending_index().unwrap_or(0), reason, address: 0 }
    }

    /// Reads what has come nearer. Nothing, if it takes longer after all.
    #[inline(always)]
    pub(super) fn read_near<S: SiteHost<Region = R>>(
        &mut self,
        site: &mut S,
    ) -> Option<Result<u64, TrapReason>> {
        let binding = self.binding.as_ref();
        let pending = self.instance.pending_arguments();
        let (Some(binding), Some([region, offset, length, ..])) = (binding, pending) else {
            return Some(Err(TrapReason::Site));
        };
        let Some((region, _)) = binding.regions.get(region as usize) else {
            return Some(Err(TrapReason::NoRegion));
        };
        let Some(mut memory) = self.instance.pending_memory() else { return Some(Err(TrapReason::Site)) };
        let Ok((address, into)) = memory.grant_to_fill(usize::try_from(length).unwrap_or(usize::MAX)) else {
            return Some(Err(TrapReason::Memory));
        };
        let access = site.read(region, offset, into);
        if let AccessProgress::Done(_) = access {
            return Some(Ok(address));
        }
        into.fill(0);
        match access {
            AccessProgress::Refused(reason) => Some(Err(reason)),
            AccessProgress::Done(_) | AccessProgress::Pending => None,
        }
    }

    /// Keeps nothing alive any more of what it ran.
    pub(super) fn forget_binding(&mut self) {
        self.binding = None;
    }

    /// What the function replied.
    pub(super) fn reply(&self) -> &[u8] {
        &self.reply
    }

    /// What it waits for, and where.
    fn operation(&self) -> Option<(&R, SiteOperation<'_>)> {
        let pending = self.instance.pending()?;
        let (id, [region, offset, third, fourth, _]) = (pending.helper.id, pending.arguments);
        let (region, _) = self.binding.as_ref()?.regions.get(usize::try_from(region).ok()?)?;
        let operation = match id {
            READ => SiteOperation::Read { offset, length: usize::try_from(fourth).ok()? },
            FETCH => SiteOperation::Read { offset, length: usize::try_from(third).ok()? },
            WRITE => {
                let length = usize::try_from(fourth).ok()?;
                // What the helper could read when it was called is still there.
                let bytes = self.instance.pending_bytes(third, length)?;
                SiteOperation::Write { offset, bytes }
            }
            COMPARE_SWAP => SiteOperation::CompareSwap { offset, expected: third, desired: fourth },
            FETCH_ADD => SiteOperation::FetchAdd { offset, addend: third },
            _ => return None,
        };
        Some((region, operation))
    }

    /// Leaves an answer where the function expects it.
    fn answer(&mut self, answered: Answered<'_>) -> Result<u64, TrapReason> {
        let bytes = match answered {
            Answered::Done(value) => return Ok(value),
            Answered::Refused(reason) => return Err(reason),
            Answered::Read(bytes) => bytes,
        };
        let pending = self.instance.pending().ok_or(TrapReason::Site)?;
        let (id, [_, _, third, fourth, _]) = (pending.helper.id, pending.arguments);
        let mut memory = self.instance.pending_memory().ok_or(TrapReason::Site)?;
        match id {
            READ if fourth == bytes.len() as u64 => {
                memory.write(third, bytes).map_err(|_| TrapReason::Memory)?;
                Ok(0)
            }
            FETCH if third == bytes.len() as u64 => {
                let (address, into) = memory.grant_to_fill(bytes.len()).map_err(|_| TrapReason::Memory)?;
                into.copy_from_slice(bytes);
                Ok(address)
            }
            _ => Err(TrapReason::Site),
        }
    }
}

#[inline(always)]
fn ended(exit: Exit) -> Option<Ended> {
    match exit {
        Exit::Returned(value) => Some(Ok(value)),
        Exit::Suspended => None,
        Exit::Trapped(Trap { index, why }) => {
            let (reason, address) = match why {
                Why::OutOfFuel => (TrapReason::OutOfFuel, 0),
                Why::Memory(MemoryFault::Outside { address, .. } | MemoryFault::ReadOnly { address, .. }) => {
                    (TrapReason::Memory, address)
                }
                Why::TooDeep => (TrapReason::TooDeep, 0),
                Why::Helper { code } => (reason_of(code), 0),
                Why::Undeclared => (TrapReason::Site, 0),
            };
            Some(Err(CallFailure::Trapped { index, reason, address }))
        }
    }
}

fn reason_of(code: u32) -> TrapReason {
    TrapReason::ALL.into_iter().find(|reason| *reason as u32 == code).unwrap_or(TrapReason::Site)
}

/// A place for a suspended run; its turn tells those who had it apart.
struct Place<R> {
    turn: u32,
    run: Option<Box<Run<R>>>,
}

/// Where a run is; it is large, and moves between lists.
type Room<R> = Box<Run<R>>;
/// A run, and what it waited for.
type Resumable<R> = (Room<R>, Result<u64, TrapReason>);

/// All runs of an executor.
pub(super) struct Runs<R> {
    limits: ProgramLimits,
    free: Vec<Room<R>>,
    places: Vec<Place<R>>,
    vacant: Vec<u32>,
    answered: VecDeque<Resumable<R>>,
    /// Those that read what comes nearer, in the order in which they began to.
    pub(super) near: VecDeque<Room<R>>,
}

impl<R> Runs<R> {
    pub(super) fn new(config: ExecutorConfig) -> Self {
        let limits = ProgramLimits { context: config.arguments_max, grant: config.fetch_max };
        Self {
            limits,
            free: Vec::new(),
            places: Vec::new(),
            vacant: Vec::new(),
            answered: VecDeque::new(),
            near: VecDeque::new(),
        }
    }

    /// A room for a run.
    pub(super) fn take(&mut self, client: ExecutorClient, call: u64, handle: u32) -> Box<Run<R>> {
        let mut run = self.free.pop().unwrap_or_else(|| {
            let instance = Instance::new(self.limits);
            Box::new(Run {
                instance,
                reply: Vec::new(),
                cost: 0,
                client: None,
                call,
                handle,
                binding: None,
                forward: Forward::default(),
                is_near: false,
                ended: None,
            })
        });
        (run.client, run.call, run.handle) = (Some(client), call, handle);
        run
    }

    pub(super) fn give_back(&mut self, mut run: Box<Run<R>>) {
        if self.free.len() < ROOMS_KEPT {
            if run.reply.capacity() > REPLY_KEPT {
                run.reply = Vec::new();
            }
            self.free.push(run);
        }
    }

    /// Something has lost its meaning: rooms keep nothing alive.
    pub(super) fn forget_bindings(&mut self) {
        self.free.iter_mut().for_each(|run| run.binding = None);
    }

    /// A run that comes from another site.
    pub(super) fn restore(
        &mut self,
        client: ExecutorClient,
        moving: &Moving<'_>,
        binding: &Arc<Binding<R>>,
    ) -> Option<Room<R>> {
        let mut run = self.take(client, moving.call, moving.handle);
        match run.restore(moving, binding) {
            Some(()) => Some(run),
            None => {
                self.give_back(run);
                None
            }
        }
    }

    /// Takes out runs that wait for reads and are to go on elsewhere. `give` says whether it has taken one.
    pub(super) fn take_back(
        &mut self,
        client: ExecutorClient,
        is_wanted: impl Fn(u64) -> bool,
        mut give: impl FnMut(&Moving<'_>) -> bool,
    ) -> usize {
        let (mut count, mut state) = (0, Vec::new());
        for (number, place) in self.places.iter_mut().enumerate() {
            let is_it = |run: &mut Room<R>| {
                // What it goes on as does not travel.
                if run.client != Some(client) || !is_wanted(run.call) || run.forward.to.is_some() {
                    return false;
                }
                state.clear();
                let reads = run.instance.pending().is_some_and(|it| matches!(it.helper.id, READ | FETCH));
                let Run { call, handle, cost: spent, .. } = **run;
                let is_saved = reads && run.instance.save(&mut state);
                let (reply, state) = (&run.reply, &state);
                is_saved && give(&Moving { call, handle, patience_us: 0, spent, reply, state })
            };
            if let Some(mut run) = place.run.take_if(is_it) {
                self.vacant.push(number as u32);
                count += 1;
                run.forget_binding();
                if self.free.len() < ROOMS_KEPT {
                    self.free.push(run);
                }
            }
        }
        count
    }

    pub(super) fn suspend(&mut self, run: Box<Run<R>>) -> Ticket {
        let place = self.vacant.pop().unwrap_or_else(|| {
            self.places.push(Place { turn: 0, run: None });
            self.places.len() as u32 - 1
        });
        let at = &mut self.places[place as usize];
        at.turn = at.turn.wrapping_add(1);
        at.run = Some(run);
        Ticket { place, turn: at.turn }
    }

    pub(super) fn operation(&self, ticket: Ticket) -> Option<(&R, SiteOperation<'_>)> {
        self.places.get(ticket.place as usize)?.run.as_ref()?.operation()
    }

    pub(super) fn answer(&mut self, ticket: Ticket, answered: Answered<'_>) {
        let place = self.places.get_mut(ticket.place as usize).filter(|place| place.turn == ticket.turn);
        let Some(mut run) = place.and_then(|place| place.run.take()) else { return };
        self.vacant.push(ticket.place);
        let answer = run.answer(answered);
        self.answered.push_back((run, answer));
    }

    /// A client has gone, and waits for its calls no more. What its runs have begun ends by itself.
    pub(super) fn orphan(&mut self, client: ExecutorClient) {
        let suspended = self.places.iter_mut().filter_map(|place| place.run.as_mut());
        let answered = self.answered.iter_mut().map(|(run, _)| run);
        for run in suspended.chain(answered).filter(|run| run.client == Some(client)) {
            run.client = None;
        }
    }

    /// All runs that are suspended, or whose accesses have ended.
    pub(super) fn take_all(&mut self) -> Vec<Room<R>> {
        let mut all: Vec<Room<R>> = self.answered.drain(..).map(|(run, _)| run).collect();
        for (number, place) in self.places.iter_mut().enumerate() {
            if let Some(run) = place.run.take() {
                self.vacant.push(number as u32);
                all.push(run);
            }
        }
        all
    }

    pub(super) fn has_answered(&self) -> bool {
        !self.answered.is_empty()
    }

    pub(super) fn answered(&self) -> usize {
        self.answered.len()
    }

    pub(super) fn next_answered(&mut self) -> Option<Resumable<R>> {
        self.answered.pop_front()
    }

    /// Another client goes on next, if there is one.
    pub(super) fn let_another_go_on(&mut self, client: Option<ExecutorClient>) {
        let another = self.answered.iter().position(|(run, _)| run.client != client);
        if let Some(run) = another.and_then(|at| self.answered.remove(at)) {
            self.answered.push_front(run);
        }
    }
}
