//! What an attacker knows of the place that it attacks.

use std::path::PathBuf;

use outboard::Address;
use outboard_e2e::Random;

/// In the environment of an attacker: where everything is.
const VARIABLE: &str = "ATTACK_SCENE";

/// Where the daemons are, and where impostors are awaited.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    /// The memory server: its socket, its port.
    pub(crate) memory: [Address; 2],
    /// The agent: its socket, its port.
    pub(crate) agent: [Address; 2],
    /// Where the agent looks for another memory server, and for another agent. Impostors listen there.
    pub(crate) awaited_server: [Address; 2],
    pub(crate) awaited_agent: [Address; 2],
    /// Where the memory server shows its numbers to Prometheus.
    pub(crate) metrics: Address,
    /// A memory server that wants TLS, and the keys of a member.
    pub(crate) secure: Option<(Address, PathBuf)>,
    /// A memory server on a fabric, if this machine has one.
    pub(crate) fabric: Option<Address>,
}

impl Scene {
    /// As one line for the environment.
    pub(crate) fn to_variable(&self) -> (&'static str, String) {
        let all = [&self.memory, &self.agent, &self.awaited_server, &self.awaited_agent];
        let mut words: Vec<String> = all.into_iter().flatten().map(Address::to_string).collect();
        words.push(self.metrics.to_string());
        words.push(self.fabric.as_ref().map_or("none".to_owned(), Address::to_string));
        if let Some((address, keys)) = &self.secure {
            words.extend([address.to_string(), keys.display().to_string()]);
        }
        (VARIABLE, words.join(" "))
    }

    /// What this process was told, if it is an attacker.
    pub(crate) fn from_environment() -> Option<Self> {
        let text = std::env::var(VARIABLE).ok()?;
        let mut words = text.split(' ');
        let mut address = || words.next()?.parse::<Address>().ok();
        let mut both = || Some([address()?, address()?]);
        let (memory, agent) = (both()?, both()?);
        let (awaited_server, awaited_agent) = (both()?, both()?);
        let metrics = address()?;
        let fabric = words.next()?.parse().ok();
        let secure = words.next().and_then(|at| Some((at.parse().ok()?, words.next()?.into())));
        Some(Self { memory, agent, awaited_server, awaited_agent, metrics, secure, fabric })
    }

    /// A way to the memory server.
    pub(crate) fn memory(&self, random: &mut Random) -> &Address {
        &self.memory[random.below(2) as usize]
    }

    /// A way to the agent.
    pub(crate) fn agent(&self, random: &mut Random) -> &Address {
        &self.agent[random.below(2) as usize]
    }

    /// A way to one of the two.
    pub(crate) fn any(&self, random: &mut Random) -> &Address {
        if random.once_in(2) { self.memory(random) } else { self.agent(random) }
    }

    /// A socket of one of the two.
    pub(crate) fn any_socket(&self, random: &mut Random) -> &str {
        let address = if random.once_in(2) { &self.memory[0] } else { &self.agent[0] };
        match address {
            Address::Abstract(name) => name,
            _ => "",
        }
    }

    /// A port of one of the two.
    pub(crate) fn any_port(&self, random: &mut Random) -> std::net::SocketAddr {
        let address = if random.once_in(2) { &self.memory[1] } else { &self.agent[1] };
        match address {
            Address::Tcp(socket) => *socket,
            _ => std::net::SocketAddr::from(([127, 0, 0, 1], 1)),
        }
    }
}
