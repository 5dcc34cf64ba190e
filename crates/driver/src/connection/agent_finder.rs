//! How a client finds the agent again whose link it has lost.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

use outboard_link::{
    Address, AnyDialing, AnyLink, Clock, ConnectError, Exports, Identity, LinkConfigs, connect, dial,
};

use super::one_thread::{OneThread, Work};

/// How often a handshake that is under way is looked at.
const LOOK: Duration = Duration::from_millis(2);

/// Where the system gives no such thread, a dial is in vain, and tried again later.
static REDIAL: OneThread<Search> = OneThread::new("outboard-redial");

/// Where a client's agent is, and what is shown to it.
#[derive(Clone)]
struct Place {
    address: Address,
    identity: Identity,
    configs: LinkConfigs,
}

/// A client's way to its agent. The first link is waited for; one that is lost is replaced by the one thread of this process
/// that dials again, so that no call waits for it.
pub struct AgentFinder<A> {
    begin: Box<dyn Fn() -> Receiver<A> + Send>,
    found: Option<Receiver<A>>,
}

impl AgentFinder<AnyLink> {
    /// The agent at `address`. Returns the link to it as well, or why there is none yet.
    pub fn connect(
        address: &Address,
        identity: Identity,
        configs: LinkConfigs,
    ) -> (Self, Result<AnyLink, ConnectError>) {
        let link = connect(address, identity.clone(), Exports::new(), &configs);
        let place = Place { address: address.clone(), identity, configs };
        let begin = move || {
            let (tell, found) = channel();
            REDIAL.give(Search::new(place.clone(), tell));
            found
        };
        (Self { begin: Box::new(begin), found: None }, link)
    }
}

impl<A> AgentFinder<A> {
    /// Has the agent dialled, if it is not dialled yet. Returns what came of it: the link, or none if the agent is not there;
    /// nothing while that is not known.
    pub fn dial(&mut self) -> Option<Option<A>> {
        let found = match self.found.get_or_insert_with(&self.begin).try_recv() {
            Err(TryRecvError::Empty) => return None,
            found => found.ok(),
        };
        self.found = None;
        Some(found)
    }
}

/// An agent that is being dialled.
struct Search {
    place: Place,
    tell: Sender<AnyLink>,
    clock: Clock,
    handshake: Option<Box<dyn AnyDialing>>,
    due: Instant,
}

impl Search {
    fn new(place: Place, tell: Sender<AnyLink>) -> Self {
        Self { place, tell, clock: Clock::start(), handshake: None, due: Instant::now() }
    }

    /// Goes on with the handshake; `None` means not yet.
    fn advance(&mut self) -> Result<Option<AnyLink>, ConnectError> {
        let now = self.clock.now();
        let handshake = match &mut self.handshake {
            Some(handshake) => handshake,
            none => {
                let Place { address, identity, configs } = &self.place;
                none.insert(dial(address, identity.clone(), Exports::new(), configs, now)?)
            }
        };
        handshake.advance(now)
    }
}

impl Work for Search {
    fn due(&self) -> Instant {
        self.due
    }

    fn step(&mut self) -> bool {
        match self.advance() {
            Ok(None) => {
                self.due = Instant::now() + LOOK;
                true
            }
            Ok(Some(link)) => {
                // The client may have gone.
                let _ = self.tell.send(link);
                false
            }
            // The client sees that no link comes. It dials again later.
            Err(error) => {
                tracing::debug!("the agent is not there: {error}");
                false
            }
        }
    }
}
