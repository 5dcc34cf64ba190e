//! Whom others dial: a memory server and an agent that answer with anything.

use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use outboard::Address;
use outboard_e2e::Random;
use outboard_link::memory::Segment;
use outboard_wire::access::{AccessReply, AccessRequest, AccessStatus, Slot};
use outboard_wire::routing::{ANNOUNCE, Announcement, JobKey, PARCEL};
use outboard_wire::{FrameHead, FrameHeader, Incarnation, JobId, Rank, Role};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::Episode;
use super::answers::{SIZE, any_answer, fitting};
use super::forge::{any_head, edge, mutate, perhaps, some_bytes};
use super::raw::{Hung, Raw, RawTcp, await_readable};
use super::shm::{RawShm, welcome};
use super::victims::{self, Victim};
use crate::scene::Scene;

/// How long an impostor waits for somebody to dial.
const OPEN_FOR: Duration = Duration::from_millis(400);

/// Where somebody may dial.
enum Door {
    Unix(OwnedFd),
    Tcp(TcpListener),
}

impl Door {
    fn open(at: &Address) -> Result<Self, Hung> {
        match at {
            Address::Tcp(socket) => {
                let listener = TcpListener::bind(socket)?;
                listener.set_nonblocking(true)?;
                Ok(Self::Tcp(listener))
            }
            Address::Abstract(name) => {
                let name = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
                let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
                let socket =
                    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
                rustix::net::bind(&socket, &name)?;
                rustix::net::listen(&socket, 16)?;
                Ok(Self::Unix(socket))
            }
            Address::Ofi(_) | Address::Path(_) => Err(Hung),
        }
    }

    /// Lets somebody in, with a welcome that may be a lie.
    fn let_in(&self, role: Role, random: &mut Random) -> Result<(Raw, Incarnation), Hung> {
        let mut said = welcome(role, random);
        let life = said.intro.incarnation;
        if random.once_in(3) {
            said.heartbeat_ms = edge(random) as u32;
            said.deadline_ms = edge(random) as u32;
            said.intro.max_payload = edge(random) as u32;
        }
        match self {
            Self::Unix(socket) => {
                let socket = rustix::net::accept_with(socket, SocketFlags::CLOEXEC)?;
                let lie = random.once_in(6).then(|| edge(random) as u32);
                let welcome =
                    |ring_bytes| outboard_wire::Welcome { ring_bytes: lie.unwrap_or(ring_bytes), ..said };
                Ok((Raw::Shm(Box::new(RawShm::accept(socket, welcome, None)?)), life))
            }
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(false)?;
                stream.set_write_timeout(Some(OPEN_FOR))?;
                await_readable(stream.as_fd())?;
                rustix::net::recv(&stream, &mut [0; 176][..], rustix::net::RecvFlags::DONTWAIT)?;
                let bytes = perhaps(said.encode().to_vec(), random);
                rustix::net::send(&stream, &bytes, rustix::net::SendFlags::NOSIGNAL)?;
                Ok((Raw::Tcp(RawTcp::new(stream)), life))
            }
        }
    }
}

/// Answers what was asked beside the rings, with memory that is not what it should be.
pub(super) fn answer_openings(shm: &RawShm, random: &mut Random) -> Episode {
    for _ in 0..16 {
        let Some((bytes, _)) = shm.next_message() else { break };
        let Ok(header) = FrameHeader::decode(&bytes) else { continue };
        if AccessRequest::fixed_len(header.head().kind).is_none() {
            continue;
        }
        let size = if random.once_in(8) { edge(random) } else { SIZE };
        let reply = AccessReply::Opened { status: AccessStatus::Done, slot: Slot(edge(random) as u32), size };
        let head = FrameHead::new(reply.kind()).with_tag(header.head().tag);
        let memory = Segment::create(c"attack", SIZE as usize)?;
        let descriptors = if random.once_in(8) { [shm.segment.descriptor()] } else { [memory.descriptor()] };
        let descriptors = if random.once_in(8) { &descriptors[..0] } else { &descriptors[..] };
        shm.message(head, reply.encode().as_bytes(), descriptors)?;
    }
    Ok(())
}

