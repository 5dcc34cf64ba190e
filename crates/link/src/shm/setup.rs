//! The parts of a handshake that both sides need.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use outboard_wire::Time;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

use super::channel::Channel;
use super::config::{ShmConfig, max_payload};
use super::link::ShmLink;
use super::regions::Regions;
use super::rings::{Incoming, Layout, Outgoing, Side};
use crate::memory::{Mapping, Segment};
use crate::{
    Address, AtomicDomain, Capabilities, ConnectError, Counters, Exports, Identity, Loss, OneSided, Peer,
};

/// The settings and identity from which every link of this process starts.
#[derive(Clone)]
pub(super) struct Setup {
    pub(super) address: String,
    pub(super) identity: Identity,
    pub(super) exports: Arc<Exports>,
    pub(super) config: ShmConfig,
}

/// The memory that two processes share.
pub(super) struct Rings {
    segment: Arc<Mapping>,
    outgoing: Outgoing,
    incoming: Incoming,
    ring_bytes: u32,
}

impl Setup {
    pub(super) fn system(&self, call: &'static str, source: Errno) -> ConnectError {
        ConnectError::System { call, address: self.address.clone(), source }
    }

    pub(super) fn lost(&self, loss: Loss) -> ConnectError {
        match loss {
            Loss::Gone => ConnectError::HungUp { address: self.address.clone() },
            Loss::System { call, source } => self.system(call, source),
            Loss::Broke(source) => ConnectError::Violation { address: self.address.clone(), source },
            _ => ConnectError::HungUp { address: self.address.clone() },
        }
    }

    /// Maps both rings of a segment. A side that hands the descriptor to no peer does not need it after that: a link costs
    /// one for its channel, and no other.
    pub(super) fn rings(
        &self,
        side: Side,
        segment: Segment,
        ring_bytes: u32,
    ) -> Result<(Rings, OwnedFd), Errno> {
        let (segment, descriptor) = segment.into_parts();
        let segment = Arc::new(segment);
        let memory = (&segment, descriptor.as_fd());
        let (outgoing, incoming) = Layout::new(ring_bytes).rings(memory, side, max_payload(ring_bytes))?;
        Ok((Rings { segment, outgoing, incoming, ring_bytes }, descriptor))
    }

    /// Puts a link together.
    pub(super) fn link(&self, channel: Channel, rings: Rings, peer: Peer) -> ShmLink {
        let Rings { segment, outgoing, incoming, ring_bytes } = rings;
        let longest = max_payload(ring_bytes);
        let capabilities = Capabilities {
            name: "shm",
            max_payload: longest,
            one_sided: OneSided::Mapped,
            max_access: usize::MAX,
            max_operations: self.config.operations_max,
            atomics: AtomicDomain::Cpu,
            needs_target_progress: false,
        };
        ShmLink {
            peer,
            capabilities,
            counters: Counters::default(),
            channel,
            segment,
            outgoing,
            incoming,
            reserved: None,
            wanted_room: 0,
            is_deferred: false,
            lost: None,
            kept_since: None,
            is_over: false,
            look_interval: self.config.look_interval,
            next_look: Time::ZERO,
            is_drained: false,
            exports: Arc::clone(&self.exports),
            regions: Regions::default(),
            regions_max: self.config.regions_max,
            regions_given: 0,
            unsent: Default::default(),
            completions: Default::default(),
        }
    }
}

pub(super) fn socket_address(address: &Address) -> Result<SocketAddrUnix, Errno> {
    match address {
        Address::Abstract(name) => SocketAddrUnix::new_abstract_name(name.as_bytes()),
        Address::Path(path) => SocketAddrUnix::new(path),
        Address::Tcp(_) | Address::Ofi(_) => Err(Errno::AFNOSUPPORT),
    }
}

pub(super) fn open_socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}
