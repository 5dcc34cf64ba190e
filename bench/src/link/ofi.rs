//! Links over libfabric, and libfabric without them.

use std::marker::PhantomData;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use outboard_link::ofi::bare::{BareEnd, BareEndpoint};
use outboard_link::ofi::{self, FabricFault};
use outboard_link::{Address, ConnectError, Disposition, Exports, Link, StreamConfig};
use outboard_wire::{FrameHead, FrameKind, Room, Time};

use super::payload::{Digest, Source};
use super::pump::Pump;
use super::stage::Stage;
use super::stream::{Inlet, LinkStream, Outlet, Variants};
use super::transport::{Transport, identity};
use crate::BenchError;
use crate::pair::{Control, PATIENCE, spin_until};

/// Who moves the bytes, by libfabric's name.
pub(super) trait Provider {
    const NAME: &'static str;
}

/// TCP on loopback.
pub(super) struct OverTcp;

impl Provider for OverTcp {
    const NAME: &'static str = "tcp;ofi_rxm";
}

/// Memory that both processes have, and system calls that copy from one process to the other.
pub(super) struct OverShm;

impl Provider for OverShm {
    const NAME: &'static str = "shm";
}

/// A link by that provider.
pub(super) struct Ofi<P>(PhantomData<P>);

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Why this provider cannot be measured here.
pub(super) fn unfit<P: Provider>() -> Option<String> {
    ofi::choose(Some(HERE), Some(P::NAME)).err().map(|why| why.to_string())
}

fn config<P: Provider>() -> ofi::OfiConfig {
    let provider = Some(P::NAME.to_owned());
    // Either process may be kept waiting for a processor.
    let stream = StreamConfig { handshake_timeout: PATIENCE, deadline: PATIENCE, ..StreamConfig::default() };
    ofi::OfiConfig { provider, stream, ..ofi::OfiConfig::default() }
}

impl<P: Provider> Transport for Ofi<P> {
    type Link = ofi::OfiLink;
    type Listener = ofi::OfiListener;
    type Accepting = ofi::OfiAccepting;

    fn listen() -> Result<(Self::Listener, Address), ConnectError> {
        let any_port = SocketAddr::from((HERE, 0));
        let listener = ofi::OfiListener::bind(any_port, identity(), Exports::new(), config::<P>())?;
        let address = Address::Ofi(listener.address());
        Ok((listener, address))
    }

    fn accept(listener: &Self::Listener, now: Time) -> Result<Option<Self::Accepting>, ConnectError> {
        listener.accept(now)
    }

    fn poll(accepting: &mut Self::Accepting, now: Time) -> Result<Option<Self::Link>, ConnectError> {
        accepting.poll(now)
    }

    fn connect(address: &Address, exports: Arc<Exports>) -> Result<Self::Link, ConnectError> {
        match address {
            Address::Ofi(address) => ofi::connect(*address, identity(), exports, config::<P>()),
            other => unreachable!("the lead listens on libfabric, not on {other}"),
        }
    }
}

/// An endpoint of libfabric's, and nothing of ours around it.
pub(super) struct Bare {
    pub(super) endpoint: BareEndpoint,
    slots: usize,
    /// Which slots' messages have not left, or have arrived and were not taken.
    is_used: Vec<bool>,
    /// How many messages were sent, or taken.
    count: usize,
}

fn failed(fault: FabricFault) -> BenchError {
    BenchError::System { call: fault.call, source: fault.source.into() }
}

impl Bare {
    fn open<P: Provider>(slots: usize, slot_bytes: usize) -> Result<Self, BenchError> {
        let endpoint = BareEndpoint::open(Some(HERE), P::NAME, slots, slot_bytes);
        let address = P::NAME.to_owned();
        let endpoint = endpoint.map_err(|source| ConnectError::Fabric { address, source })?;
        Ok(Self { endpoint, slots, is_used: vec![false; slots], count: 0 })
    }

    /// Opens one on each side, with `slots` places for messages of `slot_bytes`. The lead's part.
    pub(super) fn meet<P: Provider>(
        stage: &Stage<'_>,
        slots: usize,
        slot_bytes: usize,
    ) -> Result<Self, BenchError> {
        Self::exchange::<P>(stage.control(), slots, slot_bytes)
    }

    /// The same on both sides.
    pub(super) fn exchange<P: Provider>(
        control: &Control,
        slots: usize,
        slot_bytes: usize,
    ) -> Result<Self, BenchError> {
        let mut bare = Self::open::<P>(slots, slot_bytes)?;
        control.send(&bare.endpoint.name().map_err(failed)?)?;
        let theirs: Vec<u8> = control.receive("the other endpoint's name")?;
        bare.endpoint.meet(&theirs).map_err(failed)?;
        Ok(bare)
    }

