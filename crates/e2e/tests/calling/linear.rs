//! One hash table, used from all sites at once by real daemons: while the server hangs again and again so that slots move,
//! while an agent is killed and while clients vanish in the middle of a put, every history is one that a single hash map
//! could have given.

#[path = "../../../calling/tests/kv/history.rs"]
pub(crate) mod history;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use history::{Event, Op, check};
use outboard::{CallPlacement, CallSite};
use outboard_kv::{Kv, KvError, KvTable, TableOptions};

use crate::world::{Daemons, caller_placed, memory};

pub(crate) const OPTIONS: TableOptions = TableOptions { keys: 100, key_max: 8, value_max: 16 };
const CALLS: u64 = 150;
const HANGS: Duration = Duration::from_millis(8);

/// What everybody did.
#[derive(Default)]
pub(crate) struct History {
    clock: AtomicU64,
    events: Mutex<Vec<Event>>,
}

impl History {
    pub(crate) fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    pub(crate) fn add(&self, event: Event) {
        self.events.lock().unwrap().push(event);
    }

    pub(crate) fn into_events(self) -> Vec<Event> {
        self.events.into_inner().unwrap()
    }
}

/// The value in two words, so that a torn one shows.
fn value(number: u64) -> Vec<u8> {
    [number, !number].map(u64::to_le_bytes).concat()
}

fn number(bytes: Vec<u8>) -> u64 {
    let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert_eq!(bytes, value(number), "a value in one piece");
    number
}

pub(crate) fn call(kv: &mut Kv, key: u8, op: Op) -> Result<Op, KvError> {
    match op {
        Op::Get(_) => kv.get(&[key]).map(|found| Op::Get(found.map(number))),
        Op::Put(new) => kv.put(&[key], &value(new)).map(|()| op),
        Op::Delete(_) => kv.delete(&[key]).map(Op::Delete),
    }
}

/// Some calls, one after the other, then one whose end nobody waits for.
pub(crate) fn use_table(mut kv: Kv, history: &History, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..CALLS {
        let (key, began) = (random.u8(1..=3), history.now());
        let op = match random.u8(..8) {
            0..3 => Op::Get(None),
            3..6 => Op::Put(seed << 32 | round),
            _ => Op::Delete(false),
        };
        let event = Event { key, op, began, ended: None, did_nothing: false };
        match call(&mut kv, key, op) {
            Ok(op) => history.add(Event { op, ended: Some(history.now()), ..event }),
            Err(error) => history.add(Event { did_nothing: !Kv::may_have_run(&error), ..event }),
        }
    }
    let op = Op::Put(seed << 32 | CALLS);
    history.add(Event { key: 1, op, began: history.now(), ended: None, did_nothing: false });
    kv.begin_put(&[1], &value(seed << 32 | CALLS)).unwrap();
}

#[test]
fn all_sites_use_one_table_whatever_becomes_of_daemons_and_clients() {
    let daemons = Daemons::start();
    let mut memory = memory(&daemons.shm());
    for (round, link) in [daemons.shm(), daemons.tcp()].into_iter().enumerate() {
        let agent = daemons.agent(&link);
        let table = KvTable::create(&mut memory, &format!("table {round}"), &OPTIONS).unwrap();
        let history = History::default();
        let placements = [
            CallPlacement::Steered,
            CallPlacement::Steered,
            CallPlacement::Hinted(CallSite::Agent),
            CallPlacement::Fixed(CallSite::Application),
            CallPlacement::Fixed(CallSite::Server),
        ];
        let clients = placements.map(|placement| {
            Kv::new(caller_placed(&daemons.shm(), &agent.shm(), placement), &table).unwrap()
        });
        std::thread::scope(|scope| {
            let (history, mut agent) = (&history, Some(agent));
            let clients = clients.into_iter().enumerate().map(|(number, kv)| {
                let seed = (10 * round + number + 1) as u64;
                scope.spawn(move || use_table(kv, history, seed))
            });
            let clients: Vec<_> = clients.collect();
            while clients.iter().any(|client| !client.is_finished()) {
                daemons.stop();
                let until = Instant::now() + HANGS;
                while Instant::now() < until {
                    std::thread::yield_now();
                }
                daemons.go_on();
                if history.clock.load(Ordering::SeqCst) > 500 {
                    drop(agent.take());
                }
                let until = Instant::now() + HANGS;
                while Instant::now() < until {
                    std::thread::yield_now();
                }
            }
        });
        let events = history.into_events();
        assert!(events.iter().filter(|event| event.ended.is_some()).count() > 400, "{}", events.len());
        if let Err(key) = check(&events) {
            let of_key: Vec<_> = events.iter().filter(|event| event.key == key).collect();
            panic!("no hash map could have given {of_key:#?}");
        }
    }
}
