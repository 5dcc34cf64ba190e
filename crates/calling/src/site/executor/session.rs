//! One client of a site: what it has registered, which of its calls have begun, and which wait.

use std::sync::{Arc, Mutex, PoisonError};

use outboard_ebpf::approach;
use outboard_wire::calling::HANDLES_MAX;
use outboard_wire::{Rights, mutant};

use crate::PreparedFunction;
use crate::image::Forwards;
use crate::site::turns::Turns;

use super::waiting::{Chain, Waiting, WaitingCall, WaitingCalls};

/// How many turns ahead what is brought nearer: what a number means, its function, the function's code.
const BINDING_AHEAD: usize = 6;
const FUNCTION_AHEAD: usize = 4;
const CODE_AHEAD: usize = 2;

/// What a number of a client means.
#[derive(Debug)]
pub struct Binding<R> {
    /// The function.
    pub function: Arc<PreparedFunction>,
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

/// A binding with the calls of it that wait.
pub(super) struct Bound<R> {
    /// Shared with the calls of it that are suspended, which outlast a new meaning of the number.
    pub(super) binding: Arc<Binding<R>>,
    /// It changes nothing, also not as another function: a call of it may run twice.
    pub(super) is_harmless: bool,
    waiting: Chain,
    debt: i64,
    /// What calls have cost that were resumed since its last turn.
    owed: u64,
}

impl<R> Bound<R> {
    pub(super) fn new(binding: Binding<R>) -> Self {
        let is_harmless = binding.only_reads() && !binding.function.forwards.any();
        Self { binding: Arc::new(binding), is_harmless, waiting: Chain::EMPTY, debt: 0, owed: 0 }
    }
}

impl<R> Bound<R> {
    /// How many calls wait for their turn.
    #[inline]
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

/// How far below the highest number of a caller a call can come; for older ones the site cannot know whether they ran.
pub const WINDOW: u64 = 4096;

const WORDS: usize = (WINDOW / 64) as usize;

/// Lets every number begin once. Takes 512 bytes for a caller.
#[derive(Clone, Debug)]
pub struct CallWindow {
    /// The highest number that has begun.
    highest: u64,
    /// A bit for each of the last numbers.
    begun: [u64; WORDS],
}

impl Default for CallWindow {
    fn default() -> Self {
        Self { highest: 0, begun: [0; WORDS] }
    }
}

impl CallWindow {
    /// Whether a call of this number may begin: from now on it has.
    #[inline]
    pub fn begin(&mut self, call: u64) -> bool {
        if call > self.highest {
            self.forget_between(call);
            self.highest = call;
        } else if self.highest - call >= WINDOW + 64 * u64::from(mutant("calling.window-too-wide")) {
            return false;
        }
        let (word, bit) = place(call);
        let is_new = self.begun[word] & bit == 0;
        self.begun[word] |= bit;
        is_new
    }

    /// The numbers up to `call` take the places of those that fall out of the window.
    #[inline]
    fn forget_between(&mut self, call: u64) {
        if call - self.highest >= WINDOW {
            self.begun = [0; WORDS];
            return;
        }
        for number in self.highest + 1..=call {
            let (word, bit) = place(number);
            self.begun[word] &= !bit;
        }
    }
}

#[inline]
fn place(call: u64) -> (usize, u64) {
    (((call % WINDOW) / 64) as usize, 1 << (call % 64))
}

/// One client.
pub(super) struct Session<R> {
    window: Arc<Mutex<CallWindow>>,
    bound: Vec<Option<Bound<R>>>,
    pub(super) waiting: WaitingCalls<R>,
    turns: Turns<u32>,
    /// Calls that wait or are suspended.
    pub(super) calls: usize,
    /// Bytes of arguments of those that wait.
    pub(super) bytes: usize,
    /// None of its calls has a turn, since its link takes no answers.
    pub(super) is_paused: bool,
    /// What it had spent too much when none of its calls waited any more.
    pub(super) debt: i64,
    /// What its calls have cost that were resumed since its last turn.
    pub(super) owed: u64,
}

impl<R> Session<R> {
    pub(super) fn new(window: Arc<Mutex<CallWindow>>, quantum: u32) -> Self {
        let turns = Turns::new(quantum.into());
        Self {
            window,
            bound: Vec::new(),
            waiting: WaitingCalls::new(),
            turns,
            calls: 0,
            bytes: 0,
            is_paused: false,
            debt: 0,
            owed: 0,
        }
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
        let debt = self.turns.leave(|other| *other == handle);
        let mut dropped = Vec::new();
        if let Some(mut former) = self.bound[place].take() {
            bound.debt = debt.min(former.debt);
            self.drop_waiting(&mut former.waiting, |_| true, &mut dropped);
        }
        self.bound[place] = Some(bound);
        dropped
    }