/// Somebody who has dialled.
struct Guest {
    link: Raw,
    life: Incarnation,
    /// Some are lied to in little, so that they believe it for longer.
    lies_in_little: bool,
    /// How often they are still spoken with.
    turns: u32,
}

/// Speaks with somebody who has dialled, once.
fn converse(guest: &mut Guest, role: Role, random: &mut Random) -> Episode {
    let Guest { link, life, lies_in_little, .. } = guest;
    if let Raw::Shm(shm) = &*link {
        answer_openings(shm, random)?;
    }
    for (head, payload) in link.take() {
        let fits = !random.once_in(if *lies_in_little { 24 } else { 4 });
        let (kind, answer) =
            if fits { fitting((&head, &payload), *life, random) } else { any_answer(random) };
        let answer = if *lies_in_little && !random.once_in(8) { answer } else { perhaps(answer, random) };
        link.frame(FrameHead::new(kind).with_tag(head.tag), &answer)?;
    }
    if *lies_in_little && !random.once_in(20) {
        return Ok(());
    }
    let (head, payload) = match random.below(4) {
        0 if role == Role::Agent => {
            let job = JobKey { job: JobId(random.below(4)), roster: random.below(2) };
            let rank = Rank(edge(random) as u32);
            let said = Announcement { job, rank, is_reachable: random.once_in(2), hops: 0 };
            (FrameHead::new(ANNOUNCE), said.encode().to_vec())
        }
        1 if role == Role::Agent => (FrameHead::new(PARCEL), some_bytes(2000, random)),
        2 => (any_head(random), some_bytes(500, random)),
        _ => {
            let (kind, payload) = any_answer(random);
            (FrameHead::new(kind).with_tag(random.below(8) as u32), payload)
        }
    };
    if head.kind.is_for_link() && !random.once_in(30) {
        return Ok(());
    }
    link.frame(head, &if random.once_in(5) { mutate(payload, random) } else { payload })?;
    Ok(())
}

/// Awaits those who dial, as long as the door is open, and speaks with all of them by turns.
fn receive(at: &Address, role: Role, random: &mut Random) -> Episode {
    let door = Door::open(at)?;
    let until = Instant::now() + OPEN_FOR;
    let mut guests = Vec::new();
    while Instant::now() < until {
        if let Ok((link, life)) = door.let_in(role, random) {
            guests.push(Guest { link, life, lies_in_little: random.once_in(2), turns: 100 });
        }
        for guest in guests.iter_mut().filter(|guest| guest.turns > 0) {
            guest.turns = if converse(guest, role, random).is_ok() { guest.turns - 1 } else { 0 };
        }
        std::thread::park_timeout(Duration::from_millis(1));
    }
    Ok(())
}

/// The agent's second memory server.
pub(super) fn servers(scene: &Scene, random: &mut Random) -> Episode {
    receive(&scene.awaited_server[random.below(2) as usize], Role::MemoryServer, random)
}

/// The agent's neighbour.
pub(super) fn agents(scene: &Scene, random: &mut Random) -> Episode {
    receive(&scene.awaited_agent[random.below(2) as usize], Role::Agent, random)
}

/// An application that has found an impostor must come back from every call.
fn meet(what: &'static str, work: fn(&Address), random: &mut Random) -> Episode {
    let name = format!("attack-impostor-{}-{:x}", std::process::id(), random.next());
    let at = if random.once_in(2) {
        Address::Abstract(name)
    } else {
        Address::Tcp(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
    };
    let to = at.clone();
    let victim = Victim::start(what, move || work(&to));
    let _ = receive(&at, Role::MemoryServer, random);
    victim.come_back();
    Ok(())
}

/// Questions of a client.
pub(super) fn clients(_: &Scene, random: &mut Random) -> Episode {
    meet("a client of an impostor", victims::memory, random)
}

/// Far memory.
pub(super) fn far_memories(_: &Scene, random: &mut Random) -> Episode {
    meet("far memory at an impostor", victims::far_memory, random)
}

/// Calls of functions.
pub(super) fn callers(_: &Scene, random: &mut Random) -> Episode {
    meet("a caller at an impostor", victims::caller, random)
}

/// Writes.
pub(super) fn writers(_: &Scene, random: &mut Random) -> Episode {
    meet("a writer to an impostor", victims::writer, random)
}
