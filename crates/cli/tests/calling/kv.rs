//! The hash table at a real memory server, beside a plain one.

use std::collections::HashMap;

use outboard_kv::{Answer, Kv, KvError, Table, TableOptions};

use crate::support::{Server, program};
use crate::world::{Daemons, caller, memory};

const OPTIONS: TableOptions = TableOptions { keys: 2000, key_max: 24, value_max: 100 };

#[test]
fn a_table_holds_what_a_hash_map_holds() {
    let daemons = Daemons::start();
    for (address, seed) in [(daemons.shm(), 1), (daemons.tcp(), 2)] {
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut memory = memory(&address);
        let name = format!("table-{seed}");
        Table::create(&mut memory, &name, &OPTIONS).unwrap();
        let table = Table::open(&mut memory, &name).unwrap();
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
    let table = Table::create(&mut memory, "shared", &OPTIONS).unwrap();
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
    let table = Table::create(&mut memory, "batches", &OPTIONS).unwrap();
    let mut kv = Kv::new(caller(&daemons.shm()), &table).unwrap();
    let key = |number: u64| number.to_le_bytes();
    for number in 0..100 {
        kv.begin_put(&key(number), &key(number * number)).unwrap();
    }
    while kv.under_way() > 0 {
        kv.drain(|_, result| assert_eq!(result.unwrap(), Answer::Done(&[])));
    }
    let mut expected = HashMap::new();
    for number in 0..200 {
        expected.insert(kv.begin_get(&key(number)).unwrap(), number);
    }
    while kv.under_way() > 0 {
        kv.drain(|id, result| match (expected.remove(&id).unwrap(), result.unwrap()) {
            (number @ 0..100, Answer::Done(value)) => assert_eq!(value, key(number * number)),
            (number, answer) => assert!(number >= 100 && answer == Answer::NotFound, "{number}: {answer:?}"),
        });
    }
    assert!(expected.is_empty());
}

#[test]
fn what_does_not_fit_is_refused() {
    let daemons = Daemons::start();
    let mut memory = memory(&daemons.shm());
    let small = TableOptions { keys: 0, key_max: 8, value_max: 32 };
    let table = Table::create(&mut memory, "small", &small).unwrap();
    let mut kv = Kv::new(caller(&daemons.shm()), &table).unwrap();
    assert!(matches!(kv.get(b""), Err(KvError::DoesNotFit { .. })));
    assert!(matches!(kv.put(b"key", &[0; 64]), Err(KvError::DoesNotFit { .. })));
    // One bucket has 15 places.
    for number in 0..15u8 {
        kv.put(&[number], b"value").unwrap();
    }
    assert!(matches!(kv.put(&[15], b"value"), Err(KvError::Full)));
    assert!(kv.delete(&[3]).unwrap());
    kv.put(&[15], b"value").unwrap();
    memory.reserve_shared(4096, "no table").unwrap();
    assert!(matches!(Table::open(&mut memory, "no table"), Err(KvError::NoTable { .. })));
}

#[test]
fn the_command_line_serves_a_table_and_uses_it() {
    let server = Server::start_with(&["kv", "serve", "--keys", "100"]);
    let kv = |arguments: &[&str], at: &str| {
        let output = program(&[&["kv"], arguments, &["--server", at]].concat()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, _, error) = kv(&["get", "greeting"], &server.shm);
    assert!(code == Some(1) && error.contains("no key “greeting”"), "{error}");
    assert_eq!(kv(&["put", "greeting", "hello"], &server.tcp).0, Some(0));
    assert_eq!(kv(&["get", "greeting"], &server.shm).1, "hello\n");
    assert_eq!(kv(&["delete", "greeting"], &server.shm).0, Some(0));
    assert_eq!(kv(&["delete", "greeting"], &server.shm).0, Some(1));
    let (code, _, error) = kv(&["get", "greeting", "--table", "other"], &server.shm);
    assert!(code == Some(1) && error.contains("other"), "{error}");
    let (code, _, error) = kv(&["put", "greeting", &"x".repeat(1000)], &server.shm);
    assert!(code == Some(1) && error.contains("do not fit"), "{error}");
}

#[test]
fn the_command_line_measures_a_table_and_refuses_what_makes_no_sense() {
    let server = Server::start_with(&["kv", "serve", "--keys", "500", "--key-max", "8", "--value-max", "64"]);
    let bench = |arguments: &[&str]| {
        let mut command = program(&["kv", "bench", "--server", &server.shm]);
        for (flag, value) in [("--seconds", "0.05"), ("--keys", "500")] {
            if !arguments.contains(&flag) {
                command.args([flag, value]);
            }
        }
        let output = command.args(arguments).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    for (workload, distribution, clients, site) in
        [("A", "zipf", "2", "server"), ("b", "uniform", "1", "steered"), ("C", "zipf", "2", "application")]
    {
        let (code, said, error) = bench(&[
            "--json",
            "--workload",
            workload,
            "--distribution",
            distribution,
            "--clients",
            clients,
            "--site",
            site,
        ]);
        assert_eq!(code, Some(0), "{error}");
        let found: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert!(found["operations"].as_u64().unwrap() > 0 && found["wrong"] == 0, "{found}");
        assert!(found["p50_us"].as_f64().unwrap() <= found["p99_us"].as_f64().unwrap(), "{found}");
        assert_eq!(found["clients"].to_string(), clients);
    }
    let (code, said, _) = bench(&["--batch", "1"]);
    assert!(code == Some(0) && said.contains("in a second"), "{said}");
    for (arguments, complaint) in [
        (&["--keys", "0"][..], "--keys 0"),
        (&["--clients", "0"], "--clients 0"),
        (&["--batch", "0"], "--batch 0"),
        (&["--batch", "5000"], "--batch 5000"),
        (&["--value-size", "7"], "--value-size 7"),
        (&["--value-size", "200"], "do not fit"),
        (&["--seconds", "NaN"], "--seconds"),
        (&["--seconds", "0"], "--seconds 0"),
        (&["--site", "agent"], "--agent"),
        (&["--keys", "100000"], "full"),
        (&["--table", "other"], "other"),
        (&["--workload", "D"], "--workload"),
    ] {
        let (code, _, error) = bench(arguments);
        assert!(code.is_some_and(|code| code > 0) && error.contains(complaint), "{arguments:?}: {error}");
    }
}
