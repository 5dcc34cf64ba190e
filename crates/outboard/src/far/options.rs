//! The settings of far memory.

use std::str::FromStr;
use std::time::Duration;

use outboard_driver::paging::{self, PagingConfig, default_threads};
pub use outboard_driver::paging::{Mover, OnLoss, Path};
use outboard_limits::{Allowance, MemoryLimits};
use outboard_link::shaped::Wire;
use outboard_link::{Address, Identity};
use outboard_settings::{
    ByteSize, CacheChoice, FarSettings, LinkSettings, LossChoice, NodeChoice, PathChoice, Settings,
    Whereabouts, default_socket,
};
use outboard_wire::Role;
pub use outboard_wire::paging::CacheMode;
use thiserror::Error;

use super::{BufferTooLarge, FarError};
use crate::find::{self, FindError};
use crate::job::doors;

/// How much of far memory may be here at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// So many bytes.
    Bytes(usize),
    /// This part of what will be used.
    Fraction {
        /// So many parts
        numerator: u32,
        /// of this many.
        denominator: u32,
    },
}

impl Buffer {
    /// In bytes, if `footprint` bytes of far memory will be used.
    pub fn of(self, footprint: u64) -> usize {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Fraction { numerator, denominator } => {
                let part = u128::from(footprint) * u128::from(numerator) / u128::from(denominator.max(1));
                usize::try_from(part).unwrap_or(usize::MAX)
            }
        }
    }
}

/// A text that says no amount of memory.
#[derive(Error)]
#[error("“{0}” is no amount of memory: write bytes (256MiB) or a fraction of what is used (1/3)")]
pub struct BufferError(String);

outboard_wire::debug_with_causes!(BufferError);

impl FromStr for Buffer {
    type Err = BufferError;

    fn from_str(text: &str) -> Result<Self, BufferError> {
        let wrong = || BufferError(text.to_owned());
        match text.split_once('/') {
            Some((numerator, denominator)) => {
                let numerator = numerator.trim().parse().map_err(|_| wrong())?;
                let denominator = denominator.trim().parse().map_err(|_| wrong())?;
                if numerator == 0 || numerator > denominator {
                    return Err(wrong());
                }
                Ok(Self::Fraction { numerator, denominator })
            }
            None => {
                let ByteSize(bytes) = text.parse().map_err(|_| wrong())?;
                usize::try_from(bytes).ok().filter(|bytes| *bytes > 0).map(Self::Bytes).ok_or_else(wrong)
            }
        }
    }
}

/// The settings of one process's far memory.
#[derive(Clone, Debug)]
pub struct FarOptions {
    /// Where the memory server is.
    pub server: Address,
    /// Further memory servers; default none. What is longer than a stripe is spread over all of them.
    pub others: Vec<Address>,
    /// How much of an object lies at one server before the next has its turn; default 2 MiB. A power of two;
    /// an object with larger chunks has stripes of one chunk.
    pub stripe: usize,
    /// Where the agent is; default none. It has to know all the memory servers.
    pub agent: Option<Address>,
    /// How much may be here at once; default 256 MiB, or an eighth of the memory that this process can have where that is
    /// less. A fraction is one of `footprint`.
    pub buffer: Buffer,
    /// How much far memory will be used, in bytes; needed if the buffer is a fraction of it.
    pub footprint: u64,
    /// How many threads answer faults; default one for every two processors, at least two and at most eight. Half as
    /// many over TCP, where one thread waits for many answers at once and others would only take its processor.
    pub threads: Option<usize>,
    /// The largest chunk that regions will have; default 64 KiB. The buffer is divided accordingly.
    pub chunk: usize,
    /// How many bytes are read ahead of a scan at most; default 4 MiB.
    pub ahead: usize,
    /// How long a lost memory server may stay away before accesses that need it cannot be served; default 10 s.
    pub grace: Duration,
    /// What becomes of an access that cannot be served; default SIGBUS.
    pub on_loss: OnLoss,
    /// How long fault threads look for work before they sleep; default not at all, for the application needs the
    /// processors.
    pub spin: Duration,
    /// How pages get in and out; default the best that the kernel has.
    pub mover: Option<Mover>,
    /// The NUMA node for the buffer; default the one nearest the link.
    pub node: Option<u32>,
    /// The settings of links.
    pub link: LinkSettings,
    /// A slower wire that links to the memory server are made to look like.
    pub wire: Option<Wire>,
    /// Whom this process says it is.
    pub identity: Identity,
}

