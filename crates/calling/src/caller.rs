//! The calls of one caller that are under way.

use std::time::Duration;

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
            Self::Failed(Failure::NoFunction | Failure::Expired | Failure::ArgumentsTooLong { .. }) => false,
            Self::Failed(Failure::Repeated | Failure::Trapped { .. }) | Self::Late | Self::Lost => true,
        }
    }
}

/// Numbers calls and knows which are under way. Takes 24 bytes for each that may be.
#[derive(Debug)]
pub struct Calls {
    /// A call lies at its number modulo the length, which is a power of two.
    places: Box<[Option<UnderWay>]>,
    next: u64,
    under_way: usize,
    /// No call is late before this.
    due: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
struct UnderWay {
    call: u64,
    until: Option<Time>,
}

impl Calls {
    /// Room for so many calls at a time: rounded up to a power of two, and not more than a site's window.
    pub fn new(under_way_max: usize) -> Self {
        let length = under_way_max.clamp(1, WINDOW as usize).next_power_of_two();
        Self { places: vec![None; length].into_boxed_slice(), next: 1, under_way: 0, due: None }
    }

    fn place(&self, call: u64) -> usize {
        (call % self.places.len() as u64) as usize
    }

    /// The number of the next call, if there is room for it.
    #[inline]
    pub fn next(&self) -> Option<u64> {
        self.places[self.place(self.next)].is_none().then_some(self.next)
    }

    /// The call of the [next](Self::next) number is on its way, and waited for so long.
    ///
    /// # Panics
    /// If there is no room for it.
    #[inline]
    pub fn begin(&mut self, now: Time, patience: Option<Duration>) {
        let until = patience.map(|patience| now + patience);
        let place = self.place(self.next);
        assert!(self.places[place].is_none(), "a call without a place");
        self.places[place] = Some(UnderWay { call: self.next, until });
        self.next += 1;
        self.under_way += 1;
        if let Some(until) = until {
            self.due = Some(self.due.map_or(until, |due| due.min(until)));
        }
    }

    /// An answer has come. Returns whether anybody waits for it.
    #[inline]
    pub fn end(&mut self, call: u64) -> bool {
        let place = self.place(call);
        let is_awaited = self.places[place].is_some_and(|under_way| under_way.call == call);
        if is_awaited {
            self.places[place] = None;
            self.under_way -= 1;
        }
        is_awaited
    }

    /// When a call may be late.
    pub fn next_deadline(&self) -> Option<Time> {
        self.due
    }

    /// Gives up calls that are late.
    pub fn on_time(&mut self, now: Time, mut late: impl FnMut(u64)) {
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        self.due = None;
        for place in &mut self.places {
            match place {
                Some(UnderWay { call, until: Some(until) }) if *until <= now => {
                    late(*call);
                    *place = None;
                    self.under_way -= 1;
                }
                Some(UnderWay { until: Some(until), .. }) => {
                    self.due = Some(self.due.map_or(*until, |due| due.min(*until)));
                }
                _ => {}
            }
        }
    }

    /// Gives up all calls.
    pub fn lose(&mut self, mut lost: impl FnMut(u64)) {
        for place in &mut self.places {
            if let Some(UnderWay { call, .. }) = place.take() {
                lost(call);
            }
        }
        self.under_way = 0;
        self.due = None;
    }

    /// How many are under way.
    pub fn under_way(&self) -> usize {
        self.under_way
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

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
                    0 => prop_assert_eq!(calls.end(number), list.remove(&number).is_some()),
                    1 => {
                        now += Duration::from_micros(micros);
                        let mut late = Vec::new();
                        calls.on_time(now, |call| late.push(call));
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
                            calls.begin(now, patience);
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
            let mut lost = Vec::new();
            calls.lose(|call| lost.push(call));
            prop_assert_eq!(lost.len(), list.len());
            prop_assert_eq!(calls.under_way(), 0);
        }
    }

    #[test]
    fn there_is_room_for_so_many_and_no_more() {
        let mut calls = Calls::new(3);
        for number in 1..=4 {
            assert_eq!(calls.next(), Some(number));
            calls.begin(at(0), None);
        }
        assert_eq!(calls.next(), None);
        assert!(calls.end(2));
        assert_eq!(calls.next(), None, "the oldest is in the way");
        assert!(calls.end(1));
        assert_eq!(calls.next(), Some(5));
        assert!(!calls.end(1) && !calls.end(9));
    }

    #[test]
    fn only_some_faults_leave_a_doubt() {
        assert!(!Fault::Failed(Failure::Expired).may_have_run());
        assert!(!Fault::Failed(Failure::NoFunction).may_have_run());
        assert!(Fault::Failed(Failure::Repeated).may_have_run());
        assert!(Fault::Late.may_have_run() && Fault::Lost.may_have_run());
    }
}
