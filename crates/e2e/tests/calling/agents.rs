//! What becomes of calls when the agent that runs them is killed, hangs or loses its memory server.

use std::collections::HashMap;
use std::time::Instant;

use outboard::{Address, CallError, CallPlacement, CallSite, Caller, FunctionOptions, Rights};
use outboard_kv::{Kv, KvError, KvTable, TableOptions};

use crate::world::{COUNT, Daemons, caller, caller_by, caller_placed, image, memory};
use outboard_e2e::PATIENCE;

const OPTIONS: TableOptions = TableOptions { keys: 2000, key_max: 24, value_max: 100 };

/// Reads a word of the first region.
const LOOK: &str = "
    mov r1, 0
    mov r2, 16
    mov r3, r10
    add r3, -8
    mov r4, 8
    call region_read
    ldxdw r0, [r10-8]
    exit";

/// A caller whose calls run at an agent as long as it answers.
fn preferring(address: &Address, agent: &Daemons) -> Caller {
    caller_placed(address, &agent.shm(), CallPlacement::Hinted(CallSite::Agent))
}

fn answered(caller: &Caller, site: CallSite) -> u64 {
    caller.sites()[site as usize].answered
}

#[test]
fn an_agent_gives_back_regions_of_callers_that_have_gone() {
    let daemons = Daemons::start();
    let mut memory = memory(&daemons.shm());
    let agent = daemons.agent(&daemons.shm());
    for _ in 0..10 {
        let region = memory.reserve(1 << 20, None).unwrap();
        let mut caller = caller_by(&daemons.shm(), &agent.shm());
        let options = FunctionOptions::default().with_region(&region, Rights::ALL);
        let count = caller.register(&image(COUNT), options).unwrap();
        caller.call(count, &1u64.to_le_bytes()).unwrap();
        assert!(agent.mapped_regions() > 0, "they are reached through shared memory");
        drop(caller);
        memory.free(region).unwrap();
    }
    let until = Instant::now() + PATIENCE;
    while agent.mapped_regions() > 0 {
        assert!(Instant::now() < until, "{} regions are still mapped", agent.mapped_regions());
        std::thread::yield_now();
    }
}

#[test]
fn a_killed_agent_costs_no_acknowledged_put() {
    let daemons = Daemons::start();
    let mut memory = memory(&daemons.shm());
    for (round, link) in [daemons.shm(), daemons.tcp(), daemons.shm()].into_iter().enumerate() {
        let table = KvTable::create(&mut memory, &format!("table {round}"), &OPTIONS).unwrap();
        let agent = daemons.agent(&link);
        let mut kv = Kv::new(preferring(&daemons.shm(), &agent), &table).unwrap();
        let mut acknowledged = HashMap::new();
        let mut under_way = HashMap::new();
        let mut agent = Some(agent);
        for number in 0..1000u64 {
            let key = (number % 150).to_le_bytes();
            under_way.insert(kv.begin_put(&key, &number.to_le_bytes()).unwrap(), (key, number));
            if number == 400 + 7 * round as u64 {
                drop(agent.take());
            }
            while kv.under_way() > 20 || number == 999 && kv.under_way() > 0 {
                kv.drain(|id, result| {
                    let (key, number) = under_way.remove(&id).expect("told once");
                    let latest = acknowledged.entry(key).or_insert((None, Vec::new()));
                    match result {
                        Ok(_) => latest.0 = latest.0.max(Some(number)),
                        Err(KvError::Call(CallError::Lost { may_have_run: true, .. })) => {
                            latest.1.push(number);
                        }
                        // Another key of the same bucket was in the way.
                        Err(KvError::Busy) => {}
                        Err(error) => panic!("{error}"),
                    }
                });
            }
        }
        let mut kv = Kv::new(caller(&daemons.shm()), &table).unwrap();
        for (key, (put, perhaps)) in acknowledged {
            let value = kv.get(&key).unwrap().map(|value| u64::from_le_bytes(value.try_into().unwrap()));
            assert!(
                value >= put || value.is_some_and(|value| perhaps.contains(&value)),
                "{key:?}: {value:?}"
            );
        }
    }
}

