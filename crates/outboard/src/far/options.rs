//! The settings of far memory.

use std::path::PathBuf;
use std::time::Duration;

use outboard_driver::paging::{self, PagingConfig, default_threads};
pub use outboard_driver::paging::{FaultAnswer, Mover, OnLoss, Path};
use outboard_limits::{Allowance, MemoryLimits, spin};
use outboard_link::Address;
use outboard_link::shaped::Wire;
use outboard_settings::{
    ByteSize, CacheChoice, ChildrenChoice, FarSettings, FaultsChoice, LossChoice, NodeChoice, OrAuto,
    PathChoice, Settings,
};
pub use outboard_wire::paging::CacheMode;

use super::buffer::{BufferSize, bytes};
use super::{BufferTooLarge, FarError};

/// The NUMA node for the buffer of far memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferNode {
    /// The one nearest the link to the memory server.
    Nearest,
    /// Wherever the kernel puts it.
    Any,
    /// This one.
    Number(u32),
}

/// What a child that is forked sees of the far memory of its parent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Children {
    /// Nothing: touching it there raises SIGSEGV.
    #[default]
    None,
    /// All of it as it was when the child was forked, by plain access, until the child ends or runs another program. The child can
    /// change what it sees; the parent does not see that.
    Snapshot,
}

/// How one process's far memory works.
#[derive(Clone, Debug)]
pub struct FarOptions {
    /// The memory servers over which far memory is striped, the one where named objects begin first; none (the default) is
    /// the one of the [`Outboard`](crate::Outboard) or the job. What is longer than a stripe is spread over all of them.
    pub servers: Vec<Address>,
    /// How much of an object lies at one server before the next has its turn; default 2 MiB. A power of two;
    /// an object with larger chunks has stripes of one chunk.
    pub stripe: usize,
    /// How much may be here at once; default what the memory of this process allows, from 256 MiB on, or an eighth of the
    /// memory that it can have where that is less. A fraction is one of `footprint`.
    pub buffer: BufferSize,
    /// How large the buffer may become ([`FarMemory::set_buffer`](super::FarMemory::set_buffer)); default as large as it is,
    /// or half of the memory that this process can have where it follows that. Costs addresses, and a thousandth of it at most.
    pub buffer_max: Option<usize>,
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
    /// The end of an access that cannot be served; default SIGBUS.
    pub on_loss: OnLoss,
    /// How long fault threads look for work before they sleep; default for a moment, one of them, where that turns out to be
    /// faster.
    pub spin: Option<Duration>,
    /// Where to write which chunks were touched, when far memory ends; default nowhere.
    pub record: Option<PathBuf>,
    /// Which thread answers a page fault; default what fits, which [`explain`](crate::FarMemory::explain) tells.
    pub faults: FaultAnswer,
    /// What a child that is forked sees of it; default nothing.
    pub children: Children,
    /// How pages get in and out; default the best that the kernel has.
    pub mover: Option<Mover>,
    /// The NUMA node for the buffer; default the one nearest the link.
    pub node: BufferNode,
    /// A slower wire that links to the memory server are made to look like.
    #[doc(hidden)]
    pub wire: Option<Wire>,
    /// Far memory as a process without privilege has it, whatever this one may do.
    #[doc(hidden)]
    pub is_unprivileged: bool,
}

/// How many touches are recorded at most.
const RECORDED: usize = 4 << 20;
/// How long a fault thread may look for work, if processors are to spare for that.
const MOMENT: Duration = Duration::from_micros(1);

impl Default for FarOptions {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            stripe: 2 << 20,
            buffer: BufferSize::Auto,
            buffer_max: None,
            footprint: 0,
            threads: None,
            chunk: 64 << 10,
            ahead: 4 << 20,
            grace: Duration::from_secs(10),
            on_loss: OnLoss::Signal,
            spin: None,
            record: None,
            faults: FaultAnswer::Auto,
            children: Children::None,
            mover: None,
            node: BufferNode::Nearest,
            wire: None,
            is_unprivileged: false,
        }
    }
}

