//! Whom others dial: a memory server and an agent that answer with anything.

use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use outboard::{Address, Client, Memory, Settings};
use outboard_link::Identity;
use outboard_wire::access::{Reply as Accessed, Request as Access, Slot, Status as AccessStatus};
use outboard_wire::calling::{Place, REPLY, SLOTS, TABLE, Table};
use outboard_wire::control::{ControlAnswer, Failure};
use outboard_wire::paging::{CacheMode, Reply, Source, Status};
use outboard_wire::routing::{ANNOUNCE, Announcement, JobKey, PARCEL};
use outboard_wire::writing::{DRAINED, Drained, WriterId};
use outboard_wire::{FrameHead, FrameHeader, JobId, Rank, Role};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::Episode;
use super::forge::{self, any_head, edge, mutate, perhaps, some_bytes};
use super::raw::{Hung, Raw, RawTcp, await_readable};
use super::shm::{RawShm, welcome};
use crate::random::Random;
use crate::scene::Scene;

/// How long an impostor waits for somebody to dial.
const OPEN_FOR: Duration = Duration::from_millis(400);
/// How long any call of the library may take that is answered with anything. Its own limits are far below.
const BOUND: Duration = Duration::from_secs(20);

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
    fn let_in(&self, role: Role, random: &mut Random) -> Result<Raw, Hung> {
        let mut said = welcome(role, random);
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
                Ok(Raw::Shm(Box::new(RawShm::accept(socket, welcome, None)?)))
            }
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(false)?;
                stream.set_write_timeout(Some(OPEN_FOR))?;
                await_readable(stream.as_fd())?;
                rustix::net::recv(&stream, &mut [0; 176][..], rustix::net::RecvFlags::DONTWAIT)?;
                let bytes = perhaps(said.encode().to_vec(), random);
                rustix::net::send(&stream, &bytes, rustix::net::SendFlags::NOSIGNAL)?;
                Ok(Raw::Tcp(RawTcp::new(stream)))
            }
        }
    }
}

/// An answer of any service to anything.
fn any_answer(random: &mut Random) -> (outboard_wire::Kind, Vec<u8>) {
    let paging =
        |reply: Reply, data: usize| (reply.kind(), [reply.encode().as_bytes(), &vec![3; data]].concat());
    let mut bytes = Vec::new();
    match random.below(9) {
        0 => {
            let grant = forge::grant(None, random);
            paging(Reply::Attached { mode: CacheMode::Static, static_grant: Some(grant) }, 0)
        }
        1 => {
            let length = edge(random) as u32;
            paging(
                Reply::Fetched { status: Status::Done, source: Source::Hit, length },
                (length as usize).min(8192),
            )
        }
        2 => paging(Reply::Written { status: Status::Done, epoch: edge(random) }, 0),
        3 => paging(Reply::Fenced { status: Status::Done, epoch: edge(random) }, 0),
        4 => {
            let answer = ControlAnswer::failed(Failure::NotServed, "no");
            answer.encode(&mut bytes);
            (answer.kind(), bytes)
        }
        5 => {
            let places = [Place::ALL[random.below(3) as usize]; SLOTS];
            (TABLE, Table { epoch: edge(random), places }.encode().to_vec())
        }
        6 => {
            let (writer, attempt) = (WriterId([0; 16]), edge(random) as u32);
            Drained { writer, attempt, through: edge(random), refusals: Vec::new() }.encode(&mut bytes);
            (DRAINED, bytes)
        }
        7 => (REPLY, some_bytes(200, random)),
        _ => {
            let reply = Accessed::Done { status: AccessStatus::Done, old: edge(random) };
            (reply.kind(), reply.encode().as_bytes().to_vec())
        }
    }
}

/// Answers what was asked beside the rings, with memory that is not what it should be.
fn answer_openings(shm: &RawShm, random: &mut Random) -> Episode {
    for _ in 0..16 {
        let Some((bytes, _)) = shm.next_message() else { break };
        let Ok(header) = FrameHeader::decode(&bytes) else { continue };
        if Access::fixed_len(header.head().kind).is_none() {
            continue;
        }
        let size = if random.once_in(2) { edge(random) } else { shm.segment.len() as u64 };
        let reply = Accessed::Opened { status: AccessStatus::Done, slot: Slot(edge(random) as u32), size };
        let head = FrameHead::new(reply.kind()).with_tag(header.head().tag);
        let descriptors = [shm.segment.descriptor()];
        let descriptors = if random.once_in(4) { &descriptors[..0] } else { &descriptors[..] };
        shm.message(head, reply.encode().as_bytes(), descriptors)?;
    }
    Ok(())
}

/// Speaks with somebody who has dialled.
fn converse(link: &mut Raw, role: Role, random: &mut Random) -> Episode {
    for _ in 0..100 {
        if let Raw::Shm(shm) = &*link {
            answer_openings(shm, random)?;
        }
        for (head, _) in link.take() {
            let (kind, payload) = any_answer(random);
            link.frame(FrameHead::new(kind).with_tag(head.tag), &perhaps(payload, random))?;
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
            continue;
        }
        link.frame(head, &if random.once_in(5) { mutate(payload, random) } else { payload })?;
        std::thread::park_timeout(Duration::from_millis(1));
    }
    Ok(())
}

/// Awaits those who dial, as long as the door is open.
fn receive(at: &Address, role: Role, random: &mut Random) -> Episode {
    let door = Door::open(at)?;
    let until = Instant::now() + OPEN_FOR;
    let mut links = Vec::new();
    while Instant::now() < until {
        match door.let_in(role, random) {
            Ok(mut link) => {
                let _ = converse(&mut link, role, random);
                links.push(link);
            }
            Err(Hung) => std::thread::park_timeout(Duration::from_millis(2)),
        }
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

/// What an application does first.
fn use_it(at: &Address) {
    let mut settings = Settings::default().link;
    settings.handshake_timeout = Duration::from_millis(200);
    let identity = Identity::new(Role::Application, "victim");
    let Ok(client) = Client::connect(at, identity, &settings) else { return };
    let mut memory = Memory::new(client.with_patience(Duration::from_millis(100)));
    let _ = memory.client().echo(b"is anybody there?");
    let _ = memory.client().read_region(&outboard_agent::STATUS_GRANT);
    if let Ok(region) = memory.reserve(1 << 16, None) {
        let _ = memory.write(&region, 0, b"something");
        let _ = memory.read(&region, 1 << 15, &mut [0; 16]);
        let _ = memory.free(region);
    }
    let _ = memory.open_shared("honest", outboard::Rights::READ);
}

/// An application that has found an impostor must come back from every call.
pub(super) fn clients(_: &Scene, random: &mut Random) -> Episode {
    let name = format!("attack-impostor-{}-{:x}", std::process::id(), random.next());
    let at = if random.once_in(2) {
        Address::Abstract(name)
    } else {
        Address::Tcp(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
    };
    let (victim, (sender, ended)) = (at.clone(), channel());
    let thread = std::thread::spawn(move || {
        use_it(&victim);
        let _ = sender.send(());
    });
    let _ = receive(&at, Role::MemoryServer, random);
    match ended.recv_timeout(BOUND) {
        Ok(()) => {}
        Err(_) if thread.is_finished() => crate::attacker::report("a client of an impostor panics"),
        Err(_) => crate::attacker::report("a client of an impostor never comes back"),
    }
    Ok(())
}