    /// Whether a call of this number may begin: once, if it can change anything.
    #[inline]
    pub(super) fn may_begin(&self, call: u64, bound: &Bound<R>) -> bool {
        let may_repeat = bound.is_harmless || mutant("calling.number-unchecked");
        may_repeat || self.window.lock().unwrap_or_else(PoisonError::into_inner).begin(call)
    }

    /// Adds a call. Returns whether it is the only one that waits.
    #[inline(always)]
    pub(super) fn push(
        &mut self,
        handle: u32,
        call: WaitingCall<R>,
        (length, arguments): (usize, impl FnOnce(&mut [u8])),
    ) -> bool {
        let Some(Some(bound)) = self.bound.get_mut(handle as usize) else { return false };
        let was_idle = self.turns.is_empty();
        if bound.waiting.is_empty() {
            self.turns.join(handle, bound.debt);
        }
        self.bytes += length;
        self.waiting.push(&mut bound.waiting, call, (length, arguments));
        self.calls += 1;
        was_idle
    }

    /// The call whose turn it is, by the number of its place, which has to be given back.
    #[inline(always)]
    pub(super) fn next(&mut self) -> Option<(u32, u32)> {
        loop {
            let handle = self.turns.next()?;
            match self.bound.get_mut(handle as usize).and_then(Option::as_mut) {
                Some(bound) => match self.waiting.pop(&mut bound.waiting) {
                    Some(number) => {
                        self.bytes -= self.waiting.get(number).arguments().len();
                        return Some((handle, number));
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
        let is_taken = |waiting: &Waiting<R>| waiting.call.run.is_none() && is_wanted(waiting.call.call);
        for handle in 0..self.bound.len() {
            let chain = self.bound[handle].as_ref().map_or(Chain::EMPTY, |bound| bound.waiting);
            if chain.is_empty() {
                continue;
            }
            let mut left = chain;
            self.drop_waiting(&mut left, is_taken, &mut taken);
            if let Some(bound) = self.bound[handle].as_mut() {
                bound.waiting = left;
                if left.is_empty() {
                    bound.debt = self.turns.leave(|other| *other as usize == handle);
                }
            }
        }
        taken
    }

    /// Takes calls out of a chain that will not run. Appends their numbers.
    fn drop_waiting(
        &mut self,
        chain: &mut Chain,
        is_dropped: impl Fn(&Waiting<R>) -> bool,
        dropped: &mut Vec<u64>,
    ) {
        let (bytes, calls) = (&mut self.bytes, &mut self.calls);
        self.waiting.retain(chain, |waiting| {
            let stays = !is_dropped(waiting);
            if !stays {
                dropped.push(waiting.call.call);
                if mutant("calling.recalled-runs-too") {
                    return true;
                }
                *bytes -= waiting.arguments().len();
                *calls -= 1;
            }
            stays
        });
    }

    /// Whether no call waits.
    pub(super) fn is_idle(&self) -> bool {
        self.turns.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_number_begins_at_most_once_and_new_ones_do(
            steps in proptest::collection::vec((0u64..200, 0u64..6000), 1..300),
        ) {
            let (mut window, mut begun) = (CallWindow::default(), HashSet::new());
            let mut highest = 0u64;
            for (forward, back) in steps {
                let call = (highest + forward * forward).saturating_sub(back);
                let may = window.begin(call);
                let is_known = highest < call || highest - call < WINDOW;
                prop_assert_eq!(may, is_known && begun.insert(call), "{}", call);
                highest = highest.max(call);
            }
        }
    }

    #[test]
    fn the_ends_of_the_numbers_are_numbers_too() {
        let mut window = CallWindow::default();
        assert!(window.begin(0));
        assert!(!window.begin(0));
        assert!(window.begin(u64::MAX));
        assert!(!window.begin(u64::MAX));
        assert!(!window.begin(0));
        assert!(window.begin(u64::MAX - WINDOW + 1));
        assert!(!window.begin(u64::MAX - WINDOW));
    }
}
