//! What one client has registered, and which of its calls wait.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use outboard_ebpf::approach;
use outboard_wire::calling::HANDLES_MAX;
use outboard_wire::{Rights, Time};

use crate::image::Forwards;
use crate::table::Function;
use crate::turns::Turns;
use crate::window::CallWindow;

use super::run::Run;

/// How many turns ahead what is brought nearer: what a number means, its function, the function's code.
const BINDING_AHEAD: usize = 6;
const FUNCTION_AHEAD: usize = 4;
const CODE_AHEAD: usize = 2;

/// What a number of a client means.
#[derive(Debug)]
pub struct Binding<R> {
    /// The function.
    pub function: Arc<Function>,
    /// The regions it may use, each with what it may do there.
    pub regions: Vec<(R, Rights)>,
    /// Fuel for each call.
    pub fuel: u64,
    /// The longest reply, in bytes.
    pub reply_max: u32,
}

impl<R> Binding<R> {
    /// Whether it cannot change anything.
    pub(super) fn only_reads(&self) -> bool {
        self.regions.iter().all(|(_, rights)| !rights.includes(Rights::WRITE))
    }
}

/// A call that waits for its turn.
pub(super) struct Waiting<R> {
    pub(super) call: u64,
    /// After this it does not run any more.
    pub(super) until: Option<Time>,
    /// How much fuel it has at most.
    pub(super) fuel: u64,
    pub(super) arguments: Vec<u8>,
    /// The run, if it has begun at another site.
    pub(super) run: Option<Box<Run<R>>>,
}

/// A binding with the calls of it that wait.
pub(super) struct Bound<R> {
    /// Shared with the calls of it that are suspended, which outlast a new meaning of the number.
    pub(super) binding: Arc<Binding<R>>,
    /// It changes nothing, also not as another function: nobody minds if a call of it runs twice.
    pub(super) is_harmless: bool,
    waiting: VecDeque<Waiting<R>>,
    debt: i64,
    /// What calls have cost that were resumed since its last turn.
    owed: u64,
}

impl<R> Bound<R> {
    pub(super) fn new(binding: Binding<R>) -> Self {
        let is_harmless = binding.only_reads() && !binding.function.forwards.any();
        Self { binding: Arc::new(binding), is_harmless, waiting: VecDeque::new(), debt: 0, owed: 0 }
    }
}

impl<R> Bound<R> {
    /// How many calls wait for their turn.
    #[inline]
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

/// One client.
pub(super) struct Session<R> {
    window: Arc<Mutex<CallWindow>>,
    bound: Vec<Option<Bound<R>>>,
    turns: Turns<u32>,
    /// Calls that wait or are suspended.
    pub(super) calls: usize,
    /// Bytes of arguments of those that wait.
    pub(super) bytes: usize,
    /// None of its calls has a turn: nobody takes their answers.
    pub(super) is_paused: bool,
    /// What it had spent too much when none of its calls waited any more.
    pub(super) debt: i64,
    /// What its calls have cost that were resumed since its last turn.
    pub(super) owed: u64,
}

impl<R> Session<R> {
    pub(super) fn new(window: Arc<Mutex<CallWindow>>, quantum: u32) -> Self {
        let turns = Turns::new(quantum.into());
        Self { window, bound: Vec::new(), turns, calls: 0, bytes: 0, is_paused: false, debt: 0, owed: 0 }
    }

    pub(super) fn bound(&self, handle: u32) -> Option<&Bound<R>> {
        self.bound.get(handle as usize)?.as_ref()
    }

    /// Where a function says as which one it goes on.
    #[cold]
    pub(super) fn forwards(&self, handle: u32) -> Option<Forwards> {
        self.bound(handle).map(|bound| bound.binding.function.forwards)
    }

    /// Gives a number a meaning, and returns the calls that waited for its former one.
    pub(super) fn bind(&mut self, handle: u32, mut bound: Bound<R>) -> Vec<u64> {
        if handle >= HANDLES_MAX {
            return Vec::new();
        }
        let place = handle as usize;
        if place >= self.bound.len() {
            self.bound.resize_with(place + 1, || None);
        }
        let former = self.bound[place].take();
        let debt = self.turns.leave(|other| *other == handle);
        let dropped: Vec<u64> = former
            .as_ref()
            .map_or_else(Vec::new, |former| former.waiting.iter().map(|waiting| waiting.call).collect());
        let bytes = |former: &Bound<R>| former.waiting.iter().map(|waiting| waiting.arguments.len()).sum();
        self.bytes -= former.as_ref().map_or(0, bytes);
        bound.debt = debt.min(former.map_or(0, |former| former.debt));
        self.calls -= dropped.len();
        self.bound[place] = Some(bound);
        dropped
    }

