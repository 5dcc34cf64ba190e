//! The flags of far memory, and which of them make sense together.

use anyhow::{Context, Result};
use clap::ValueEnum;
use outboard::{BufferSize, CacheMode, FarOptions, Path, RegionOptions};
use outboard_graph::far::FarLayout;
use outboard_limits::Allowance;
use outboard_link::Address;
use outboard_link::shaped::Wire;
use outboard_settings::{ByteSize, Configuration, Settings};

use super::super::Memory;
use crate::children::is_default;
use crate::failure::wrong_usage;
use crate::numbers;

/// The part of far memory that is here unless the user says otherwise.
const BUFFER: BufferSize = BufferSize::Fraction { numerator: 1, denominator: 3 };

/// How a graph lies in far memory.
#[derive(clap::Args)]
#[command(next_help_heading = "Far memory")]
pub(in super::super) struct Flags {
    /// How much may be here at once: bytes (256MiB), or a fraction of the graph's arrays and of the state, if that is
    /// far [default: 1/3, and room for a few chunks at least]
    #[arg(long, value_name = "AMOUNT")]
    buffer: Option<BufferSize>,
    /// What moves at once: a power of two from a page to 2MiB [default: a 32nd of the buffer,
    /// from 64KiB to 1MiB, and 64KiB for far state]
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    chunk: Option<ByteSize>,
    /// By which way chunks go [default: auto; agent with --cache static or dynamic]
    #[arg(long, value_enum)]
    path: Option<PathName>,
    /// What the agent keeps [default: auto; off with --path direct]
    #[arg(long, value_enum)]
    cache: Option<CacheName>,
    /// Where the state of vertices lies: ranks, levels, labels [default: dram]
    #[arg(long, value_enum, hide_short_help = true)]
    state: Option<Memory>,
    /// The memory server, or several separated by commas: arrays are then striped over all of them
    /// [default: one is started for the time of the run]
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    server: Vec<Address>,
    /// The agent, which has to know the memory servers [default: one is started, unless --path direct]
    #[arg(long, value_name = "ADDRESS", hide_short_help = true)]
    agent: Option<Address>,
    /// A graph image below the data directory of the memory server, in place of --graph
    #[arg(long, value_name = "NAME", conflicts_with_all = ["graph", "from"])]
    pub(in super::super) served: Option<String>,
    /// How daemons that are started are reached [default: shm]
    #[arg(long, value_enum, hide_short_help = true)]
    link: Option<LinkName>,
    /// A slower wire to the memory server to imitate, for example 10gbit,5us
    #[arg(long, value_name = "WIRE", hide_short_help = true)]
    wire: Option<Wire>,
    /// How many threads answer page faults [default: one for every two processors, from 2 to 8;
    /// half as many over TCP]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256), hide_short_help = true)]
    pager_threads: Option<u16>,
    /// Believe that a graph image is right inside. A wrong one ends the program with a panic
    #[arg(long, hide_short_help = true)]
    unchecked: bool,
    /// Also say what was chosen for each array, and why
    #[arg(long)]
    explain: bool,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum PathName {
    /// Between this program and the memory server
    Direct,
    /// By the agent
    Agent,
    /// By whichever is measured to be faster
    Auto,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum CacheName {
    /// Nothing
    Off,
    /// The offsets of all vertices
    Static,
    /// What was fetched of the edges lately, and what is expected next
    Dynamic,
    /// As dynamic while that pays
    Auto,
}

/// How daemons are reached that are started for a run.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(super) enum LinkName {
    /// Through shared memory
    Shm,
    /// Over TCP
    Tcp,
    /// Over libfabric
    Ofi,
}

/// The wishes of the user that make sense together.
pub(super) struct Plan {
    /// None is the default.
    pub(super) buffer: Option<BufferSize>,
    /// None is what suits the buffer.
    pub(super) chunk: Option<usize>,
    /// Whether the user has said how much to read ahead.
    has_ahead: bool,
    pub(super) path: Path,
    pub(super) cache: CacheMode,
    pub(super) state: Memory,
    /// None is one that is started.
    pub(super) servers: Vec<Address>,
    pub(super) agent: Option<Address>,
    pub(super) link: LinkName,
    pub(super) wire: Option<Wire>,
    pub(super) pager_threads: Option<usize>,
    pub(super) is_checked: bool,
    pub(super) explains: bool,
}

impl Flags {
    /// A flag that is of no use without far memory.
    pub(in super::super) fn first_given(&self) -> Option<&'static str> {
        let given = [
            ("--buffer", self.buffer.is_some()),
            ("--chunk", self.chunk.is_some()),
            ("--path", self.path.is_some()),
            ("--cache", self.cache.is_some()),
            ("--state", self.state.is_some()),
            ("--server", !self.server.is_empty()),
            ("--agent", self.agent.is_some()),
            ("--served", self.served.is_some()),
            ("--link", self.link.is_some()),
            ("--wire", self.wire.is_some()),
            ("--pager-threads", self.pager_threads.is_some()),
            ("--unchecked", self.unchecked),
            ("--explain", self.explain),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }

