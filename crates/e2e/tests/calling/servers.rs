//! Calls that go on at another memory server.

pub(crate) mod futures;
mod hung;
mod wander;

use std::time::Duration;

use outboard::{
    Address, CallError, CallServer, CallSite, Caller, CallerOptions, FarRegion, FunctionHandle,
    FunctionOptions, Job, Memory, Outboard, RegisterError, Rights, Settings, TrapReason,
};

use outboard_settings::AddressChoice;

use crate::world::{Daemons, caller_of, caller_with, image, memory, outboard_at};
use outboard_e2e::PATIENCE;

/// Follows a list of records, each of a value, the server where the next one is, and its offset: replies the value, counts,
/// and goes on as function 0 of that server. Behind the last one there is no server.
const CHASE: &str = "
    ldxdw r6, [r1+0]
    mov r1, 0
    mov r2, r6
    mov r3, r10
    add r3, -24
    mov r4, 24
    call region_read
    mov r1, r10
    add r1, -24
    mov r2, 8
    call reply
    mov r1, 0
    mov r2, 4088
    mov r3, 1
    call region_fetch_add
    ldxdw r7, [r10-16]
    jeq r7, -1, end
    mov r1, r7
    mov r2, 0
    mov r3, r10
    add r3, -8
    mov r4, 8
    call forward_to
    end:
    mov r0, r6
    exit";
/// The instruction that goes on.
const FORWARDS_AT: u32 = 22;
/// Where it counts.
const VISITS: u64 = 4088;
const NOWHERE: u64 = u64::MAX;

/// A memory server with a region for records.
struct Place {
    daemons: Daemons,
    memory: Memory,
    region: FarRegion,
}

impl Place {
    fn new() -> Self {
        Self::with(Daemons::start())
    }

    fn with(daemons: Daemons) -> Self {
        let mut memory = memory(&daemons.shm());
        let region = memory.reserve(4096, None).unwrap();
        Self { daemons, memory, region }
    }

    /// A record there: what it says, and which is the next.
    fn record(&mut self, offset: u64, value: u64, next: (u64, u64)) {
        let bytes = [value, next.0, next.1].map(u64::to_le_bytes).concat();
        self.memory.write(&self.region, offset, &bytes).unwrap();
    }

    fn visits(&mut self) -> u64 {
        self.memory.fetch_add(&self.region, VISITS, 0).unwrap()
    }

    fn options(&self) -> FunctionOptions {
        FunctionOptions::default().with_region(&self.region, Rights::ALL)
    }
}

/// A list of so many records, in turn at both, from 0 up.
fn list(places: &mut [Place; 2], records: u64) {
    for number in 0..records {
        let next = if number + 1 < records { ((number + 1) % 2, 24 * (number + 1)) } else { (NOWHERE, 0) };
        places[number as usize % 2].record(24 * number, number, next);
    }
}

fn values(records: u64) -> Vec<u8> {
    (0..records).flat_map(u64::to_le_bytes).collect()
}

/// A caller of both, each at its site.
fn caller_of_both(addresses: [&Address; 2], options: [CallerOptions; 2]) -> (Caller, CallServer) {
    caller_of_two(addresses.map(outboard_at), options)
}

fn caller_of_two(outboards: [Outboard; 2], options: [CallerOptions; 2]) -> (Caller, CallServer) {
    let [here, there] = options;
    let mut caller = caller_of(&outboards[0], here);
    let second = outboards[1].clone().with_link(Settings::default().link);
    let server = caller.open_server(&second, there).unwrap();
    (caller, server)
}

/// The same over shared memory, with the function at both.
fn chaser(places: &[Place; 2]) -> (Caller, FunctionHandle) {
    let [one, other] = places.each_ref().map(|place| place.daemons.shm());
    let at_server = || CallerOptions::default().with_placement(CallSite::Server);
    let (mut caller, server) = caller_of_both([&one, &other], [at_server(), at_server()]);
    let chase = caller.register(&image(CHASE), places[0].options()).unwrap();
    let there = caller.register_at(server, &image(CHASE), places[1].options()).unwrap();
    assert_eq!((there.server(), there.number(), chase.server()), (server, 0, CallServer::FIRST));
    (caller, chase)
}