impl FarOptions {
    /// The defaults, with the memory server at `server`.
    pub fn at(server: Address) -> Self {
        let node = node_near(&server);
        Self {
            server,
            others: Vec::new(),
            stripe: 2 << 20,
            agent: None,
            buffer: buffer_of(&FarSettings::default()),
            footprint: 0,
            threads: None,
            chunk: 64 << 10,
            ahead: 4 << 20,
            grace: Duration::from_secs(10),
            on_loss: OnLoss::Signal,
            spin: Duration::ZERO,
            mover: None,
            node,
            link: LinkSettings::default(),
            wire: None,
            identity: Identity::new(Role::Application, "far memory"),
        }
    }

    /// As the configuration file and the environment say: without a word in them, with the memory server and the agent that
    /// this user has started by `outboard up`.
    pub fn find() -> Result<Self, FarError> {
        Self::from_settings(&find::settings().map_err(FindError::from)?)
    }

    /// As configured: file, environment and flags. The memory server and the agent are those of the job, or of this user.
    pub fn from_settings(settings: &Settings) -> Result<Self, FarError> {
        let far = &settings.far;
        let mut servers = far.servers.iter().cloned();
        let server =
            servers.next().or_else(|| settings.job.memory.address("memory")).ok_or(FindError::Without)?;
        let agent = agent_of(settings);
        let node = match far.node {
            NodeChoice::Auto => node_near(&server),
            NodeChoice::None => None,
            NodeChoice::Number(node) => Some(node),
        };
        Ok(Self {
            others: servers.collect(),
            stripe: size(far.stripe),
            agent,
            buffer: buffer_of(far),
            threads: far.threads,
            chunk: size(far.chunk),
            ahead: size(far.ahead),
            grace: far.grace,
            on_loss: if far.on_loss == LossChoice::Exit { OnLoss::Exit } else { OnLoss::Signal },
            spin: far.spin,
            node,
            link: settings.link.clone(),
            ..Self::at(server)
        })
    }

    /// The same with an agent.
    pub fn with_agent(self, agent: Option<Address>) -> Self {
        Self { agent, ..self }
    }

    /// The same with further memory servers.
    pub fn with_others(self, others: Vec<Address>) -> Self {
        Self { others, ..self }
    }

    /// All memory servers, in the order in which stripes have their turns.
    pub fn servers(&self) -> impl Iterator<Item = &Address> {
        std::iter::once(&self.server).chain(&self.others)
    }

    /// The same with another buffer.
    pub fn with_buffer(self, buffer: Buffer) -> Self {
        Self { buffer, ..self }
    }

    /// The smallest buffer for chunks of this many bytes.
    pub fn buffer_min(chunk: usize) -> usize {
        PagingConfig::buffer_min(chunk)
    }

    /// Whether buffer, chunks and node make sense, which [`connect`](super::FarMemory::connect) asks too before it
    /// disturbs anybody.
    pub fn check(&self) -> Result<(), FarError> {
        if let (Buffer::Fraction { numerator, denominator }, 0) = (self.buffer, self.footprint) {
            return Err(FarError::NoFootprint { numerator, denominator });
        }
        if !self.stripe.is_power_of_two() {
            return Err(FarError::BadStripe { stripe: self.stripe });
        }
        let mut servers: Vec<&Address> = self.servers().collect();
        while let Some(address) = servers.pop() {
            if servers.contains(&address) {
                return Err(FarError::SameServer { address: address.clone() });
            }
        }
        if let Some(node) = self.node {
            let there = outboard_probe::memory_nodes();
            // A system that does not say which nodes it has may have this one.
            if !there.is_empty() && !there.contains(&node) {
                return Err(FarError::NoNode { node, there });
            }
        }
        Ok(paging::check(&self.paging())?)
    }

