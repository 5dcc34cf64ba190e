//! Descriptors that nobody wants, and memory that is none.

use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use outboard_e2e::Random;
use outboard_wire::access::{AccessReply, AccessRequest, AccessStatus, Slot};
use outboard_wire::routing::{ATTACH, Form, JobKey, RUN, RankAttachment, Run};
use outboard_wire::trial::ECHO;
use outboard_wire::{
    FrameHead, FrameHeader, Generation, Grant, JobId, Rank, RegionId, RegionKey, Rights, Role,
};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::SendFlags;
use rustix::net::sockopt::set_socket_linger;

use super::Episode;
use super::forge::edge;
use super::raw::{Hung, await_readable, hello};
use super::shm::{RawShm, connect_unix, send_with};
use crate::scene::Scene;

/// Sockets, pipes, folders, memory: as many as one message carries.
pub(super) fn floods(scene: &Scene, random: &mut Random) -> Episode {
    let (pipe, _other) = rustix::pipe::pipe()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let memory = memfd_create(c"attack", MemfdFlags::CLOEXEC)?;
    let folder = std::fs::File::open("/proc/self")?;
    let kinds = [pipe.as_fd(), listener.as_fd(), memory.as_fd(), folder.as_fd()];
    let some = |random: &mut Random| -> Vec<BorrowedFd<'_>> {
        (0..1 + random.below(253)).map(|_| kinds[random.below(4) as usize]).collect()
    };
    let name = scene.any_socket(random);
    if random.once_in(2) {
        // Instead of a hello, or with one.
        let socket = connect_unix(name)?;
        let hello = hello(Role::Application, random).encode();
        let bytes = if random.once_in(2) { &hello[..] } else { &[0xdb][..] };
        for _ in 0..20 {
            send_with(&socket, bytes, &some(random))?;
        }
        return Ok(());
    }
    let link = RawShm::connect(name, &hello(Role::Application, random).encode())?;
    for _ in 0..50 {
        let descriptors = some(random);
        match random.below(3) {
            0 => link.message(FrameHead::new(ECHO), &[], &descriptors).map(drop)?,
            _ => send_with(&link.socket, &[0xdb], &descriptors)?,
        }
    }
    Ok(())
}

/// How long whoever closes such a socket last has to wait: longer than a turn may take. Not much longer, for the kernel's own
/// threads close what is left on sockets that nobody can reach any more.
const RELUCTANCE: Duration = Duration::from_secs(5);

/// A socket with unsent bytes that whoever closes last has to wait for.
fn reluctant() -> Result<(TcpStream, TcpStream), Hung> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let stream = TcpStream::connect(listener.local_addr()?)?;
    let (other, _) = listener.accept()?;
    let bytes = [0; 1 << 16];
    // Until both queues are full.
    for _ in 0..1000 {
        if rustix::net::send(&stream, &bytes, SendFlags::DONTWAIT).is_err() {
            break;
        }
    }
    set_socket_linger(&stream, Some(RELUCTANCE))?;
    Ok((stream, other))
}

/// The last to hold such a socket waits until its bytes are gone, whichever thread it is.
pub(super) fn lingering(scene: &Scene, random: &mut Random) -> Episode {
    let (socket, name) = (reluctant()?, scene.any_socket(random));
    let in_handshake = random.once_in(3);
    let taken = if in_handshake {
        let at = connect_unix(name)?;
        let said = hello(Role::Application, random).encode();
        let sent = send_with(&at, if random.once_in(2) { &said } else { &[0xdb] }, &[socket.0.as_fd()]);
        sent.is_ok().then_some(at)
    } else {
        let link = RawShm::connect(name, &hello(Role::Application, random).encode())?;
        let kind = if random.once_in(2) { &[0xdb][..] } else { &[1, 2, 3][..] };
        let sent = send_with(&link.socket, kind, &[socket.0.as_fd()]);
        sent.is_ok().then_some(link.socket)
    };
    // From now on the daemon is the last that holds it.
    drop(socket.0);
    if let Some(at) = taken {
        // Some read what was sent, others find it when they hang up.
        let _ = await_readable(at.as_fd());
    }
    std::thread::park_timeout(Duration::from_millis(random.below(300)));
    Ok(())
}

/// Memory that a rank's messages could lie in, if it were what it is said to be.
fn bundle_memory(size: u64, random: &mut Random) -> Result<OwnedFd, Hung> {
    let all = SealFlags::SHRINK | SealFlags::GROW;
    let memory = memfd_create(c"attack", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    match random.below(7) {
        0 => return Ok(rustix::pipe::pipe()?.0),
        1 => ftruncate(&memory, size)?,
        2 => {
            ftruncate(&memory, size / 2)?;
            fcntl_add_seals(&memory, all)?;
        }
        3 => {
            ftruncate(&memory, size)?;
            fcntl_add_seals(&memory, SealFlags::GROW)?;
        }
        4 => return Ok(TcpListener::bind("127.0.0.1:0")?.into()),
        5 => return Ok(std::fs::File::open("/proc/self/exe")?.into()),
        _ => {
            ftruncate(&memory, size)?;
            fcntl_add_seals(&memory, all)?;
        }
    }
    Ok(memory)
}

/// A rank whose memory is not what it says: the agent maps it, if it can, and reads messages from it.
pub(super) fn bundles(scene: &Scene, random: &mut Random) -> Episode {
    let outboard::Address::Abstract(name) = &scene.agent[0] else { return Ok(()) };
    let mut link = RawShm::connect(name, &hello(Role::Application, random).encode())?;
    let size = if random.once_in(4) { edge(random) } else { 1 << 20 };
    let grant = Grant {
        region: RegionId(9),
        generation: Generation(1),
        key: RegionKey([9; 16]),
        rights: Rights::READ,
        size,
    };
    let job = JobKey { job: JobId(random.next()), roster: random.next() };
    let (bundle_bytes, parcel_bytes) = (1 << 10, 1 << 16);
    let attachment = RankAttachment { job, rank: Rank(0), ranks: 2, grant, bundle_bytes, parcel_bytes };
    link.frame(FrameHead::new(ATTACH), &attachment.encode())?;
    await_readable(link.socket.as_fd())?;
    let memory = bundle_memory(size.min(1 << 30), random)?;
    for _ in 0..20 {
        let Some((bytes, _)) = link.next_message() else { break };
        let Ok(header) = FrameHeader::decode(&bytes) else { continue };
        if AccessRequest::decode(header.head().kind, &bytes[FrameHeader::LEN..], 0).is_err() {
            continue;
        }
        let said = if random.once_in(4) { edge(random) } else { size };
        let reply = AccessReply::Opened { status: AccessStatus::Done, slot: Slot(0), size: said };
        let head = FrameHead::new(reply.kind()).with_tag(header.head().tag);
        link.message(head, reply.encode().as_bytes(), &[memory.as_fd()])?;
    }
    for number in 0..40 {
        let at = if random.once_in(3) { edge(random) } else { random.below(size.max(1)) };
        let (source, destination) = (Rank(0), Rank(0));
        let form = Form::Messages;
        let run = Run { source, destination, number, at: Some(at), len: 1 << 10, space: 0, form };
        link.frame(FrameHead::new(RUN), &run.encode())?;
    }
    // Those that are not sealed shrink while they are read.
    let _ = ftruncate(&memory, 0);
    std::thread::park_timeout(Duration::from_millis(random.below(30)));
    Ok(())
}
