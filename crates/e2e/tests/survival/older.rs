//! A program of the release before works with today's daemons: what its version of the wire does not have is not sent.

use outboard::{
    BufferSize, FarOptions, FunctionImage, FunctionOptions, Outboard, RegionOptions, Rights, WriterOptions,
};
use outboard_e2e::{Daemon, PATIENCE, Place};
use outboard_link::Identity;
use outboard_wire::{Role, Versions};

const CHUNK: usize = 16 << 10;
const CHUNKS: usize = 64;

/// Adds its argument to the first word of its first region, and returns what that was.
const COUNT: &str = "
    ldxdw r3, [r1+0]
    mov r1, 0
    mov r2, 0
    call region_fetch_add
    exit";

/// The services of a process whose newest version is the one before ours.
fn older(memory: &Daemon, agent: &Daemon, is_remote: bool) -> Outboard {
    let at = |daemon: &Daemon| if is_remote { daemon.remote() } else { daemon.local() }.clone();
    let versions = Versions::up_to(Versions::NEWEST - 1);
    let identity = Identity { versions, ..Identity::new(Role::Application, "older") };
    Outboard::at(at(memory)).with_agent(at(agent)).with_identity(identity).with_deadline(PATIENCE)
}

#[test]
fn all_services_work_for_a_program_of_the_release_before() {
    let place = Place::new();
    let mut memory = Daemon::memory(&place, &place.socket(), &[]);
    let agent = Daemon::agent(&place, &place.socket(), &memory.local().to_string(), &[]);
    for is_remote in [false, true] {
        let outboard = older(&memory, &agent, is_remote);
        use_regions(&outboard);
        use_far_memory(&outboard, &mut memory);
    }
    agent.end();
    memory.end();
    place.assert_nothing_left();
}

/// Reads and writes by calls, by functions and by a writer.
fn use_regions(outboard: &Outboard) {
    let mut memory = outboard.memory().unwrap();
    assert_eq!(memory.peer().version(), Versions::NEWEST - 1);
    let region = memory.reserve(1 << 20, None).unwrap();
    assert_eq!(memory.fetch_add(&region, 0, 3).unwrap(), 0);
    let mut caller = outboard.caller().unwrap();
    let options = FunctionOptions::default().with_region(&region, Rights::ALL);
    let count = caller.register(&FunctionImage::from_text(COUNT, "main").unwrap(), options).unwrap();
    assert_eq!(caller.call(count, &4u64.to_le_bytes()).unwrap().value, 3);
    let mut writer = outboard.writer_with(WriterOptions::default().with_writes_by_agent()).unwrap();
    let target = writer.open(&region).unwrap();
    for number in 1..100u64 {
        writer.write(target, number * 4096, &number.to_le_bytes()).unwrap();
    }
    writer.flush().unwrap();
    for number in 1..100u64 {
        let mut word = [0; 8];
        memory.read(&region, number * 4096, &mut word).unwrap();
        assert_eq!(u64::from_le_bytes(word), number);
    }
    assert_eq!(memory.fetch_add(&region, 0, 0).unwrap(), 7);
    memory.free(region).unwrap();
}

/// Changes far memory that does not fit, and discards a part of it, for which the older version has no message.
fn use_far_memory(outboard: &Outboard, daemon: &mut Daemon) {
    let options = FarOptions::default().with_chunk(CHUNK).with_buffer(BufferSize::Bytes(16 * CHUNK));
    let far = outboard.far_with(options).unwrap();
    let mut array =
        far.allocate_with::<u64>(CHUNKS * CHUNK / 8, &RegionOptions::default().with_chunk(CHUNK)).unwrap();
    for (index, element) in array.iter_mut().enumerate() {
        *element = index as u64 + 1;
    }
    array.flush().unwrap();
    let written = daemon.number("write_back_bytes_total");
    let chunks = 10..50;
    let discarded = chunks.start * CHUNK / 8..chunks.end * CHUNK / 8;
    array.discard(discarded.clone()).unwrap();
    let zeros = daemon.number("write_back_bytes_total") - written;
    assert_eq!(zeros, (chunks.len() * CHUNK) as u64, "zeros are written back in place of discarding");
    for (index, element) in array.iter().enumerate() {
        let expected = if discarded.contains(&index) { 0 } else { index as u64 + 1 };
        assert_eq!(*element, expected, "at {index}");
    }
}
