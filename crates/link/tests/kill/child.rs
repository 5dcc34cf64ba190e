//! What a child process does.

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use outboard_link::memory::Mapping;
use outboard_link::ofi::{self, OfiListener};
use outboard_link::shm::{self, ShmLink, ShmListener, raw};
use outboard_link::tcp::{self, TcpListener};
use outboard_link::{Address, Clock, ConnectError, Exports, Identity, Link, RemoteMemory, StreamConfig};
use outboard_wire::Role;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::couple::LIMIT;
use crate::spec::{Act, End, Side, Spec, Transport, is_thorough};
use crate::trade::{self, Trader};

/// Says a line to the parent, which may have gone.
pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = write!(out, "\n{line}\n").and_then(|()| out.flush());
}

pub(crate) fn run(spec: &Spec) -> End {
    let address: Address = spec.at.parse().expect("the parent knows addresses");
    match (spec.transport, &address) {
        (Transport::Shm, _) => match meet_shm(spec, &address) {
            Ok(link) if spec.act == Act::Scribble => scribble(link, spec),
            Ok(link) => trade(link, spec),
            Err(error) => never_met(&error),
        },
        (Transport::Tcp, Address::Tcp(socket)) => match meet_tcp(spec, *socket) {
            Ok(link) => trade(link, spec),
            Err(error) => never_met(&error),
        },
        (Transport::Ofi, Address::Ofi(socket)) => match meet_ofi(spec, *socket) {
            Ok(link) => trade(link, spec),
            Err(error) => never_met(&error),
        },
        (transport, _) => panic!("{address} is no address for {transport:?}"),
    }
}

fn never_met(error: &ConnectError) -> End {
    say(&format!("never met: {error}"));
    End::NeverMet
}

fn trade<L: Link + RemoteMemory>(link: L, spec: &Spec) -> End {
    let mut trader = Trader::new(link, spec.seed, spec.act == Act::Trade);
    // A parent that wants traders to end kills them.
    trader.run(|| spec.act == Act::Endure && is_told_to_end())
}

/// Whether the parent has closed our standard input.
fn is_told_to_end() -> bool {
    let stdin = std::io::stdin();
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)], Some(&at_once)).is_ok_and(|it| it > 0)
}

fn identity(spec: &Spec) -> Identity {
    Identity::new(Role::Tool, spec.side.name())
}

fn exports() -> Arc<Exports> {
    let exports = Exports::new();
    exports.add(trade::region());
    exports
}

/// Waits until one of `descriptors` has something. Fails once the parent has closed our standard input, because
/// then no connection will come.
fn wait_for(descriptors: &[BorrowedFd<'_>]) -> Result<(), ConnectError> {
    let stdin = std::io::stdin();
    let mut all = vec![PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)];
    all.extend(descriptors.iter().map(|on| PollFd::from_borrowed_fd(*on, PollFlags::IN)));
    let limit = Timespec { tv_sec: LIMIT.as_secs().cast_signed(), tv_nsec: 0 };
    let ready = poll(&mut all, Some(&limit)).unwrap_or(0);
    let is_over = !all[0].revents().is_empty() && all[1..].iter().all(|other| other.revents().is_empty());
    if ready == 0 || is_over {
        return Err(ConnectError::HungUp { address: "no address".to_owned() });
    }
    Ok(())
}

/// Accepts one connection; the listeners differ only in their types.
macro_rules! accept_one {
    ($listener:expr) => {{
        let clock = Clock::start();
        let mut accepting = loop {
            wait_for(&[$listener.descriptor()])?;
            if let Some(accepting) = $listener.accept(clock.now())? {
                break accepting;
            }
        };
        loop {
            if let Some(link) = accepting.poll(clock.now())? {
                break Ok(link);
            }
            if let Some(descriptor) = accepting.descriptor() {
                wait_for(&[descriptor])?;
            }
        }
    }};
}

fn meet_shm(spec: &Spec, address: &Address) -> Result<ShmLink, ConnectError> {
    // Small rings, so that both sides meet full ones all the time.
    let config =
        shm::ShmConfig { ring_bytes: 1 << 16, handshake_timeout: LIMIT / 3, ..shm::ShmConfig::default() };
    if spec.side == Side::Dial {
        return shm::connect(address, identity(spec), exports(), config);
    }
    let listener = ShmListener::bind(address, identity(spec), exports(), config)?;
    say(&format!("at {address}"));
    accept_one!(listener)
}

