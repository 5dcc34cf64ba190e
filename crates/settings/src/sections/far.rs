//! The settings of far memory.

use std::path::PathBuf;
use std::time::Duration;

use outboard_link::Address;

use super::memory::an_amount;
use crate::literal::{AUTO, NONE};
use crate::section::section;
use crate::value::{Choice, Value};
use crate::{ByteSize, Capacity, Literal, OrAuto, ValueError};

section! {
    /// The settings of far memory in an application.
    "far" => pub struct FarSettings {
        /// The memory servers over which far memory is striped: longer objects lie in stripes, by turns at one and the
        /// next. An empty list is the one of the job (job.memory), where all of it is.
        pub servers: Vec<Address> where some_servers = Vec::new(),
        /// How long a stripe is: a power of two from 64KiB to 1GiB, at least a chunk. The same for all who open an object by
        /// its name.
        pub stripe: ByteSize where stripe_size = ByteSize(2 << 20),
        /// How much of far memory may be here at once, all regions together: a size, or a share of the memory that this
        /// process can have. auto begins with 256MiB, or an eighth of its memory where that is less, and follows what memory
        /// is left while the program runs: free memory, control groups, and whether threads wait for memory.
        pub buffer: OrAuto<Capacity> where an_amount = OrAuto::Auto,
        /// How large the buffer may become while the program runs: a size, or a share of the memory that this process can have.
        /// auto is as large as the buffer, or half of its memory where that is auto. Costs addresses, and a thousandth of it at most.
        pub buffer_max: OrAuto<Capacity> where an_amount = OrAuto::Auto,
        /// The size of chunks, the unit of movement: a power of two from 4KiB to 2MiB. Large chunks move faster, small
        /// ones bring less that is not wanted.
        pub chunk: ByteSize where chunk_size = ByteSize(64 << 10),
        /// By which way chunks go: direct (to the memory server), agent (while there is one) or auto (whichever is
        /// measured to be faster).
        pub path: PathChoice = PathChoice::Auto,
        /// What the agent does with chunks: off, static (a copy of the whole region), dynamic (what is likely to be
        /// wanted) or auto (dynamic if that pays).
        pub cache: CacheChoice = CacheChoice::Auto,
        /// How many threads answer page faults, each with links of its own; none is one for every two processors and
        /// at least two if the memory server's memory can be read directly, half as many over TCP, at most eight, and one
        /// where affinity mask or processor quota allow only one to run.
        pub threads: Option<usize> where some_threads = None,
        /// How much is read ahead of a scan at most, never more than an eighth of the buffer; 0 reads nothing ahead.
        pub ahead: ByteSize = ByteSize(4 << 20),
        /// How long a lost memory server may stay away before accesses that need it cannot be served.
        pub grace: Duration = Duration::from_secs(10),
        /// What becomes of an access that cannot be served, because its memory server is lost: signal (it raises SIGBUS) or
        /// exit (the process ends with a line on the standard error and exit code 1).
        pub on_loss: LossChoice = LossChoice::Signal,
        /// Which thread answers a page fault: threads (one of the library's own, which wakes the one that waits), signal (the
        /// one that touches absent memory, in a handler of SIGBUS: nothing is handed over, but system calls that are
        /// given absent far memory fail with EFAULT) or auto (signal, if the process lacks the privilege to have system calls
        /// wait and the servers' memory can be read directly; else threads). With signal, a program's own handler of SIGBUS
        /// is installed before.
        pub faults: FaultsChoice = FaultsChoice::Auto,
        /// What a child that is forked sees of far memory: none (touching it raises SIGSEGV) or snapshot (all of it as it was at the
        /// fork, which the parent serves until the child ends or runs another program; costs a thread, and in each child a
        /// thread that no library knows of).
        pub children: ChildrenChoice = ChildrenChoice::None,
        /// How long fault threads look for work before they sleep. Longer answers faster and takes a processor from
        /// the application; none is what turns out to be faster: not at all, or one of them for a moment after a fault.
        pub spin: Option<Duration> = None,
        /// A file that is written when far memory ends, with the chunks that were touched in order, as far as that was seen: touches
        /// of what is here are not. Takes 32 MiB meanwhile, for the first four million; `outboard bench far --play` plays it.
        pub record: Option<PathBuf> = None,
        /// The NUMA node whose memory the buffer is made of: a number, auto (the one nearest the link, if the system
        /// knows) or none (wherever the kernel puts it).
        pub node: NodeChoice = NodeChoice::Auto,
    }
}

