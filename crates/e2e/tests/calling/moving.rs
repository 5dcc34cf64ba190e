//! Slots that move while calls are in the middle of their run.

use std::time::{Duration, Instant};

use outboard::{FarRegion, RegisterRefusal, Rights};
use outboard_calling::{
    Begin, CallBeginError, CallPlacement, Dispatcher, DispatcherConfig, FunctionNeeds, RegisterError, SLOTS,
    SiteLink, SlotTable,
};
use outboard_driver::calling::{CallerThread, ambient, draw_caller};
use outboard_link::shm::ShmLink;
use outboard_link::tcp::TcpLink;
use outboard_link::{Address, Exports, Link, RemoteMemory, shm, tcp};
use outboard_steering::Site;
use outboard_wire::calling::{Allowed, SlotSites};

use crate::world::{Daemons, identity, image, link_settings, memory};
use outboard_e2e::PATIENCE;

/// Reads a word several times, counts in another, reads again, and replies as much as it has read.
pub(crate) const READ_COUNT_READ: &str = "
    ldxdw r6, [r1+0]
    mov r7, 4
    again:
    mov r1, 0
    mov r2, 8
    mov r3, r10
    add r3, -8
    mov r4, 8
    call region_read
    mov r1, r10
    add r1, -8
    mov r2, 8
    call reply
    jne r7, 2, next
    mov r1, 0
    mov r2, 16
    mov r3, 1
    call region_fetch_add
    next:
    add r7, -1
    jne r7, 0, again
    mov r0, r6
    exit";

/// How many calls a site answers before slots go on to the next.
const STAY: u64 = 10;
/// How many calls are made at least.
const CALLS: u64 = 3000;

pub(crate) fn tcp_link(address: &Address) -> TcpLink {
    let Address::Tcp(socket) = address else { panic!("{address}") };
    tcp::connect(*socket, identity(), Exports::new(), link_settings().tcp()).unwrap()
}

pub(crate) fn shm_link(address: &Address) -> ShmLink {
    shm::connect(address, identity(), Exports::new(), link_settings().shm()).unwrap()
}

pub(crate) fn config(under_way_max: usize, placement: CallPlacement) -> DispatcherConfig {
    DispatcherConfig { under_way_max, placement, silence_max: PATIENCE, ambient: ambient(|_| {}) }
}

pub(crate) fn allowed(region: &FarRegion, rights: Rights) -> Allowed {
    let grant = region.descriptor().grant;
    let (region, generation, key, size) = (grant.region, grant.generation, grant.key, grant.size);
    Allowed { region, generation, key, rights, size }
}

/// Makes calls while all slots move from site to site, and looks what became of them: many, until every site has answered
/// and some call has moved in the middle of its run. Returns how many were made.
///
/// However many there are, none may run in the application before a thread has looked at the function there; until then
/// they go elsewhere.
fn wander<L: Link + RemoteMemory>(link: L, agent: &Address, region: &FarRegion) -> u64 {
    let caller = draw_caller();
    let server = link.peer().incarnation();
    let agent = SiteLink::new(shm_link(agent), caller, server);
    let config = config(256, CallPlacement::Steered);
    let mut thread = CallerThread::new(Dispatcher::new(link, Some(agent), caller, config));
    let wanted = FunctionNeeds { regions: vec![allowed(region, Rights::ALL)], fuel: 10_000, reply_max: 64 };
    let handle = thread.register(&image(READ_COUNT_READ), wanted, PATIENCE).unwrap();
    // What the memory server would say itself is older.
    let mut table = SlotTable::from_wire(&SlotSites { epoch: 1 << 20, sites: [Site::Server; SLOTS] });
    let (mut ended, mut begun, mut step, mut to, mut answered_before) = (0, 0, 0, Site::Server, 0);
    thread.dispatcher.adopt(table);
    let until = Instant::now() + PATIENCE;
    let mut is_enough = false;
    while !is_enough || ended < begun {
        let moved = thread.dispatcher.moved_total();
        assert!(
            Instant::now() < until,
            "{ended} of {begun} have ended, {moved} moved: {:?}",
            thread.dispatcher.sites()
        );
        is_enough =
            begun >= CALLS && moved > 0 && thread.dispatcher.sites().iter().all(|report| report.answered > 0);
        let arguments = u64::to_le_bytes(begun);
        let (slot, patience) = (begun as u8, None);
        let mut is_full = is_enough;
        if !is_enough {
            match thread.begin(&Begin { handle, slot, arguments: &arguments, patience }) {
                Ok(_) => begun += 1,
                Err(CallBeginError::Full(_)) => is_full = true,
                Err(error) => panic!("{error:?}"),
            }
        }
        if is_full || begun.is_multiple_of(16) {
            thread.turn(&mut |_, result| {
                let (_, reply) = result.unwrap();
                assert_eq!(reply, 7u64.to_le_bytes().repeat(4));
                ended += 1;
            });
            // Some calls end there before slots go on, and others do not.
            let answered = thread.dispatcher.sites()[to as usize].answered;
            if answered >= answered_before + STAY {
                step += 1;
                to = [Site::Application, Site::Agent, Site::Server, Site::Agent][step % 4];
                answered_before = thread.dispatcher.sites()[to as usize].answered;
                table.assign(0..=(SLOTS - 1) as u8, to);
                thread.dispatcher.adopt(table);
            }
        }
    }
    thread.dispatcher.close();
    begun
}

