//! Functions give the same answers at every site.

use outboard::{
    Address, CallError, CallSite, Caller, FunctionOptions, RegisterError, RegisterRefusal, Rights, TrapReason,
};
use outboard_kv::{Kv, KvError, KvTable, TableOptions};

use crate::world::{COUNT, Daemons, caller_at, caller_by, image, memory};

const OPTIONS: TableOptions = TableOptions { keys: 300, key_max: 24, value_max: 100 };

/// What a history of gets, puts and deletes gives to a caller, on a table of its own.
fn history(address: &Address, caller: Caller, (name, seed): (&str, u64)) -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut memory = memory(address);
    let table = KvTable::create(&mut memory, &format!("table of {name} {seed}"), &OPTIONS).unwrap();
    let mut kv = Kv::new(caller, &table).unwrap();
    let mut given = Vec::new();
    for _ in 0..2000 {
        let key = vec![random.u8(..40); random.usize(1..=24)];
        given.push(match random.u8(..4) {
            0 => format!("{:?}", kv.delete(&key).map_err(|error| error.to_string())),
            1 => format!("{:?}", kv.get(&key).map_err(|error| error.to_string())),
            _ => {
                let value: Vec<u8> = (0..random.usize(..100)).map(|_| random.u8(..)).collect();
                // A table that is full says so everywhere.
                match kv.put(&key, &value) {
                    Err(KvError::Full) => "full".to_owned(),
                    result => format!("{:?}", result.map_err(|error| error.to_string())),
                }
            }
        });
    }
    given
}

#[test]
fn a_table_gives_the_same_answers_at_every_site() {
    let daemons = Daemons::start();
    // One reaches regions by mapping them, the other by messages.
    let agents = [daemons.agent(&daemons.shm()), daemons.agent(&daemons.tcp())];
    for (seed, address) in [(1, daemons.shm()), (2, daemons.tcp())] {
        let at_server = history(&address, caller_at(&address, CallSite::Server), ("server", seed));
        assert!(at_server.iter().any(|given| given.contains("Some")), "something is found");
        let here = history(&address, caller_at(&address, CallSite::Application), ("application", seed));
        assert_eq!(here, at_server, "seed {seed}");
        for (number, agent) in agents.iter().enumerate() {
            let name = format!("agent {number}");
            let at_agent = history(&address, caller_by(&address, &agent.shm()), (&name, seed));
            assert_eq!(at_agent, at_server, "seed {seed}, {name}");
        }
    }
}

#[test]
fn callers_at_different_sites_share_a_table() {
    let daemons = Daemons::start();
    let mut memory = memory(&daemons.shm());
    let table = KvTable::create(&mut memory, "shared", &OPTIONS).unwrap();
    let (shm, tcp) = (daemons.shm(), daemons.tcp());
    let agents = [daemons.agent(&shm), daemons.agent(&tcp)];
    let callers = [
        caller_at(&shm, CallSite::Server),
        caller_at(&shm, CallSite::Application),
        caller_at(&tcp, CallSite::Application),
        caller_at(&tcp, CallSite::Server),
        caller_by(&shm, &agents[0].shm()),
        caller_by(&tcp, &agents[1].tcp()),
    ];
    std::thread::scope(|scope| {
        for (number, caller) in callers.into_iter().enumerate() {
            let table = &table;
            scope.spawn(move || {
                let mut kv = Kv::new(caller, table).unwrap();
                for round in 0u64..200 {
                    let value = [number as u64, round].map(u64::to_le_bytes).concat();
                    kv.put(b"everybody's", &value.repeat(4)).unwrap();
                    let own = format!("of {number}");
                    kv.put(own.as_bytes(), &value).unwrap();
                    assert_eq!(kv.get(own.as_bytes()).unwrap(), Some(value));
                    let shared = kv.get(b"everybody's").unwrap().expect("nobody deletes it");
                    assert_eq!(shared, shared[..16].repeat(4), "in one piece");
                }
            });
        }
    });
}

#[test]
fn what_a_function_must_not_do_ends_it_at_the_same_instruction_everywhere() {
    let daemons = Daemons::start();
    for address in [daemons.shm(), daemons.tcp()] {
        let mut memory = memory(&address);
        let region = memory.reserve(4096, None).unwrap();
        let access = |offset: u64, helper: &str, third: &str| {
            format!("mov r1, 0\nmov r2, {offset}\n{third}\nmov r4, 8\ncall {helper}\nmov r0, 0\nexit")
        };
        let stack = "mov r3, r10\nadd r3, -8";
        let cases = [
            (access(4089, "region_read", stack), 5, TrapReason::OutOfBounds),
            (access(4089, "region_write", stack), 5, TrapReason::OutOfBounds),
            (access(4, "region_fetch_add", "mov r3, 1"), 4, TrapReason::Misaligned),
            (access(0, "region_read", "mov r3, 7"), 4, TrapReason::Memory),
            (access(4096, "region_compare_swap", "mov r3, 1"), 4, TrapReason::OutOfBounds),
            ("again:\nja again".to_owned(), 0, TrapReason::OutOfFuel),
        ];
        let agent = daemons.agent(&address);
        for site in CallSite::ALL {
            let mut caller = match site {
                CallSite::Agent => caller_by(&address, &agent.shm()),
                site => caller_at(&address, site),
            };
            for (text, at, why) in &cases {
                let options = FunctionOptions::default().with_region(&region, Rights::ALL);
                let function = caller.register(&image(text), options).unwrap();
                match caller.call(function, &[0; 8]) {
                    Err(CallError::Trapped { index, reason, .. }) => {
                        assert_eq!((index, reason), (*at, *why), "{text} at {site:?}");
                    }
                    other => panic!("{other:?} of {text} at {site:?}"),
                }
            }
        }
    }
}

