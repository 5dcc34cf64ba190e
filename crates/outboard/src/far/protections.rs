//! The protection of parts of a mapping, where it is not the usual one.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use outboard_driver::paging::{PageProtection, Span, Uninterrupted};

use super::{FarError, FarMapping};

/// The protection of the bytes of a mapping.
#[derive(Debug)]
pub(super) struct Protections {
    usual: PageProtection,
    /// Ranges with another, by where they begin: where they end, and which. None touches another of the same.
    unusual: RwLock<BTreeMap<usize, (usize, PageProtection)>>,
}

type Unusual = BTreeMap<usize, (usize, PageProtection)>;

impl Protections {
    pub(super) fn new(is_writable: bool) -> Self {
        let usual = if is_writable { PageProtection::ReadWrite } else { PageProtection::Read };
        Self { usual, unusual: RwLock::default() }
    }

    fn read(&self) -> RwLockReadGuard<'_, Unusual> {
        self.unusual.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `change` change what may be done to a range, and remembers it if it was done.
    fn change<E>(
        &self,
        range: &Range<usize>,
        protection: PageProtection,
        change: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let mut unusual = self.unusual.write().unwrap_or_else(PoisonError::into_inner);
        change()?;
        if range.is_empty() {
            return Ok(());
        }
        let mut whole = range.clone();
        // Those that have something of it, or touch it.
        let near = |unusual: &Unusual| {
            let found = unusual.range(..=range.end).next_back();
            found.map(|(start, (end, other))| (*start, *end, *other)).filter(|found| found.1 >= range.start)
        };
        let mut rest = Vec::new();
        while let Some((start, end, other)) = near(&unusual) {
            unusual.remove(&start);
            if other == protection {
                whole = whole.start.min(start)..whole.end.max(end);
            } else {
                rest.push((start..end.min(range.start), other));
                rest.push((start.max(range.end)..end, other));
            }
        }
        if protection != self.usual {
            rest.push((whole, protection));
        }
        unusual.extend(
            rest.into_iter()
                .filter(|(rest, _)| !rest.is_empty())
                .map(|(rest, it)| (rest.start, (rest.end, it))),
        );
        Ok(())
    }

    /// The parts of a range, each with what may be done to it.
    pub(super) fn of(&self, range: Range<usize>) -> Vec<(Range<usize>, PageProtection)> {
        let _uninterrupted = Uninterrupted::new();
        let unusual = self.read();
        let mut parts = Vec::new();
        let mut at = range.start;
        let first = unusual.range(..=at).next_back().map_or(at, |(start, _)| *start);
        for (start, (end, protection)) in unusual.range(first..) {
            let part = (*start).max(range.start)..(*end).min(range.end);
            if *start >= range.end || part.is_empty() {
                continue;
            }
            if at < part.start {
                parts.push((at..part.start, self.usual));
            }
            at = part.end;
            parts.push((part, *protection));
        }
        if at < range.end {
            parts.push((at..range.end, self.usual));
        }
        parts
    }

    /// The first part of a range to which this may not be done.
    pub(super) fn refusal(
        &self,
        range: &Range<usize>,
        can: impl Fn(PageProtection) -> bool,
    ) -> Option<(Range<usize>, PageProtection)> {
        // Nothing was ever protected, mostly.
        if can(self.usual) && self.read().is_empty() {
            return None;
        }
        self.of(range.clone()).into_iter().find(|(_, protection)| !can(*protection))
    }
}

