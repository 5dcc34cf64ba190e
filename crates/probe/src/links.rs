//! Which link leads to which peer, and why.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::{fmt, io};

use outboard_limits::Files;
use outboard_link::Address;
use outboard_link::tcp::{self, KEY_FILE, Protection, TrustError};
use serde::Serialize;

use crate::finding::{Area, Finding, FindingState};

/// What decides which link leads to a peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Links {
    /// Whether memory can be shared with neighbours.
    pub shared_memory: bool,
    /// The addresses of this machine.
    pub local_addresses: Vec<IpAddr>,
}

/// The links there are to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LinkKind {
    /// Shared memory, with a peer on the same machine.
    Shm,
    /// A stream, with any machine.
    Tcp,
    /// A fabric, with the machines on it.
    Ofi,
}

impl fmt::Display for LinkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shm => "shm",
            Self::Tcp => "tcp",
            Self::Ofi => "ofi",
        })
    }
}

/// Which link leads to a peer, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LinkChoice {
    /// Where the peer listens.
    pub peer: String,
    /// The link; none if there is no way.
    pub link: Option<LinkKind>,
    /// Why this one.
    pub reason: String,
    /// How to get a better one, if there is a way.
    pub better: Option<String>,
}

impl Links {
    pub(crate) fn probe(files: &Files<'_>, shared_memory: bool) -> Self {
        let mut local_addresses = local_v4(&files.text("/proc/net/fib_trie").unwrap_or_default());
        local_addresses.extend(local_v6(&files.text("/proc/net/if_inet6").unwrap_or_default()));
        local_addresses.sort_unstable();
        local_addresses.dedup();
        Self { shared_memory, local_addresses }
    }

    /// Chooses the link to a peer. The peer is not spoken to.
    pub fn choose(&self, peer: &Address) -> LinkChoice {
        let (link, reason, better) = match peer {
            Address::Abstract(_) | Address::Path(_) if self.shared_memory => (
                Some(LinkKind::Shm),
                "a Unix socket leads to this machine only, where memory can be shared",
                None,
            ),
            Address::Abstract(_) | Address::Path(_) => (
                None,
                "a Unix socket leads to shared memory, which this kernel refuses",
                Some("let the peer listen on tcp:127.0.0.1:PORT"),
            ),
            Address::Tcp(socket) if self.is_here(socket.ip()) => (
                Some(LinkKind::Tcp),
                "this machine, but the address asks for tcp",
                self.shared_memory
                    .then_some("let the peer listen on unix:@NAME: shared memory is several times faster"),
            ),
            Address::Tcp(_) => (
                Some(LinkKind::Tcp),
                "another machine, or a network card with processors of its own: \
                    memory cannot be shared with it",
                None,
            ),
            Address::Ofi(_) => (
                Some(LinkKind::Ofi),
                "the address asks for libfabric; its provider is in the line on libfabric",
                None,
            ),
        };
        LinkChoice {
            peer: peer.to_string(),
            link,
            reason: reason.to_owned(),
            better: better.map(str::to_owned),
        }
    }

    fn is_here(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_loopback() || address.is_unspecified() || self.local_addresses.contains(&address)
    }
}

/// What those who have no credential can do.
const GET_KEYS: &str = "outboard keys init here, and outboard keys issue for the other machine; or the same random \
                        link.secret on both";

/// What cannot be helped.
const FABRICS: &str = "links over libfabric never are";

/// How links to other machines are protected.
pub(crate) fn encryption(config: &tcp::TcpConfig) -> Finding {
    let finding = |state, detail: String| Finding::new(Area::Links, "encryption", state, detail);
    // Reserved for documentation, so certainly another machine.
    match config.protection(SocketAddr::from(([192, 0, 2, 1], 1))) {
        Protection::Encrypted(credential) => match credential.check() {
            Ok(()) => finding(
                FindingState::Good,
                format!("tcp links to other machines are encrypted, by {credential}; {FABRICS}"),
            ),
            Err(error) => {
                Finding { fix: Some(mend(&error)), ..finding(FindingState::Limited, error.to_string()) }
            }
        },
        Protection::Forbidden => {
            let detail =
                "no credential, so no tcp links to other machines; within this one nothing is encrypted";
            finding(FindingState::Good, format!("{detail} (outboard keys init makes one)"))
        }
        other => finding(FindingState::Good, format!("tcp links to other machines are {other}")),
    }
}

/// How to come to a credential that can be used. Keys that are there are not made again.
fn mend(error: &TrustError) -> String {
    match error {
        TrustError::Unreadable { path, kind: io::ErrorKind::PermissionDenied } => {
            let folder = path.parent().unwrap_or(path).display();
            format!(
                "let a group of yours read them: chgrp -R GROUP {folder} && chmod 750 {folder} && chmod 640 \
                 {folder}/*.pem {folder}/{KEY_FILE}, as their owner; or run as their owner"
            )
        }
        TrustError::Exposed { path } => format!("chmod 600 {}", path.display()),
        _ => GET_KEYS.to_owned(),
    }
}

impl LinkChoice {
    /// This choice, with a word on how it is protected.
    pub(crate) fn protected(mut self, peer: &Address, config: &tcp::TcpConfig) -> Self {
        let Address::Tcp(socket) = peer else { return self };
        let protection = config.protection(*socket);
        self.reason += &format!("; {protection}");
        if protection == Protection::Forbidden {
            self.better = Some(GET_KEYS.to_owned());
        }
        self
    }

    /// What it means for a user who asks about this peer.
    pub fn finding(&self) -> Finding {
        let (state, detail) = match (&self.link, &self.better) {
            (Some(link), None) => (FindingState::Good, format!("{link}: {}", self.reason)),
            (Some(link), Some(_)) => (FindingState::Limited, format!("{link}: {}", self.reason)),
            (None, _) => (FindingState::Missing, self.reason.clone()),
        };
        Finding { fix: self.better.clone(), ..Finding::new(Area::Links, &self.peer, state, detail) }
    }
}

