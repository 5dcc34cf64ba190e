//! The hash table at a real memory server, beside a plain one.

use std::collections::HashMap;
use std::process::Stdio;
use std::time::Instant;

use outboard_kv::{Kv, KvError, KvTable, TableAnswer, TableOptions};
use rustix::process::{Pid, Signal, kill_process};

use crate::world::{Daemons, caller, memory};
use outboard_e2e::PATIENCE;

const OPTIONS: TableOptions = TableOptions { keys: 2000, key_max: 24, value_max: 100 };

#[test]
fn a_table_holds_what_a_hash_map_holds() {
    let daemons = Daemons::start();
    for (address, seed) in [(daemons.shm(), 1), (daemons.tcp(), 2)] {
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut memory = memory(&address);
        let name = format!("table-{seed}");
        KvTable::create(&mut memory, &name, &OPTIONS).unwrap();
        let table = KvTable::open(&mut memory, &name).unwrap();
        let mut kv = Kv::new(caller(&address), &table).unwrap();
        let mut model = HashMap::new();
        for _ in 0..3000 {
            let key = vec![random.u8(..8); random.usize(1..=24)];
            match random.u8(..4) {
                0 => assert_eq!(kv.delete(&key).unwrap(), model.remove(&key).is_some()),
                1 => assert_eq!(kv.get(&key).unwrap(), model.get(&key).cloned()),
                _ => {
                    let value: Vec<u8> = (0..random.usize(..100)).map(|_| random.u8(..)).collect();
                    kv.put(&key, &value).unwrap();
                    model.insert(key, value);
                }
            }
        }
        for (key, value) in &model {
            assert_eq!(kv.get(key).unwrap().as_ref(), Some(value));
        }
    }
}

