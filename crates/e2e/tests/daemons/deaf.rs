//! Clients that have a server keep much for them, in a control group that has little.

use std::time::Instant;

use outboard::{Address, Client, Memory};
use outboard_e2e::{Daemon, Group, PATIENCE, outboard, socket};
use outboard_link::{AnyLink, Exports, FrameSendError, Identity, Link, LinkConfigs, connect};
use outboard_settings::LinkSettings;
use outboard_wire::{FrameHead, FrameKind, Role, Room};

const MIB: u64 = 1 << 20;
const LIMIT: u64 = 128 * MIB;
/// How many clients never read, by each kind of link: twice what the group has room for if each has the server keep 2 MiB.
const DEAF: usize = 64;

fn server(group: &Group, capacity: &str) -> Daemon {
    let arguments = [
        "memory",
        "--listen",
        &socket(),
        "--listen",
        "tcp:127.0.0.1:0",
        "--capacity",
        capacity,
        "--workers",
        "2",
    ];
    Daemon::of(group.around(&outboard(&arguments)))
}

fn identity(name: &str) -> Identity {
    Identity::new(Role::Application, name)
}

fn memory(at: &Address) -> Memory {
    Memory::new(Client::connect(at, identity("honest"), &LinkSettings::default()).unwrap())
}

/// Has the server answer as much as it takes, and reads nothing. Returns whether the link still stands.
fn ask_on(link: &mut AnyLink) -> bool {
    let question = FrameHead::new(FrameKind::new(Room::Trial, 0));
    loop {
        match link.send(question, &[7; 60_000]) {
            Ok(()) => {}
            Err(FrameSendError::Full) => return link.flush().is_ok(),
            Err(_) => return false,
        }
        if link.flush().is_err() {
            return false;
        }
    }
}

#[test]
fn clients_that_never_read_do_not_get_a_server_killed() {
    let Some(group) = Group::of_memory(LIMIT) else { return };
    let mut server = server(&group, "8MiB");
    let (local, remote) = (server.local().clone(), server.remote().clone());
    let mut honest: Vec<_> = [&local, &remote].map(memory).into_iter().map(|memory| (memory, None)).collect();
    for (memory, region) in &mut honest {
        *region = Some(memory.reserve(MIB, None).unwrap());
    }
    let ends = (0..DEAF).flat_map(|_| [&local, &remote]);
    let configs = LinkConfigs::default();
    let open = |at: &Address| connect(at, identity("deaf"), Exports::new(), &configs).unwrap();
    let mut deaf: Vec<_> = ends.map(open).collect();
    let until = Instant::now() + PATIENCE;
    let mut round = 0_u8;
    // Until the server has no more memory for them, and lets one of them go for that.
    while server.number("clients_lost_total") == 0 {
        assert!(Instant::now() < until, "no client had to go; {:?}", server.view());
        deaf.retain_mut(ask_on);
        round = round.wrapping_add(1);
        for (memory, region) in &mut honest {
            let region = region.as_ref().unwrap();
            memory.write(region, u64::from(round) * 4096, &[round; 4096]).unwrap();
            let mut read = [0; 4096];
            memory.read(region, u64::from(round) * 4096, &mut read).unwrap();
            assert_eq!(read, [round; 4096]);
        }
    }
    let line = server.process.await_line("“deaf”");
    assert!(line.contains("while memory is short"), "{line}");
    // One that comes now is served as well.
    for at in [&local, &remote] {
        let mut late = memory(at);
        let region = late.reserve(MIB, None).unwrap();
        late.write(&region, 0, &[1; 4096]).unwrap();
    }
    drop(deaf);
    drop(honest);
    server.end();
}

#[test]
fn writes_for_which_there_is_no_memory_are_refused_and_those_for_which_there_is_are_not() {
    let Some(group) = Group::of_memory(LIMIT) else { return };
    let server = server(&group, "4GiB");
    let mut memory = memory(server.remote());
    let region = memory.reserve(1 << 30, None).unwrap();
    let piece = vec![3; MIB as usize];
    let refused = (0..1 << 30).step_by(piece.len()).find_map(|offset| {
        let written = memory.write(&region, offset, &piece);
        written.err().map(|error| (offset, error.to_string()))
    });
    let (offset, why) = refused.expect("the group has room for less");
    assert!(why.contains("no memory left for what is written there"), "{why}");
    assert!(offset > 20 * MIB, "{offset} bytes were written");
    // What is there can be written anew, and all of it can be read.
    memory.write(&region, offset - MIB, &piece).unwrap();
    let mut read = vec![0; piece.len()];
    memory.read(&region, offset - MIB, &mut read).unwrap();
    assert_eq!(read, piece);
    // With memory given back, there is some for others.
    memory.free(region).unwrap();
    let region = memory.reserve(16 * MIB, None).unwrap();
    (0..16).for_each(|number| memory.write(&region, number * MIB, &piece).unwrap());
    server.end();
}