#[test]
fn calls_that_only_read_do_without_an_agent_that_hangs() {
    let daemons = Daemons::start();
    let mut memory = memory(&daemons.shm());
    let region = memory.reserve(4096, None).unwrap();
    let agent = daemons.agent(&daemons.shm());
    let mut caller = preferring(&daemons.shm(), &agent);
    let look = FunctionOptions::default().with_region(&region, Rights::READ);
    let look = caller.register(&image(LOOK), look).unwrap();
    assert_eq!(caller.call(look, &[]).unwrap().value, 0);
    assert_eq!(answered(&caller, CallSite::Agent), 1);
    memory.write(&region, 16, &7u64.to_le_bytes()).unwrap();
    agent.stop();
    for _ in 0..50 {
        caller.begin(look, &[]).unwrap();
    }
    for _ in 0..50 {
        assert_eq!(caller.wait(PATIENCE).expect("it ends").result.unwrap().value, 7);
    }
    assert_eq!(answered(&caller, CallSite::Agent), 1, "others have answered");
    assert!(caller.sites()[CallSite::Agent as usize].is_silent);
    agent.go_on();
    // It answers what it was asked long ago, nobody minds, and it is asked again.
    let until = Instant::now() + PATIENCE;
    while answered(&caller, CallSite::Agent) < 10 {
        assert!(Instant::now() < until, "{:?}", caller.sites());
        assert_eq!(caller.call(look, &[]).unwrap().value, 7);
    }
}

#[test]
fn calls_that_write_wait_for_an_agent_that_hangs_and_run_once() {
    let daemons = Daemons::start();
    let mut memory = memory(&daemons.shm());
    let region = memory.reserve(4096, None).unwrap();
    let agent = daemons.agent(&daemons.tcp());
    let mut caller = preferring(&daemons.shm(), &agent);
    let count = FunctionOptions::default().with_region(&region, Rights::ALL);
    let count = caller.register(&image(COUNT), count).unwrap();
    agent.stop();
    for _ in 0..50 {
        caller.begin(count, &1u64.to_le_bytes()).unwrap();
    }
    while !caller.sites()[CallSite::Agent as usize].is_silent {
        assert!(caller.poll().is_none());
    }
    // New ones go elsewhere.
    for number in 0..10 {
        assert_eq!(caller.call(count, &1u64.to_le_bytes()).unwrap().value, number);
    }
    agent.go_on();
    for _ in 0..50 {
        caller.wait(PATIENCE).expect("it ends").result.unwrap();
    }
    assert_eq!(memory.fetch_add(&region, 16, 0).unwrap(), 60);
}

#[test]
fn a_client_that_vanishes_leaves_an_agent_that_works() {
    let daemons = Daemons::start();
    for link in [daemons.shm(), daemons.tcp()] {
        let agent = daemons.agent(&link);
        let mut memory = memory(&daemons.shm());
        let region = memory.reserve(4096, None).unwrap();
        let mut stays = caller_by(&daemons.shm(), &agent.shm());
        let options = FunctionOptions::default().with_region(&region, Rights::ALL);
        let count = stays.register(&image(COUNT), options.clone()).unwrap();
        for _ in 0..10 {
            let mut goes = caller_by(&daemons.shm(), &agent.shm());
            let count_too = goes.register(&image(COUNT), options.clone()).unwrap();
            for _ in 0..100 {
                goes.begin(count_too, &0u64.to_le_bytes()).unwrap();
            }
            goes.flush();
            stays.call(count, &1u64.to_le_bytes()).unwrap();
            drop(goes);
            stays.call(count, &1u64.to_le_bytes()).unwrap();
        }
        assert_eq!(memory.fetch_add(&region, 16, 0).unwrap(), 20);
    }
}

#[test]
fn calls_at_an_agent_whose_server_is_killed_end() {
    for over_tcp in [false, true] {
        let daemons = Daemons::start();
        let link = if over_tcp { daemons.tcp() } else { daemons.shm() };
        let agent = daemons.agent(&link);
        let mut memory = memory(&daemons.shm());
        let region = memory.reserve(4096, None).unwrap();
        let mut caller = caller_by(&daemons.shm(), &agent.shm());
        let options = FunctionOptions::default().with_region(&region, Rights::ALL);
        let count = caller.register(&image(COUNT), options).unwrap();
        daemons.stop();
        for _ in 0..50 {
            caller.begin(count, &1u64.to_le_bytes()).unwrap();
        }
        caller.flush();
        drop(daemons);
        for _ in 0..50 {
            // Where the memory is mapped it outlasts its server for those who are quick.
            let ended = caller.wait(PATIENCE).expect("every call ends");
            assert!(ended.result.is_err() || !over_tcp, "{ended:?}");
        }
    }
}