impl FarMapping {
    /// Changes what may be done to the pages that `span` has bytes of; it begins at one. What may not be done raises SIGSEGV
    /// where it is tried. Their bytes stay as they are, here or at the memory server.
    ///
    /// Ranges that are not readable and writable cost more when their chunks come and go, for those are copied; a range that no
    /// thread touches costs nothing. Each change of protection within the object is a mapping to the kernel, which has room for
    /// 65530 (`vm.max_map_count`).
    pub fn protect(&self, span: Range<usize>, protection: PageProtection) -> Result<(), FarError> {
        self.shared().check_here(self.name())?;
        self.check_span(&span)?;
        if protection.can_write() && !self.is_writable() {
            return Err(FarError::ReadOnly { name: self.name().to_owned() });
        }
        let page = self.page();
        if !span.start.is_multiple_of(page) {
            return Err(FarError::Unaligned { start: span.start, page });
        }
        // A handler that touches far memory must not find the lock held.
        let _uninterrupted = Uninterrupted::new();
        let range = span.start..span.end.next_multiple_of(page);
        let changed = self.protections().change(&range, protection, || self.set_rights(&range, protection));
        changed.map_err(|source| FarError::NotProtected { name: self.name().to_owned(), source })
    }

    /// The protection of the bytes of `span`, part by part.
    pub fn protections_of(
        &self,
        span: Range<usize>,
    ) -> Result<Vec<(Range<usize>, PageProtection)>, FarError> {
        self.check_span(&span)?;
        Ok(self.protections().of(span))
    }

    fn page(&self) -> usize {
        self.shared().pages.space().page()
    }

    fn set_rights(&self, range: &Range<usize>, protection: PageProtection) -> std::io::Result<()> {
        let region = &self.regions()[0];
        let addresses = Span { start: region.start().plus(range.start), len: range.len() };
        self.shared().pages.space().set_protection(region, addresses, protection)
    }

    /// Refuses what may not be done to bytes.
    pub(super) fn allows(
        &self,
        span: &Range<usize>,
        can: impl Fn(PageProtection) -> bool,
    ) -> Result<(), FarError> {
        let Some((part, protection)) = self.protections().refusal(span, can) else { return Ok(()) };
        let (name, Range { start, end }) = (self.name().to_owned(), part);
        Err(FarError::Forbidden { name, start, end, protection })
    }

    /// Has `write` write bytes, whatever may be done to them otherwise.
    pub(super) fn with_writable(&self, span: &Range<usize>, write: impl FnOnce()) -> Result<(), FarError> {
        if self.protections().refusal(span, PageProtection::can_write).is_none() {
            write();
            return Ok(());
        }
        let page = self.page();
        let pages = span.start / page * page..span.end.next_multiple_of(page);
        let before = self.protections().of(pages.clone());
        self.protect(pages, PageProtection::ReadWrite)?;
        write();
        before.into_iter().try_for_each(|(part, protection)| self.protect(part, protection))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [PageProtection; 3] = [PageProtection::None, PageProtection::Read, PageProtection::ReadWrite];

    #[test]
    fn each_byte_has_what_it_was_given_last() {
        let protections = Protections::new(true);
        let mut model = [PageProtection::ReadWrite; 64];
        let mut random = fastrand::Rng::with_seed(7);
        for step in 0..20_000 {
            let start = random.usize(..=64);
            let range = start..random.usize(start..=64);
            let protection = ALL[random.usize(..3)];
            if random.u8(..8) == 0 {
                // A refusal changes nothing.
                protections.change(&range, protection, || Err(())).unwrap_err();
            } else {
                protections.change::<()>(&range, protection, || Ok(())).unwrap();
                model[range].fill(protection);
            }
            let start = random.usize(..64);
            let seen = start..random.usize(start..=64);
            let parts = protections.of(seen.clone());
            let flat = parts.iter().flat_map(|(part, it)| part.clone().map(move |at| (at, *it)));
            let wanted = seen.clone().map(|at| (at, model[at]));
            assert!(flat.eq(wanted), "{seen:?} in step {step}: {parts:?}");
            assert!(parts.windows(2).all(|pair| pair[0].1 != pair[1].1), "{parts:?}");
            let refused = protections.refusal(&seen, PageProtection::can_write).map(|(part, _)| part.start);
            assert_eq!(refused, seen.clone().find(|at| !model[*at].can_write()));
        }
        protections.change::<()>(&(0..64), PageProtection::ReadWrite, || Ok(())).unwrap();
        assert!(protections.read().is_empty());
    }
}