fn stream() -> StreamConfig {
    StreamConfig {
        buffer_bytes: 1 << 17,
        heartbeat: trade::DEADLINE / 5,
        deadline: trade::DEADLINE,
        handshake_timeout: LIMIT / 3,
        ..StreamConfig::default()
    }
}

fn meet_tcp(spec: &Spec, address: std::net::SocketAddr) -> Result<tcp::TcpLink, ConnectError> {
    let config = tcp::TcpConfig { stream: stream(), ..tcp::TcpConfig::default() };
    if spec.side == Side::Dial {
        return tcp::connect(address, identity(spec), exports(), config);
    }
    let listener = TcpListener::bind(address, identity(spec), exports(), config)?;
    say(&format!("at {}", Address::Tcp(listener.address())));
    accept_one!(listener)
}

fn meet_ofi(spec: &Spec, address: std::net::SocketAddr) -> Result<ofi::OfiLink, ConnectError> {
    let config = ofi::OfiConfig {
        stream: stream(),
        provider: spec.transport.provider().map(str::to_owned),
        // What is read is never written here, and what is written is never read.
        lends_all: true,
        ..ofi::OfiConfig::default()
    };
    if spec.side == Side::Dial {
        return ofi::connect(address, identity(spec), exports(), config);
    }
    let listener = OfiListener::bind(address, identity(spec), exports(), config)?;
    say(&format!("at {}", Address::Ofi(listener.address())));
    accept_one!(listener)
}

/// How much damage a vandal has done when it says so.
const DAMAGES: u64 = 200_000;

/// Trades for a moment, so that the victim has regions open and frames on their way, and then writes anything
/// anywhere until it is killed. Vandals that are not [thorough](is_thorough) may never be noticed.
fn scribble(link: ShmLink, spec: &Spec) -> End {
    let mut trader = Trader::new(link, spec.seed, false);
    trader.turns(200);
    let vandal = raw::Vandal::new(trader.into_link());
    let mut random = fastrand::Rng::with_seed(spec.seed);
    let habits: &[Damage] = match spec.seed / 2 % 4 {
        _ if is_thorough(spec.seed) => {
            &[Damage::Cursor, Damage::Flag, Damage::Header, Damage::RingByte, Damage::Message]
        }
        0 => &[Damage::Flag],
        1 => &[Damage::RingByte],
        _ => &[Damage::Doorbell, Damage::Flag],
    };
    for done in 1u64.. {
        damage(&vandal, habits[random.usize(0..habits.len())], &mut random);
        if done == DAMAGES {
            say("scribbled");
        }
    }
    unreachable!("its parent kills it")
}

#[derive(Clone, Copy)]
enum Damage {
    /// Any index of either ring.
    Cursor,
    /// Whether a side says that it sleeps.
    Flag,
    /// Where a frame may begin.
    Header,
    /// Any byte of either ring.
    RingByte,
    /// A message on the socket that only wakes.
    Doorbell,
    /// A message on the socket that means nothing.
    Message,
}

/// The cursors lie at the head of the segment, 128 bytes apart, each with its flag behind it.
const LINE: usize = 128;
const LINES: usize = 4;

fn damage(vandal: &raw::Vandal, damage: Damage, random: &mut fastrand::Rng) {
    let segment = vandal.segment();
    let rings = LINES * LINE..segment.len() - 8;
    let line = random.usize(0..LINES) * LINE;
    let noise = random.u64(..).to_le_bytes();
    match damage {
        Damage::Cursor => scribble_word(segment, line, random),
        Damage::Flag => scribble_word(segment, line + 8, random),
        Damage::Header => segment.window_mut(random.usize(rings) & !15, 8).write(0, &noise),
        Damage::RingByte => segment.window_mut(random.usize(rings), 1).write(0, &noise[..1]),
        Damage::Doorbell => {
            vandal.send(&[0xdb]);
        }
        // Rarely, because the first is the last.
        Damage::Message if random.u16(..) == 0 => {
            vandal.send(&noise);
        }
        Damage::Message => {}
    }
}

fn scribble_word(segment: &Mapping, at: usize, random: &mut fastrand::Rng) {
    use std::sync::atomic::Ordering::Relaxed;
    let word = segment.word(at);
    let old = word.load(Relaxed);
    let new = match random.u8(0..3) {
        0 => random.u64(..),
        1 => old.wrapping_add(16 * random.u64(0..64)),
        _ => old ^ (1 << random.u32(0..64)),
    };
    word.store(new, Relaxed);
}