impl FarOptions {
    /// As configured: file, environment and flags.
    #[doc(hidden)]
    pub fn from_settings(settings: &Settings) -> Self {
        let far = &settings.far;
        Self {
            servers: far.servers.clone(),
            stripe: size(far.stripe),
            buffer: buffer_of(far),
            buffer_max: Some(bytes(far.plan(&Allowance::of_this_process()).buffer_max)),
            threads: far.threads,
            chunk: size(far.chunk),
            ahead: size(far.ahead),
            grace: far.grace,
            on_loss: if far.on_loss == LossChoice::Exit { OnLoss::Exit } else { OnLoss::Signal },
            spin: far.spin,
            record: far.record.clone(),
            faults: match far.faults {
                FaultsChoice::Auto => FaultAnswer::Auto,
                FaultsChoice::Threads => FaultAnswer::Threads,
                FaultsChoice::Signal => FaultAnswer::Signal,
            },
            children: match far.children {
                ChildrenChoice::None => Children::None,
                ChildrenChoice::Snapshot => Children::Snapshot,
            },
            node: match far.node {
                NodeChoice::Auto => BufferNode::Nearest,
                NodeChoice::None => BufferNode::Any,
                NodeChoice::Number(node) => BufferNode::Number(node),
            },
            ..Self::default()
        }
    }

    /// Stripes objects over these memory servers.
    pub fn with_servers(self, servers: Vec<Address>) -> Self {
        Self { servers, ..self }
    }

    /// Sets which threads answer page faults.
    pub fn with_faults(self, faults: FaultAnswer) -> Self {
        Self { faults, ..self }
    }

    /// Sets what a child that is forked sees.
    pub fn with_children(self, children: Children) -> Self {
        Self { children, ..self }
    }

    /// Sets the buffer.
    pub fn with_buffer(self, buffer: BufferSize) -> Self {
        Self { buffer, ..self }
    }

    /// Sets how large the buffer may become.
    pub fn with_buffer_max(self, buffer_max: usize) -> Self {
        Self { buffer_max: Some(buffer_max), ..self }
    }

    /// Says how many bytes of far memory there will be, of which the buffer may be a fraction.
    pub fn with_footprint(self, footprint: u64) -> Self {
        Self { footprint, ..self }
    }

    /// Sets how many bytes the chunks of regions have at most.
    pub fn with_chunk(self, chunk: usize) -> Self {
        Self { chunk, ..self }
    }

    /// Sets how long a memory server that is lost may stay away.
    pub fn with_grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// Sets the end of accesses that cannot be served.
    pub fn with_on_loss(self, on_loss: OnLoss) -> Self {
        Self { on_loss, ..self }
    }

    /// The smallest buffer for chunks of this many bytes.
    pub fn buffer_min(chunk: usize) -> usize {
        PagingConfig::buffer_min(chunk)
    }

    /// Whether buffer, stripes, chunks and node make sense, which opening far memory asks too before anything moves.
    pub fn check(&self) -> Result<(), FarError> {
        if let (BufferSize::Fraction { numerator, denominator }, 0) = (self.buffer, self.footprint) {
            return Err(FarError::NoFootprint { numerator, denominator });
        }
        if !self.stripe.is_power_of_two() {
            return Err(FarError::BadStripe { stripe: self.stripe });
        }
        let mut servers: Vec<&Address> = self.servers.iter().collect();
        while let Some(address) = servers.pop() {
            if servers.contains(&address) {
                return Err(FarError::SameServer { address: address.clone() });
            }
        }
        if let BufferNode::Number(node) = self.node {
            let there = outboard_limits::memory_nodes();
            // A system that does not say which nodes it has may have this one.
            if !there.is_empty() && !there.contains(&node) {
                return Err(FarError::NoNode { node, there });
            }
        }
        Ok(paging::check(&self.paging(self.servers.first()))?)
    }

