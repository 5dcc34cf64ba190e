//! A memory server that moves slots by what callers tell, and says so to who asked.
// Also outside test functions a test fails by panicking.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use outboard_agent::Daemon;
use outboard_link::shm::{self, ShmLink};
use outboard_link::{Address, Disposition, Exports, FrameSendError, Identity, Link, Waiter};
use outboard_settings::Settings;
use outboard_wire::calling::{ASK, LOAD, OBSERVED, Observed, Seen, SiteLoad, SlotQuestion, SlotSites, TABLE};
use outboard_wire::{FrameHead, FrameKind, Role, Site};

/// How long anything here may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn server(name: &str) -> (Daemon, Address) {
    let mut settings = Settings::default();
    let address: Address = format!("unix:@outboard-steering-{name}-{}", std::process::id()).parse().unwrap();
    settings.memory.listen = vec![address.clone()];
    (Daemon::memory(&settings).unwrap(), address)
}

struct Caller {
    link: ShmLink,
    waiter: Waiter,
    tables: Vec<SlotSites>,
}

impl Caller {
    fn new(address: &Address) -> Self {
        let identity = Identity::new(Role::Application, "test");
        let config = shm::ShmConfig { handshake_timeout: PATIENCE, ..Default::default() };
        let link = shm::connect(address, identity, Exports::new(), config).unwrap();
        Self { link, waiter: Waiter::new(), tables: Vec::new() }
    }

    fn send(&mut self, kind: FrameKind, payload: &[u8]) {
        match self.link.send(FrameHead::new(kind), payload) {
            // A server that gets no processor meanwhile is told later.
            Err(FrameSendError::Full) => assert_eq!(kind, OBSERVED),
            sent => sent.unwrap(),
        }
        self.link.flush().unwrap();
    }

    fn listen(&mut self) {
        self.link.progress(self.waiter.clock.now()).unwrap();
        let tables = &mut self.tables;
        let hear = |frame: outboard_link::Frame<'_>| {
            assert_eq!(frame.head.kind, TABLE);
            tables.push(SlotSites::decode(&frame.payload.to_vec()).unwrap());
            Disposition::Taken
        };
        self.link.receive(16, hear).unwrap();
    }

    /// Says what it sees about every millisecond, until a table comes that is as wanted.
    fn observe_until(&mut self, observed: &Observed, is_wanted: impl Fn(&SlotSites) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !self.tables.last().is_some_and(&is_wanted) {
            self.send(OBSERVED, &observed.encode());
            let limit = self.waiter.clock.now() + Duration::from_millis(1);
            self.waiter.sleep(&mut self.link, limit).unwrap();
            self.listen();
            assert!(Instant::now() < until, "not within {PATIENCE:?}: {:?}", self.tables.last());
        }
    }
}

fn seen(is_usable: bool, micros: u64) -> Seen {
    Seen { is_usable, calls: 100, round_trips_ns: micros * 100_000, ..Seen::default() }
}

fn count(table: &SlotSites, place: Site) -> usize {
    table.sites.iter().filter(|there| **there == place).count()
}

#[test]
fn slots_follow_what_callers_see() {
    let (daemon, address) = server("follow");
    let mut caller = Caller::new(&address);
    caller.send(ASK, &SlotQuestion { epoch: 0 }.encode());
    let nothing = Seen::default();
    let both =
        |agent_us, server_us| Observed { sites: [nothing, seen(true, agent_us), seen(true, server_us)] };
    caller.observe_until(&both(50, 40), |table| count(table, Site::Server) == 256);
    assert_eq!(caller.tables[0], SlotSites { epoch: 0, sites: [Site::Server; 256] }, "the answer");
    caller.observe_until(&both(50, 10_000), |table| count(table, Site::Agent) > 200);
    // A line that is being written at the moment is not seen.
    let is_explained = |line: &String| line.contains("moved from server because it is cheaper");
    let until = Instant::now() + PATIENCE;
    loop {
        let view = daemon.page().view().unwrap();
        if view.get("slots_agent") > Some(200) && view.lines.iter().any(is_explained) {
            break;
        }
        assert!(Instant::now() < until, "{view:#?}");
        std::thread::yield_now();
    }
    let lost = Observed { sites: [nothing, nothing, seen(true, 40)] };
    caller.observe_until(&lost, |table| count(table, Site::Server) == 256);
    assert!(caller.tables.is_sorted_by_key(|table| table.epoch));
    daemon.stop("the test is over").unwrap();
}

#[test]
fn others_are_told_and_strangers_are_not_believed() {
    let (daemon, address) = server("strangers");
    let (mut caller, mut other) = (Caller::new(&address), Caller::new(&address));
    let dear = Observed { sites: [Seen::default(), seen(true, 50), seen(true, 10_000)] };
    // Who has not asked is no caller, and no application an agent.
    caller.send(OBSERVED, &dear.encode());
    caller.send(LOAD, &SiteLoad::default().encode());
    caller.send(ASK, &[1, 2, 3]);
    let refused = || daemon.page().view().unwrap().get("questions_refused_total");
    let until = Instant::now() + PATIENCE;
    while refused() < Some(3) {
        assert!(Instant::now() < until, "{:?}", refused());
        std::thread::yield_now();
    }
    other.send(ASK, &SlotQuestion { epoch: 0 }.encode());
    caller.send(ASK, &SlotQuestion { epoch: 0 }.encode());
    caller.observe_until(&dear, |table| count(table, Site::Agent) > 200);
    let newest = caller.tables.last().copied().unwrap();
    while other.tables.last().is_none_or(|table| table.epoch < newest.epoch) {
        other.listen();
        assert!(Instant::now() < until, "{:?}", other.tables.last());
    }
    daemon.stop("the test is over").unwrap();
}
