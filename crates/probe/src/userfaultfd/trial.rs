//! Each operation a pager needs, tried on pages that no other code uses.
//!
//! No page fault is ever left to a handler: absent pages are only named in ioctls, and bytes are looked at when the
//! registration has ended.

use std::fs::File;
use std::os::unix::fs::FileExt;

use outboard_userfaultfd::{FaultWatch, Userfaultfd};
use rustix::io::Errno;
use serde::Serialize;
use thiserror::Error;

use super::arena::Arena;
use super::watched::Watched;
use super::{DescriptorSource, Features};

/// How a trial ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Trial {
    /// It was done, and did what it should.
    Works,
    /// It was refused, or did something else.
    Fails {
        /// In words.
        why: String,
    },
}

impl Trial {
    /// Whether it was done, and did what it should.
    pub fn works(&self) -> bool {
        *self == Self::Works
    }
}

impl From<Result<(), TrialError>> for Trial {
    fn from(result: Result<(), TrialError>) -> Self {
        result.map_or_else(|error| Self::Fails { why: error.to_string() }, |()| Self::Works)
    }
}

/// Why a trial failed.
#[derive(Debug, Error)]
pub(super) enum TrialError {
    #[error("{call}: {source}")]
    Refused { call: &'static str, source: Errno },
    #[error("{call} succeeded, but {what}")]
    Wrong { call: &'static str, what: &'static str },
}

/// Names the call that failed.
trait Named<T> {
    fn named(self, call: &'static str) -> Result<T, TrialError>;
}

impl<T> Named<T> for Result<T, Errno> {
    fn named(self, call: &'static str) -> Result<T, TrialError> {
        self.map_err(|source| TrialError::Refused { call, source })
    }
}

/// Refuses a result that is not as it should be.
fn expect(is_right: bool, call: &'static str, what: &'static str) -> Result<(), TrialError> {
    if is_right { Ok(()) } else { Err(TrialError::Wrong { call, what }) }
}

/// The page that holds something, and the absent one.
const FULL: usize = 0;
const EMPTY: usize = 1;
/// What the full page holds.
const PATTERN: u8 = 0xa5;

/// MOVE answers EAGAIN when the kernel is busy with one of the pages.
const MOVE_ATTEMPTS_MAX: usize = 64;

/// Opens by `route` a userfaultfd of its own for each trial, so that none disturbs the next.
pub(super) struct Trials {
    pub(super) route: DescriptorSource,
    pub(super) features: Features,
}

impl Trials {
    fn begin(&self) -> Result<(Userfaultfd, Arena), TrialError> {
        let userfaultfd = Userfaultfd::open(self.route).named("userfaultfd")?;
        userfaultfd.agree(Features::NONE).named("UFFDIO_API")?;
        let mut arena = Arena::new(2).named("mmap")?;
        arena.fill(FULL, PATTERN);
        Ok((userfaultfd, arena))
    }

    /// `UFFDIO_COPY`: fills an absent page.
    pub(super) fn copy(&self) -> Result<(), TrialError> {
        let (userfaultfd, mut arena) = self.begin()?;
        let mut watched =
            Watched::new(&userfaultfd, &mut arena, FaultWatch::Missing).named("UFFDIO_REGISTER")?;
        watched.copy(FULL, EMPTY, false).named("UFFDIO_COPY")?;
        drop(watched);
        expect(arena.holds(EMPTY, PATTERN), "UFFDIO_COPY", "the page does not hold what was copied")
    }

    /// `UFFDIO_MOVE`: a page changes its place.
    pub(super) fn relocate(&self) -> Result<(), TrialError> {
        let (userfaultfd, mut arena) = self.begin()?;
        let mut watched =
            Watched::new(&userfaultfd, &mut arena, FaultWatch::Missing).named("UFFDIO_REGISTER")?;
        let moved = (0..MOVE_ATTEMPTS_MAX)
            .map(|_| watched.relocate(FULL, EMPTY))
            .find(|result| *result != Err(Errno::AGAIN));
        moved.unwrap_or(Err(Errno::AGAIN)).named("UFFDIO_MOVE")?;
        drop(watched);
        expect(arena.holds(EMPTY, PATTERN), "UFFDIO_MOVE", "the page did not arrive")?;
        expect(arena.holds(FULL, 0), "UFFDIO_MOVE", "the page is still where it was")
    }

    /// `UFFDIO_POISON`: a page becomes one that raises SIGBUS, seen by its place being taken.
    pub(super) fn poison(&self) -> Result<(), TrialError> {
        let (userfaultfd, mut arena) = self.begin()?;
        let mut watched =
            Watched::new(&userfaultfd, &mut arena, FaultWatch::Missing).named("UFFDIO_REGISTER")?;
        watched.poison(EMPTY).named("UFFDIO_POISON")?;
        let taken = watched.poison(EMPTY) == Err(Errno::EXIST);
        expect(taken, "UFFDIO_POISON", "the page can be poisoned again")
    }

    /// `UFFDIO_WRITEPROTECT`: stores to a page are stopped, and allowed again.
    pub(super) fn protect(&self) -> Result<(), TrialError> {
        let (userfaultfd, mut arena) = self.begin()?;
        let watch = FaultWatch::MissingAndProtected;
        let mut watched =
            Watched::new(&userfaultfd, &mut arena, watch).named("UFFDIO_REGISTER with write protection")?;
        for set in [true, false] {
            watched.protect(FULL, set).named("UFFDIO_WRITEPROTECT")?;
            let seen = self.is_protected(watched.address(FULL));
            expect(
                seen.is_none_or(|seen| seen == set),
                "UFFDIO_WRITEPROTECT",
                "the page map does not show it",
            )?;
        }
        drop(watched);
        expect(arena.holds(FULL, PATTERN), "UFFDIO_WRITEPROTECT", "the page has changed")
    }

    /// `UFFDIO_COPY_MODE_WP`: fills an absent page and protects it in the same step.
    pub(super) fn copy_protected(&self) -> Result<(), TrialError> {
        let (userfaultfd, mut arena) = self.begin()?;
        let watch = FaultWatch::MissingAndProtected;
        let mut watched =
            Watched::new(&userfaultfd, &mut arena, watch).named("UFFDIO_REGISTER with write protection")?;
        watched.copy(FULL, EMPTY, true).named("UFFDIO_COPY with write protection")?;
        let seen = self.is_protected(watched.address(EMPTY));
        drop(watched);
        let call = "UFFDIO_COPY with write protection";
        expect(seen.unwrap_or(true), call, "the page map does not show the protection")?;
        expect(arena.holds(EMPTY, PATTERN), call, "the page does not hold what was copied")
    }

    /// Whether a page is write-protected, if this kernel's page map says.
    fn is_protected(&self, address: usize) -> Option<bool> {
        const UFFD_WP: u64 = 1 << 57;
        // The page map shows it in all kernels that have this feature, and not in much older ones.
        if !self.features.contains(Features::MINOR_SHMEM) {
            return None;
        }
        let mut entry = [0; 8];
        let at = (address / rustix::param::page_size() * entry.len()) as u64;
        File::open("/proc/self/pagemap").ok()?.read_exact_at(&mut entry, at).ok()?;
        Some(u64::from_ne_bytes(entry) & UFFD_WP != 0)
    }
}