fn trap(result: Result<outboard::CallReply, CallError>) -> (u32, TrapReason) {
    match result {
        Err(CallError::Trapped { index, reason, .. }) => (index, reason),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_list_over_two_servers_is_followed_from_every_site() {
    let mut places = [Place::new(), Place::new()];
    list(&mut places, 9);
    let agents = places.each_ref().map(|place| place.daemons.agent(&place.daemons.tcp()));
    let (mut from_first, mut from_second) = (0, 0);
    for here in CallSite::ALL {
        for there in CallSite::ALL {
            for kinds in [(true, true), (false, true), (true, false)] {
                let address = |place: &Place, over_shm: bool| {
                    if over_shm { place.daemons.shm() } else { place.daemons.tcp() }
                };
                let at = |site, number: usize, over_shm: bool| {
                    let outboard = outboard_at(&address(&places[number], over_shm));
                    let agent = (site == CallSite::Agent).then(|| agents[number].shm());
                    agent.into_iter().fold(outboard, Outboard::with_agent)
                };
                let outboards = [at(here, 0, kinds.0), at(there, 1, kinds.1)];
                let options = [here, there].map(|site| CallerOptions::default().with_placement(site));
                let (mut caller, server) = caller_of_two(outboards, options);
                let chase = caller.register(&image(CHASE), places[0].options()).unwrap();
                let second = caller.register_at(server, &image(CHASE), places[1].options()).unwrap();
                let reply = caller.call(chase, &0u64.to_le_bytes()).unwrap();
                assert_eq!((reply.value, reply.bytes), (8 * 24, values(9)), "{here}, {there}, {kinds:?}");
                // It may as well begin there, by a key, and be told by the queue.
                let id = caller.begin_keyed(second, b"any", &24u64.to_le_bytes()).unwrap();
                let completion = caller.wait(PATIENCE).expect("it ends");
                assert_eq!(completion.id, id);
                assert_eq!(completion.result.unwrap().bytes, values(9)[8..]);
                let explained = caller.explain();
                let names_second = explained.iter().any(|line| line.starts_with("memory server 1, "));
                assert!(caller.under_way() == 0 && names_second, "{explained:?}");
                (from_first, from_second) = (from_first + 9, from_second + 8);
            }
        }
    }
    let visits = places[0].visits() + places[1].visits();
    assert_eq!(visits, from_first + from_second, "every part once");
}

#[test]
fn hops_are_bounded_by_fuel() {
    let mut places = [Place::new(), Place::new()];
    places[0].record(0, 1, (1, 0));
    places[1].record(0, 2, (0, 0));
    let [one, other] = places.each_ref().map(|place| place.daemons.shm());
    let at_server = || CallerOptions::default().with_placement(CallSite::Server);
    let (mut caller, server) = caller_of_both([&one, &other], [at_server(), at_server()]);
    let chase = caller.register(&image(CHASE), places[0].options().with_fuel(10_000)).unwrap();
    caller.register_at(server, &image(CHASE), places[1].options().with_fuel(1_000_000)).unwrap();
    let given = trap(caller.call(chase, &0u64.to_le_bytes()));
    assert_eq!(given, (FORWARDS_AT, TrapReason::OutOfFuel));
    assert_eq!([places[0].visits(), places[1].visits()], [5, 5], "the tenth does not go on");
}

#[test]
fn what_there_is_not_ends_a_call_where_it_was_named() {
    let mut places = [Place::new(), Place::new()];
    let (mut caller, chase) = chaser(&places);
    for server in [2, 255, 256, 1 << 32, NOWHERE - 1] {
        places[0].record(48, 1, (server, 0));
        let error = caller.call(chase, &48u64.to_le_bytes()).unwrap_err();
        assert!(error.may_have_run() && error.to_string().contains("no such memory server"), "{error}");
        assert_eq!(trap(Err(error)), (FORWARDS_AT, TrapReason::NoServer), "server {server}");
    }
    // It is its own server as well.
    places[0].record(48, 1, (0, 72));
    places[0].record(72, 2, (NOWHERE, 0));
    assert_eq!(caller.call(chase, &48u64.to_le_bytes()).unwrap().bytes.len(), 16);
    // The other knows no function.
    places[0].record(48, 1, (1, 0));
    let [one, other] = places.each_ref().map(|place| place.daemons.shm());
    for site in [CallSite::Server, CallSite::Application] {
        let at = || CallerOptions::default().with_placement(site);
        let (mut caller, server) = caller_of_both([&one, &other], [at(), at()]);
        let chase = caller.register(&image(CHASE), places[0].options()).unwrap();
        let before = places[0].visits();
        let error = caller.call(chase, &48u64.to_le_bytes()).unwrap_err();
        assert!(error.may_have_run(), "{error}");
        assert_eq!(trap(Err(error)), (FORWARDS_AT, TrapReason::NoForward));
        assert_eq!(places[0].visits(), before + 1, "the first part has run");
        // A handle of somebody who has more servers is nobody's here.
        let elsewhere = caller.register_at(server, &image(CHASE), places[1].options()).unwrap();
        let mut alone = caller_with(&one, at());
        let error = alone.call(elsewhere, &[0; 8]).unwrap_err();
        assert!(matches!(error, CallError::NoSuchFunction), "{error}");
        let error = alone.register_at(server, &image(CHASE), places[1].options()).unwrap_err();
        assert!(matches!(error, RegisterError::NoServer { server: 1 }), "{error}");
    }
}

#[test]
fn a_trap_behind_a_hop_is_the_one_of_the_function_there() {
    let mut places = [Place::new(), Place::new()];
    places[0].record(0, 1, (1, 4090));
    let (mut caller, chase) = chaser(&places);
    assert_eq!(trap(caller.call(chase, &0u64.to_le_bytes())), (6, TrapReason::OutOfBounds));
    assert_eq!([places[0].visits(), places[1].visits()], [1, 0]);
}

#[test]
fn a_second_server_that_is_gone_leaves_no_doubt_that_the_first_part_ran() {
    for over_shm in [true, false] {
        let mut places = [Place::new(), Place::with(Daemons::start_within("400ms"))];
        list(&mut places, 2);
        let link = Settings::default().link;
        let mut caller =
            caller_with(&places[0].daemons.shm(), CallerOptions::default().with_placement(CallSite::Server));
        let there = if over_shm { places[1].daemons.shm() } else { places[1].daemons.tcp() };
        let at_server = CallerOptions::default().with_placement(CallSite::Server);
        let server = caller.open_server(&outboard_at(&there).with_link(link), at_server).unwrap();
        let chase = caller.register(&image(CHASE), places[0].options()).unwrap();
        caller.register_at(server, &image(CHASE), places[1].options()).unwrap();
        assert_eq!(caller.call(chase, &[0; 8]).unwrap().bytes, values(2));
        // One that hangs.
        places[1].daemons.stop();
        let error = caller.call_within(chase, &[0; 8], Duration::from_millis(100)).unwrap_err();
        assert!(matches!(error, CallError::Deadline { may_have_run: true, .. }), "{error}");
        // One that dies while a call is there.
        let id = caller.begin(chase, &[0; 8]).unwrap();
        while places[0].visits() < 3 {
            assert!(caller.poll().is_none());
        }
        let [first, second] = places;
        drop(second);
        let completion = caller.wait(PATIENCE).expect("it ends");
        let error = completion.result.unwrap_err();
        assert!(
            completion.id == id && matches!(error, CallError::Lost { may_have_run: true, .. }),
            "{error}"
        );
        // One that is dead.
        let error = caller.call(chase, &[0; 8]).unwrap_err();
        assert!(matches!(error, CallError::Lost { may_have_run: true, .. }), "{error}");
        let mut first = first;
        assert_eq!(first.visits(), 4);
        // Others go on.
        first.record(0, 5, (NOWHERE, 0));
        assert_eq!(caller.call(chase, &[0; 8]).unwrap().bytes, 5u64.to_le_bytes());
    }
}

#[test]
fn more_calls_than_there_is_room_for_go_both_ways() {
    let mut places = [Place::new(), Place::new()];
    list(&mut places, 6);
    let [one, other] = places.each_ref().map(|place| place.daemons.shm());
    let few =
        || CallerOptions { under_way_max: 4, ..CallerOptions::default().with_placement(CallSite::Server) };
    let (mut caller, server) = caller_of_both([&one, &other], [few(), few()]);
    let here = caller.register(&image(CHASE), places[0].options()).unwrap();
    let there = caller.register_at(server, &image(CHASE), places[1].options()).unwrap();
    let (mut expected, mut ended) = (std::collections::HashMap::new(), 0);
    for number in 0..400u64 {
        let record = number % 6;
        let function = if record % 2 == 0 { here } else { there };
        let id = caller.begin(function, &(24 * record).to_le_bytes()).unwrap();
        assert_eq!(expected.insert(id, record), None, "names are used once");
    }
    while caller.under_way() > 0 {
        let completion = caller.wait(PATIENCE).expect("it ends");
        let record = expected.remove(&completion.id).expect("once");
        assert_eq!(completion.result.unwrap().bytes, values(6)[8 * record as usize..]);
        ended += 1;
    }
    assert_eq!((ended, expected.len()), (400, 0));
    let visits: u64 = (0..400).map(|number| 6 - number % 6).sum();
    assert_eq!(places[0].visits() + places[1].visits(), visits);
}

#[test]
fn a_job_has_more_than_one_memory_server() {
    let mut places = [Place::new(), Place::new()];
    list(&mut places, 3);
    let mut settings = Settings::default();
    settings.job.memory = AddressChoice::At(places[0].daemons.shm());
    settings.job.agent = AddressChoice::None;
    let job = Job::with_settings(&settings).unwrap();
    let mut caller = job.caller().unwrap();
    let there = job.outboard().clone().with_address(places[1].daemons.tcp());
    let server = caller.open_server(&there, CallerOptions::default()).unwrap();
    assert_eq!(server.number(), 1);
    let mut memory = there.memory().unwrap();
    let region = memory.reserve(4096, None).unwrap();
    memory.write(&region, 24, &[1, 0, 48].map(u64::to_le_bytes).concat()).unwrap();
    let chase = caller.register(&image(CHASE), places[0].options()).unwrap();
    let options = FunctionOptions::default().with_region(&region, Rights::ALL);
    caller.register_at(server, &image(CHASE), options).unwrap();
    assert_eq!(caller.call(chase, &[0; 8]).unwrap().bytes, values(3));
    assert_eq!(memory.fetch_add(&region, VISITS, 0).unwrap(), 1);
}
