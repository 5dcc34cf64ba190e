//! Links of any kind: the one place that knows which kind an address asks for.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use outboard_wire::{FrameHead, Grant, Rights, Time};

use crate::connecting::Connecting;
use crate::memory::{Buffer, Mapping, Window, WindowMut};
use crate::ofi::{self, OfiLink};
use crate::shm::{self, ShmLink};
use crate::tcp::{self, TcpLink};
use crate::{
    AccessError, Address, Capabilities, Completion, ConnectError, Counters, Disposition, Exports, Frame,
    FrameSendError, Identity, ImmediateAccess, Link, LinkError, OpenRegion, Peer, RemoteMemory, Token,
    WaitOn,
};

/// The settings of links of each kind.
#[derive(Clone, Debug, Default)]
pub struct LinkConfigs {
    /// Of links within the node.
    pub shm: shm::ShmConfig,
    /// Of links between nodes.
    pub tcp: tcp::TcpConfig,
    /// Of links between nodes of a fabric.
    pub ofi: ofi::OfiConfig,
}

impl LinkConfigs {
    /// How many regions a link to `address` can have open at once.
    pub fn regions_max(&self, address: &Address) -> usize {
        match address {
            Address::Abstract(_) | Address::Path(_) => self.shm.regions_max,
            Address::Tcp(_) => self.tcp.stream.regions_max,
            Address::Ofi(_) => self.ofi.stream.regions_max,
        }
    }
}

/// A link of the kind that its address asked for. What is called often takes the link out and is compiled for its kind; what
/// is rare uses it as it is, and finds out the kind in every call.
pub enum AnyLink {
    /// Within the node.
    Shm(Box<ShmLink>),
    /// Between nodes.
    Tcp(Box<TcpLink>),
    /// Between nodes of a fabric.
    Ofi(Box<OfiLink>),
}

/// Does the same with a link of any kind.
macro_rules! with_link {
    ($any:expr, $link:ident => $body:expr) => {
        match $any {
            AnyLink::Shm($link) => $body,
            AnyLink::Tcp($link) => $body,
            AnyLink::Ofi($link) => $body,
        }
    };
}

impl From<ShmLink> for AnyLink {
    fn from(link: ShmLink) -> Self {
        Self::Shm(Box::new(link))
    }
}

impl From<TcpLink> for AnyLink {
    fn from(link: TcpLink) -> Self {
        Self::Tcp(Box::new(link))
    }
}

impl From<OfiLink> for AnyLink {
    fn from(link: OfiLink) -> Self {
        Self::Ofi(Box::new(link))
    }
}

/// A connection that we make and whose handshake is not finished. Rare enough for dynamic dispatch.
pub trait AnyDialing: Send {
    /// Goes on as far as it can; `None` means not yet.
    fn advance(&mut self, now: Time) -> Result<Option<AnyLink>, ConnectError>;

    /// The descriptor to wait on.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
}

impl<D: Connecting> AnyDialing for D
where
    AnyLink: From<D::Link>,
{
    fn advance(&mut self, now: Time) -> Result<Option<AnyLink>, ConnectError> {
        Ok(self.go_on(now)?.map(AnyLink::from))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Connecting::descriptor(self)
    }
}

/// Begins to connect to `address`.
pub fn dial(
    address: &Address,
    identity: Identity,
    exports: Arc<Exports>,
    configs: &LinkConfigs,
    now: Time,
) -> Result<Box<dyn AnyDialing>, ConnectError> {
    Ok(match address {
        Address::Tcp(socket) => {
            Box::new(tcp::TcpDialing::new(*socket, identity, exports, configs.tcp.clone(), now)?)
        }
        Address::Ofi(socket) => {
            Box::new(ofi::OfiDialing::new(*socket, identity, exports, configs.ofi.clone(), now)?)
        }
        address => Box::new(shm::ShmDialing::new(address, identity, exports, configs.shm.clone(), now)?),
    })
}