#[test]
fn several_clients_change_the_same_keys() {
    let daemons = Daemons::start();
    let mut memory = memory(&daemons.shm());
    let table = KvTable::create(&mut memory, "shared", &OPTIONS).unwrap();
    std::thread::scope(|scope| {
        for (number, address) in [daemons.shm(), daemons.shm(), daemons.tcp()].into_iter().enumerate() {
            let table = &table;
            scope.spawn(move || {
                let mut kv = Kv::new(caller(&address), table).unwrap();
                for round in 0u64..400 {
                    // One key is everybody's, the other its own.
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
    let mut kv = Kv::new(caller(&daemons.shm()), &table).unwrap();
    for number in 0..3u64 {
        let last = [number, 399].map(u64::to_le_bytes).concat();
        assert_eq!(kv.get(format!("of {number}").as_bytes()).unwrap(), Some(last));
    }
}

#[test]
fn batches_tell_what_became_of_each() {
    let daemons = Daemons::start();
    let mut memory = memory(&daemons.shm());
    let table = KvTable::create(&mut memory, "batches", &OPTIONS).unwrap();
    let mut kv = Kv::new(caller(&daemons.shm()), &table).unwrap();
    let key = |number: u64| number.to_le_bytes();
    for number in 0..100 {
        kv.begin_put(&key(number), &key(number * number)).unwrap();
    }
    while kv.under_way() > 0 {
        kv.drain(|_, result| assert_eq!(result.unwrap(), TableAnswer::Done(&[])));
    }
    let mut expected = HashMap::new();
    for number in 0..200 {
        expected.insert(kv.begin_get(&key(number)).unwrap(), number);
    }
    while kv.under_way() > 0 {
        kv.drain(|id, result| match (expected.remove(&id).unwrap(), result.unwrap()) {
            (number @ 0..100, TableAnswer::Done(value)) => assert_eq!(value, key(number * number)),
            (number, answer) => {
                assert!(number >= 100 && answer == TableAnswer::NotFound, "{number}: {answer:?}")
            }
        });
    }
    assert!(expected.is_empty());
}

#[test]
fn what_does_not_fit_is_refused() {
    let daemons = Daemons::start();
    let mut memory = memory(&daemons.shm());
    // A slot of 64 bytes would have room for a longer key beside a shorter value, and the other way round.
    let small = TableOptions { keys: 0, key_max: 5, value_max: 30 };
    let table = KvTable::create(&mut memory, "small", &small).unwrap();
    let mut kv = Kv::new(caller(&daemons.shm()), &table).unwrap();
    assert!(matches!(kv.get(b""), Err(KvError::DoesNotFit { .. })));
    for (key, value) in [(&b"123456"[..], &[][..]), (b"key", &[0; 31]), (b"key", &[0; 64])] {
        let refused = kv.put(key, value);
        assert!(matches!(refused, Err(KvError::DoesNotFit { key_max: 5, value_max: 30, .. })), "{refused:?}");
    }
    kv.put(b"12345", &[7; 30]).unwrap();
    assert_eq!(kv.get(b"12345").unwrap(), Some(vec![7; 30]));
    assert!(kv.delete(b"12345").unwrap());
    // Who opens it knows the same.
    let opened = KvTable::open(&mut memory, "small").unwrap();
    assert_eq!(opened.layout(), table.layout());
    // One bucket has 15 places.
    for number in 0..15u8 {
        kv.put(&[number], b"value").unwrap();
    }
    assert!(matches!(kv.put(&[15], b"value"), Err(KvError::Full)));
    assert!(kv.delete(&[3]).unwrap());
    kv.put(&[15], b"value").unwrap();
    memory.reserve_shared(4096, "no table").unwrap();
    assert!(matches!(KvTable::open(&mut memory, "no table"), Err(KvError::NoTable { .. })));
}

/// Runs `outboard` with these arguments and a server. Returns its exit code and what it said, also on the standard error.
fn outboard(arguments: &[&str], server: &str) -> (Option<i32>, String, String) {
    let output = outboard_e2e::outboard(&[arguments, &["--server", server]].concat()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_command_line_serves_a_table_and_uses_it() {
    let server = Daemons::by(&["kv", "serve", "--keys", "100"]);
    let kv = |arguments: &[&str], at: &str| outboard(&[&["kv"], arguments].concat(), at);
    let (code, _, error) = kv(&["get", "greeting"], &server.shm().to_string());
    assert!(code == Some(1) && error.contains("no key “greeting”"), "{error}");
    let (code, json, _) = kv(&["get", "greeting", "--json"], &server.shm().to_string());
    assert_eq!((code, json.as_str()), (Some(1), "{\"key\":\"greeting\",\"value\":null}\n"));
    assert_eq!(kv(&["put", "greeting", "hello"], &server.tcp().to_string()).0, Some(0));
    let (code, json, _) = kv(&["get", "greeting", "--json"], &server.shm().to_string());
    assert_eq!((code, json.as_str()), (Some(0), "{\"key\":\"greeting\",\"value\":\"hello\"}\n"));
    let (code, _, error) = kv(&["get", &"k".repeat(500)], &server.shm().to_string());
    assert!(code == Some(1) && error.contains("the key has 500 bytes"), "{error}");
    assert_eq!(kv(&["get", "greeting"], &server.shm().to_string()).1, "hello\n");
    assert_eq!(kv(&["delete", "greeting"], &server.shm().to_string()).0, Some(0));
    assert_eq!(kv(&["delete", "greeting"], &server.shm().to_string()).0, Some(1));
    let (code, _, error) = kv(&["put", "greeting", &"x".repeat(1000)], &server.shm().to_string());
    assert!(code == Some(1) && error.contains("the value has 1000 bytes"), "{error}");
}

#[test]
fn any_memory_server_has_tables_and_an_error_says_how_to_make_one() {
    let server = Daemons::start();
    let kv = |arguments: &[&str]| outboard(&[&["kv"], arguments].concat(), &server.shm().to_string());
    for arguments in [&["get", "greeting"][..], &["put", "greeting", "hello"], &["delete", "greeting"]] {
        let (code, _, error) = kv(&[arguments, &["--table", "letters"]].concat());
        assert_eq!(code, Some(1), "{error}");
        assert!(
            error.contains(&server.shm().to_string())
                && error.contains("`outboard kv create --table letters`"),
            "{error}"
        );
    }
    let (code, said, error) =
        kv(&["create", "--table", "letters", "--keys", "1k", "--key-max", "8", "--value-max", "20"]);
    assert!(code == Some(0) && said.starts_with("made a table “letters” for 1000 keys"), "{said}{error}");
    assert_eq!(kv(&["put", "greeting", "hello", "--table", "letters"]).0, Some(0));
    assert_eq!(kv(&["get", "greeting", "--table", "letters"]).1, "hello\n");
    let (code, _, error) = kv(&["put", "greetings", "hello", "--table", "letters"]);
    assert!(
        code == Some(1) && error.contains("the key has 9 bytes; keys of this table have at most 8"),
        "{error}"
    );
    let (code, _, error) = kv(&["create", "--table", "letters"]);
    assert!(code == Some(1) && error.contains("letters"), "{error}");
    assert_eq!(outboard(&["memory", "free", "letters"], &server.shm().to_string()).0, Some(0));
    assert_eq!(kv(&["get", "greeting", "--table", "letters"]).0, Some(1));
}

#[test]
fn the_command_line_measures_and_refuses_what_makes_no_sense() {
    let server = Daemons::by(&["memory", "--capacity", "64MiB"]);
    let bench = |arguments: &[&str]| {
        let defaults = [["--seconds", "0.05"], ["--keys", "500"]];
        let defaults = defaults.into_iter().filter(|default| !arguments.contains(&default[0]));
        let defaults: Vec<&str> = defaults.flatten().collect();
        outboard(&[&["kv", "bench"], arguments, &defaults].concat(), &server.shm().to_string())
    };
    for (workload, distribution, clients, site) in
        [("A", "zipf", "2", "server"), ("b", "uniform", "1", "steered"), ("C", "zipf", "2", "application")]
    {
        let load = ["--workload", workload, "--distribution", distribution];
        let (code, said, error) =
            bench(&[&load, &["--json", "--clients", clients, "--site", site][..]].concat());
        assert_eq!(code, Some(0), "{error}");
        let found: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert!(found["operations"].as_u64().unwrap() > 0 && found["wrong"] == 0, "{found}");
        assert!(found["p50_us"].as_f64().unwrap() <= found["p99_us"].as_f64().unwrap(), "{found}");
        assert_eq!(found["clients"].to_string(), clients);
    }
    let (code, said, error) = bench(&["--batch", "1", "--keys", "1k"]);
    assert!(code == Some(0) && said.contains("in a second") && said.contains("1000"), "{said}{error}");
    for (arguments, complaint) in [
        (&["--keys", "0"][..], "--keys 0"),
        (&["--keys", "many"], "--keys"),
        (&["--clients", "0"], "--clients 0"),
        (&["--batch", "0"], "--batch 0"),
        (&["--batch", "5000"], "--batch 5000"),
        (&["--value-size", "7"], "--value-size 7"),
        (&["--seconds", "NaN"], "--seconds"),
        (&["--seconds", "0"], "--seconds 0"),
        (&["--site", "agent"], "--agent"),
        (&["--keys", "10M"], "no table to measure"),
        (&["--table", "other"], "--table"),
        (&["--workload", "D"], "--workload"),
    ] {
        let (code, _, error) = bench(arguments);
        assert!(code.is_some_and(|code| code > 0) && error.contains(complaint), "{arguments:?}: {error}");
    }
}

#[test]
fn measuring_leaves_the_tables_of_others_alone_and_nothing_behind() {
    // Just so much that a table of the benchmark that was left behind would be in the way of the next.
    let server = Daemons::by(&["kv", "serve", "--keys", "50", "--capacity", "1MiB"]);
    let kv = |arguments: &[&str]| outboard(&[&["kv"], arguments].concat(), &server.shm().to_string());
    // The keys of the benchmark are numbers of 8 bytes: the least of them, in a table that somebody uses.
    let mut theirs =
        Kv::new(caller(&server.shm()), &KvTable::open(&mut memory(&server.shm()), "kv").unwrap()).unwrap();
    theirs.put(&0u64.to_le_bytes(), b"mine").unwrap();
    let regions = || outboard(&["memory", "list", "--json"], &server.shm().to_string()).1;
    let before = regions();
    assert!(before.contains("\"kv\""), "{before}");
    for site in ["server", "application"] {
        let (code, _, error) = kv(&["bench", "--keys", "3k", "--seconds", "0.05", "--site", site]);
        assert_eq!(code, Some(0), "{error}");
    }
    // Ctrl-C, and a death without warning, in the middle of it.
    for signal in [Signal::INT, Signal::KILL] {
        let mut command = outboard_e2e::outboard(&[
            "kv",
            "bench",
            "--server",
            &server.shm().to_string(),
            "--keys",
            "3k",
            "--seconds",
            "600",
        ]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_until("it has a table", || regions() != before);
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert!(!child.wait().unwrap().success());
        wait_until("its table is gone", || regions() == before);
    }
    assert_eq!(theirs.get(&0u64.to_le_bytes()).unwrap().as_deref(), Some(&b"mine"[..]));
}

#[track_caller]
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "not within {PATIENCE:?}: {what}");
    }
}
