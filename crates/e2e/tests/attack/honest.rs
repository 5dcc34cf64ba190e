//! Clients that do nothing wrong, and whose every result is compared with what it must be.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use outboard::{
    Address, BufferSize, CallSite, CallerOptions, Client, FarOptions, Memory, MessagesPlacement,
    MessengerOptions, Outboard, RegionOptions, Settings,
};
use outboard_e2e::{PATIENCE, Random, await_state, connect_memory};
use outboard_kv::{Kv, KvTable, TableOptions};
use outboard_link::Identity;
use outboard_settings::{AddressChoice, LinkSettings};
use outboard_wire::Role;

use crate::scene::Scene;
use crate::team::{Team, Way, small};

/// How large their regions are.
const REGION: usize = 64 << 10;

/// What an honest client is told, and what it tells.
#[derive(Default)]
struct Talk {
    is_over: AtomicBool,
    done: AtomicU64,
}

impl Talk {
    fn goes_on(&self) -> bool {
        self.done.fetch_add(1, Ordering::Relaxed);
        !self.is_over.load(Ordering::Relaxed)
    }
}

/// All honest clients, each a thread.
pub(crate) struct Honest {
    clients: Vec<(&'static str, Arc<Talk>, JoinHandle<()>)>,
}

fn identity() -> Identity {
    Identity::new(Role::Application, "honest")
}

fn link() -> LinkSettings {
    LinkSettings { handshake_timeout: PATIENCE, deadline: PATIENCE, ..LinkSettings::default() }
}

fn connect(at: &Address) -> Client {
    let client = Client::connect(at, identity(), &link());
    client.unwrap_or_else(|error| panic!("{error}")).with_deadline(PATIENCE)
}

impl Honest {
    /// Starts them.
    pub(crate) fn start(scene: &Scene, seed: u64) -> Self {
        type Work = fn(&Scene, &Talk, u64);
        const ALL: [(&str, Work); 8] = [
            ("regions over shared memory", |scene, talk, seed| regions(&scene.memory[0], scene, talk, seed)),
            ("regions over TCP", |scene, talk, seed| regions(&scene.memory[1], scene, talk, seed)),
            ("a table at the server", |scene, talk, seed| table(scene, CallSite::Server, talk, seed)),
            ("a table at the agent", |scene, talk, seed| table(scene, CallSite::Agent, talk, seed)),
            ("writes", writes),
            ("messages", messages),
            ("far memory", far_memory),
            ("numbers for Prometheus", numbers),
        ];
        let start = |(number, (name, work)): (u64, (&'static str, Work))| {
            let (talk, scene) = (Arc::new(Talk::default()), scene.clone());
            let told = Arc::clone(&talk);
            (name, talk, thread::spawn(move || work(&scene, &told, seed ^ number)))
        };
        Self { clients: (0..).zip(ALL).map(start).collect() }
    }

    /// How much each has done.
    pub(crate) fn done(&self) -> Vec<u64> {
        self.clients.iter().map(|(_, talk, _)| talk.done.load(Ordering::Relaxed)).collect()
    }

    /// Waits until every one of them has done more than it had.
    #[track_caller]
    pub(crate) fn await_progress(&self, before: &[u64]) {
        await_state("every honest client to get on", || {
            for ((name, _, thread), (now, before)) in self.clients.iter().zip(self.done().iter().zip(before))
            {
                assert!(!thread.is_finished(), "{name} has ended in the middle of its work");
                if now <= before {
                    return Err(format!("{name} has done {now} things and no more"));
                }
            }
            Ok(())
        });
    }

    /// Ends them; each must have found everything right.
    #[track_caller]
    pub(crate) fn end(self) {
        self.clients.iter().for_each(|(_, talk, _)| talk.is_over.store(true, Ordering::Relaxed));
        for (name, _, thread) in self.clients {
            thread.join().unwrap_or_else(|_| panic!("{name} went wrong"));
        }
    }
}

/// Reads and writes a region beside a plain array, adds to a word, and comes anew now and then.
fn regions(at: &Address, scene: &Scene, talk: &Talk, seed: u64) {
    let mut random = Random::new(seed);
    while talk.goes_on() {
        let mut memory = Memory::new(connect(at));
        let mut agent = connect(scene.agent(&mut random));
        let region = memory.reserve(REGION as u64, None).unwrap();
        let (mut model, mut sum) = (vec![0; REGION], 0u64);
        for _ in 0..40 {
            let len = 1 + random.below(2000) as usize;
            let at = 8 + random.below((REGION - 8 - len) as u64) as usize;
            model[at..at + len].copy_from_slice(&random.bytes(len));
            memory.write(&region, at as u64, &model[at..at + len]).unwrap();
            assert_eq!(memory.fetch_add(&region, 0, 3).unwrap(), sum);
            sum += 3;
            let mut read = vec![0; REGION - 8];
            memory.read(&region, 8, &mut read).unwrap();
            assert!(read == model[8..], "a region holds other bytes than were written");
            agent.echo(&random.bytes(100)).unwrap();
            talk.goes_on();
        }
        memory.free(region).unwrap();
        memory.close("done");
        agent.close("done");
    }
}

/// A memory server, patiently.
fn outboard(at: &Address) -> Outboard {
    Outboard::at(at.clone()).with_identity(identity()).with_link(link()).with_deadline(PATIENCE)
}

/// A hash table beside a plain one, by functions at this site.
fn table(scene: &Scene, site: CallSite, talk: &Talk, seed: u64) {
    const OPTIONS: TableOptions = TableOptions { keys: 500, key_max: 8, value_max: 64 };
    let mut random = Random::new(seed);
    let mut memory = connect_memory(&scene.memory[0]);
    let name = format!("honest-{seed:x}");
    let table = KvTable::create(&mut memory, &name, &OPTIONS).unwrap();
    let mut outboard = outboard(&scene.memory[0]);
    if site == CallSite::Agent {
        outboard = outboard.with_agent(scene.agent[0].clone());
    }
    let caller = outboard.caller_with(CallerOptions::default().with_placement(site));
    let caller = caller.unwrap_or_else(|error| panic!("{error}"));
    let (mut kv, mut model) = (Kv::new(caller, &table).unwrap(), HashMap::new());
    while talk.goes_on() {
        let key = random.below(200).to_le_bytes();
        if random.once_in(2) {
            let len = random.below(50) as usize;
            let value = random.bytes(len);
            kv.put(&key, &value).unwrap();
            model.insert(key, value);
        } else {
            assert_eq!(kv.get(&key).unwrap(), model.get(&key).cloned(), "a table holds something else");
        }
    }
    drop(kv);
    table.free(&mut memory).unwrap();
    memory.close("done");
}

/// Remote writes by whichever path, beside a plain array.
fn writes(scene: &Scene, talk: &Talk, seed: u64) {
    let mut random = Random::new(seed);
    let mut memory = connect_memory(&scene.memory[1]);
    let region = memory.reserve(REGION as u64, None).unwrap();
    let mut writer = outboard(&scene.memory[1]).writer().unwrap_or_else(|error| panic!("{error}"));
    let target = writer.open(&region).unwrap();
    let mut model = vec![0; REGION];
    while talk.goes_on() {
        for _ in 0..20 {
            let len = 1 + random.below(500) as usize;
            let at = random.below((REGION - len) as u64) as usize;
            model[at..at + len].copy_from_slice(&random.bytes(len));
            writer.write(target, at as u64, &model[at..at + len]).unwrap();
        }
        writer.flush().unwrap();
        let mut read = vec![0; REGION];
        memory.read(&region, 0, &mut read).unwrap();
        assert!(read == model, "a region holds other bytes than were written");
    }
    drop(writer);
    memory.free(region).unwrap();
    memory.close("done");
}

/// Two ranks whose messages the agent carries: every one is handled once.
fn messages(scene: &Scene, talk: &Talk, seed: u64) {
    const VALUES: u64 = 200;
    const LAST: u64 = u64::MAX;
    let options = MessengerOptions { placement: MessagesPlacement::Agent, deadline: PATIENCE, ..small() };
    let adjust = |_: u32, settings: &mut Settings, _: &mut MessengerOptions| {
        settings.job.agent = AddressChoice::At(scene.agent[0].clone());
        settings.link = link();
    };
    let way = Way::ALL[seed as usize % 2];
    Team::new(2, way, options).adjusted(adjust).run(|messenger| {
        let (rank, mut is_last) = (messenger.rank(), false);
        while !is_last {
            // One of them decides for both.
            let ends = rank == 0 && !talk.goes_on();
            let mut sum = 0;
            for value in (0..VALUES).chain(ends.then_some(LAST)) {
                while messenger.send_value(1 - rank, value).is_err() {
                    let handle = |sum: &mut u64, bytes: &[u8]| *sum += read(bytes);
                    messenger.receive(0, |_, _, bytes| handle(&mut sum, bytes)).unwrap();
                    messenger.pause().unwrap();
                }
            }
            messenger
                .quiesce(0, |_, _, bytes| match read(bytes) {
                    LAST => is_last = true,
                    value => sum += value,
                })
                .unwrap();
            is_last |= ends;
            assert_eq!(sum, VALUES * (VALUES - 1) / 2, "messages were lost, or came twice");
            messenger.barrier().unwrap();
        }
    });
}

/// Reads the metrics. Where many do, the one that has been there for longest loses its place, and comes again.
fn numbers(scene: &Scene, talk: &Talk, _: u64) {
    let Address::Tcp(at) = scene.metrics else { panic!("metrics are at a port") };
    let ask = || {
        let mut stream = TcpStream::connect_timeout(&at, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n")?;
        let mut said = String::new();
        stream.read_to_string(&mut said).map(|_| said)
    };
    loop {
        let Ok(said) = ask() else { continue };
        if said.is_empty() {
            continue;
        }
        let is_whole = said.starts_with("HTTP/1.1 200") && said.contains("\noutboard_uptime_seconds{");
        assert!(is_whole, "the metrics are not what was asked for: {said}");
        if !talk.goes_on() {
            return;
        }
    }
}

fn read(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("a message of eight bytes"))
}

/// Far memory behind plain pointers, by the agent, with a buffer that holds a fraction of it.
fn far_memory(scene: &Scene, talk: &Talk, seed: u64) {
    const WORDS: usize = 1 << 17;
    let mut random = Random::new(seed);
    let mut options = FarOptions::default().with_chunk(4096);
    options.buffer = BufferSize::Bytes(FarOptions::buffer_min(4096).max(256 << 10));
    options.threads = Some(2);
    let outboard = Outboard::at(scene.memory[0].clone()).with_agent(scene.agent[0].clone()).with_link(link());
    let memory = match outboard.far_with(options) {
        Ok(memory) => memory,
        Err(error) => {
            println!("skipped: no far memory beside the attack, since {error}");
            while talk.goes_on() {
                thread::park_timeout(Duration::from_millis(10));
            }
            return;
        }
    };
    let region = RegionOptions { chunk: 4096, ..RegionOptions::default() };
    let mut words = memory.allocate_with::<u64>(WORDS, &region).unwrap();
    let mut model = vec![0; WORDS];
    while talk.goes_on() {
        for _ in 0..50 {
            let at = random.below(WORDS as u64) as usize;
            assert_eq!(words[at], model[at], "far memory holds something else");
            model[at] = random.next();
            words[at] = model[at];
        }
    }
    words.flush().unwrap();
    let sums =
        [&words[..], &model[..]].map(|all| all.iter().fold(0u64, |sum, word| sum.wrapping_mul(31) ^ word));
    assert_eq!(sums[0], sums[1], "far memory holds something else");
    words.free().unwrap();
}
