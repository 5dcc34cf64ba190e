//! The settings of far memory in one process.

use std::time::Duration;

use outboard_limits::ProcessorLimits;

use super::PagingError;
use super::jobs::CHUNK_MAX;
use super::space::Mover;

/// What becomes of an access to what is lost for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLoss {
    /// It raises SIGBUS, which a handler may survive.
    Signal,
    /// The process ends with a line on the standard error and exit code 1.
    Exit,
}

/// The settings of far memory in one process.
#[derive(Clone, Debug)]
pub struct PagingConfig {
    /// How many bytes of far memory may be here at once, all regions together.
    pub buffer: usize,
    /// How many threads answer faults; each has links of its own. Default: one for every two processors, at least
    /// two, at most eight, but one where affinity mask or processor quota allow only one to run; a stack and two links each.
    pub threads: usize,
    /// How many memory servers there are, to each of which every thread has a link; default 1.
    pub servers: usize,
    /// The largest chunk that is expected, which decides into how many shards the buffer is divided; default 64 KiB.
    pub chunk: usize,
    /// How many bytes are asked for ahead of a scan, at most; default 4 MiB, never more than an eighth of the
    /// buffer. Zero turns reading ahead off.
    pub ahead: usize,
    /// How long a lost server may stay away before accesses that need it cannot be served; default 10 s.
    pub grace: Duration,
    /// What becomes of those accesses; default SIGBUS.
    pub on_loss: OnLoss,
    /// How pages get in and out; default the best that the kernel has.
    pub mover: Option<Mover>,
    /// The NUMA node whose memory the buffer is made of; default wherever the kernel puts it.
    pub node: Option<u32>,
}

impl PagingConfig {
    /// The defaults, with a buffer of this many bytes.
    pub fn with_buffer(buffer: usize) -> Self {
        let processors = ProcessorLimits::of_this_process().threads();
        Self {
            buffer,
            threads: threads(processors),
            servers: 1,
            chunk: 64 << 10,
            ahead: 4 << 20,
            grace: Duration::from_secs(10),
            on_loss: OnLoss::Signal,
            mover: None,
            node: None,
        }
    }

    /// The smallest buffer for chunks of this many bytes.
    pub fn buffer_min(chunk: usize) -> usize {
        chunk.saturating_mul(SEATS_MIN)
    }

    /// Whether there can be far memory with these settings.
    pub fn check(&self) -> Result<(), PagingError> {
        let Self { buffer, chunk, .. } = *self;
        check_chunk(chunk)?;
        match Self::buffer_min(chunk) {
            needed if buffer < needed => Err(PagingError::BufferTooSmall { buffer, chunk, needed }),
            _ => Ok(()),
        }
    }

    /// Into how many shards the buffer is divided: enough for the threads, but each with room for many chunks.
    pub(super) fn shards(&self) -> usize {
        (self.buffer / (16 * self.chunk)).clamp(1, 2 * self.threads)
    }
}

/// How many threads answer faults where so many can run.
fn threads(processors: usize) -> usize {
    if processors == 1 { 1 } else { (processors / 2).clamp(2, 8) }
}

pub(super) fn check_chunk(bytes: usize) -> Result<(), PagingError> {
    let min = rustix::param::page_size();
    if bytes.is_power_of_two() && (min..=CHUNK_MAX).contains(&bytes) {
        Ok(())
    } else {
        Err(PagingError::BadChunk { bytes, min })
    }
}

/// How many chunks a shard must have room for: what one instruction can touch, and some to spare.
pub(super) const SEATS_MIN: usize = 4;
