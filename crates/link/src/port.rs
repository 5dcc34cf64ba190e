//! TCP ports, as tcp and ofi use them to be found and to find others.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, acceptfrom_with, bind, connect, getsockname, listen, socket_with,
    sockopt,
};

use crate::ConnectError;
use crate::hello::BACKLOG;

/// How a kind of link shows the address of a port.
pub(crate) type Shown = fn(SocketAddr) -> String;

/// A port that is listened on.
pub(crate) struct Port {
    socket: OwnedFd,
    address: SocketAddr,
    shown: Shown,
}

/// A failure at an address.
pub(crate) fn failed(
    shown: Shown,
    address: SocketAddr,
    call: &'static str,
) -> impl Fn(Errno) -> ConnectError {
    move |source| ConnectError::System { call, address: shown(address), source }
}

/// A socket for a port of that address.
pub(crate) fn open_socket(shown: Shown, address: SocketAddr) -> Result<OwnedFd, ConnectError> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(family, SocketType::STREAM, flags, None).map_err(failed(shown, address, "socket"))
}

/// Begins to connect to `address`. Returns whether it is connected already.
pub(crate) fn dial(socket: &OwnedFd, shown: Shown, address: SocketAddr) -> Result<bool, ConnectError> {
    match connect(socket, &address) {
        Ok(()) => Ok(true),
        Err(Errno::INPROGRESS | Errno::INTR) => Ok(false),
        Err(source) => Err(ConnectError::Unreachable { address: shown(address), source }),
    }
}

impl Port {
    /// Listens on `address`, which must not be served by another process; port 0 takes any that is free.
    pub(crate) fn bind(shown: Shown, address: SocketAddr) -> Result<Self, ConnectError> {
        Self::open(shown, address, false)
    }

    /// A listener beside others of this process at the same port.
    pub(crate) fn bind_beside(shown: Shown, address: SocketAddr) -> Result<Self, ConnectError> {
        Self::open(shown, address, true)
    }

    fn open(shown: Shown, address: SocketAddr, is_shared: bool) -> Result<Self, ConnectError> {
        let failed = |call| {
            move |source| match source {
                Errno::ADDRINUSE => ConnectError::InUse { address: shown(address) },
                source => ConnectError::System { call, address: shown(address), source },
            }
        };
        let socket = open_socket(shown, address)?;
        // A port whose last connections are still fading may be used again; one with a listener may not.
        sockopt::set_socket_reuseaddr(&socket, true).map_err(failed("setsockopt"))?;
        if is_shared {
            sockopt::set_socket_reuseport(&socket, true).map_err(failed("setsockopt"))?;
        }
        bind(&socket, &address).map_err(failed("bind"))?;
        listen(&socket, BACKLOG).map_err(failed("listen"))?;
        let bound = getsockname(&socket).and_then(SocketAddr::try_from).map_err(failed("getsockname"))?;
        Ok(Self { socket, address: bound, shown })
    }

    /// Where it is, with the port that was taken.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Becomes readable when someone connects.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Takes the next connection, if there is one, and where it comes from as far as that is known.
    pub(crate) fn accept(&self) -> Result<Option<(OwnedFd, Option<SocketAddr>)>, ConnectError> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        match acceptfrom_with(&self.socket, flags) {
            Ok((socket, from)) => Ok(Some((socket, from.and_then(|from| SocketAddr::try_from(from).ok())))),
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
            Err(source) => Err(failed(self.shown, self.address, "accept")(source)),
        }
    }

    /// The name of a process that has connected.
    pub(crate) fn shown(&self, from: Option<SocketAddr>) -> String {
        from.map_or_else(|| "an unknown address".to_owned(), self.shown)
    }
}
