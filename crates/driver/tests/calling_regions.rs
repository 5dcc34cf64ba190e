//! Regions that functions use from afar are open for as long as a caller uses them, or is about to.
// Also outside test functions a test fails by panicking.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use outboard_calling::{Ambient, FindRegion, RemoteAccess, RemoteRegion};
use outboard_link::loopback::{FaultPlan, LoopbackLink, Network};
use outboard_link::memory::Segment;
use outboard_link::{Export, Exports, Identity, Link, RemoteMemory};
use outboard_wire::calling::{Allowed, CallerId};
use outboard_wire::{Generation, RegionId, RegionKey, Rights, Role, Time};

const GONE: CallerId = CallerId([1; 16]);
const OTHER: CallerId = CallerId([2; 16]);
const ALLOWED: Allowed = Allowed {
    region: RegionId(1),
    generation: Generation(1),
    key: RegionKey([7; 16]),
    rights: Rights::READ,
    size: 4096,
};

/// An agent's end of a link to the owner of a region.
struct Pair {
    access: RemoteAccess,
    ours: LoopbackLink,
    theirs: LoopbackLink,
    now: u64,
}

impl Pair {
    fn new() -> Self {
        let (exports, Allowed { region, generation, key, .. }) = (Exports::new(), ALLOWED);
        let memory = Arc::new(Segment::create(c"test", 4096).unwrap());
        exports.add(Export { region, generation, memory, keys: vec![(key, Rights::ALL)] });
        let identity = |name| Identity::new(Role::Tool, name);
        let network = Network::new(1, FaultPlan::none());
        let (ours, theirs) =
            network.connect(identity("agent"), Exports::new(), identity("owner"), exports).unwrap();
        let access = RemoteAccess::new(Ambient::new(1, || 0, |_| {}), false);
        Self { access, ours, theirs, now: 0 }
    }

    fn find(&mut self, by: CallerId) -> Option<RemoteRegion> {
        self.access.find(by, &ALLOWED).unwrap()
    }

    /// Lets both ends do what there is to do.
    fn turn(&mut self) {
        for _ in 0..10 {
            self.now += 1_000_000;
            let now = Time::from_nanos(self.now);
            self.access.work(&mut self.ours).unwrap();
            self.ours.progress(now).unwrap();
            self.theirs.progress(now).unwrap();
            let access = &mut self.access;
            self.ours.completions(|completion| {
                assert!(completion.result.is_ok(), "{completion:?}");
                access.on_completion(&completion, |_, _| panic!("no function waits"));
            });
        }
    }
}

#[test]
fn a_region_that_a_caller_is_about_to_use_stays_open_when_another_goes() {
    for has_opened in [false, true] {
        let mut pair = Pair::new();
        assert!(pair.find(GONE).is_none(), "it is not open yet");
        if has_opened {
            pair.turn();
        }
        pair.access.caller_gone(OTHER);
        pair.turn();
        assert!(pair.find(GONE).is_some(), "it was open all the time: {has_opened}");
    }
}

#[test]
fn a_region_that_only_a_caller_that_has_gone_asked_for_is_closed() {
    for has_opened in [false, true] {
        let mut pair = Pair::new();
        assert!(pair.find(GONE).is_none(), "it is not open yet");
        if has_opened {
            pair.turn();
        }
        pair.access.caller_gone(GONE);
        pair.turn();
        // The next who wants it opens it anew.
        assert!(pair.find(OTHER).is_none(), "no caller was about to use it: {has_opened}");
        pair.turn();
        let used = pair.find(OTHER);
        pair.access.caller_gone(OTHER);
        pair.turn();
        assert!(used.is_some() && pair.find(GONE).is_some(), "a function uses it");
    }
}
