//! How much of far memory may be here at once, and how a program changes that while it runs.

use std::str::FromStr;
use std::sync::PoisonError;

use outboard_driver::paging::{BufferKeeper, PagerThreads};
use outboard_limits::{Allowance, show_size};
use outboard_settings::{ByteSize, FarSettings};
use thiserror::Error;

use super::FarError;
use super::memory::FarMemory;

/// How much of far memory may be here at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferSize {
    /// What the memory of this process allows: it follows what is left.
    Auto,
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

impl BufferSize {
    /// In bytes, if `footprint` bytes of far memory will be used. One that follows what is left begins with so many.
    pub fn of(self, footprint: u64) -> usize {
        match self {
            Self::Auto => bytes(FarSettings::default().plan(&Allowance::of_this_process()).buffer),
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
#[error("“{0}” is no amount of memory: write bytes (256MiB), a fraction of what is used (1/3) or auto")]
pub struct BufferError(String);

outboard_wire::debug_with_causes!(BufferError);

impl FromStr for BufferSize {
    type Err = BufferError;

    fn from_str(text: &str) -> Result<Self, BufferError> {
        let wrong = || BufferError(text.to_owned());
        if text == "auto" {
            return Ok(Self::Auto);
        }
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

pub(super) fn bytes(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// What decides about the size of the buffer.
pub(super) struct BufferPolicy {
    /// Of how many bytes a fraction is one.
    footprint: u64,
    /// If it follows the memory that is left.
    keeper: Option<BufferKeeper>,
}

impl BufferPolicy {
    pub(super) fn begin(size: BufferSize, footprint: u64, threads: &PagerThreads) -> Result<Self, FarError> {
        let mut policy = Self { footprint, keeper: None };
        if size == BufferSize::Auto {
            policy.follow(threads)?;
        }
        Ok(policy)
    }

    fn follow(&mut self, threads: &PagerThreads) -> Result<(), FarError> {
        if self.keeper.is_none() {
            self.keeper = Some(BufferKeeper::start(threads).map_err(FarError::of_threads)?);
        }
        Ok(())
    }
}

impl FarMemory {
    /// How many bytes of far memory may be here at once now.
    pub fn buffer(&self) -> usize {
        self.shared.pages.buffer()
    }

    /// Lets so much of far memory be here at once from now on: more, up to [`with_buffer_max`](super::FarOptions::with_buffer_max),
    /// or less. What is here beyond that leaves in the background, changed chunks after the memory server has them, and its
    /// memory goes back to the system ([`FarStats::buffer_used`](super::FarStats)). A fraction is one of the footprint that was given
    /// when this far memory was opened.
    pub fn set_buffer(&self, size: BufferSize) -> Result<(), FarError> {
        let shared = &self.shared;
        shared.check_here("this far memory")?;
        let mut policy = shared.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        if size == BufferSize::Auto {
            return policy.follow(&shared.threads);
        }
        if let (BufferSize::Fraction { numerator, denominator }, 0) = (size, policy.footprint) {
            return Err(FarError::NoFootprint { numerator, denominator });
        }
        // It ends before the size is set, or it would change that again.
        policy.keeper = None;
        shared.pages.set_buffer(size.of(policy.footprint))?;
        shared.threads.look();
        Ok(())
    }

    pub(super) fn explain_buffer(&self) -> String {
        let pages = &self.shared.pages;
        let show = |bytes: usize| show_size(bytes as u64);
        let (size, used, most) = (pages.buffer(), pages.buffer_used(), pages.config().buffer_max);
        let policy = self.shared.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        let why = match &policy.keeper {
            Some(keeper) => keeper.explain(),
            None => "stays as large as it was set".to_owned(),
        };
        format!("the buffer has {} of {} in use, at most {}; it {why}", show(used), show(size), show(most))
    }
}
