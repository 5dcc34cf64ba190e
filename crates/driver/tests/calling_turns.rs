//! A caller and a site in one thread, on a simulated link and in virtual time: neither needs more.
// Also outside test functions a test fails by panicking.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use outboard_calling::{
    AccessProgress, Ambient, Begin, CallPlacement, CallingDesk, Dispatcher, DispatcherConfig, ExecutorConfig,
    FindRegion, FunctionImage, FunctionNeeds, LaneWork, PreparedFunction, Refused, RegisterError,
    SharedCalls, SiteHost, SiteOperation, TableLimits, Ticket,
};
use outboard_driver::{LinkId, Outbox};
use outboard_link::loopback::{FaultPlan, LoopbackLink, Network};
use outboard_link::memory::Segment;
use outboard_link::{Export, Exports, Identity, Link};
use outboard_wire::calling::{Allowed, CallerId, RegisterRefusal, TrapReason};
use outboard_wire::{Generation, RegionId, RegionKey, Rights, Role, Time};

const ALLOWED: Allowed = Allowed {
    region: RegionId(1),
    generation: Generation(1),
    key: RegionKey([7; 16]),
    rights: Rights::READ,
    size: 4096,
};
const CALLER: LinkId = LinkId(1);
const PATIENCE: Duration = Duration::from_secs(1);

/// A site whose functions use no region.
struct Plain;

impl FindRegion for Plain {
    type Region = ();

    fn find(&mut self, _: CallerId, _: &Allowed) -> Result<Option<()>, Refused> {
        Ok(Some(()))
    }
}

impl SiteHost for Plain {
    type Region = ();

    fn read(&mut self, (): &(), _: u64, _: &mut [u8]) -> AccessProgress {
        AccessProgress::Refused(TrapReason::RegionGone)
    }

    fn write(&mut self, (): &(), _: u64, _: &[u8]) -> AccessProgress {
        AccessProgress::Refused(TrapReason::RegionGone)
    }

    fn compare_swap(&mut self, (): &(), _: u64, _: (u64, u64)) -> AccessProgress {
        AccessProgress::Refused(TrapReason::RegionGone)
    }

    fn fetch_add(&mut self, (): &(), _: u64, _: u64) -> AccessProgress {
        AccessProgress::Refused(TrapReason::RegionGone)
    }

    fn begin(&mut self, _: Ticket, (): &(), _: SiteOperation<'_>) {
        unreachable!("no access of this site takes longer");
    }

    fn time(&mut self) -> u64 {
        0
    }

    fn random(&mut self) -> u64 {
        4
    }

    fn log(&mut self, _: &[u8]) {}
}

/// A caller, its memory server, and the time.
struct World {
    dispatcher: Dispatcher<LoopbackLink, LoopbackLink>,
    link: LoopbackLink,
    desk: CallingDesk<()>,
    outbox: Outbox,
    now: Time,
    /// The values that calls have returned.
    ended: Vec<(u64, u64)>,
}

impl World {
    fn new() -> Self {
        let exports = Exports::new();
        let memory = Arc::new(Segment::create(c"test", ALLOWED.size as usize).unwrap());
        let keys = vec![(ALLOWED.key, Rights::ALL)];
        exports.add(Export { region: ALLOWED.region, generation: ALLOWED.generation, memory, keys });
        let network = Network::new(1, FaultPlan::none());
        let caller = Identity::new(Role::Application, "caller");
        let server = Identity::new(Role::MemoryServer, "server");
        let (ours, link) = network.connect(caller, Exports::new(), server, exports).unwrap();
        let config = DispatcherConfig {
            under_way_max: 8,
            placement: CallPlacement::Steered,
            silence_max: PATIENCE,
            ambient: Ambient::new(1, || 0, |_| {}),
        };
        let look = |work: LaneWork| {
            work.run(|_, work| {
                work();
                Ok(())
            });
        };
        let shared = SharedCalls::new(TableLimits::default(), |_| {}, look);
        Self {
            dispatcher: Dispatcher::new(ours, None, CallerId([1; 16]), config),
            link,
            desk: CallingDesk::new(shared, ExecutorConfig::default()),
            outbox: Outbox::default(),
            now: Time::ZERO,
            ended: Vec::new(),
        }
    }

