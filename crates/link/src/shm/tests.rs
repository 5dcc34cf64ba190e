//! The handshake's own cases; everything else is the conformance suite's.

use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use outboard_wire::access::AccessRequest;
use outboard_wire::{FrameHead, FrameKind, Generation, RegionId, RegionKey, Rights, Role, Room, Time};
use rustix::net::{SendFlags, sockopt::set_socket_linger};

use super::channel::{Enclosed, Received};
use super::{ShmConfig, ShmLink, ShmListener, Users, connect};
use crate::memory::Segment;
use crate::{Address, ConnectError, Disposition, Export, Exports, Identity, Link};

fn identity(name: &str) -> Identity {
    Identity::new(Role::Tool, name)
}

fn fresh_name(what: &str) -> Address {
    Address::Abstract(format!("outboard-test-{what}-{}-{}", std::process::id(), fastrand::u64(..)))
}

fn listen(address: &Address) -> Result<ShmListener, ConnectError> {
    ShmListener::bind(address, identity("listener"), Exports::new(), ShmConfig::default())
}

fn pair(listener: &ShmListener, address: &Address) -> (ShmLink, ShmLink) {
    std::thread::scope(|scope| {
        let dialler = scope
            .spawn(|| connect(address, identity("dialler"), Exports::new(), ShmConfig::default()).unwrap());
        let accepted = loop {
            let Some(mut accepting) = listener.accept(Time::ZERO).unwrap() else { continue };
            break loop {
                if let Some(link) = accepting.poll(Time::ZERO).unwrap() {
                    break link;
                }
            };
        };
        (accepted, dialler.join().unwrap())
    })
}

struct SocketFile(PathBuf);

impl SocketFile {
    fn new(what: &str) -> Self {
        Self(std::env::temp_dir().join(format!("outboard-{what}-{}.sock", fastrand::u64(..))))
    }

