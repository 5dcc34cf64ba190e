//! The links of one kind that a worker has: those that have a turn whenever the worker does, and those that rest.
//!
//! A daemon has thousands of clients of which most ask nothing. A link that has been quiet for a while is asked to wake
//! the worker and then left out of its turns, so that a turn costs what the busy links cost. It has turns again when its
//! descriptor becomes ready, when its deadline comes, or when the service has something for it.

use std::collections::{BTreeSet, HashMap};
use std::ops::{Deref, DerefMut};

use outboard_wire::Time;

use crate::LinkId;
use crate::links::Held;

/// When links that rest want a turn though nothing happens to them.
pub(crate) type Alarms = BTreeSet<(Time, LinkId)>;

/// The fate of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It has turns as before.
    Stays,
    /// It has none until it is woken, at this time at the latest.
    Rests(Option<Time>),
    /// It is no link of this worker any more.
    Goes,
}

/// The links of one kind. It is used as the list of those that are awake.
pub(crate) struct Roster<L> {
    /// Those that are awake come first.
    held: Vec<Held<L>>,
    awake: usize,
    places: HashMap<LinkId, usize>,
}

impl<L> Default for Roster<L> {
    fn default() -> Self {
        Self { held: Vec::new(), awake: 0, places: HashMap::new() }
    }
}

impl<L> Deref for Roster<L> {
    type Target = [Held<L>];

    fn deref(&self) -> &[Held<L>] {
        &self.held[..self.awake]
    }
}

impl<L> DerefMut for Roster<L> {
    fn deref_mut(&mut self) -> &mut [Held<L>] {
        &mut self.held[..self.awake]
    }
}

impl<L> Roster<L> {
    /// How many there are, awake or not.
    pub(crate) fn count(&self) -> usize {
        self.held.len()
    }

    /// How many rest.
    pub(crate) fn resting(&self) -> usize {
        self.held.len() - self.awake
    }

    /// All of them.
    pub(crate) fn all_mut(&mut self) -> &mut [Held<L>] {
        &mut self.held
    }

    /// Adds a link, which is awake.
    pub(crate) fn push(&mut self, held: Held<L>) {
        self.places.insert(held.id, self.held.len());
        self.held.push(held);
        self.swap(self.held.len() - 1, self.awake);
        self.awake += 1;
    }

    /// The link of this id, if it is here. It is awake now.
    pub(crate) fn wake(&mut self, id: LinkId, alarms: &mut Alarms) -> Option<&mut Held<L>> {
        let mut place = *self.places.get(&id)?;
        if place >= self.awake {
            self.swap(place, self.awake);
            place = self.awake;
            self.awake += 1;
            if let Some(due) = self.held[place].alarm.take() {
                alarms.remove(&(due, id));
            }
        }
        self.held.get_mut(place)
    }

    /// Gives all of them turns again.
    pub(crate) fn wake_all(&mut self, alarms: &mut Alarms) {
        for held in &mut self.held[self.awake..] {
            if let Some(due) = held.alarm.take() {
                alarms.remove(&(due, held.id));
            }
        }
        self.awake = self.held.len();
    }

    /// Asks for every link that is awake what becomes of it.
    pub(crate) fn sort(&mut self, alarms: &mut Alarms, mut fate: impl FnMut(&mut Held<L>) -> Fate) {
        let mut place = 0;
        while place < self.awake {
            let fate = fate(&mut self.held[place]);
            match fate {
                Fate::Stays => place += 1,
                Fate::Rests(due) => {
                    let held = &mut self.held[place];
                    held.alarm = due;
                    alarms.extend(due.map(|due| (due, held.id)));
                    self.lay_down(place);
                }
                Fate::Goes => {
                    self.lay_down(place);
                    let last = self.held.len() - 1;
                    self.swap(self.awake, last);
                    if let Some(gone) = self.held.pop() {
                        self.places.remove(&gone.id);
                    }
                }
            }
        }
    }

    /// Takes a link out of those that are awake; the last of them comes in its place.
    fn lay_down(&mut self, place: usize) {
        self.awake -= 1;
        self.swap(place, self.awake);
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.held.swap(one, other);
        for place in [one, other] {
            self.places.insert(self.held[place].id, place);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::LinkOrigin;
    use crate::poller::Interest;

    fn held(number: u64) -> Held<u64> {
        Held::new(LinkId(number), LinkOrigin::Accepted, number, Interest::READ)
    }

    /// Everything that happens by chance happens to a plain map too.
    #[test]
    fn it_is_always_known_which_links_rest_and_where_all_are() {
        let mut state = 7u64;
        let mut below = |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % most
        };
        let (mut roster, mut alarms) = (Roster::<u64>::default(), Alarms::default());
        let mut model: HashMap<u64, Option<Option<Time>>> = HashMap::new();
        for step in 1..20_000 {
            match below(6) {
                0 | 1 if model.len() < 50 => {
                    roster.push(held(step));
                    model.insert(step, None);
                }
                2 if below(40) == 0 => {
                    roster.wake_all(&mut alarms);
                    model.values_mut().for_each(|resting| *resting = None);
                }
                2 | 3 => {
                    let id = 1 + below(step);
                    let woken = roster.wake(LinkId(id), &mut alarms).map(|held| held.link);
                    assert_eq!(woken, model.contains_key(&id).then_some(id));
                    model.entry(id).and_modify(|resting| *resting = None);
                }
                _ => {
                    let mut asked = Vec::new();
                    roster.sort(&mut alarms, |held| {
                        assert_eq!((held.id.0, model[&held.link]), (held.link, None));
                        asked.push(held.link);
                        match below(12) {
                            0 => {
                                model.remove(&held.link);
                                Fate::Goes
                            }
                            number @ 1..3 => {
                                let due = Time::ZERO + Duration::from_secs(step);
                                let due = (number == 1).then_some(due);
                                model.insert(held.link, Some(due));
                                Fate::Rests(due)
                            }
                            _ => Fate::Stays,
                        }
                    });
                    let count = asked.len();
                    asked.sort_unstable();
                    asked.dedup();
                    assert_eq!(asked.len(), count, "no link is asked twice");
                }
            }
            let awake = model.values().filter(|resting| resting.is_none()).count();
            assert_eq!((roster.count(), roster.len()), (model.len(), awake));
            assert_eq!(roster.resting(), model.len() - awake);
            let due = model.iter().filter_map(|(id, resting)| Some(((*resting)??, LinkId(*id))));
            assert_eq!(alarms, due.collect());
        }
    }
}