/// By which way chunks go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathChoice {
    /// To the memory server.
    Direct,
    /// By the agent while there is one.
    Agent,
    /// Whichever is measured to be faster.
    Auto,
}

impl Choice for PathChoice {
    const KIND: &'static str = "path";
    const EXAMPLE: &'static str = "direct, agent or auto";
    const ALL: &'static [(&'static str, Self)] =
        &[("direct", Self::Direct), ("agent", Self::Agent), ("auto", Self::Auto)];
}

/// What an agent does with chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheChoice {
    /// Pass them on.
    Off,
    /// Keep a copy of the whole region.
    Static,
    /// Keep what is likely to be wanted.
    Dynamic,
    /// Dynamic, if that pays.
    Auto,
}

impl Choice for CacheChoice {
    const KIND: &'static str = "cache mode";
    const EXAMPLE: &'static str = "off, static, dynamic or auto";
    const ALL: &'static [(&'static str, Self)] =
        &[("off", Self::Off), ("static", Self::Static), ("dynamic", Self::Dynamic), ("auto", Self::Auto)];
}

/// Which thread answers a page fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultsChoice {
    /// The one that touches absent memory where that takes nothing from the program, else one of the library's own.
    Auto,
    /// One of the library's own.
    Threads,
    /// The one that touches absent memory.
    Signal,
}

impl Choice for FaultsChoice {
    const KIND: &'static str = "choice";
    const EXAMPLE: &'static str = "auto, threads or signal";
    const ALL: &'static [(&'static str, Self)] =
        &[("auto", Self::Auto), ("threads", Self::Threads), ("signal", Self::Signal)];
}

/// What a child that is forked sees of far memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildrenChoice {
    /// Nothing.
    None,
    /// All of it as it was at the fork.
    Snapshot,
}

impl Choice for ChildrenChoice {
    const KIND: &'static str = "choice";
    const EXAMPLE: &'static str = "none or snapshot";
    const ALL: &'static [(&'static str, Self)] = &[("none", Self::None), ("snapshot", Self::Snapshot)];
}

/// What becomes of an access that cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossChoice {
    /// It raises SIGBUS.
    Signal,
    /// The process ends, with a line that says why.
    Exit,
}

impl Choice for LossChoice {
    const KIND: &'static str = "consequence";
    const EXAMPLE: &'static str = "signal or exit";
    const ALL: &'static [(&'static str, Self)] = &[("signal", Self::Signal), ("exit", Self::Exit)];
}

/// A NUMA node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeChoice {
    /// The one nearest the link.
    Auto,
    /// Wherever the kernel puts memory.
    None,
    /// This one.
    Number(u32),
}

impl Value for NodeChoice {
    const KIND: &'static str = "memory node";
    const EXAMPLE: &'static str = "auto, none or a number such as 0";

    fn read(literal: &Literal) -> Result<Self, ValueError> {
        match Self::digits(literal)? {
            AUTO => Ok(Self::Auto),
            NONE => Ok(Self::None),
            text => match text.parse() {
                Ok(node) if node < NODES_MAX => Ok(Self::Number(node)),
                _ => Err(Self::unfit(text, "nodes are numbered from 0 to 62")),
            },
        }
    }

    fn show(&self) -> Literal {
        match self {
            Self::Auto => Literal::text(AUTO),
            Self::None => Literal::text(NONE),
            Self::Number(node) => Literal::text(node),
        }
    }
}

/// As many as a word has bits, less the one that the kernel does not look at.
const NODES_MAX: u32 = 63;

fn chunk_size(chunk: &ByteSize) -> Result<(), &'static str> {
    match chunk.0.is_power_of_two() && (4 << 10..=2 << 20).contains(&chunk.0) {
        true => Ok(()),
        false => Err("it must be a power of two from 4KiB to 2MiB"),
    }
}

#[expect(clippy::ptr_arg, reason = "a check is given the field as it is")]
fn some_servers(servers: &Vec<Address>) -> Result<(), &'static str> {
    if servers.len() > 64 { Err("there can be at most 64 memory servers") } else { Ok(()) }
}

fn stripe_size(stripe: &ByteSize) -> Result<(), &'static str> {
    match stripe.0.is_power_of_two() && (64 << 10..=1 << 30).contains(&stripe.0) {
        true => Ok(()),
        false => Err("it must be a power of two from 64KiB to 1GiB"),
    }
}

fn some_threads(threads: &Option<usize>) -> Result<(), &'static str> {
    match threads {
        Some(0) => Err("there must be at least one thread"),
        Some(65..) => Err("there can be at most 64 threads"),
        _ => Ok(()),
    }
}