    fn address(&self) -> Address {
        Address::Path(self.0.clone())
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_second_listener_is_told_at_once() {
    let file = SocketFile::new("second");
    for address in [fresh_name("second"), file.address()] {
        let _first = listen(&address).unwrap();
        assert!(matches!(listen(&address), Err(ConnectError::InUse { .. })));
    }
}

#[test]
fn a_socket_file_left_by_a_killed_listener_is_taken_over() {
    let file = SocketFile::new("stale");
    let killed = listen(&file.address()).unwrap();
    // As a kill does: the socket closes, and no process removes the file.
    rustix::net::shutdown(killed.descriptor(), rustix::net::Shutdown::Both).unwrap();
    let survivor = listen(&file.address()).unwrap();
    drop(killed);
    pair(&survivor, &file.address());
}

#[test]
fn a_file_that_is_no_socket_is_left_alone() {
    let file = SocketFile::new("plain");
    std::fs::write(&file.0, "precious").unwrap();
    assert!(listen(&file.address()).is_err());
    assert_eq!(std::fs::read_to_string(&file.0).unwrap(), "precious");
}

#[test]
fn an_address_without_a_listener_is_named() {
    let address = fresh_name("none");
    let error = connect(&address, identity("lonely"), Exports::new(), ShmConfig::default()).err().unwrap();
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}

#[test]
fn users_are_told_apart() {
    let us = rustix::process::geteuid().as_raw();
    assert!(Users::Same.include(us) && Users::Same.include(0) && !Users::Same.include(us + 1));
    let these = Users::These(vec![1234]);
    assert!(these.include(1234) && !these.include(1235) && Users::Everyone.include(1235));
}

#[test]
fn a_ring_of_an_odd_size_is_refused_before_anything_is_made() {
    let config = ShmConfig { ring_bytes: 100_000, ..ShmConfig::default() };
    let refused = ShmListener::bind(&fresh_name("odd"), identity("odd"), Exports::new(), config);
    assert!(matches!(refused, Err(ConnectError::Configuration { what: "ring_bytes", .. })));
}

#[test]
fn a_link_goes_by_the_kernels_word_about_the_peer() {
    let address = fresh_name("word");
    let listener = listen(&address).unwrap();
    let (mut accepted, mut dialled) = pair(&listener, &address);
    assert_eq!(accepted.peer().intro().pid, std::process::id());
    assert_eq!(dialled.peer().intro().name.as_str(), "listener");
    dialled.send(FrameHead::new(FrameKind::new(Room::Trial, 1)), b"hello").unwrap();
    dialled.flush().unwrap();
    let mut seen = Vec::new();
    let taken = accepted.receive(8, |frame| {
        seen.push(frame.payload.to_vec());
        Disposition::Taken
    });
    assert_eq!((taken.unwrap(), seen), (1, vec![b"hello".to_vec()]));
    assert_eq!(Arc::strong_count(&accepted.segment), 3, "the link and its two rings hold the segment");
}

/// An idle link would otherwise keep the memory of every region that was there when it last looked.
#[test]
fn a_link_keeps_no_region_that_its_peer_has_not_opened() {
    let (address, exports) = (fresh_name("kept"), Exports::new());
    let memory = Arc::new(Segment::create(c"test", 4096).unwrap());
    let (kept, keys) = (Arc::downgrade(&memory), vec![(RegionKey([7; 16]), Rights::ALL)]);
    exports.add(Export { region: RegionId(1), generation: Generation(1), memory, keys });
    let listener =
        ShmListener::bind(&address, identity("listener"), Arc::clone(&exports), ShmConfig::default())
            .unwrap();
    let _links = pair(&listener, &address);
    assert!(kept.upgrade().is_some());
    exports.remove(RegionId(1));
    assert!(kept.upgrade().is_none(), "a region that was removed is still in memory");
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Others open descriptors in the same process, but not by the hundred.
#[test]
fn a_peer_that_takes_no_answers_has_no_descriptors_wait_for_it() {
    const ASKED: u32 = 1000;
    let (address, exports) = (fresh_name("gifts"), Exports::new());
    let memory = Arc::new(Segment::create(c"test", 4096).unwrap());
    let (region, generation, key) = (RegionId(1), Generation(1), RegionKey([7; 16]));
    exports.add(Export { region, generation, memory, keys: vec![(key, Rights::ALL)] });
    let listener = ShmListener::bind(&address, identity("listener"), exports, ShmConfig::default()).unwrap();
    let (mut accepted, mut dialled) = pair(&listener, &address);
    let (before, mut milliseconds) = (descriptors(), 0);
    let mut progress = |accepted: &mut ShmLink| {
        milliseconds += 1;
        accepted.progress(Time::from_nanos(milliseconds * 1_000_000)).unwrap();
    };
    for tag in 0..ASKED {
        let request = AccessRequest::Open { region, generation, rights: Rights::READ, key };
        let head = FrameHead::new(request.kind()).with_tag(tag);
        while !dialled.channel.send_message(head, request.encode().as_bytes(), None).unwrap() {
            progress(&mut accepted);
        }
    }
    (0..100).for_each(|_| progress(&mut accepted));
    assert!(accepted.unsent.len() > 300, "{} answers wait", accepted.unsent.len());
    assert!(descriptors() < before + 200, "{} descriptors, before {before}", descriptors());
    // All of them come when the receiver takes them.
    let mut bytes = [0; super::channel::MESSAGE_MAX];
    for number in 0..ASKED {
        loop {
            match dialled.channel.receive(&mut bytes).unwrap() {
                Received::Message(_, Enclosed::Descriptor(_)) => break,
                Received::Message(..) => panic!("answer {number} has no descriptor"),
                Received::Nothing | Received::Doorbell => {
                    dialled.flush().unwrap();
                    accepted.send_answers().unwrap();
                }
            }
        }
    }
}

/// A socket with unsent bytes whose last holder waits an hour for them when it closes it, and who does not take them.
fn reluctant() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let flags = SendFlags::DONTWAIT;
    while rustix::net::send(&socket, &[0; 1 << 16], flags).is_ok() {}
    set_socket_linger(&socket, Some(Duration::from_secs(3600))).unwrap();
    (socket, listener.accept().unwrap().0)
}

#[test]
fn a_descriptor_that_takes_long_to_close_stops_no_link() {
    let (address, (done, ended)) = (fresh_name("reluctant"), channel());
    let listener = listen(&address).unwrap();
    let mut takers = Vec::new();
    for is_read in [true, false] {
        let (mut accepted, dialled) = pair(&listener, &address);
        let (socket, taker) = reluctant();
        // A message that is empty is no end, and what comes with it is not forgotten.
        for bytes in [&[0xdb][..], &[]] {
            assert!(dialled.channel.send(bytes, Some(socket.as_fd())).unwrap());
        }
        drop((socket, dialled));
        takers.push(taker);
        let done = done.clone();
        std::thread::spawn(move || {
            if is_read {
                let _ = accepted.progress(Time::ZERO);
            }
            drop(accepted);
            done.send(()).unwrap();
        });
    }
    for _ in 0..2 {
        ended.recv_timeout(Duration::from_secs(60)).expect("no thread waits for what a peer has sent");
    }
}
