//! The calls of one caller that are under way.

use outboard_wire::Time;
use outboard_wire::calling::Failure;

use crate::window::WINDOW;

/// Why a call has no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The site says so.
    Failed(Failure),
    /// No answer has come in time.
    Late,
    /// The link to the site is gone.
    Lost,
}

impl Fault {
    /// Whether the function may have run, in part or as a whole.
    pub fn may_have_run(self) -> bool {
        match self {
            Self::Failed(
                Failure::NoFunction | Failure::Expired | Failure::ArgumentsTooLong { .. } | Failure::Recalled,
            ) => false,
            Self::Failed(Failure::Repeated | Failure::NotResumed | Failure::Trapped { .. })
            | Self::Late
            | Self::Lost => true,
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

    /// The number of the next call, if there is room for it. Numbers that are under way are never further apart than there
    /// are places: a site that is told of one again must still know whether it has begun.
    #[inline]
    pub fn next(&self) -> Option<u64> {
        self.places[self.place(self.next)].is_none().then_some(self.next)
    }

    /// The call of the [next](Self::next) number is on its way, and waited for until then.
    ///
    /// # Panics
    /// If there is no room for it.
    #[inline]
    pub fn begin(&mut self, until: Option<Time>, note: T) {
        let place = self.place(self.next);
        assert!(self.places[place].is_none(), "a call without a place");
        self.places[place] = Some(UnderWay { call: self.next, until, note });
        self.next += 1;
        self.under_way += 1;
        if let Some(until) = until {
            self.due = Some(self.due.map_or(until, |due| due.min(until)));
        }
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

    /// An answer has come. Returns what was noted, if anybody waits for it.
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

    /// All calls that are under way, the oldest first.
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
            steps in proptest::collection::vec((0u8..4, 0u64..64, 1u64..40), 1..200),
        ) {
            let (mut calls, mut list) = (Calls::new(16), BTreeMap::<u64, Option<Time>>::new());
            let mut now = at(0);
            for (what, number, micros) in steps {
                match what {
                    0 => prop_assert_eq!(calls.end(number).is_some(), list.remove(&number).is_some()),
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
                            calls.begin(patience.map(|patience| now + patience), ());
                            prop_assert!(!list.contains_key(&call));
                            list.insert(call, patience.map(|patience| now + patience));
                        } else {
                            prop_assert!(!list.is_empty());
                        }
                    }
                }
                prop_assert_eq!(calls.under_way(), list.len());
                let due = list.values().flatten().min();
                prop_assert!(due.is_none() || calls.next_deadline() <= due.copied());
            }
            let left: Vec<u64> = calls.all().map(|(call, ())| call).collect();
            prop_assert_eq!(left, list.into_keys().collect::<Vec<u64>>());
        }
    }

    #[test]
    fn there_is_room_for_so_many_and_no_more() {
        let mut calls = Calls::new(3);
        for number in 1..=4 {
            assert_eq!(calls.next(), Some(number));
            calls.begin(None, number);
        }
        assert_eq!(calls.next(), None);
        assert_eq!(calls.get_mut(2), Some(&mut 2));
        assert_eq!(calls.end(2), Some(2));
        assert_eq!(calls.next(), None, "the oldest is in the way");
        assert_eq!(calls.end(1), Some(1));
        assert_eq!(calls.next(), Some(5));
        assert!(calls.end(1).is_none() && calls.end(9).is_none());
    }

    #[test]
    fn only_some_faults_leave_a_doubt() {
        assert!(!Fault::Failed(Failure::Expired).may_have_run());
        assert!(!Fault::Failed(Failure::NoFunction).may_have_run());
        assert!(Fault::Failed(Failure::Repeated).may_have_run());
        assert!(Fault::Late.may_have_run() && Fault::Lost.may_have_run());
    }
}
