//! More writers than a server keeps places for, and places that nobody needs any more.

use std::time::Instant;

use outboard::{Address, Settings, WriteOptions, WritePath, Writer, WriterOptions};
use outboard_e2e::{PATIENCE, socket};
use outboard_link::shm::{self, ShmLink};
use outboard_link::{Disposition, Exports, Link, Waiter};
use outboard_wire::writing::{
    ATTACH, AttachWriter, DRAINED, LEAVE, Leave, PRESENT, Present, REFUSED, WriterId,
};
use outboard_wire::{FrameHead, FrameKind, Generation, Incarnation, RegionId, RegionKey};

use crate::kill::start_agent;
use crate::world::{Daemons, PART, identity, memory, outboard_at};

/// How many places a server has.
const PLACES: u16 = 1024;

/// A link on which frames are said by hand.
struct Raw {
    link: ShmLink,
    waiter: Waiter,
}

impl Raw {
    fn connect(address: &Address) -> Self {
        let link = shm::connect(address, identity(), Exports::new(), Settings::default().link.shm()).unwrap();
        Self { link, waiter: Waiter::new() }
    }

    /// Says something and waits for the answer.
    fn ask(&mut self, kind: FrameKind, payload: &[u8]) -> (FrameKind, Vec<u8>) {
        self.link.send(FrameHead::new(kind), payload).unwrap();
        let until = Instant::now() + PATIENCE;
        let mut answer = None;
        while answer.is_none() {
            assert!(Instant::now() < until, "no answer");
            self.link.flush().unwrap();
            self.link.progress(self.waiter.clock.now()).unwrap();
            let hear = |frame: outboard_link::Frame<'_>| {
                if [DRAINED, REFUSED].contains(&frame.head.kind) {
                    answer = Some((frame.head.kind, frame.payload.to_vec()));
                }
                Disposition::Taken
            };
            self.link.receive(1, hear).unwrap();
            std::thread::yield_now();
        }
        answer.expect("the loop has ended")
    }

    /// Attaches as many writers as a server has places for, and says how many it took.
    fn crowd(&mut self, server: Incarnation, attempt: u32) -> usize {
        let attach = |number: u16| {
            let mut name = [9; 16];
            name[..2].copy_from_slice(&number.to_le_bytes());
            AttachWriter { writer: WriterId(name), attempt, server }.encode()
        };
        (0..PLACES).filter(|number| self.ask(ATTACH, &attach(*number)).0 == DRAINED).count()
    }
}

/// Writes until something was unloaded: the server has taken the writer.
fn write_until_unloaded(writer: &mut Writer, target: outboard::WriteTarget) {
    let until = Instant::now() + PATIENCE;
    while writer.stats().unloaded == 0 {
        assert!(Instant::now() < until, "the server never takes it: {:?}", writer.stats());
        writer.write(target, 0, b"again").unwrap();
        writer.flush().unwrap();
    }
}

fn unloading() -> WriterOptions {
    WriterOptions { path: Some(WritePath::Unload), ..WriterOptions::default() }
}

#[test]
fn a_writer_whom_the_server_refuses_offloads_until_there_is_room() {
    let daemons = Daemons::start();
    let mut raw = Raw::connect(&daemons.shm());
    let server = raw.link.peer().incarnation();
    assert_eq!(raw.crowd(server, 1), usize::from(PLACES));
    for address in [daemons.shm(), daemons.tcp()] {
        for options in [unloading(), WriterOptions::default()] {
            let (mut memory, region, mut writer) = daemons.writer(&address, options);
            let target = writer.open(&region).unwrap();
            for number in 0..2000_u64 {
                writer.write(target, number % 100 * 8, &number.to_le_bytes()).unwrap();
            }
            writer.flush().unwrap();
            let mut bytes = [0; 800];
            memory.read(&region, 0, &mut bytes).unwrap();
            let is_last = |(at, word): (u64, &[u8])| word == (1900 + at).to_le_bytes();
            assert!((0..).zip(bytes.chunks(8)).all(is_last), "the last writes are what is there");
            assert_eq!(writer.stats().unloaded, 0);
        }
    }
    let (_memory, region, mut writer) = daemons.writer(&daemons.shm(), unloading());
    let target = writer.open(&region).unwrap();
    writer.write(target, 0, b"refused").unwrap();
    writer.flush().unwrap();
    assert_eq!(writer.stats().unloaded, 0);
    // What is opened while the server takes nothing is presented when it does.
    let mut memory = memory(&daemons.shm());
    let other = memory.reserve(PART as u64, None).unwrap();
    let later = writer.open(&other).unwrap();
    drop(raw);
    write_until_unloaded(&mut writer, target);
    let options = WriteOptions { signal: true, ..WriteOptions::default() };
    writer.write_with(later, 8, b"later", options).unwrap();
    let told = writer.wait(PATIENCE).expect("it ends");
    assert!(told.path == WritePath::Unload && told.result.is_ok(), "{told:?}");
    let mut bytes = [0; 5];
    memory.read(&other, 8, &mut bytes).unwrap();
    assert_eq!(&bytes, b"later");
}