#[test]
fn batches_run_here_too() {
    let daemons = Daemons::start();
    for address in [daemons.shm(), daemons.tcp()] {
        let mut memory = memory(&address);
        let region = memory.reserve(4096, None).unwrap();
        let mut caller = caller_at(&address, CallSite::Application);
        let options = FunctionOptions::default().with_region(&region, Rights::ALL);
        let count = caller.register(&image(COUNT), options).unwrap();
        let (mut seen, mut ended) = (vec![false; 5000], 0);
        let mut check = |result: Result<(u64, &[u8]), CallError>| {
            let (value, _) = result.unwrap();
            assert!(!std::mem::replace(&mut seen[value as usize], true), "every number once");
            ended += 1;
        };
        for _ in 0..5000 {
            caller.begin(count, &1u64.to_le_bytes()).unwrap();
            if caller.under_way() >= 200 {
                caller.drain(|_, result| check(result));
            }
        }
        while caller.under_way() > 0 {
            caller.drain(|_, result| check(result));
        }
        assert_eq!(ended, 5000);
    }
}

#[test]
fn rights_are_the_servers_business_wherever_functions_run() {
    let daemons = Daemons::start();
    for (name, address) in [("near", daemons.shm()), ("far", daemons.tcp())] {
        let (mut owner, mut other) = (memory(&address), memory(&address));
        owner.reserve_shared(4096, name).unwrap();
        let region = other.open_shared(name, Rights::READ.and(Rights::CALL)).unwrap();
        let agent = daemons.agent(&address);
        for site in CallSite::ALL {
            let mut caller = match site {
                CallSite::Agent => caller_by(&address, &agent.shm()),
                site => caller_at(&address, site),
            };
            let writes = FunctionOptions::default().with_region(&region, Rights::ALL);
            match caller.register(&image(COUNT), writes) {
                Err(RegisterError::Refused { refusal: RegisterRefusal::NoRight, .. }) => {}
                other => panic!("{other:?} at {site:?}"),
            }
            let reads = FunctionOptions::default().with_region(&region, Rights::READ);
            let count = caller.register(&image(COUNT), reads).unwrap();
            let error = caller.call(count, &[0; 8]).unwrap_err();
            assert!(matches!(error, CallError::Trapped { reason: TrapReason::NoRight, .. }), "{error}");
        }
    }
}

#[test]
fn a_call_goes_on_as_another_function_at_every_site() {
    // Goes on as the function whose number it is given, with the rest of its arguments.
    let first = "
        ldxdw r6, [r1+0]
        mov r7, r1
        mov r2, 8
        call reply
        mov r1, r6
        mov r2, r7
        add r2, 8
        mov r3, 8
        call forward
        mov r0, 0
        exit";
    let daemons = Daemons::start();
    let mut memory = memory(&daemons.shm());
    let region = memory.reserve(4096, None).unwrap();
    let agent = daemons.agent(&daemons.tcp());
    let callers = [
        caller_at(&daemons.shm(), CallSite::Server),
        caller_at(&daemons.tcp(), CallSite::Application),
        caller_by(&daemons.shm(), &agent.shm()),
    ];
    for (number, mut caller) in (0u64..).zip(callers) {
        let first = caller.register(&image(first), FunctionOptions::default()).unwrap();
        let options = FunctionOptions::default().with_region(&region, Rights::ALL);
        let count = caller.register(&image(COUNT), options).unwrap();
        let arguments = [count.number().into(), 5u64].map(u64::to_le_bytes).concat();
        let reply = caller.call(first, &arguments).unwrap();
        let words = [count.number().into(), 5 * number + 5].map(u64::to_le_bytes).concat();
        assert_eq!((reply.value, reply.bytes), (5 * number, words));
        let nowhere = [77u64, 5].map(u64::to_le_bytes).concat();
        let error = caller.call(first, &nowhere).unwrap_err();
        assert!(matches!(error, CallError::Trapped { reason: TrapReason::NoForward, .. }), "{error}");
    }
}
