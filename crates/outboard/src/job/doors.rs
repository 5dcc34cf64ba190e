//! Where a rank can be reached, from its own machine and from others.

use std::net::{IpAddr, SocketAddr};

use outboard_link::{Address, AddressError};

/// Between the addresses of one rank. No address contains it.
const BETWEEN: char = ' ';

/// All addresses of a rank, as others are told.
pub(crate) fn to_text(addresses: &[Address]) -> String {
    let texts: Vec<String> = addresses.iter().map(Address::to_string).collect();
    texts.join(&BETWEEN.to_string())
}

/// By which of a rank's addresses we reach it, `own` being ours: by shared memory if it is on the same machine, which it
/// is if both are seen by others at the same place, or by no other process at all.
pub(crate) fn way_to(theirs: &str, own: &str) -> Result<Address, AddressError> {
    let (mut theirs, own) = (parse(theirs)?, parse(own)?);
    let is_here = host(&theirs) == host(&own);
    let wanted = theirs.iter().position(|address| port(address).is_some() != is_here);
    // Whatever it has is the way if it has only one; and it has one, or it would not have been parsed.
    Ok(theirs.swap_remove(wanted.unwrap_or(0)))
}

fn parse(text: &str) -> Result<Vec<Address>, AddressError> {
    text.split(BETWEEN).map(str::parse).collect()
}

/// Where a rank is seen by others, if it is.
pub(crate) fn host_of(addresses: &str) -> Option<Address> {
    parse(addresses).ok()?.into_iter().find(|address| port(address).is_some())
}

fn host(addresses: &[Address]) -> Option<IpAddr> {
    addresses.iter().find_map(port).map(|socket| socket.ip())
}

/// Where other machines reach it, if they do.
fn port(address: &Address) -> Option<SocketAddr> {
    match address {
        Address::Tcp(socket) | Address::Ofi(socket) => Some(*socket),
        Address::Path(_) | Address::Abstract(_) => None,
    }
}

/// Whether a process listens at a socket of this machine that has no path. The question disturbs no process.
pub(crate) fn is_open(address: &Address) -> bool {
    let Address::Abstract(name) = address else { return false };
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    sockets.lines().any(|line| line.rsplit_once(" @").is_some_and(|(_, known)| known == name))
}

#[cfg(test)]
mod tests {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::SocketAddr;

    use super::*;

    fn way(theirs: &str, own: &str) -> String {
        way_to(theirs, own).map_or_else(|error| error.to_string(), |address| address.to_string())
    }

    #[test]
    fn ranks_of_one_machine_share_memory_and_others_use_the_network() {
        let (one, two) = ("tcp:10.0.0.1:4000 unix:@one", "tcp:10.0.0.1:4001 unix:@two");
        assert_eq!(way(one, two), "unix:@one");
        assert_eq!(way("tcp:10.0.0.2:4000 unix:@far", one), "tcp:10.0.0.2:4000");
        let fabric = "ofi:10.0.0.1:4000 unix:@three";
        assert_eq!(way(one, fabric), "unix:@one");
        assert_eq!(way("ofi:10.0.0.2:4000 unix:@far", fabric), "ofi:10.0.0.2:4000");
        assert_eq!(way("unix:@one", "unix:@two"), "unix:@one");
        assert_eq!(way("tcp:10.0.0.1:4000", "tcp:10.0.0.1:4001"), "tcp:10.0.0.1:4000");
    }

    #[test]
    fn a_socket_is_open_while_a_process_listens() {
        let name = format!("outboard-doors-{}", std::process::id());
        let address = Address::Abstract(name.clone());
        assert!(!is_open(&address));
        let socket = SocketAddr::from_abstract_name(&name).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind_addr(&socket).unwrap();
        assert!(is_open(&address));
    }

    #[test]
    fn what_is_no_address_is_named() {
        assert!(way("", "unix:@two").contains("neither unix: nor tcp:"));
        assert!(way("tcp:nowhere", "unix:@two").contains("tcp:nowhere"));
    }

    #[test]
    fn addresses_are_told_and_understood() {
        let addresses = ["tcp:10.0.0.1:4000", "unix:@one"].map(|text| text.parse().unwrap());
        assert_eq!(parse(&to_text(&addresses)).unwrap(), addresses);
    }
}
