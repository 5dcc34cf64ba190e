//! The agent of a node, which the ranks of a job start if no other process has.
//!
//! All ranks of a node look for it at the same place. The rank that gets a lock, which the kernel takes back when its
//! holder dies, starts it; the others look again. It ends by itself when the last of them is gone.

use std::io;
use std::net::SocketAddr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use outboard_link::{Address, ConnectError, Identity};
use outboard_settings::{AgentSettings, LogLevel, LogSettings, Settings};
use outboard_wire::control::Member;
use thiserror::Error;

use super::doors;
use crate::client::Client;

/// The usual name of the program.
const PROGRAM: &str = "outboard";
/// How long ranks wait for it.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long they pause between two looks.
const PAUSE: Duration = Duration::from_millis(5);
/// Ports that are neither assigned nor given out by kernels on their own.
const FIRST_PORT: u64 = 20_000;
const PORTS: u64 = 12_000;

/// Why there is no agent.
#[derive(Error)]
pub(super) enum StartError {
    /// There is no such program.
    #[error("no agent runs, and {} is not there to start one (job.agent_program)", program.display())]
    NoProgram { program: PathBuf },
    /// It could not be started.
    #[error("no agent runs, and {} cannot be started: {source}", program.display())]
    Refused { program: PathBuf, source: io::Error },
    /// It has ended at once.
    #[error(
        "the agent that was to be started here has failed ({status}); job.start_agent=false goes without"
    )]
    Failed { status: ExitStatus },
    /// It takes too long.
    #[error("no agent answers at {address} after {waited:?}; job.start_agent=false goes without")]
    TooLate { address: Address, waited: Duration },
    /// It is there and does not let us in.
    #[error(transparent)]
    NotLetIn(ConnectError),
}

outboard_wire::debug_with_causes!(StartError);

/// Connects to the agent of this node at `address`, and starts it if no other process has.
pub(super) fn find_or_start(
    address: &Address,
    settings: &Settings,
    identity: &Identity,
    members: &[Member],
) -> Result<Client, StartError> {
    let program = find_program(settings.job.agent_program.as_deref())?;
    let began = Instant::now();
    loop {
        if let Some(client) = connect(address, settings, identity)? {
            return Ok(client);
        }
        if let Some(_lock) = lock(address) {
            // The rank that had it before may have started one.
            if let Some(client) = connect(address, settings, identity)? {
                return Ok(client);
            }
            let variables = variables(address, settings, identity, members);
            start(&program, &variables, (address, began + PATIENCE))?;
        } else {
            std::thread::park_timeout(PAUSE);
        }
        if began.elapsed() > PATIENCE {
            return Err(StartError::TooLate { address: address.clone(), waited: PATIENCE });
        }
    }
}

/// Nothing if no agent is there yet.
fn connect(
    address: &Address,
    settings: &Settings,
    identity: &Identity,
) -> Result<Option<Client>, StartError> {
    match Client::connect(address, identity.clone(), &settings.link) {
        Ok(client) => Ok(Some(client)),
        Err(ConnectError::Unreachable { .. } | ConnectError::HungUp { .. }) => Ok(None),
        Err(error) => Err(StartError::NotLetIn(error)),
    }
}

/// The right to start the agent. No peer is ever answered there.
fn lock(address: &Address) -> Option<UnixListener> {
    let Address::Abstract(name) = address else { return None };
    let name = UnixAddress::from_abstract_name(format!("{name}-starts")).ok()?;
    UnixListener::bind_addr(&name).ok()
}

/// Starts it and waits until it is ready. The process that is started here goes when the agent is: a program that waits for
/// children of its own never meets an agent among them.
fn start(
    program: &Path,
    variables: &[(String, String)],
    (address, until): (&Address, Instant),
) -> Result<(), StartError> {
    let refused = |source| StartError::Refused { program: program.to_owned(), source };
    let mut child = Command::new(program)
        .args(["agent", "--background", "--all-cores", "--config", "none"])
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .map_err(refused)?;
    loop {
        match child.try_wait().map_err(refused)? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(StartError::Failed { status }),
            None if Instant::now() > until => {
                let _ = child.kill();
                child.wait().map_err(refused)?;
                return Err(StartError::TooLate { address: address.clone(), waited: PATIENCE });
            }
            None => std::thread::park_timeout(PAUSE),
        }
    }
}

