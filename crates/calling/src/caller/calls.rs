//! The calls of one caller that are under way.

use outboard_steering::Site;
use outboard_wire::calling::CallFailure;
use outboard_wire::{Time, mutant};

use crate::WINDOW;

/// Why a call has no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallFault {
    /// The site says so.
    Failed(CallFailure),
    /// No answer has come in time.
    Late {
        /// Where the call was last.
        at: Site,
        /// Whether the function may have run, in part or as a whole; not if that site says that it did not.
        may_have_run: bool,
    },
    /// The site is gone, says nothing, or has lost its way to the regions.
    Lost {
        /// Whether the function may have run, in part or as a whole.
        may_have_run: bool,
    },
}

impl CallFault {
    /// Whether the function may have run, in part or as a whole.
    pub fn may_have_run(self) -> bool {
        match self {
            Self::Failed(
                CallFailure::NoFunction
                | CallFailure::Expired
                | CallFailure::ArgumentsTooLong { .. }
                | CallFailure::Recalled,
            ) => false,
            Self::Failed(CallFailure::Repeated | CallFailure::NotResumed | CallFailure::Trapped { .. }) => {
                true
            }
            Self::Late { may_have_run, .. } | Self::Lost { may_have_run } => may_have_run,
        }
    }
}

/// Numbers calls and knows which are under way, each with what its caller notes of it.
#[derive(Debug)]
pub struct Calls<T> {
    /// A call lies at its number modulo the length, which is a power of two.
    places: Box<[Option<UnderWay<T>>]>,
    next: u64,
    under_way: usize,
    /// No call is late before this.
    due: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
struct UnderWay<T> {
    call: u64,
    until: Option<Time>,
    note: T,
}

impl<T> Calls<T> {
    /// Room for so many calls at a time: rounded up to a power of two, and not more than a site's window.
    pub fn new(under_way_max: usize) -> Self {
        let length = under_way_max.clamp(1, WINDOW as usize).next_power_of_two();
        let places = std::iter::repeat_with(|| None).take(length).collect();
        Self { places, next: 1, under_way: 0, due: None }
    }

    fn place(&self, call: u64) -> usize {
        (call % self.places.len() as u64) as usize
    }

    /// The number of the next call, if there is room for it. Numbers are left out whose places belong to calls that take
    /// long, so that one without an answer is in no other's way.
    #[inline]
    pub fn next(&self) -> Option<u64> {
        if self.places[self.place(self.next)].is_none() {
            return Some(self.next);
        }
        self.next_free(None)
    }

    #[cold]
    fn next_free(&self, given_up: Option<usize>) -> Option<u64> {
        let is_free = |call: &u64| {
            let place = self.place(*call);
            self.places[place].is_none() || given_up == Some(place)
        };
        (self.next..self.next + self.places.len() as u64).find(is_free)
    }

    /// The call of the [next](Self::next) number is on its way, and waited for until then.
    ///
    /// # Panics
    /// If it is not the next.
    #[inline]
    pub fn begin(&mut self, call: u64, until: Option<Time>, note: T) {
        let place = self.place(call);
        assert!(call >= self.next && self.places[place].is_none(), "a call without a place");
        self.places[place] = Some(UnderWay { call, until, note });
        self.next = call + 1;
        self.under_way += 1;
        if let Some(until) = until.filter(|_| !mutant("calling.deadline-not-armed")) {
            self.due = Some(self.due.map_or(until, |due| due.min(until)));
        }
    }

    /// The number that a call can have instead of its own, if it is under way: a site that has heard of many later ones
    /// knows of an old number only that it may have begun.
    pub fn next_for(&self, call: u64) -> Option<u64> {
        let place = self.place(call);
        self.places[place].as_ref().filter(|there| there.call == call)?;
        self.next_free(Some(place))
    }

    /// A call that no site answers by its number any more has [another](Self::next_for) from now on.
    ///
    /// # Panics
    /// If that is not the one.
    pub fn renumber(&mut self, call: u64, new: u64) {
        let from = self.place(call);
        let Some(under_way) = self.places[from].take_if(|there| there.call == call) else { return };
        let to = self.place(new);
        assert!(new >= self.next && self.places[to].is_none(), "a call without a place");
        self.places[to] = Some(UnderWay { call: new, ..under_way });
        self.next = new + 1;
    }

    /// What was noted of a call that is under way.
    #[inline]
    pub fn get_mut(&mut self, call: u64) -> Option<&mut T> {
        let place = self.place(call);
        self.places[place].as_mut().filter(|under_way| under_way.call == call).map(|there| &mut there.note)
    }

    /// Until when a call that is under way is waited for.
    pub fn until(&self, call: u64) -> Option<Time> {
        self.places[self.place(call)].as_ref().filter(|there| there.call == call)?.until
    }

    /// An answer has come. Returns what was noted, if the caller still waits for it.
    #[inline]
    pub fn end(&mut self, call: u64) -> Option<T> {
        let place = self.place(call);
        let ended = self.places[place].take_if(|under_way| under_way.call == call)?;
        self.under_way -= 1;
        Some(ended.note)
    }