/// Connects to `address` and waits until the link is open; gives up when the other side has said nothing for the time that
/// the configuration of its kind gives a handshake.
pub fn connect(
    address: &Address,
    identity: Identity,
    exports: Arc<Exports>,
    configs: &LinkConfigs,
) -> Result<AnyLink, ConnectError> {
    Ok(match address {
        Address::Tcp(socket) => tcp::connect(*socket, identity, exports, configs.tcp.clone())?.into(),
        Address::Ofi(socket) => ofi::connect(*socket, identity, exports, configs.ofi.clone())?.into(),
        address => shm::connect(address, identity, exports, configs.shm.clone())?.into(),
    })
}

impl Link for AnyLink {
    fn peer(&self) -> &Peer {
        with_link!(self, link => link.peer())
    }

    fn capabilities(&self) -> &Capabilities {
        with_link!(self, link => link.capabilities())
    }

    fn counters(&self) -> Counters {
        with_link!(self, link => link.counters())
    }

    fn reserve(&mut self, head: FrameHead, len: usize) -> Result<WindowMut<'_>, FrameSendError> {
        with_link!(self, link => link.reserve(head, len))
    }

    fn commit(&mut self, len: usize) {
        with_link!(self, link => link.commit(len));
    }

    fn flush(&mut self) -> Result<(), LinkError> {
        with_link!(self, link => link.flush())
    }

    fn receive<F>(&mut self, max_frames: usize, sink: F) -> Result<usize, LinkError>
    where
        F: FnMut(Frame<'_>) -> Disposition,
    {
        with_link!(self, link => link.receive(max_frames, sink))
    }

    fn progress(&mut self, now: Time) -> Result<bool, LinkError> {
        with_link!(self, link => link.progress(now))
    }

    fn next_deadline(&self) -> Option<Time> {
        with_link!(self, link => link.next_deadline())
    }

    fn prepare_to_wait(&mut self) -> bool {
        with_link!(self, link => link.prepare_to_wait())
    }

    fn polled(&mut self, has_something: bool) {
        with_link!(self, link => link.polled(has_something));
    }

    fn wait_on(&self) -> Option<WaitOn<'_>> {
        with_link!(self, link => link.wait_on())
    }

    fn close(&mut self, reason: &str) {
        with_link!(self, link => link.close(reason));
    }
}

impl RemoteMemory for AnyLink {
    fn open(&mut self, grant: &Grant, rights: Rights, token: Token) -> Result<(), AccessError> {
        with_link!(self, link => link.open(grant, rights, token))
    }

    fn close_region(&mut self, region: OpenRegion) {
        with_link!(self, link => link.close_region(region));
    }

    fn read(
        &mut self,
        region: OpenRegion,
        offset: u64,
        into: &Buffer,
        into_offset: usize,
        len: usize,
        token: Token,
    ) -> Result<(), AccessError> {
        with_link!(self, link => link.read(region, offset, into, into_offset, len, token))
    }

    fn write(
        &mut self,
        region: OpenRegion,
        offset: u64,
        data: Window<'_>,
        token: Token,
    ) -> Result<(), AccessError> {
        with_link!(self, link => link.write(region, offset, data, token))
    }

    fn compare_swap(
        &mut self,
        region: OpenRegion,
        offset: u64,
        expected: u64,
        desired: u64,
        token: Token,
    ) -> Result<(), AccessError> {
        with_link!(self, link => link.compare_swap(region, offset, expected, desired, token))
    }

    fn fetch_add(
        &mut self,
        region: OpenRegion,
        offset: u64,
        addend: u64,
        token: Token,
    ) -> Result<(), AccessError> {
        with_link!(self, link => link.fetch_add(region, offset, addend, token))
    }

    fn at_once<T>(
        &mut self,
        region: OpenRegion,
        span: (u64, usize),
        what: ImmediateAccess,
        use_it: impl FnOnce(&Mapping) -> T,
    ) -> Option<Result<T, AccessError>> {
        with_link!(self, link => link.at_once(region, span, what, use_it))
    }

    fn mapping(&self, region: OpenRegion) -> Option<Arc<Mapping>> {
        with_link!(self, link => link.mapping(region))
    }

    fn completions<F: FnMut(Completion)>(&mut self, sink: F) -> usize {
        with_link!(self, link => link.completions(sink))
    }
}
