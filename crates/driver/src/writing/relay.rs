//! The link to an agent that passes batches on.

use outboard_link::ofi::OfiLink;
use outboard_link::shm::ShmLink;
use outboard_link::tcp::TcpLink;
use outboard_link::{Disposition, Frame, Link, LinkError, Peer, SendError};
use outboard_wire::{FrameHead, Time};

/// A link to an agent, of whichever kind. Batches are few, so that choosing anew for each costs nothing that counts.
pub enum Relay {
    /// On the same node.
    Shm(Box<ShmLink>),
    /// Over a network.
    Tcp(Box<TcpLink>),
    /// Over a fabric.
    Ofi(Box<OfiLink>),
}

macro_rules! on_relay {
    ($relay:expr, $link:ident => $body:expr) => {
        match $relay {
            Relay::Shm($link) => $body,
            Relay::Tcp($link) => $body,
            Relay::Ofi($link) => $body,
        }
    };
}

impl Relay {
    /// Who is at the other end.
    pub fn peer(&self) -> &Peer {
        on_relay!(self, link => link.peer())
    }

    pub(super) fn send(&mut self, head: FrameHead, parts: &[&[u8]]) -> Result<(), SendError> {
        on_relay!(self, link => send(link.as_mut(), head, parts))
    }

    pub(super) fn progress(
        &mut self,
        now: Time,
        sink: impl FnMut(Frame<'_>) -> Disposition,
    ) -> Result<bool, LinkError> {
        on_relay!(self, link => {
            let moved = link.progress(now)?;
            let taken = link.receive(64, sink)?;
            link.flush()?;
            Ok(moved | (taken > 0))
        })
    }

    pub(super) fn close(&mut self) {
        on_relay!(self, link => link.close("the writer is done"));
    }
}

/// Sends one frame that is made of parts, and lets the peer see it.
pub(super) fn send<L: Link>(link: &mut L, head: FrameHead, parts: &[&[u8]]) -> Result<(), SendError> {
    let len = parts.iter().map(|part| part.len()).sum();
    let mut window = link.reserve(head, len)?;
    let mut at = 0;
    for part in parts {
        window.write(at, part);
        at += part.len();
    }
    link.commit(len);
    link.flush()?;
    Ok(())
}
