//! Which NUMA nodes have memory, and which is nearest the way to a peer.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use crate::{CoreList, Files};

/// The NUMA node of the network interface by which `peer` is reached; none if the system does not say, or the peer is
/// within the machine.
pub fn node_towards(peer: SocketAddr) -> Option<u32> {
    if peer.ip().is_loopback() {
        return None;
    }
    // Nothing is sent: the kernel only chooses the way.
    let any: SocketAddr = if peer.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(peer).ok()?;
    let interface = interface_of(socket.local_addr().ok()?.ip())?;
    node_of(&Files::of_this_machine(), &interface)
}

/// The NUMA nodes of this machine that have memory; none if the system does not say.
pub fn memory_nodes() -> Vec<u32> {
    nodes(&Files::of_this_machine())
}

fn nodes(files: &Files<'_>) -> Vec<u32> {
    const FOLDER: &str = "/sys/devices/system/node";
    let list = |file: &str| files.value::<CoreList>(&format!("{FOLDER}/{file}"));
    let nodes = list("has_memory").or_else(|| list("online")).unwrap_or_default();
    nodes.as_slice().to_vec()
}

/// The node of an interface's device; a negative number means that it has none.
fn node_of(files: &Files<'_>, interface: &str) -> Option<u32> {
    files
        .value::<i64>(&format!("/sys/class/net/{interface}/device/numa_node"))
        .and_then(|node| node.try_into().ok())
}

/// The interface that has this address.
fn interface_of(address: IpAddr) -> Option<String> {
    let mut first = core::ptr::null_mut();
    // SAFETY: the kernel's list is written where `first` points to, and given back below.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return None;
    }
    let mut found = None;
    let mut next = first;
    // SAFETY: the list is linked and ends with null; each entry lives until it is given back.
    while let Some(entry) = unsafe { next.as_ref() } {
        if found.is_none() && address_of(entry) == Some(address) {
            // SAFETY: an interface's name is a string that ends with zero.
            found = unsafe { core::ffi::CStr::from_ptr(entry.ifa_name) }.to_str().ok().map(str::to_owned);
        }
        next = entry.ifa_next;
    }
    // SAFETY: got by `getifaddrs`, and no reference into it is left.
    unsafe { libc::freeifaddrs(first) };
    found
}

fn address_of(entry: &libc::ifaddrs) -> Option<IpAddr> {
    // SAFETY: an address, if there is one, begins with its family and is as long as that says.
    unsafe {
        let family = i32::from(entry.ifa_addr.as_ref()?.sa_family);
        match family {
            libc::AF_INET => {
                let address = entry.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned();
                Some(IpAddr::from(address.sin_addr.s_addr.to_ne_bytes()))
            }
            libc::AF_INET6 => {
                let address = entry.ifa_addr.cast::<libc::sockaddr_in6>().read_unaligned();
                Some(IpAddr::from(address.sin6_addr.s6_addr))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::with_files;

    #[test]
    fn peers_within_the_machine_have_no_node() {
        assert_eq!(node_towards(([127, 0, 0, 1], 1).into()), None);
    }

    #[test]
    fn an_interface_without_a_node_has_none() {
        let node = |text| {
            with_files(&[("/sys/class/net/eth0/device/numa_node", text)], |files| node_of(files, "eth0"))
        };
        assert_eq!((node("2\n"), node("-1\n"), node("")), (Some(2), None, None));
    }

    #[test]
    fn nodes_with_memory_come_before_nodes_that_run() {
        let online = ("/sys/devices/system/node/online", "0-2\n");
        let with_memory = ("/sys/devices/system/node/has_memory", "0,2\n");
        assert_eq!(with_files(&[online, with_memory], nodes), [0, 2]);
        assert_eq!(with_files(&[online], nodes), [0, 1, 2]);
        assert!(with_files(&[], nodes).is_empty());
    }

    #[test]
    fn the_interface_of_an_address_is_found() {
        assert_eq!(interface_of([127, 0, 0, 1].into()).as_deref(), Some("lo"));
        assert_eq!(interface_of([192, 0, 2, 77].into()), None);
    }
}
