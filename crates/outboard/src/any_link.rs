//! A link of whichever kind an address asks for.

use outboard_link::memory::WindowMut;
use outboard_link::ofi::{self, OfiLink};
use outboard_link::shm::{self, ShmLink};
use outboard_link::tcp::{self, TcpLink};
use outboard_link::{
    Address, Capabilities, ConnectError, Counters, Disposition, Exports, Frame, Identity, Link, LinkError,
    Peer, SendError, WaitOn,
};
use outboard_settings::LinkSettings;
use outboard_wire::{FrameHead, Time};

/// A link whose kind is chosen once, when connecting. For what is rare: each call finds out which kind it is.
pub(crate) enum AnyLink {
    Shm(Box<ShmLink>),
    Tcp(Box<TcpLink>),
    Ofi(Box<OfiLink>),
}

/// Does the same with a link of any kind.
macro_rules! on_link {
    ($any:expr, $link:ident => $body:expr) => {
        match $any {
            $crate::any_link::AnyLink::Shm($link) => $body,
            $crate::any_link::AnyLink::Tcp($link) => $body,
            $crate::any_link::AnyLink::Ofi($link) => $body,
        }
    };
}
pub(crate) use on_link;

impl AnyLink {
    pub(crate) fn connect(
        address: &Address,
        identity: Identity,
        settings: &LinkSettings,
    ) -> Result<Self, ConnectError> {
        let exports = Exports::new();
        Ok(match address {
            Address::Tcp(socket) => {
                Self::Tcp(Box::new(tcp::connect(*socket, identity, exports, settings.tcp())?))
            }
            Address::Ofi(socket) => {
                Self::Ofi(Box::new(ofi::connect(*socket, identity, exports, settings.ofi())?))
            }
            address => Self::Shm(Box::new(shm::connect(address, identity, exports, settings.shm())?)),
        })
    }
}

impl Link for AnyLink {
    fn peer(&self) -> &Peer {
        on_link!(self, link => link.peer())
    }

    fn capabilities(&self) -> &Capabilities {
        on_link!(self, link => link.capabilities())
    }

    fn counters(&self) -> Counters {
        on_link!(self, link => link.counters())
    }

    fn reserve(&mut self, head: FrameHead, len: usize) -> Result<WindowMut<'_>, SendError> {
        on_link!(self, link => link.reserve(head, len))
    }

    fn commit(&mut self, len: usize) {
        on_link!(self, link => link.commit(len));
    }

    fn flush(&mut self) -> Result<(), LinkError> {
        on_link!(self, link => link.flush())
    }

    fn receive<F>(&mut self, max_frames: usize, sink: F) -> Result<usize, LinkError>
    where
        F: FnMut(Frame<'_>) -> Disposition,
    {
        on_link!(self, link => link.receive(max_frames, sink))
    }

    fn progress(&mut self, now: Time) -> Result<bool, LinkError> {
        on_link!(self, link => link.progress(now))
    }

    fn next_deadline(&self) -> Option<Time> {
        on_link!(self, link => link.next_deadline())
    }

    fn prepare_to_wait(&mut self) -> bool {
        on_link!(self, link => link.prepare_to_wait())
    }

    fn polled(&mut self, has_something: bool) {
        on_link!(self, link => link.polled(has_something));
    }

    fn wait_on(&self) -> Option<WaitOn<'_>> {
        on_link!(self, link => link.wait_on())
    }

    fn close(&mut self, reason: &str) {
        on_link!(self, link => link.close(reason));
    }
}