fn find_program(named: Option<&Path>) -> Result<PathBuf, StartError> {
    let program = named.unwrap_or(Path::new(PROGRAM));
    let missing = || StartError::NoProgram { program: program.to_owned() };
    if program.components().count() > 1 {
        return program.is_file().then(|| program.to_owned()).ok_or_else(missing);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(program));
    places.find(|place| place.is_file()).ok_or_else(missing)
}

/// The settings that it has to know.
fn variables(
    address: &Address,
    settings: &Settings,
    identity: &Identity,
    members: &[Member],
) -> Vec<(String, String)> {
    let (mut listen, peers) = network(members, identity.rank.0 as usize, identity.job.0);
    listen.insert(0, address.clone());
    let agent = AgentSettings { listen, peers, while_used: true, ..settings.agent.clone() };
    // The usual case is not worth a line among those of the ranks.
    let level = if settings.log.level == LogLevel::Info { LogLevel::Warn } else { settings.log.level };
    let log = LogSettings { level, ..settings.log.clone() };
    let Settings { calling, link, metrics, .. } = settings;
    [agent.variables(), calling.variables(), link.variables(), log.variables(), metrics.variables()].concat()
}

/// Where the agent of this node listens for those of other nodes, and which of them it connects to: those whose first
/// rank comes before its own.
fn network(members: &[Member], rank: usize, job: u64) -> (Vec<Address>, Vec<Address>) {
    let port = (FIRST_PORT + (job.rotate_right(16) + 1) % PORTS) as u16;
    let at = |address: Address| match address {
        Address::Tcp(socket) => Address::Tcp(SocketAddr::new(socket.ip(), port)),
        Address::Ofi(socket) => Address::Ofi(SocketAddr::new(socket.ip(), port)),
        other => other,
    };
    let nodes = members.iter().map(|member| doors::host_of(member.address.as_str()).map(at));
    let nodes: Vec<Option<Address>> = nodes.collect();
    let Some(Some(own)) = nodes.get(rank) else { return Default::default() };
    let mut distinct: Vec<&Address> = Vec::new();
    for node in nodes.iter().flatten() {
        if !distinct.contains(&node) {
            distinct.push(node);
        }
    }
    if distinct.len() < 2 {
        return Default::default();
    }
    let peers = distinct.into_iter().take_while(|node| *node != own).cloned().collect();
    (vec![own.clone()], peers)
}

#[cfg(test)]
mod tests {
    use outboard_wire::{Incarnation, Rank, Text};

    use super::*;

    fn member(rank: u32, address: &str) -> Member {
        Member { rank: Rank(rank), pid: 1, incarnation: Incarnation(7), address: Text::new(address) }
    }

    fn text(addresses: &[Address]) -> String {
        addresses.iter().map(Address::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn agents_connect_to_those_of_the_nodes_before_them() {
        let members = [
            member(0, "tcp:10.0.0.3:4000 unix:@a"),
            member(1, "tcp:10.0.0.1:4000 unix:@b"),
            member(2, "tcp:10.0.0.1:4001 unix:@c"),
            member(3, "tcp:10.0.0.2:4000 unix:@d"),
        ];
        let (listen, peers) = network(&members, 3, 0);
        assert_eq!(text(&listen), "tcp:10.0.0.2:20001");
        assert_eq!(text(&peers), "tcp:10.0.0.3:20001 tcp:10.0.0.1:20001");
        let (listen, peers) = network(&members, 2, 0);
        assert_eq!(
            (text(&listen).as_str(), text(&peers).as_str()),
            ("tcp:10.0.0.1:20001", "tcp:10.0.0.3:20001")
        );
    }

    #[test]
    fn the_agent_of_a_single_node_is_seen_by_no_other_job() {
        let alone = [member(0, "unix:@a"), member(1, "unix:@b")];
        assert_eq!(network(&alone, 1, 7), Default::default());
        let same = [member(0, "tcp:10.0.0.1:1 unix:@a"), member(1, "tcp:10.0.0.1:2 unix:@b")];
        assert_eq!(network(&same, 1, 7), Default::default());
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = find_program(Some(Path::new("/nowhere/outboard"))).unwrap_err().to_string();
        assert!(error.contains("/nowhere/outboard") && error.contains("job.agent_program"), "{error}");
        assert!(find_program(Some(Path::new("sh"))).is_ok());
    }
}