#[test]
fn places_of_writers_that_are_gone_are_given_to_others() {
    let daemons = Daemons::start();
    // A lower attempt comes late for a writer that has been abandoned meanwhile.
    for attempt in [5, 1] {
        let mut raw = Raw::connect(&daemons.shm());
        let server = raw.link.peer().incarnation();
        assert_eq!(raw.crowd(server, attempt), usize::from(PLACES));
    }
    let (_memory, region, mut writer) = daemons.writer(&daemons.shm(), unloading());
    let target = writer.open(&region).unwrap();
    write_until_unloaded(&mut writer, target);
}

#[test]
fn places_of_writers_that_came_by_an_agent_are_given_to_others() {
    let daemons = Daemons::start();
    let at = socket();
    let _agent = start_agent(&at, &daemons.shm());
    let server = Raw::connect(&daemons.shm()).link.peer().incarnation();
    let mut raw = Raw::connect(&at.parse().unwrap());
    assert_eq!(raw.crowd(server, 1), usize::from(PLACES));
    drop(raw);
    let (_memory, region, mut writer) = daemons.writer(&daemons.shm(), unloading());
    let target = writer.open(&region).unwrap();
    write_until_unloaded(&mut writer, target);
}

#[test]
fn a_refusal_says_whom_it_is_for() {
    let daemons = Daemons::start();
    let mut raw = Raw::connect(&daemons.shm());
    let (writer, attempt) = (WriterId([4; 16]), 7);
    let (region, generation, key) = (RegionId(1), Generation(1), RegionKey([0; 16]));
    let present = Present { writer, attempt, slot: 0, region, generation, key }.encode();
    for (kind, payload) in [(PRESENT, present.as_slice()), (LEAVE, &Leave { writer, attempt }.encode())] {
        let (kind, refusal) = raw.ask(kind, payload);
        assert_eq!(kind, REFUSED);
        assert_eq!(Leave::decode(&refusal).unwrap(), Leave { writer, attempt });
    }
}

#[test]
fn a_stopped_agent_is_done_without() {
    let daemons = Daemons::start();
    let at = socket();
    let agent = start_agent(&at, &daemons.shm());
    let outboard = outboard_at(&daemons.shm()).with_agent(at.parse().unwrap());
    let mut memory = outboard.memory().unwrap();
    let region = memory.reserve(PART as u64, None).unwrap();
    let mut writer = outboard.writer_with(unloading().with_writes_by_agent()).unwrap();
    let target = writer.open(&region).unwrap();
    writer.write(target, 0, b"by the agent").unwrap();
    writer.flush().unwrap();
    assert!(writer.drained_by().contains("agent"), "{}", writer.drained_by());
    agent.process.stop();
    let mut writer = writer.with_deadline(PATIENCE / 20);
    writer.write_with(target, 0, b"without", WriteOptions::default()).unwrap();
    writer.flush().unwrap();
    assert!(writer.drained_by().contains("memory"), "{}", writer.drained_by());
    let mut bytes = [0; 7];
    memory.read(&region, 0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"without");
}
