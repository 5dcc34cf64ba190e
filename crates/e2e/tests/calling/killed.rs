//! One hash table, used by processes that are killed in the middle of what they do, and by others that are not: every
//! history is one that a single hash map could have given.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use outboard::{CallPlacement, CallSite, CallerOptions, Outboard};
use outboard_kv::{Kv, KvTable};

use crate::linear::history::{Event, Op, check};
use crate::linear::{History, OPTIONS, call};
use crate::world::{Daemons, caller_of, caller_with, memory, outboard_at};
use outboard_e2e::PATIENCE;

/// Where a client process finds its table.
const SERVER: &str = "CALLING_TEST_SERVER";
const AGENT: &str = "CALLING_TEST_AGENT";
const SITE: &str = "CALLING_TEST_SITE";
const TABLE: &str = "table";
/// How many processes each client is in turn, and how many operations one makes before it is killed in the next.
const LIVES: u64 = 5;
const OPERATIONS: u64 = 25;
/// The longest time after which a process is killed that was asked for something, in microseconds.
const MERCY_US: u64 = 400;

#[test]
fn what_a_client_says_is_understood() {
    assert_eq!(ended("got 5", Op::Get(None)), Ok(Op::Get(Some(5))));
    assert_eq!(ended("got none", Op::Get(None)), Ok(Op::Get(None)));
    assert_eq!(ended("put", Op::Put(3)), Ok(Op::Put(3)));
    assert_eq!(ended("deleted true", Op::Delete(false)), Ok(Op::Delete(true)));
    assert_eq!(ended("failed false", Op::Put(3)), Err(false));
}

/// What a client process does: what its standard input asks, and says on its standard error what came of it.
pub(crate) fn play() {
    let address = std::env::var(SERVER).unwrap().parse().unwrap();
    let agent = std::env::var(AGENT).ok().map(|agent| agent.parse().unwrap());
    let placement = match std::env::var(SITE).unwrap().as_str() {
        "agent" => CallPlacement::Hinted(CallSite::Agent),
        "application" => CallPlacement::Fixed(CallSite::Application),
        _ => CallPlacement::Fixed(CallSite::Server),
    };
    let table = KvTable::open(&mut memory(&address), TABLE).unwrap();
    let outboard = agent.into_iter().fold(outboard_at(&address), Outboard::with_agent);
    let options = CallerOptions::default().with_placement(placement);
    let mut kv = Kv::new(caller_of(&outboard, options), &table).unwrap();
    eprintln!("= ready");
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split(' ').collect();
        let key = words[1].parse().unwrap();
        let op = match words[0] {
            "get" => Op::Get(None),
            "put" => Op::Put(words[2].parse().unwrap()),
            _ => Op::Delete(false),
        };
        match call(&mut kv, key, op) {
            Ok(Op::Get(found)) => eprintln!("= got {}", found.map_or("none".to_owned(), |it| it.to_string())),
            Ok(Op::Put(_)) => eprintln!("= put"),
            Ok(Op::Delete(was_there)) => eprintln!("= deleted {was_there}"),
            Err(error) => eprintln!("= failed {}", Kv::may_have_run(&error)),
        }
    }
}

/// A client process.
struct Process {
    child: Child,
    asked: ChildStdin,
    answers: Receiver<String>,
}

impl Process {
    fn start(daemons: &Daemons, agent: &Daemons, site: &str) -> Self {
        let mut command = outboard_child::again();
        command.env(SERVER, daemons.shm().to_string()).env(AGENT, agent.shm().to_string()).env(SITE, site);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (asked, said) = (child.stdin.take().unwrap(), child.stderr.take().unwrap());
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(said).lines().map_while(Result::ok);
            let answers = lines.filter_map(|line| line.strip_prefix("= ").map(str::to_owned));
            answers.for_each(|answer| sender.send(answer).unwrap_or_default());
        });
        let process = Self { child, asked, answers };
        assert_eq!(process.answer(), "ready");
        process
    }

    fn ask(&mut self, key: u8, op: Op) {
        let line = match op {
            Op::Get(_) => format!("get {key}\n"),
            Op::Put(number) => format!("put {key} {number}\n"),
            Op::Delete(_) => format!("delete {key}\n"),
        };
        self.asked.write_all(line.as_bytes()).unwrap();
    }

    fn answer(&self) -> String {
        self.answers.recv_timeout(PATIENCE).expect("the client answers")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What became of an operation, as the client says; nothing, if it did not end well.
fn ended(answer: &str, op: Op) -> Result<Op, bool> {
    let words: Vec<&str> = answer.split(' ').collect();
    match (words[0], words.get(1)) {
        ("got", Some(found)) => Ok(Op::Get(found.parse().ok())),
        ("put", None) => Ok(op),
        ("deleted", Some(was_there)) => Ok(Op::Delete(*was_there == "true")),
        ("failed", Some(may_have_run)) => Err(*may_have_run == "true"),
        _ => panic!("{answer}"),
    }
}

/// Uses the table by processes one after the other, each of which is killed while it does something.
fn live_and_die((daemons, agent): (&Daemons, &Daemons), site: &str, history: &History, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    for life in 0..LIVES {
        let mut process = Process::start(daemons, agent, site);
        for round in 0..=OPERATIONS {
            let (key, began) = (random.u8(1..=3), history.now());
            let op = match random.u8(..8) {
                0..3 if round < OPERATIONS => Op::Get(None),
                6..8 if round < OPERATIONS => Op::Delete(false),
                _ => Op::Put(seed << 32 | life << 16 | round),
            };
            let event = Event { key, op, began, ended: None, did_nothing: false };
            process.ask(key, op);
            if round == OPERATIONS {
                let until = Instant::now() + Duration::from_micros(random.u64(..MERCY_US));
                while Instant::now() < until {
                    std::hint::spin_loop();
                }
                drop(process);
                history.add(event);
                break;
            }
            match ended(&process.answer(), op) {
                Ok(op) => history.add(Event { op, ended: Some(history.now()), ..event }),
                Err(may_have_run) => history.add(Event { did_nothing: !may_have_run, ..event }),
            }
        }
    }
}

#[test]
fn clients_that_are_killed_in_the_middle_of_a_put_leave_a_table_that_makes_sense() {
    let daemons = Daemons::start();
    let agent = daemons.agent(&daemons.tcp());
    let table = KvTable::create(&mut memory(&daemons.shm()), TABLE, &OPTIONS).unwrap();
    let history = History::default();
    std::thread::scope(|scope| {
        let (places, history) = ((&daemons, &agent), &history);
        for (number, site) in (1..).zip(["server", "application", "agent"]) {
            scope.spawn(move || live_and_die(places, site, history, number));
        }
        let stays = Kv::new(caller_with(&daemons.shm(), CallerOptions::default()), &table).unwrap();
        scope.spawn(move || crate::linear::use_table(stays, history, 99));
    });
    let events = history.into_events();
    let pending = events.iter().filter(|event| event.ended.is_none()).count() as u64;
    assert!(pending >= 3 * LIVES, "{pending} of {} were not ended", events.len());
    if let Err(key) = check(&events) {
        let of_key: Vec<_> = events.iter().filter(|event| event.key == key).collect();
        panic!("no hash map could have given {of_key:#?}");
    }
    // Nobody has left anything locked.
    let mut kv = Kv::new(caller_with(&daemons.shm(), CallerOptions::default()), &table).unwrap();
    for key in 1..=3 {
        call(&mut kv, key, Op::Put(7)).unwrap();
        assert_eq!(call(&mut kv, key, Op::Get(None)).unwrap(), Op::Get(Some(7)));
    }
}