    /// Puts it together, or says what makes no sense.
    pub(super) fn plan(&self, configuration: &Configuration) -> Result<Plan> {
        self.agree().map_err(wrong_usage)?;
        let configured = RegionOptions::from_settings(&configuration.settings);
        let path = match self.path {
            Some(PathName::Direct) => Path::Direct,
            Some(PathName::Agent) => Path::Agent,
            Some(PathName::Auto) => Path::Auto,
            // A user who asks for a certain cache wants it used, also where the direct path would be faster.
            None if matches!(self.cache, Some(CacheName::Static | CacheName::Dynamic)) => Path::Agent,
            None => configured.path,
        };
        let cache = match self.cache {
            Some(CacheName::Off) => CacheMode::Off,
            Some(CacheName::Static) => CacheMode::Static,
            Some(CacheName::Dynamic) => CacheMode::Dynamic,
            Some(CacheName::Auto) => CacheMode::Auto,
            None if path == Path::Direct => CacheMode::Off,
            None => configured.cache,
        };
        let configured_chunk = (!is_default(configuration, "far.chunk")).then_some(configured.chunk);
        let chunk = self.chunk.map(|ByteSize(bytes)| bytes as usize).or(configured_chunk);
        let is_configured = !is_default(configuration, "far.buffer");
        let configured_buffer =
            || configuration.settings.far.plan(&Allowance::of_this_process()).buffer as usize;
        let buffer = self.buffer.or_else(|| is_configured.then(|| BufferSize::Bytes(configured_buffer())));
        // Mistakes that show without the graph are told before anything is read.
        let trial = match buffer {
            Some(BufferSize::Bytes(bytes)) => bytes,
            _ => FarOptions::buffer_min(chunk.unwrap_or(configured.chunk)),
        };
        let trial_chunk = chunk.unwrap_or(configured.chunk);
        let node = FarOptions::from_settings(&configuration.settings).node;
        let options = FarOptions { chunk: trial_chunk, node, ..FarOptions::default() };
        options
            .with_buffer(BufferSize::Bytes(trial))
            .check()
            .map_err(|error| wrong_usage(&error.to_string()))?;
        Ok(Plan {
            buffer,
            chunk,
            has_ahead: !is_default(configuration, "far.ahead"),
            path,
            cache,
            state: self.state.unwrap_or(Memory::Dram),
            servers: self.server.clone(),
            agent: self.agent.clone(),
            link: self.link.unwrap_or(LinkName::Shm),
            wire: self.wire,
            pager_threads: self.pager_threads.map(usize::from),
            is_checked: !self.unchecked,
            explains: self.explain,
        })
    }

    /// Whether the flags agree with each other.
    fn agree(&self) -> Result<(), &'static str> {
        let is_direct = self.path == Some(PathName::Direct);
        let has_server = !self.server.is_empty();
        let starts_no_daemon = has_server && (self.agent.is_some() || is_direct);
        match self {
            Self { cache: Some(cache), .. } if is_direct && *cache != CacheName::Off => Err(
                "the agent keeps the cache, and --path direct goes without it: leave out --cache or --path",
            ),
            Self { agent: Some(_), .. } if is_direct => {
                Err("--path direct goes without an agent: leave out --agent or --path")
            }
            Self { agent: Some(_), .. } if !has_server => {
                Err("--agent needs --server: name the memory server that the agent knows")
            }
            Self { agent: Some(_), wire: Some(_), .. } => {
                Err("--wire is for an agent that is started here: imitate one where yours is started, with \
                     --dial-wire, or leave out --agent")
            }
            Self { served: Some(_), .. } if !has_server => {
                Err("--served needs --server: name the memory server in whose data directory the graph lies")
            }
            Self { link: Some(_), .. } if starts_no_daemon => Err(
                "--link is for daemons that are started here: an address says by which link it is reached",
            ),
            _ => Ok(()),
        }
    }
}

impl Plan {
    /// The settings of far memory for so many bytes of it.
    pub(super) fn far_options(&self, footprint: u64, settings: &Settings) -> Result<FarOptions> {
        let configured = FarOptions::from_settings(settings);
        let smallest = FarOptions::buffer_min(self.chunk.unwrap_or(configured.chunk));
        let buffer = self.buffer.unwrap_or(BufferSize::Bytes(BUFFER.of(footprint).max(smallest)));
        let chunk = self.chunk.unwrap_or_else(|| FarLayout::chunk_for(buffer.of(footprint)));
        let options = FarOptions {
            buffer,
            footprint,
            threads: self.pager_threads.or(configured.threads),
            chunk,
            ahead: if self.has_ahead { configured.ahead } else { FarLayout::ahead_for(chunk) },
            wire: self.wire,
            ..configured
        };
        let part = |buffer: &BufferSize| matches!(buffer, BufferSize::Fraction { .. });
        options.check().with_context(|| match self.buffer.filter(part) {
            Some(_) => format!("--buffer is a part of {}", numbers::bytes(footprint)),
            None => "no far memory with these settings".to_owned(),
        })?;
        Ok(options)
    }

    /// The name of the path, for people and programs.
    pub(super) fn path_name(&self) -> &'static str {
        match self.path {
            Path::Direct => "direct",
            Path::Agent => "agent",
            Path::Auto => "auto",
        }
    }

    /// The name of the mode of caching.
    pub(super) fn cache_name(&self) -> &'static str {
        match self.cache {
            CacheMode::Off => "off",
            CacheMode::Static => "static",
            CacheMode::Dynamic => "dynamic",
            CacheMode::Auto => "auto",
        }
    }
}