/// This machine's addresses in `/proc/net/fib_trie`: those that are followed by `/32 host LOCAL`.
fn local_v4(trie: &str) -> Vec<IpAddr> {
    let mut last = None;
    let mut found = Vec::new();
    for line in trie.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse::<Ipv4Addr>().ok();
        } else if line == "/32 host LOCAL" {
            found.extend(last.map(IpAddr::V4));
        }
    }
    found
}

/// This machine's addresses in `/proc/net/if_inet6`: 32 hexadecimal digits at the beginning of a line.
fn local_v6(table: &str) -> Vec<IpAddr> {
    let parse = |line: &str| u128::from_str_radix(line.split_whitespace().next()?, 16).ok();
    table.lines().filter_map(parse).map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits))).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use outboard_limits::with_files;

    const TRIE: &str = "\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 127.0.0.0/8 2 0 2
           |-- 127.0.0.0
              /8 host LOCAL
           |-- 127.0.0.1
              /32 host LOCAL
           |-- 192.0.2.0
              /24 link UNICAST
           |-- 192.0.2.2
              /32 host LOCAL
        |-- 192.0.2.255
           /32 link BROADCAST
";
    const INET6: &str = "\
00000000000000000000000000000001 01 80 10 80       lo
fe8000000000000000fc00fffe000001 04 40 20 80     eth0
";

    fn links(shared_memory: bool) -> Links {
        let files = [("/proc/net/fib_trie", TRIE), ("/proc/net/if_inet6", INET6)];
        with_files(&files, |files| Links::probe(files, shared_memory))
    }

    fn chosen(links: &Links, peer: &str) -> LinkChoice {
        links.choose(&peer.parse().unwrap())
    }

    #[test]
    fn this_machine_knows_its_addresses() {
        let here: Vec<_> = links(true).local_addresses.iter().map(ToString::to_string).collect();
        assert_eq!(here, ["127.0.0.1", "192.0.2.2", "::1", "fe80::fc:ff:fe00:1"]);
        assert!(local_v4("nonsense\n/32 host LOCAL\n").is_empty());
        assert!(local_v6("zz\n\n").is_empty());
    }

    #[test]
    fn neighbours_share_memory_and_others_do_not() {
        let links = links(true);
        for peer in ["unix:@agent", "unix:/run/outboard.sock"] {
            let choice = chosen(&links, peer);
            assert_eq!(
                (choice.link, choice.finding().state),
                (Some(LinkKind::Shm), FindingState::Good),
                "{peer}"
            );
        }
        for peer in ["tcp:127.0.0.1:7000", "tcp:192.0.2.2:7000", "tcp:[::1]:7000", "tcp:[::ffff:192.0.2.2]:1"]
        {
            let choice = chosen(&links, peer);
            assert_eq!(
                (choice.link, choice.finding().state),
                (Some(LinkKind::Tcp), FindingState::Limited),
                "{peer}"
            );
            assert!(choice.better.unwrap().contains("unix:@"), "{peer}");
        }
        for peer in ["tcp:192.0.2.3:7000", "tcp:[2001:db8::1]:7000"] {
            let choice = chosen(&links, peer);
            assert_eq!(
                (choice.link, choice.finding().state),
                (Some(LinkKind::Tcp), FindingState::Good),
                "{peer}"
            );
        }
    }

    #[test]
    fn how_a_link_is_protected_is_said_and_what_is_missing_too() {
        let credential = tcp::Credential::Secret("what only the two know".into());
        let with = tcp::TcpConfig { credential: Some(credential), ..tcp::TcpConfig::default() };
        let said = |peer: &str, config: &tcp::TcpConfig| {
            let peer = peer.parse().unwrap();
            links(true).choose(&peer).protected(&peer, config).finding()
        };
        assert!(said("tcp:192.0.2.3:1", &with).detail.contains("encrypted, by a shared secret"));
        assert!(said("tcp:127.0.0.1:1", &with).detail.contains("not encrypted, as it stays"));
        assert!(!said("unix:@agent", &with).detail.contains("encrypted"));
        let without = said("tcp:192.0.2.3:1", &tcp::TcpConfig::default());
        assert_eq!(without.state, FindingState::Limited);
        assert!(without.fix.unwrap().contains("outboard keys init"));
        assert!(encryption(&with).detail.contains("shared secret"));
        assert!(encryption(&tcp::TcpConfig::default()).detail.contains("no credential"));
        let missing = tcp::Credential::Keys("/nowhere".into());
        let unusable = tcp::TcpConfig { credential: Some(missing), ..tcp::TcpConfig::default() };
        assert_eq!(encryption(&unusable).state, FindingState::Limited);
        let path = PathBuf::from("/etc/outboard/keys/node.key");
        let unreadable = mend(&TrustError::Unreadable { path, kind: io::ErrorKind::PermissionDenied });
        assert!(unreadable.contains("chgrp -R GROUP /etc/outboard/keys &&"), "{unreadable}");
        assert!(!unreadable.contains("keys init"), "{unreadable}");
    }

    #[test]
    fn without_shared_memory_a_unix_address_leads_nowhere() {
        let links = links(false);
        let unix = chosen(&links, "unix:@agent");
        assert_eq!((unix.link, unix.finding().state), (None, FindingState::Missing));
        assert!(unix.finding().fix.unwrap().contains("tcp:127.0.0.1"));
        assert_eq!(chosen(&links, "tcp:127.0.0.1:1").finding().state, FindingState::Good);
    }
}