    /// Whether the buffer fits into the memory of this machine, and into what the memory cgroup of this process allows.
    /// [`connect`](super::FarMemory::connect) does not ask: the buffer takes memory only as it fills, and limits change.
    /// That it fits does not mean that it has room: the rest of the process needs memory too, and other processes.
    pub fn check_memory(&self) -> Result<(), BufferTooLarge> {
        let buffer = self.buffer.of(self.footprint);
        match MemoryLimits::of_this_process().lowest() {
            Some(limit) if buffer as u64 > limit.bytes => {
                Err(BufferTooLarge { buffer, limit: limit.clone() })
            }
            _ => Ok(()),
        }
    }

    fn usual_threads(&self, copiers: usize) -> usize {
        match self.server {
            // One that receives waits more than it works.
            Address::Tcp(_) | Address::Ofi(_) => copiers / 2,
            Address::Abstract(_) | Address::Path(_) => copiers,
        }
    }

    pub(super) fn paging(&self) -> PagingConfig {
        let threads = self.threads.unwrap_or_else(|| self.usual_threads(default_threads())).max(1);
        PagingConfig {
            servers: 1 + self.others.len(),
            chunk: self.chunk,
            ahead: self.ahead,
            grace: self.grace,
            on_loss: self.on_loss,
            ..PagingConfig::new(self.buffer.of(self.footprint), threads)
        }
    }
}

/// How much of far memory may be here at once, as configured and as this machine has memory.
fn buffer_of(far: &FarSettings) -> Buffer {
    Buffer::Bytes(size(ByteSize(far.plan(&Allowance::of_this_process()).buffer)))
}

fn size(size: ByteSize) -> usize {
    usize::try_from(size.0).unwrap_or(usize::MAX)
}

/// Where the agent is: that of the job, or of this user, if there is one.
pub(crate) fn agent_of(settings: &Settings) -> Option<Address> {
    let own = settings.job.own_agent().filter(doors::is_open);
    match &settings.job.agent {
        _ if own.is_some() => own,
        // One whose socket is not there is not looked for again and again.
        Whereabouts::Auto if !is_there(&default_socket("agent")) => None,
        whereabouts => whereabouts.address("agent"),
    }
}

/// Whether somebody listens at a local address.
fn is_there(address: &Address) -> bool {
    match address {
        Address::Path(path) => std::path::Path::new(path).exists(),
        Address::Abstract(_) | Address::Tcp(_) | Address::Ofi(_) => true,
    }
}

/// The NUMA node nearest the link to a peer: that of the network interface. Within the machine no node is nearer.
fn node_near(server: &Address) -> Option<u32> {
    match server {
        Address::Tcp(socket) | Address::Ofi(socket) => {
            // One without memory has none to give.
            outboard_probe::node_towards(*socket).filter(|node| outboard_probe::memory_nodes().contains(node))
        }
        Address::Path(_) | Address::Abstract(_) => None,
    }
}

/// What a region is to be.
#[derive(Clone, Debug)]
pub struct RegionOptions {
    /// The size of its chunks: a power of two from a page to 2 MiB; default 64 KiB.
    pub chunk: usize,
    /// By which way its chunks go; default whichever is measured to be faster.
    pub path: Path,
    /// What the agent does with them; default what pays. Of a region that may be written it keeps nothing unless all
    /// its chunks go by the agent ([`Path::Agent`]), for what is written may pass it by otherwise:
    /// [freeze](super::FarVec::freeze) the region, or open it to read it.
    pub cache: CacheMode,
    /// A name under which the region outlives this process, and others can open it; default none.
    pub name: Option<String>,
    /// How long the server may take to load a file; default a minute.
    pub patience: Duration,
}

