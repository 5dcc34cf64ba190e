//! Peers that have connected to us and whose handshake is not finished.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use outboard_limits::growth;
use outboard_link::{AnyLink, ConnectError};
use outboard_wire::Time;
use rustix::io::Errno;

use crate::links::KEPT;
use crate::pending::Incoming;
use crate::poller::Poller;
use crate::reserve::Reserve;

/// How long a visitor may say nothing while others wait for its place.
const GRACE: Duration = Duration::from_millis(250);
/// How often those who were heard are told that their turn will come; a small part of any peer's patience.
const REASSURE: Duration = Duration::from_millis(250);

/// A system call that has failed, because of which there is no room.
pub(crate) type Shortage = (&'static str, Errno);

/// The resource that was too short to accept a connection, if that is why it failed.
pub(crate) fn shortage(error: &ConnectError) -> Option<Shortage> {
    match error {
        ConnectError::System { call, source: source @ (Errno::MFILE | Errno::NFILE), .. } => {
            Some((call, *source))
        }
        _ => None,
    }
}

struct Visitor {
    handshake: Box<dyn Incoming>,
    /// The worker that is to own the link; any, if none.
    worker: Option<usize>,
    came: Time,
    /// When it was heard, or last told to wait; none while it says nothing.
    told: Option<Time>,
    /// Why there is no room for it. It is told when it was heard, or when others need what it holds.
    shortage: Option<Shortage>,
}

/// The end of a visit.
pub(crate) enum Greeted {
    Link(AnyLink, Option<usize>),
    Failed(ConnectError),
    /// It has to be greeted again, a little later.
    NotYet,
}

/// All peers that have connected and have no link yet. To listen to them costs little, and is done at once; to make their
/// links takes longer, and they wait for it in the order in which they were heard.
pub(crate) struct Visitors {
    /// By age: the first is the oldest.
    all: BTreeMap<u64, Visitor>,
    heard: VecDeque<u64>,
    /// Whether the first link that passes descriptors could not be made yet. Others of its kind wait behind it.
    is_held_up: bool,
    /// How many there may be, and of dear ones.
    most: usize,
    dear_most: usize,
}

impl Visitors {
    pub(crate) fn new(most: usize, dear_most: usize) -> Self {
        Self { all: BTreeMap::new(), heard: VecDeque::new(), is_held_up: false, most, dear_most }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether a peer can be greeted now.
    pub(crate) fn can_greet(&self) -> bool {
        self.next_heard().is_some()
    }

    /// The place in the queue of the visitor that is greeted next.
    fn next_heard(&self) -> Option<usize> {
        let has_to_wait = |key: &u64| {
            self.is_held_up && self.all.get(key).is_some_and(|visitor| visitor.handshake.passes_descriptors())
        };
        self.heard.iter().position(|key| !has_to_wait(key))
    }

    /// Links that could not be made are tried again.
    pub(crate) fn try_again(&mut self) {
        self.is_held_up = false;
    }

    /// Whether another may come in; otherwise it waits where it is.
    pub(crate) fn has_room(&self, is_dear: bool) -> bool {
        let dear = || self.all.values().filter(|visitor| visitor.handshake.is_dear()).count();
        self.all.len() < self.most && !(is_dear && dear() >= self.dear_most)
    }

    /// Sends off the oldest visitor that has said nothing, if it has had its time; a dear one where dear ones are too many.
    /// All others keep their place.
    pub(crate) fn drop_silent(&mut self, is_dear: bool, poller: &Poller, now: Time) -> bool {
        let is_one = |visitor: &Visitor| visitor.told.is_none() && (visitor.handshake.is_dear() || !is_dear);
        let oldest = self.all.iter().find(|(_, visitor)| is_one(visitor));
        let overdue = oldest.filter(|(_, visitor)| now.since(visitor.came) >= GRACE).map(|(key, _)| *key);
        if let Some(key) = overdue {
            self.forget(key, poller);
        }
        overdue.is_some()
    }

    /// Sends off those for whom there is no room and who have said nothing: others need the descriptors by which they are told.
    /// They are told too. Those that could not read it yet, as an encrypted connection begins with words of its own, have
    /// their time first. If there are none, the oldest that has had its time goes. Returns what became of them.
    pub(crate) fn turn_silent_away(
        &mut self,
        why: Shortage,
        poller: &Poller,
        now: Time,
    ) -> Vec<ConnectError> {
        let has_had_its_time = |visitor: &Visitor| now.since(visitor.came) >= GRACE;
        let goes = |(_, visitor): &(&u64, &Visitor)| {
            let is_meant = visitor.told.is_none() && visitor.shortage.is_some();
            is_meant && (visitor.handshake.hears_refusals() || has_had_its_time(visitor))
        };
        let mut going: Vec<u64> = self.all.iter().filter(goes).map(|(key, _)| *key).collect();
        if going.is_empty() {
            let oldest = self.all.iter().find(|(_, visitor)| visitor.told.is_none());
            going.extend(oldest.filter(|(_, visitor)| has_had_its_time(visitor)).map(|(key, _)| *key));
        }
        let mut gone = Vec::new();
        for key in going {
            gone.extend(self.all.get_mut(&key).map(|visitor| visitor.handshake.turn_away(why, now)));
            self.forget(key, poller);
        }
        gone
    }

    /// Ends a handshake. Closing its socket is not enough: the poller would go on to watch one that something else holds
    /// as well.
    fn forget(&mut self, key: u64, poller: &Poller) {
        if let Some(visitor) = self.all.remove(&key)
            && let Some(descriptor) = visitor.handshake.descriptor()
        {
            poller.remove(descriptor);
        }
    }

    pub(crate) fn admit(
        &mut self,
        key: u64,
        handshake: Box<dyn Incoming>,
        (worker, shortage): (Option<usize>, Option<Shortage>),
        now: Time,
    ) {
        self.all.insert(key, Visitor { handshake, worker, came: now, told: None, shortage });
    }

    /// Listens to a visitor. Returns what went wrong, if it is no visitor any more.
    pub(crate) fn hear(&mut self, key: u64, poller: &Poller, now: Time) -> Option<ConnectError> {
        let visitor = self.all.get_mut(&key).filter(|visitor| visitor.told.is_none())?;
        let error = match (visitor.handshake.hear(now), visitor.shortage) {
            (Ok(false), _) => return None,
            (Ok(true), None) => {
                visitor.told = Some(now);
                self.heard.push_back(key);
                return None;
            }
            // One that was not heard in time reads that as well, if it is there.
            (Ok(true) | Err(ConnectError::TimedOut { .. }), Some(shortage)) => {
                visitor.handshake.turn_away(shortage, now)
            }
            (Err(error), _) => error,
        };
        self.forget(key, poller);
        Some(error)
    }

    /// Makes the link of the peer that was heard first.
    pub(crate) fn greet_next(
        &mut self,
        poller: &Poller,
        reserve: &mut Reserve,
        now: Time,
    ) -> Option<Greeted> {
        let place = self.next_heard()?;
        let key = self.heard.remove(place)?;
        let visitor = self.all.get_mut(&key)?;
        if !growth().has_place(KEPT) {
            let error = visitor.handshake.turn_away(("its memory limit", Errno::NOMEM), now);
            self.forget(key, poller);
            return Some(Greeted::Failed(error));
        }
        // Those who wait have taken all descriptors that are left, perhaps, and a link needs another while it is made.
        let greeted = match reserve.lend(|| visitor.handshake.greet(now)) {
            Ok(Some(link)) => Greeted::Link(link, visitor.worker),
            Ok(None) => {
                self.heard.insert(place, key);
                self.is_held_up = true;
                return Some(Greeted::NotYet);
            }
            Err(error) => Greeted::Failed(error),
        };
        self.forget(key, poller);
        Some(greeted)
    }

    /// Tells those who were heard a while ago that their turn will come. Returns what went wrong with those who have gone.
    pub(crate) fn reassure(&mut self, poller: &Poller, now: Time) -> Vec<ConnectError> {
        let mut gone = Vec::new();
        for key in &self.heard {
            let Some(visitor) = self.all.get_mut(key) else { continue };
            if visitor.told.is_none_or(|told| now.since(told) >= REASSURE) {
                visitor.told = Some(now);
                gone.extend(visitor.handshake.reassure(now).err().map(|error| (*key, error)));
            }
        }
        for (key, _) in &gone {
            self.forget(*key, poller);
            self.heard.retain(|other| other != key);
        }
        gone.into_iter().map(|(_, error)| error).collect()
    }

    /// Those who have said nothing for so long that the desk has to look whether their time is up.
    pub(crate) fn due(&self, now: Time) -> Vec<u64> {
        let is_due = |visitor: &Visitor| visitor.told.is_none() && visitor.handshake.next_look() <= now;
        self.all.iter().filter(|(_, visitor)| is_due(visitor)).map(|(key, _)| *key).collect()
    }
}