    /// Whether the buffer fits into the memory of this machine, and into what the memory cgroup of this process allows.
    /// [`Outboard::far_with`](crate::Outboard::far_with) does not ask: the buffer takes memory only as it fills, and limits change.
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

    /// The options of the pager, with the first memory server.
    pub(super) fn paging(&self, first: Option<&Address>) -> PagingConfig {
        let copiers = default_threads();
        let usual = match first {
            // A thread that receives waits more than it works.
            Some(Address::Tcp(_) | Address::Ofi(_)) => copiers / 2,
            Some(Address::Abstract(_) | Address::Path(_)) | None => copiers,
        };
        let buffer = self.buffer.of(self.footprint);
        PagingConfig {
            buffer_max: self.buffer_max(buffer),
            servers: self.servers.len().max(1),
            chunk: self.chunk,
            ahead: self.ahead,
            grace: self.grace,
            on_loss: self.on_loss,
            may_look: self.spin.is_none() && !spin(MOMENT).is_zero(),
            snapshots: self.children == Children::Snapshot,
            recorded: if self.record.is_some() { RECORDED } else { 0 },
            ..PagingConfig::new(buffer, self.threads.unwrap_or(usual).max(1))
        }
    }

    /// How large a buffer may become that begins with so many bytes.
    fn buffer_max(&self, buffer: usize) -> usize {
        let most = self.buffer_max.unwrap_or_else(|| match self.buffer {
            BufferSize::Auto => bytes(FarSettings::default().plan(&Allowance::of_this_process()).buffer_max),
            BufferSize::Bytes(_) | BufferSize::Fraction { .. } => buffer,
        });
        most.max(buffer)
    }

    /// The NUMA node for the buffer where the first memory server is there.
    pub(super) fn node_number(&self, first: &Address) -> Option<u32> {
        match self.node {
            BufferNode::Nearest => node_near(first),
            BufferNode::Any => None,
            BufferNode::Number(node) => Some(node),
        }
    }
}

/// How much of far memory may be here at once, as configured and as this machine has memory.
fn buffer_of(far: &FarSettings) -> BufferSize {
    match far.buffer {
        OrAuto::Auto => BufferSize::Auto,
        OrAuto::Given(_) => BufferSize::Bytes(bytes(far.plan(&Allowance::of_this_process()).buffer)),
    }
}

fn size(size: ByteSize) -> usize {
    bytes(size.0)
}

/// The NUMA node nearest the link to a peer: that of the network interface. Within the machine no node is nearer.
fn node_near(server: &Address) -> Option<u32> {
    match server {
        Address::Tcp(socket) | Address::Ofi(socket) => {
            // One without memory has none to give.
            outboard_limits::node_towards(*socket)
                .filter(|node| outboard_limits::memory_nodes().contains(node))
        }
        Address::Path(_) | Address::Abstract(_) => None,
    }
}

/// The options of a region.
#[derive(Clone, Debug)]
pub struct RegionOptions {
    /// The size of its chunks: a power of two from a page to 2 MiB; default 64 KiB.
    pub chunk: usize,
    /// By which way its chunks go; default whichever is measured to be faster.
    pub path: Path,
    /// The agent's treatment of them; default what pays. Of a region that may be written it keeps nothing unless all
    /// its chunks go by the agent ([`Path::Agent`]), for what is written may pass it by otherwise:
    /// [freeze](super::FarVec::freeze) the region, or open it to read it.
    pub cache: CacheMode,
    /// A name under which the region outlives this process, and others can open it; default none.
    pub name: Option<String>,
    /// Whether the memory server sets room aside for all of it when it is reserved; default not: then it counts and keeps only what
    /// is written, there may be more of it than the server has, and what it has no room for stays here.
    pub is_guaranteed: bool,
    /// How long the server may take to load a file; default a minute.
    pub deadline: Duration,
}