    /// When a call may be late.
    pub fn next_deadline(&self) -> Option<Time> {
        self.due
    }

    /// Gives up calls that are late.
    pub fn on_time(&mut self, now: Time, mut late: impl FnMut(u64, T)) {
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        self.due = None;
        for place in &mut self.places {
            let is_late = |there: &mut UnderWay<T>| there.until.is_some_and(|until| until <= now);
            if let Some(UnderWay { call, note, .. }) = place.take_if(is_late) {
                late(call, note);
                self.under_way -= 1;
            } else if let Some(until) = place.as_ref().and_then(|there| there.until) {
                self.due = Some(self.due.map_or(until, |due| due.min(until)));
            }
        }
    }

    /// All calls that are under way; those that take no longer than others in the order in which they began.
    pub fn all(&mut self) -> impl Iterator<Item = (u64, &mut T)> {
        let start = self.place(self.next);
        let (newer, older) = self.places.split_at_mut(start);
        let both = older.iter_mut().chain(newer);
        both.filter_map(|place| place.as_mut().map(|there| (there.call, &mut there.note)))
    }

    /// How many are under way.
    pub fn under_way(&self) -> usize {
        self.under_way
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn at(micros: u64) -> Time {
        Time::ZERO + Duration::from_micros(micros)
    }

    proptest! {
        #[test]
        fn every_call_ends_once_as_in_a_simple_list(
            steps in proptest::collection::vec((0u8..5, 0u64..64, 1u64..40), 1..200),
        ) {
            let (mut calls, mut list) = (Calls::new(16), BTreeMap::<u64, Option<Time>>::new());
            let mut now = at(0);
            for (what, number, micros) in steps {
                match what {
                    0 => prop_assert_eq!(calls.end(number).is_some(), list.remove(&number).is_some()),
                    2 => {
                        let new = calls.next_for(number);
                        prop_assert_eq!(new.is_some(), list.contains_key(&number));
                        if let Some((new, until)) = new.zip(list.remove(&number)) {
                            calls.renumber(number, new);
                            prop_assert!(list.keys().all(|other| *other != new));
                            prop_assert_eq!(calls.until(new), until);
                            list.insert(new, until);
                        }
                    }
                    1 => {
                        now += Duration::from_micros(micros);
                        let mut late = Vec::new();
                        calls.on_time(now, |call, ()| late.push(call));
                        late.sort_unstable();
                        let is_late = |until: &Option<Time>| until.is_some_and(|until| until <= now);
                        let expected: Vec<u64> =
                            list.iter().filter(|(_, until)| is_late(until)).map(|(call, _)| *call).collect();
                        prop_assert_eq!(&late, &expected);
                        list.retain(|_, until| !is_late(until));
                    }
                    _ => {
                        let patience = (micros % 2 == 0).then(|| Duration::from_micros(micros));
                        if let Some(call) = calls.next() {
                            calls.begin(call, patience.map(|patience| now + patience), ());
                            prop_assert!(!list.contains_key(&call));
                            list.insert(call, patience.map(|patience| now + patience));
                        } else {
                            prop_assert_eq!(list.len(), 16);
                        }
                    }
                }
                prop_assert_eq!(calls.under_way(), list.len());
                let due = list.values().flatten().min();
                prop_assert!(due.is_none() || calls.next_deadline() <= due.copied());
            }
            let mut left: Vec<u64> = calls.all().map(|(call, ())| call).collect();
            left.sort_unstable();
            prop_assert_eq!(left, list.into_keys().collect::<Vec<u64>>());
        }
    }

    #[test]
    fn there_is_room_for_so_many_and_no_more() {
        let mut calls = Calls::new(3);
        for number in 1..=4 {
            assert_eq!(calls.next(), Some(number));
            calls.begin(number, None, number);
        }
        assert_eq!(calls.next(), None);
        assert_eq!(calls.get_mut(2), Some(&mut 2));
        assert_eq!(calls.end(2), Some(2));
        assert_eq!(calls.next(), Some(6), "the oldest is in no other's way");
        calls.begin(6, None, 6);
        assert_eq!((calls.next(), calls.get_mut(1)), (None, Some(&mut 1)));
        assert_eq!((calls.next_for(4), calls.next_for(9)), (Some(8), None));
        calls.renumber(4, 8);
        assert!(calls.get_mut(4).is_none() && calls.get_mut(8) == Some(&mut 4));
        assert_eq!(calls.end(1), Some(1));
        assert_eq!(calls.next(), Some(9));
        assert!(calls.end(1).is_none() && calls.end(9).is_none());
    }

    #[test]
    fn only_some_faults_leave_a_doubt() {
        assert!(!CallFault::Failed(CallFailure::Expired).may_have_run());
        assert!(!CallFault::Failed(CallFailure::NoFunction).may_have_run());
        assert!(CallFault::Failed(CallFailure::Repeated).may_have_run());
        for may_have_run in [false, true] {
            assert_eq!(CallFault::Late { at: Site::Server, may_have_run }.may_have_run(), may_have_run);
            assert_eq!(CallFault::Lost { may_have_run }.may_have_run(), may_have_run);
        }
    }
}