impl RegionOptions {
    /// As configured.
    pub fn from_settings(settings: &Settings) -> Self {
        Self {
            chunk: size(settings.far.chunk),
            path: match settings.far.path {
                PathChoice::Direct => Path::Direct,
                PathChoice::Agent => Path::Agent,
                PathChoice::Auto => Path::Auto,
            },
            cache: match settings.far.cache {
                CacheChoice::Off => CacheMode::Off,
                CacheChoice::Static => CacheMode::Static,
                CacheChoice::Dynamic => CacheMode::Dynamic,
                CacheChoice::Auto => CacheMode::Auto,
            },
            ..Self::default()
        }
    }
}

impl Default for RegionOptions {
    fn default() -> Self {
        Self {
            chunk: 64 << 10,
            path: Path::Auto,
            cache: CacheMode::Auto,
            name: None,
            patience: Duration::from_secs(60),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_bytes_or_fractions() {
        assert_eq!("256MiB".parse::<Buffer>().unwrap().of(0), 256 << 20);
        assert_eq!("1/3".parse::<Buffer>().unwrap().of(300), 100);
        assert_eq!("1/10".parse::<Buffer>().unwrap().of(u64::MAX), (u64::MAX / 10) as usize);
        for wrong in ["", "x", "0", "0/3", "4/3", "1/0", "-1", "1/", "/3", "1/3/5"] {
            let error = wrong.parse::<Buffer>().unwrap_err();
            assert!(error.to_string().contains("256MiB"), "{error}");
        }
    }

    fn options() -> FarOptions {
        FarOptions::at("unix:@nobody-listens-here".parse().unwrap())
    }

    #[test]
    fn a_server_is_named_once() {
        let at = |name: &str| -> Address { format!("unix:@{name}").parse().unwrap() };
        let options = FarOptions { footprint: 64 << 20, ..FarOptions::at(at("one")) };
        options.clone().with_others(vec![at("two"), at("three")]).check().unwrap();
        for others in [vec![at("one")], vec![at("two"), at("two")]] {
            let error = options.clone().with_others(others).check().unwrap_err();
            assert!(matches!(error, FarError::SameServer { .. }), "{error}");
        }
    }

    #[test]
    fn a_fraction_needs_something_to_be_a_part_of() {
        let third = options().with_buffer("1/3".parse().unwrap());
        let error = third.check().unwrap_err().to_string();
        assert!(error.contains("1/3") && error.contains("FarOptions::footprint"), "{error}");
        let error = super::super::FarMemory::connect(third.clone()).err().unwrap();
        assert!(matches!(error, FarError::NoFootprint { numerator: 1, denominator: 3 }), "{error}");
        FarOptions { footprint: 64 << 20, ..third }.check().unwrap();
    }

    #[test]
    fn a_node_that_is_not_there_is_refused_with_those_that_are() {
        let there = outboard_probe::memory_nodes();
        let Some(last) = there.last() else { return };
        FarOptions { node: Some(*last), ..options() }.check().unwrap();
        let error = FarOptions { node: Some(last + 1), ..options() }.check().unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&format!("no memory node {}", last + 1)), "{text}");
        assert!(matches!(error, FarError::NoNode { there: those, .. } if those == there), "{text}");
    }

    #[test]
    fn a_buffer_is_compared_with_the_memory_there_is() {
        options().with_buffer(Buffer::Bytes(1 << 20)).check_memory().unwrap();
        let error = options().with_buffer(Buffer::Bytes(1 << 55)).check_memory().unwrap_err();
        assert!(error.limit.bytes < 1 << 55, "{error}");
        assert!(error.to_string().contains("choose a smaller buffer"), "{error}");
    }
}