impl RegionOptions {
    /// As configured.
    #[doc(hidden)]
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

impl RegionOptions {
    /// Sets the name, under which the region outlives this process.
    pub fn with_name(self, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..self }
    }

    /// Sets how many bytes a chunk has.
    pub fn with_chunk(self, chunk: usize) -> Self {
        Self { chunk, ..self }
    }

    /// Sets the path of chunks.
    pub fn with_path(self, path: Path) -> Self {
        Self { path, ..self }
    }

    /// Sets the use of the agent's cache.
    pub fn with_cache(self, cache: CacheMode) -> Self {
        Self { cache, ..self }
    }

    /// Sets room aside at the memory server for all of it, from the start.
    pub fn with_guarantee(self) -> Self {
        Self { is_guaranteed: true, ..self }
    }

    /// Sets how long the server may take to load a file.
    pub fn with_deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }
}

impl Default for RegionOptions {
    fn default() -> Self {
        Self {
            chunk: 64 << 10,
            path: Path::Auto,
            cache: CacheMode::Auto,
            name: None,
            is_guaranteed: false,
            deadline: Duration::from_secs(60),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_bytes_or_fractions() {
        assert_eq!("256MiB".parse::<BufferSize>().unwrap().of(0), 256 << 20);
        assert_eq!("auto".parse::<BufferSize>().unwrap(), BufferSize::Auto);
        assert_eq!("1/3".parse::<BufferSize>().unwrap().of(300), 100);
        assert_eq!("1/10".parse::<BufferSize>().unwrap().of(u64::MAX), (u64::MAX / 10) as usize);
        for wrong in ["", "x", "0", "0/3", "4/3", "1/0", "-1", "1/", "/3", "1/3/5"] {
            let error = wrong.parse::<BufferSize>().unwrap_err();
            assert!(error.to_string().contains("256MiB"), "{error}");
        }
    }

    fn options() -> FarOptions {
        FarOptions::default()
    }

    #[test]
    fn a_server_is_named_once() {
        let at = |name: &str| -> Address { format!("unix:@{name}").parse().unwrap() };
        options().with_servers(["one", "two", "three"].map(at).to_vec()).check().unwrap();
        for twice in [["one", "one", "two"], ["one", "two", "two"]] {
            let error = options().with_servers(twice.map(at).to_vec()).check().unwrap_err();
            assert!(matches!(error, FarError::SameServer { .. }), "{error}");
        }
    }

    #[test]
    fn a_fraction_needs_something_to_be_a_part_of() {
        let third = options().with_buffer("1/3".parse().unwrap());
        let error = third.check().unwrap_err().to_string();
        assert!(error.contains("1/3") && error.contains("FarOptions::footprint"), "{error}");
        let nowhere = crate::Outboard::at("unix:@nothing-listens-here".parse().unwrap());
        let error = nowhere.far_with(third.clone()).err().unwrap();
        assert!(matches!(error, FarError::NoFootprint { numerator: 1, denominator: 3 }), "{error}");
        FarOptions { footprint: 64 << 20, ..third }.check().unwrap();
    }

    #[test]
    fn a_node_that_is_not_there_is_refused_with_those_that_are() {
        let there = outboard_limits::memory_nodes();
        let Some(last) = there.last() else { return };
        FarOptions { node: BufferNode::Number(*last), ..options() }.check().unwrap();
        let error = FarOptions { node: BufferNode::Number(last + 1), ..options() }.check().unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&format!("no memory node {}", last + 1)), "{text}");
        assert!(matches!(error, FarError::NoNode { there: those, .. } if those == there), "{text}");
    }

    #[test]
    fn a_buffer_is_compared_with_the_memory_there_is() {
        options().with_buffer(BufferSize::Bytes(1 << 20)).check_memory().unwrap();
        let error = options().with_buffer(BufferSize::Bytes(1 << 55)).check_memory().unwrap_err();
        assert!(error.limit.bytes < 1 << 55, "{error}");
        assert!(error.to_string().contains("choose a smaller buffer"), "{error}");
    }
}
