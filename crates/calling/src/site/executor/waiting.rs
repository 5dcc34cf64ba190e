//! Calls that wait for their turn: all of a client in one memory, so that those of hundreds of functions stay in the
//! processor's caches.

use outboard_wire::Time;

use super::run::Run;

/// Arguments up to this length lie beside their call.
const SHORT: usize = 64;
/// Longer buffers than this are not kept for the next call.
const KEPT_MAX: usize = 1024;
/// Behind the last one.
const NONE: u32 = u32::MAX;

/// A call without its arguments.
pub(super) struct WaitingCall<R> {
    pub(super) call: u64,
    /// After this it does not run any more.
    pub(super) until: Option<Time>,
    /// How much fuel it has at most.
    pub(super) fuel: u64,
    /// The run, if it has begun at another site.
    pub(super) run: Option<Box<Run<R>>>,
}

/// A call that waits for its turn, or the place of one.
pub(super) struct Waiting<R> {
    pub(super) call: WaitingCall<R>,
    /// The place of the next of its function, or the next free one.
    next: u32,
    length: u32,
    short: [u8; SHORT],
    long: Vec<u8>,
}

impl<R> Waiting<R> {
    /// The arguments.
    #[inline]
    pub(super) fn arguments(&self) -> &[u8] {
        let length = self.length as usize;
        if length <= SHORT { &self.short[..length] } else { &self.long }
    }
}

/// The calls of one function, in their order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    first: u32,
    last: u32,
    count: u32,
}

impl Chain {
    pub(super) const EMPTY: Self = Self { first: NONE, last: NONE, count: 0 };

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many calls are in it.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.count as usize
    }
}

/// The memory of all calls of a client that wait.
pub(super) struct WaitingCalls<R> {
    places: Vec<Waiting<R>>,
    free: u32,
}

impl<R> WaitingCalls<R> {
    pub(super) fn new() -> Self {
        Self { places: Vec::new(), free: NONE }
    }

    /// Adds a call to the end of a chain. `fill` writes its arguments, `length` bytes.
    // Filled in where it stays: to copy it would be to wait for its parts.
    #[inline(always)]
    pub(super) fn push(
        &mut self,
        chain: &mut Chain,
        call: WaitingCall<R>,
        (length, fill): (usize, impl FnOnce(&mut [u8])),
    ) {
        if self.free == NONE {
            self.grow();
        }
        let number = self.free;
        let place = &mut self.places[number as usize];
        self.free = place.next;
        place.call = call;
        (place.next, place.length) = (NONE, length as u32);
        if length <= SHORT {
            fill(&mut place.short[..length]);
        } else {
            place.long.clear();
            place.long.resize(length, 0);
            fill(&mut place.long);
        }
        self.append(chain, number);
    }

    #[inline(always)]
    fn append(&mut self, chain: &mut Chain, number: u32) {
        match chain.last {
            NONE => chain.first = number,
            last => self.places[last as usize].next = number,
        }
        chain.last = number;
        chain.count += 1;
    }

    #[cold]
    fn grow(&mut self) {
        let number = self.places.len() as u32;
        self.places.push(Waiting {
            call: WaitingCall { call: 0, until: None, fuel: 0, run: None },
            next: self.free,
            length: 0,
            short: [0; SHORT],
            long: Vec::new(),
        });
        self.free = number;
    }

    /// Takes the first call out of a chain. Its place stays as it is until it is [given back](Self::give_back).
    #[inline]
    pub(super) fn pop(&mut self, chain: &mut Chain) -> Option<u32> {
        let number = chain.first;
        let place = self.places.get(number as usize)?;
        chain.first = place.next;
        if chain.first == NONE {
            chain.last = NONE;
        }
        chain.count -= 1;
        Some(number)
    }

    /// A call that was taken out.
    #[inline]
    pub(super) fn get(&self, number: u32) -> &Waiting<R> {
        &self.places[number as usize]
    }

    /// The run of a call that was taken out, if it has begun at another site.
    #[inline]
    pub(super) fn take_run(&mut self, number: u32) -> Option<Box<Run<R>>> {
        self.places[number as usize].call.run.take()
    }

    /// A call that was taken out is over.
    #[inline]
    pub(super) fn give_back(&mut self, number: u32) {
        let place = &mut self.places[number as usize];
        place.call.run = None;
        if place.long.capacity() > KEPT_MAX {
            place.long = Vec::new();
        }
        place.next = self.free;
        self.free = number;
    }

    /// Takes out of a chain what is not kept.
    pub(super) fn retain(&mut self, chain: &mut Chain, mut keeps: impl FnMut(&Waiting<R>) -> bool) {
        let mut all = std::mem::replace(chain, Chain::EMPTY);
        while let Some(number) = self.pop(&mut all) {
            if !keeps(&self.places[number as usize]) {
                self.give_back(number);
                continue;
            }
            self.places[number as usize].next = NONE;
            self.append(chain, number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(calls: &mut WaitingCalls<()>, chain: &mut Chain, call: u64, length: usize) {
        let waiting = WaitingCall { call, until: None, fuel: 0, run: None };
        calls.push(chain, waiting, (length, |bytes: &mut [u8]| bytes.fill(call as u8)));
    }

    fn pop(calls: &mut WaitingCalls<()>, chain: &mut Chain) -> Option<(u64, Vec<u8>)> {
        let number = calls.pop(chain)?;
        let waiting = calls.get(number);
        let popped = (waiting.call.call, waiting.arguments().to_vec());
        calls.give_back(number);
        Some(popped)
    }

    #[test]
    fn chains_keep_their_order_in_one_memory() {
        let (mut calls, mut chains) = (WaitingCalls::new(), [Chain::EMPTY; 3]);
        let mut next = 0;
        let mut expected: [std::collections::VecDeque<u64>; 3] = Default::default();
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..10_000 {
            let at = random.usize(..3);
            if random.bool() && expected.iter().map(|chain| chain.len()).sum::<usize>() < 50 {
                // Short, long, and again short where a long one was.
                push(&mut calls, &mut chains[at], next, [0, 1, SHORT, SHORT + 1, 3000][random.usize(..5)]);
                expected[at].push_back(next);
                next += 1;
            } else {
                let popped = pop(&mut calls, &mut chains[at]);
                assert_eq!(popped.as_ref().map(|(call, _)| *call), expected[at].pop_front());
                assert!(popped.is_none_or(|(call, bytes)| bytes.iter().all(|byte| *byte == call as u8)));
            }
            assert_eq!(chains.map(|chain| chain.len()), [0, 1, 2].map(|at| expected[at].len()));
            if random.u8(..) == 0 {
                let keeps = |call: u64| !call.is_multiple_of(3);
                calls.retain(&mut chains[at], |waiting| keeps(waiting.call.call));
                expected[at].retain(|call| keeps(*call));
            }
        }
        assert!(calls.places.len() <= 50, "places are used again");
        chains.iter_mut().for_each(|chain| while pop(&mut calls, chain).is_some() {});
        let is_kept = |place: &Waiting<()>| place.long.capacity() > KEPT_MAX;
        assert!(!calls.places.iter().any(is_kept), "long buffers are not kept for ever");
    }
}