#[test]
fn calls_whose_slots_move_run_once_and_give_the_same() {
    let daemons = Daemons::start();
    let mut memory = memory(&daemons.shm());
    let region = memory.reserve(4096, None).unwrap();
    memory.write(&region, 8, &7u64.to_le_bytes()).unwrap();
    let agent = daemons.agent(&daemons.tcp());
    let over_tcp = wander(tcp_link(&daemons.tcp()), &agent.shm(), &region);
    assert_eq!(memory.fetch_add(&region, 16, 0).unwrap(), over_tcp, "every call once");
    let over_shm = wander(shm_link(&daemons.shm()), &agent.shm(), &region);
    assert_eq!(memory.fetch_add(&region, 16, 0).unwrap(), over_tcp + over_shm, "every call once");
}

#[test]
fn a_call_that_is_given_back_late_begins_elsewhere_by_a_number_that_nobody_takes_for_an_old_one() {
    let daemons = Daemons::start();
    let mut memory = memory(&daemons.shm());
    let region = memory.reserve(4096, None).unwrap();
    let agent = daemons.agent(&daemons.shm());
    let (link, caller) = (shm_link(&daemons.shm()), draw_caller());
    let by_agent = SiteLink::new(shm_link(&agent.shm()), caller, link.peer().incarnation());
    let mut thread =
        CallerThread::new(Dispatcher::new(link, Some(by_agent), caller, config(16, CallPlacement::Steered)));
    let wanted = FunctionNeeds { regions: vec![allowed(&region, Rights::ALL)], fuel: 10_000, reply_max: 64 };
    let handle = thread.register(&image(READ_COUNT_READ), wanted, PATIENCE).unwrap();
    let mut table = SlotTable::from_wire(&SlotSites { epoch: 1 << 20, sites: [Site::Agent; SLOTS] });
    thread.dispatcher.adopt(table);
    let begin = Begin { handle, slot: 0, arguments: &[0; 8], patience: None };
    let (mut calls, until) = (3, Instant::now() + PATIENCE);
    // It may learn the function late.
    while thread.dispatcher.sites()[Site::Agent as usize].answered == 0 {
        assert!(Instant::now() < until, "{:?}", thread.dispatcher.sites());
        if thread.dispatcher.under_way() == 0 {
            thread.begin(&begin).unwrap();
            calls += 1;
        }
        thread.turn(&mut |_, result| assert!(result.is_ok()));
    }
    agent.stop();
    let old: Vec<u64> = (0..3).map(|_| thread.begin(&begin).unwrap()).collect();
    thread.dispatcher.flush();
    table.assign(0..=(SLOTS - 1) as u8, Site::Server);
    thread.dispatcher.adopt(table);
    // Until it is known that the agent says nothing, calls go there while the server is slow, and stay there.
    while !thread.dispatcher.sites()[Site::Agent as usize].is_silent {
        assert!(Instant::now() < until, "{:?}", thread.dispatcher.sites());
        thread.turn(&mut |call, result| panic!("{call} has ended: {result:?}"));
    }
    let mut ended = Vec::new();
    while ended.len() < 2 * outboard_calling::WINDOW as usize {
        assert!(Instant::now() < until, "{:?}", thread.dispatcher.sites());
        while thread.begin(&begin).is_ok() {
            calls += 1;
        }
        thread.turn(&mut |call, result| {
            assert!(result.is_ok(), "{call}: {result:?}");
            ended.push(call);
        });
    }
    assert!(old.iter().all(|call| !ended.contains(call)));
    agent.go_on();
    while thread.dispatcher.under_way() > 0 {
        assert!(Instant::now() < until, "{:?}", thread.dispatcher.sites());
        thread.turn(&mut |call, result| {
            assert!(result.is_ok(), "{call}: {result:?}");
            ended.push(call);
        });
    }
    assert!(old.iter().all(|call| ended.contains(call)), "their caller knows them by what it was told first");
    assert_eq!(memory.fetch_add(&region, 16, 0).unwrap(), calls);
}

