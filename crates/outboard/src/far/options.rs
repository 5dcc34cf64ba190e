//! The settings of far memory.

use std::str::FromStr;
use std::time::Duration;

use outboard_driver::paging::PagingConfig;
pub use outboard_driver::paging::Path;
use outboard_link::shaped::Wire;
use outboard_link::{Address, Identity};
use outboard_settings::{ByteSize, LinkSettings};
use outboard_wire::Role;
pub use outboard_wire::paging::CacheMode;
use thiserror::Error;

use super::FarError;

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
#[derive(Debug, Error)]
#[error("“{0}” is no amount of memory: write bytes (256MiB) or a fraction of what is used (1/3)")]
pub struct BufferError(String);

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
    /// Where the agent is; default none.
    pub agent: Option<Address>,
    /// How much may be here at once; default 256 MiB. A fraction is one of `footprint`.
    pub buffer: Buffer,
    /// How much far memory will be used, if the buffer is a fraction of it.
    pub footprint: u64,
    /// How many threads answer faults; default one for every two processors, two at least, eight at most.
    pub threads: Option<usize>,
    /// The largest chunk that regions will have; default 64 KiB. The buffer is divided accordingly.
    pub chunk: usize,
    /// How many bytes are read ahead of a scan at most; default 4 MiB.
    pub ahead: usize,
    /// How long a lost memory server may stay away before accesses that need it raise SIGBUS; default 10 s.
    pub grace: Duration,
    /// How long fault threads look for work before they sleep; default not at all, for the application needs the
    /// processors.
    pub spin: Duration,
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
        Self {
            server,
            agent: None,
            buffer: Buffer::Bytes(256 << 20),
            footprint: 0,
            threads: None,
            chunk: 64 << 10,
            ahead: 4 << 20,
            grace: Duration::from_secs(10),
            spin: Duration::ZERO,
            node: None,
            link: LinkSettings::default(),
            wire: None,
            identity: Identity::new(Role::Application, "far memory"),
        }
    }

    /// The same with an agent.
    pub fn with_agent(self, agent: Option<Address>) -> Self {
        Self { agent, ..self }
    }

    /// The same with another buffer.
    pub fn with_buffer(self, buffer: Buffer) -> Self {
        Self { buffer, ..self }
    }

    /// The smallest buffer for chunks of this many bytes.
    pub fn buffer_min(chunk: usize) -> usize {
        PagingConfig::buffer_min(chunk)
    }

    /// Whether buffer and chunks fit together, which [`connect`](super::FarMemory::connect) would find out too, but
    /// only when there is somebody to connect to.
    pub fn check(&self) -> Result<(), FarError> {
        Ok(self.paging().check()?)
    }

    pub(super) fn paging(&self) -> PagingConfig {
        let defaults = PagingConfig::with_buffer(self.buffer.of(self.footprint));
        PagingConfig {
            threads: self.threads.unwrap_or(defaults.threads).max(1),
            chunk: self.chunk,
            ahead: self.ahead,
            grace: self.grace,
            wire: self.wire,
            node: self.node,
            ..defaults
        }
    }
}

/// What a region is to be.
#[derive(Clone, Debug)]
pub struct RegionOptions {
    /// The size of its chunks: a power of two from a page to 2 MiB; default 64 KiB.
    pub chunk: usize,
    /// By which way its chunks go; default whichever is measured to be faster.
    pub path: Path,
    /// What the agent does with them; default what pays.
    pub cache: CacheMode,
    /// A name under which the region outlives this process, and others can open it; default none.
    pub name: Option<String>,
    /// How long the server may take to load a file; default a minute.
    pub patience: Duration,
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
}