    /// Lets both do what there is to do.
    fn turns(&mut self, count: usize) {
        for _ in 0..count {
            self.now += Duration::from_micros(100);
            let Self { dispatcher, link, desk, outbox, now, ended } = self;
            link.progress(*now).unwrap();
            link.receive(64, |frame| desk.on_frame((CALLER, frame, *now), &mut Plain, outbox)).unwrap();
            desk.run(*now, &mut Plain, outbox);
            outbox.send(CALLER, link).unwrap();
            link.flush().unwrap();
            dispatcher.turn(&|| *now, &mut |call, result| ended.push((call, result.unwrap().0)));
        }
    }

    fn register(&mut self, image: &FunctionImage, fuel: u64) -> Result<u32, RegisterError> {
        let wanted = FunctionNeeds { regions: vec![ALLOWED], fuel, reply_max: 0 };
        self.dispatcher.begin_to_register(image, wanted, PATIENCE, self.now).unwrap();
        loop {
            // Some turns at a time: a client that registers may be slow.
            self.turns(20);
            if let Some(registered) = self.dispatcher.go_on_registering(self.now) {
                return registered;
            }
        }
    }
}

fn image(number: u32) -> FunctionImage {
    FunctionImage::from_text(&format!("mov r0, {number}\nexit"), "main").unwrap()
}

#[test]
fn a_function_is_registered_and_called_without_a_clock_or_a_thread() {
    let mut world = World::new();
    let handle = world.register(&image(7), 100).unwrap();
    let begin = Begin { handle, slot: 3, arguments: &[], patience: Some(PATIENCE) };
    let now = world.now;
    let call = world.dispatcher.begin(&begin, || now).unwrap();
    world.turns(20);
    assert_eq!((world.ended.as_slice(), world.dispatcher.under_way()), (&[(call, 7)][..], 0));
}

#[test]
fn a_function_that_is_refused_while_it_is_looked_at_is_forgotten() {
    let mut world = World::new();
    // Functions are to run here too.
    world.dispatcher.open_here();
    world.turns(20);
    let wanted = FunctionNeeds { regions: vec![ALLOWED], fuel: u64::MAX, reply_max: 0 };
    world.dispatcher.begin_to_register(&image(1), wanted, PATIENCE, world.now).unwrap();
    assert!(world.dispatcher.go_on_registering(world.now).is_none(), "the server was asked");
    world.turns(40);
    assert!(world.dispatcher.unprepared().is_some(), "a thread looks at it");
    let refused = world.dispatcher.go_on_registering(world.now).unwrap().unwrap_err();
    let is_over_quota = matches!(refused, RegisterError::Refused { refusal: RegisterRefusal::OverQuota, .. });
    assert!(is_over_quota, "{refused:?}");
    assert!(world.dispatcher.unprepared().is_none(), "no thread is to look at it any more");
    // A thread has looked at it meanwhile.
    world.dispatcher.prepared(image(1).name(), PreparedFunction::prepare(&image(1)));
    let handle = world.register(&image(2), 100).unwrap();
    assert_eq!(handle, 0);
    world.turns(20);
    let is_second =
        world.dispatcher.unprepared().is_some_and(|unprepared| unprepared.name() == image(2).name());
    assert!(is_second, "the next function is looked at instead");
    world.dispatcher.prepared(image(2).name(), PreparedFunction::prepare(&image(2)));
    let begin = Begin { handle, slot: 3, arguments: &[], patience: None };
    let now = world.now;
    let call = world.dispatcher.begin(&begin, || now).unwrap();
    world.turns(20);
    assert_eq!(world.ended, [(call, 2)]);
}