    /// Whether a call of this number may begin: once, if it can change anything.
    #[inline]
    pub(super) fn may_begin(&self, call: u64, bound: &Bound<R>) -> bool {
        bound.is_harmless || self.window.lock().unwrap_or_else(PoisonError::into_inner).begin(call)
    }

    /// Adds a call. Returns whether it is the only one that waits.
    // Inlined, so that the call is put together where it stays: to copy it would be to wait for its parts.
    #[inline(always)]
    pub(super) fn push(&mut self, handle: u32, waiting: Waiting<R>) -> bool {
        let Some(Some(bound)) = self.bound.get_mut(handle as usize) else { return false };
        let was_idle = self.turns.is_empty();
        if bound.waiting.is_empty() {
            self.turns.join(handle, bound.debt);
        }
        self.bytes += waiting.arguments.len();
        bound.waiting.push_back(waiting);
        self.calls += 1;
        was_idle
    }

    /// The call whose turn it is.
    #[inline(always)]
    pub(super) fn next(&mut self) -> Option<(u32, Waiting<R>)> {
        loop {
            let handle = self.turns.next()?;
            match self.bound.get_mut(handle as usize).and_then(Option::as_mut) {
                Some(bound) => match bound.waiting.pop_front() {
                    Some(waiting) => {
                        self.bytes -= waiting.arguments.len();
                        return Some((handle, waiting));
                    }
                    None => bound.debt = self.turns.leave(|other| *other == handle),
                },
                None => {
                    self.turns.leave(|other| *other == handle);
                }
            }
        }
    }

    /// Brings nearer what the next functions need, each step when the one before has had some time: who calls hundreds of
    /// them waits for memory otherwise.
    #[inline]
    pub(super) fn approach_upcoming(&self) {
        let upcoming = |others| self.bound(self.turns.upcoming(others)?).map(|bound| &bound.binding);
        if let Some(binding) = upcoming(CODE_AHEAD) {
            binding.function.code.approach(binding.function.entry);
        }
        if let Some(binding) = upcoming(FUNCTION_AHEAD) {
            approach(&*binding.function);
            binding.regions.first().into_iter().for_each(approach);
        }
        if let Some(binding) = upcoming(BINDING_AHEAD) {
            approach(&**binding);
        }
    }

    /// What the call whose turn it was has cost.
    pub(super) fn spend(&mut self, cost: u64) {
        let Some(handle) = self.turns.next() else { return };
        let Some(Some(bound)) = self.bound.get_mut(handle as usize) else {
            self.turns.spend(cost);
            return;
        };
        self.turns.spend(cost.saturating_add(std::mem::take(&mut bound.owed)));
        if bound.waiting.is_empty() {
            bound.debt = self.turns.leave(|other| *other == handle);
        }
    }

    /// What a call has cost whose turn was earlier: it counts at the next turn.
    pub(super) fn owe(&mut self, handle: u32, cost: u64) {
        self.owed = self.owed.saturating_add(cost);
        if let Some(Some(bound)) = self.bound.get_mut(handle as usize) {
            bound.owed = bound.owed.saturating_add(cost);
        }
    }

    /// Takes out calls that have not begun here or elsewhere. Returns their numbers.
    pub(super) fn take_back(&mut self, is_wanted: impl Fn(u64) -> bool) -> Vec<u64> {
        let mut taken = Vec::new();
        let bytes = &mut self.bytes;
        for (handle, bound) in self.bound.iter_mut().enumerate() {
            let Some(bound) = bound.as_mut().filter(|bound| !bound.waiting.is_empty()) else { continue };
            bound.waiting.retain(|waiting| {
                let stays = waiting.run.is_some() || !is_wanted(waiting.call);
                if !stays {
                    taken.push(waiting.call);
                    *bytes -= waiting.arguments.len();
                }
                stays
            });
            if bound.waiting.is_empty() {
                bound.debt = self.turns.leave(|other| *other as usize == handle);
            }
        }
        self.calls -= taken.len();
        taken
    }

    /// Whether no call waits.
    pub(super) fn is_idle(&self) -> bool {
        self.turns.is_empty()
    }
}