    /// Lets the provider work. Returns whether a read has ended.
    pub(super) fn turn(&mut self) -> Result<bool, BenchError> {
        let mut has_read = false;
        let is_used = &mut self.is_used;
        let polled = self.endpoint.poll(|end| match end {
            BareEnd::Sent(slot) => is_used[slot] = false,
            BareEnd::Received(slot, _) => is_used[slot] = true,
            BareEnd::Read => has_read = true,
        });
        polled.map_err(failed)?;
        Ok(has_read)
    }

    /// Lets the provider work until `step` has a result.
    fn until<T>(
        &mut self,
        awaited: &'static str,
        mut step: impl FnMut(&mut Self) -> Result<Option<T>, BenchError>,
    ) -> Result<T, BenchError> {
        spin_until(awaited, || {
            let stepped = step(self).transpose();
            match stepped {
                None => self.turn().err().map(Err),
                stepped => stepped,
            }
        })?
    }

    /// Reads from the other's memory.
    pub(super) fn read(
        &mut self,
        far: (u64, u64),
        into: &outboard_link::memory::Buffer,
        len: usize,
    ) -> Result<(), BenchError> {
        self.until("room for a read", |bare| {
            Ok(bare.endpoint.read(far, len, into).map_err(failed)?.then_some(()))
        })?;
        spin_until("the end of a read", || match self.turn() {
            Ok(has_read) => has_read.then_some(Ok(())),
            Err(error) => Some(Err(error)),
        })?
    }

    /// Gives memory to the other, who reads it.
    pub(super) fn lend(
        &mut self,
        memory: &Arc<outboard_link::memory::Segment>,
    ) -> Result<(u64, u64), BenchError> {
        self.endpoint.lend(memory).map_err(failed)
    }
}

/// A link that sends, or receives, frames. What it sends leaves only while it has its turns, so the side that sends waits in the
/// end until the other side has said of every window that it is there.
pub(super) struct OfiStream {
    pub(super) frames: LinkStream<ofi::OfiLink, 1>,
    /// Windows that the other side has not said anything of.
    awaited: usize,
}

impl OfiStream {
    pub(super) fn new(link: ofi::OfiLink) -> Self {
        Self { frames: LinkStream { pump: Pump::new(link), batch: 1 }, awaited: 0 }
    }
}

impl Variants for OfiStream {}

impl Outlet for OfiStream {
    fn send(&mut self, source: &Source, first: u64, count: u64) -> Result<(), BenchError> {
        self.awaited += 1;
        self.frames.send(source, first, count)
    }

    fn finish(&mut self) -> Result<(), BenchError> {
        let awaited = &mut self.awaited;
        self.frames.pump.link.flush()?;
        self.frames.pump.until("the other side to have everything", |link| {
            *awaited -= link.receive(*awaited, |_| Disposition::Taken)?;
            Ok((*awaited == 0).then_some(()))
        })
    }
}

impl Inlet for OfiStream {
    fn receive(&mut self, count: u64, digest: &mut Digest) -> Result<(), BenchError> {
        self.frames.receive(count, digest)?;
        self.frames.pump.send_now(FrameHead::new(FrameKind::new(Room::Trial, 1)), &[])
    }
}

impl Variants for Bare {}

impl Outlet for Bare {
    /// Messages lie in the slots already, except when a round begins: they come round again in the same order.
    fn send(&mut self, source: &Source, first: u64, count: u64) -> Result<(), BenchError> {
        if first == 0 {
            self.count = 0;
            for slot in 0..self.slots {
                self.endpoint.outgoing(slot).write(0, source.message(slot as u64));
            }
        }
        let len = source.message(0).len();
        for _ in 0..count {
            let slot = self.count % self.slots;
            self.until("room for a message", |bare| {
                let is_begun = !bare.is_used[slot] && bare.endpoint.send(slot, len).map_err(failed)?;
                Ok(is_begun.then_some(()))
            })?;
            self.is_used[slot] = true;
            self.count += 1;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), BenchError> {
        self.until("the last messages to leave", |bare| Ok((!bare.is_used.contains(&true)).then_some(())))
    }
}

impl Inlet for Bare {
    fn receive(&mut self, count: u64, digest: &mut Digest) -> Result<(), BenchError> {
        for _ in 0..count {
            // They arrive in the order in which the slots were given.
            let slot = self.count % self.slots;
            self.until("a message", |bare| Ok(bare.is_used[slot].then_some(())))?;
            digest.add_all(self.endpoint.received(slot));
            self.is_used[slot] = false;
            self.until("room for a receive", |bare| {
                Ok(bare.endpoint.receive(slot).map_err(failed)?.then_some(()))
            })?;
            self.count += 1;
        }
        Ok(())
    }
}
