//! How two sides find each other's endpoint over a socket.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use outboard_wire::{Refusal, RefusalReason, Time, Versions};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, getsockname, recv, send, sockopt};

use super::OfiConfig;
use super::bytes::{OfiBytes, watch};
use super::choice::{FabricError, select};
use super::endpoint::{Endpoint, Sizes};
use super::leftovers;
use super::offer::WITHIN_A_MACHINE;
use super::preface::{PREFACE_LEN, Preface};
use super::side::Side;
use crate::ConnectError;
use crate::patience::Patience;

/// How long a message is that every link has places for. Providers send as much as this at once.
const SHORT_BYTES: usize = 16 << 10;

/// A socket on which the endpoints are exchanged.
pub(super) struct Meeting {
    socket: OwnedFd,
    epoll: OwnedFd,
    config: OfiConfig,
    /// The versions that we speak.
    versions: Versions,
    /// The other side's.
    address: String,
    pub(super) patience: Patience,
    bytes: [u8; PREFACE_LEN],
    len: usize,
    endpoint: Option<Endpoint>,
}

impl Meeting {
    /// A meeting on a connected socket, or one that is being connected, and an epoll instance that watches it.
    pub(super) fn new(
        socket: OwnedFd,
        epoll: OwnedFd,
        (config, versions): (OfiConfig, Versions),
        address: String,
        now: Time,
    ) -> Result<Self, ConnectError> {
        let failed = |source| ConnectError::System { call: "setsockopt", address: address.clone(), source };
        sockopt::set_tcp_nodelay(&socket, true).map_err(failed)?;
        let patience = Patience::new(config.stream.handshake_timeout, now);
        let bytes = [0; PREFACE_LEN];
        Ok(Self { socket, epoll, config, versions, address, patience, bytes, len: 0, endpoint: None })
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    pub(super) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn timed_out(&self) -> ConnectError {
        self.patience.timed_out(self.address.clone())
    }

    /// Opens our endpoint and tells the peer of it.
    pub(super) fn introduce(&mut self, provider: Option<&str>) -> Result<(), ConnectError> {
        let opened = self.open(provider);
        let preface = match &opened {
            Ok((_, preface)) => preface.clone(),
            Err(error @ FabricError::Fault(_)) => Preface::none(self.versions, &error.to_string()),
            Err(_) => Preface::none(self.versions, ""),
        };
        let sent = send(&self.socket, &preface.encode(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        let (endpoint, _) = opened.map_err(|source| self.fabric(source))?;
        match sent {
            // A new socket has room for it.
            Ok(PREFACE_LEN) => {}
            Ok(_) | Err(Errno::PIPE | Errno::CONNRESET) => return Err(self.hung_up()),
            Err(source) => {
                return Err(ConnectError::System { call: "send", address: self.address.clone(), source });
            }
        }
        self.endpoint = Some(endpoint);
        Ok(())
    }

    pub(super) fn has_introduced(&self) -> bool {
        self.endpoint.is_some()
    }

    fn open(&self, provider: Option<&str>) -> Result<(Endpoint, Preface), FabricError> {
        let (offer, choice) = select(self.local_address(), provider, self.config.progress)?;
        if choice.provider == WITHIN_A_MACHINE {
            leftovers::remove_once();
        }
        let OfiConfig { slots, slot_bytes, .. } = self.config;
        let operations_max = self.config.stream.operations_max;
        // A longer message is written, where that can be told.
        let short_bytes = if offer.tells { slot_bytes.min(SHORT_BYTES) } else { slot_bytes };
        let sizes = Sizes {
            receives: slots,
            sends: slots,
            long_sends: if short_bytes < slot_bytes { slots / 2 } else { 0 },
            accesses: operations_max,
            slot_bytes,
            short_bytes,
        };
        let mut endpoint = Endpoint::open(offer, sizes)?;
        // Everything is in place before the peer knows of it.
        for slot in 0..slots {
            if !endpoint.receive(slot)? {
                return Err(super::library::FabricFault { call: "fi_recv", source: Errno::AGAIN }.into());
            }
        }
        watch(&self.epoll, &endpoint)
            .map_err(|source| super::library::FabricFault { call: "epoll_ctl", source })?;
        let (name, wants_bells) = (endpoint.name()?, endpoint.wait_descriptor().is_none());
        let (versions, provider) = (self.versions, choice.provider);
        let preface = Preface { versions, provider, name, slots, slot_bytes: short_bytes, wants_bells };
        Ok((endpoint, preface))
    }

    /// The fabric is used where the socket leads to.
    fn local_address(&self) -> Option<IpAddr> {
        getsockname(&self.socket).ok().and_then(|name| SocketAddr::try_from(name).ok()).map(|name| name.ip())
    }

    /// Reads the peer's preface, if it is here as a whole.
    pub(super) fn hear(&mut self, now: Time) -> Result<Option<Preface>, ConnectError> {
        while self.len < PREFACE_LEN {
            match recv(&self.socket, &mut self.bytes[self.len..], RecvFlags::DONTWAIT) {
                Ok((0, _)) | Err(Errno::CONNRESET) => return Err(self.hung_up()),
                Ok((len, _)) => self.len += len,
                Err(Errno::AGAIN) if self.patience.is_over(now) => return Err(self.timed_out()),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(source) => {
                    return Err(ConnectError::System { call: "recv", address: self.address.clone(), source });
                }
            }
        }
        let heard = Preface::decode(&self.bytes);
        heard.map(Some).map_err(|source| ConnectError::Garbage { address: self.address.clone(), source })
    }

    /// Says that there is no endpoint for the other side, and why.
    pub(super) fn refuse(&self, why: &str) {
        refuse(&self.socket, self.versions, why);
    }

    /// The refusal of a side of these versions, if it speaks none of ours. Asked first: nothing else of another build's
    /// endpoint need fit.
    pub(super) fn refusal_of(&self, theirs: Versions, is_ours_connecting: bool) -> Option<Box<Refusal>> {
        let (connecting, accepting) =
            if is_ours_connecting { (self.versions, theirs) } else { (theirs, self.versions) };
        let differ = connecting.common(accepting).is_none();
        differ.then(|| Box::new(Refusal::of_versions(connecting, accepting)))
    }

    /// Both sides know each other.
    pub(super) fn meet(self, theirs: &Preface) -> Result<OfiBytes, ConnectError> {
        let Some(mut endpoint) = self.endpoint else { return Err(hung_up(&self.address)) };
        let ours = &endpoint.offer().provider;
        if let Some(why) = theirs.why_none() {
            let refusal = Box::new(Refusal::new(RefusalReason::Busy, &why));
            return Err(ConnectError::Refused { address: self.address, refusal });
        }
        if *ours != theirs.provider {
            let (ours, theirs) = (ours.clone(), theirs.provider.clone());
            let source = FabricError::Disagreement { ours, theirs };
            return Err(ConnectError::Fabric { address: self.address, source });
        }
        if let Err(fault) = endpoint.set_peer(&theirs.padded_name()) {
            return Err(ConnectError::Fabric { address: self.address, source: fault.into() });
        }
        Ok(OfiBytes::new(endpoint, &self.config, Side::new(self.socket), self.epoll, theirs))
    }

    fn fabric(&self, source: FabricError) -> ConnectError {
        ConnectError::Fabric { address: self.address.clone(), source }
    }

    fn hung_up(&self) -> ConnectError {
        hung_up(&self.address)
    }
}

/// Says on a new socket that there is no endpoint for the other side, and why.
pub(super) fn refuse(socket: &OwnedFd, versions: Versions, why: &str) {
    // If it is gone already, our own error says enough.
    let _ = send(socket, &Preface::none(versions, why).encode(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
}

fn hung_up(address: &str) -> ConnectError {
    ConnectError::HungUp { address: address.to_owned() }
}