#[test]
fn an_agent_that_finds_its_server_late_is_used_then() {
    let daemons = Daemons::start();
    let mut memory = memory(&daemons.shm());
    let region = memory.reserve(4096, None).unwrap();
    let link = shm_link(&daemons.shm());
    daemons.stop();
    let agent = daemons.agent_soon(&daemons.shm());
    let (caller, server) = (draw_caller(), link.peer().incarnation());
    let by_agent = SiteLink::new(shm_link(&agent.shm()), caller, server);
    let placement = CallPlacement::Hinted(Site::Agent);
    let config = config(16, placement);
    let mut thread = CallerThread::new(Dispatcher::new(link, Some(by_agent), caller, config));
    daemons.go_on();
    let wanted = FunctionNeeds { regions: vec![allowed(&region, Rights::ALL)], fuel: 10_000, reply_max: 64 };
    let handle = thread.register(&image(READ_COUNT_READ), wanted, PATIENCE).unwrap();
    let (until, mut calls) = (Instant::now() + PATIENCE, 0);
    while thread.dispatcher.sites()[Site::Agent as usize].answered < 10 {
        assert!(Instant::now() < until, "{:?}", thread.dispatcher.sites());
        if thread.dispatcher.under_way() == 0 {
            thread.begin(&Begin { handle, slot: 0, arguments: &[0; 8], patience: None }).unwrap();
            calls += 1;
        }
        thread.turn(&mut |_, result| assert!(result.is_ok()));
    }
    assert_eq!(memory.fetch_add(&region, 16, 0).unwrap(), calls);
}

#[test]
fn a_state_that_no_site_understands_ends_the_call() {
    use outboard_link::{Disposition, Waiter};
    use outboard_wire::FrameHead;
    use outboard_wire::calling::{CallFailure, FAILED, Failed, Moving, OPEN, Open, RECALL, RESUME, Recall};

    let daemons = Daemons::start();
    let agent = daemons.agent(&daemons.shm());
    let server = shm_link(&daemons.shm()).peer().incarnation();
    for address in [daemons.shm(), agent.shm()] {
        let mut link = shm_link(&address);
        let mut ask = |kind, payload: &[u8]| {
            link.send(FrameHead::new(kind), payload).unwrap();
            link.flush().unwrap();
        };
        ask(OPEN, &Open { caller: draw_caller(), server }.encode());
        ask(RECALL, &Recall { calls: vec![1, 2, 3] }.encode());
        ask(RECALL, &[1, 2, 3]);
        ask(RESUME, &[0; 5]);
        let mut bytes = Vec::new();
        let (reply, state) = (b"so far", b"nonsense");
        Moving { call: 9, handle: 3, patience_us: 0, spent: 0, reply, state }.encode(&mut bytes);
        ask(RESUME, &bytes);
        let mut heard = None;
        let hear = |link: &mut ShmLink| {
            link.receive(1, |frame| {
                heard = Some((frame.head.kind, frame.payload.to_vec()));
                Disposition::Taken
            })?;
            Ok(heard.take())
        };
        let waiter = Waiter::new().with_spin(Duration::ZERO);
        let (kind, payload) = waiter.until(&mut link, PATIENCE, "an answer", hear).unwrap();
        assert_eq!(kind, FAILED);
        let failed = Failed { call: 9, failure: CallFailure::NotResumed };
        assert_eq!(Failed::decode(&payload).unwrap(), failed);
    }
}

#[test]
fn whoever_lies_about_a_region_costs_others_nothing() {
    let daemons = Daemons::start();
    let mut memory = memory(&daemons.shm());
    let region = memory.reserve(4096, None).unwrap();
    for link in [daemons.shm(), daemons.tcp()] {
        let agent = daemons.agent(&link);
        let start = |site| {
            let (caller, link) = (draw_caller(), shm_link(&daemons.shm()));
            let by_agent = SiteLink::new(shm_link(&agent.shm()), caller, link.peer().incarnation());
            let config = config(16, CallPlacement::Fixed(site));
            CallerThread::new(Dispatcher::new(link, Some(by_agent), caller, config))
        };
        let wanted = |allowed| FunctionNeeds { regions: vec![allowed], fuel: 10_000, reply_max: 64 };
        let mut honest = start(Site::Agent);
        let good = wanted(allowed(&region, Rights::ALL));
        let handle = honest.register(&image(READ_COUNT_READ), good, PATIENCE).unwrap();
        for site in [Site::Agent, Site::Server] {
            let mut liar = start(site);
            let larger = Allowed { size: 1 << 40, ..allowed(&region, Rights::ALL) };
            let mut key = allowed(&region, Rights::ALL);
            key.key.0[3] ^= 1;
            for lie in [larger, key] {
                match liar.register(&image(READ_COUNT_READ), wanted(lie), PATIENCE) {
                    Err(RegisterError::Refused { refusal: RegisterRefusal::NoRegion, .. }) => {}
                    other => panic!("{other:?} at {site:?}"),
                }
            }
        }
        honest.begin(&Begin { handle, slot: 0, arguments: &[0; 8], patience: None }).unwrap();
        let until = Instant::now() + PATIENCE;
        while honest.dispatcher.under_way() > 0 {
            assert!(Instant::now() < until, "{:?}", honest.dispatcher.sites());
            honest.turn(&mut |_, result| assert!(result.is_ok(), "{result:?}"));
        }
    }
}
