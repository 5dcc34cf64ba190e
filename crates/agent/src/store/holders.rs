//! Who has a region, and as what.

use std::collections::BTreeMap;

use outboard_keep::KeptHolder;
use outboard_wire::control::RegionSharing;
use outboard_wire::{Incarnation, mutant};

/// As what a process has a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    /// Whether it writes.
    pub(super) writes: bool,
    /// With whom it shares.
    pub(super) sharing: RegionSharing,
}

impl Claim {
    /// Whether two processes cannot have one region as these. A process that leases keeps copies, which only writing by
    /// another process makes wrong.
    fn conflicts(self, other: Self) -> bool {
        let keeps_copies = [self.sharing, other.sharing].contains(&RegionSharing::Leased);
        keeps_copies && (self.writes || other.writes) && !mutant("agent.conflict-overlooked")
    }

    /// What a process has that has made both claims.
    fn and(self, other: Self) -> Self {
        let is_leased = [self.sharing, other.sharing].contains(&RegionSharing::Leased);
        let sharing = if is_leased { RegionSharing::Leased } else { RegionSharing::Together };
        Self { writes: self.writes || other.writes, sharing }
    }
}

/// What a change of the holders means for those who write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// A writer has come or gone.
    OfWriters,
    /// No process has begun or ceased to write.
    OfNoWriter,
}

impl Change {
    fn of_writer(has_changed: bool) -> Self {
        if has_changed { Self::OfWriters } else { Self::OfNoWriter }
    }
}

struct Holder {
    claim: Claim,
    /// How often it was given the region; it has to release it as often.
    times: u32,
    /// Its number, and when it was started if it may have mapped the region.
    seen: (u32, u64),
}

/// The processes that have a region.
#[derive(Default)]
pub(super) struct Holders {
    by_process: BTreeMap<Incarnation, Holder>,
}

impl Holders {
    /// The others with whom `process` cannot have the region as `claim`.
    pub(super) fn in_the_way(&self, process: Incarnation, claim: Claim) -> Vec<(Incarnation, Claim)> {
        let own = self.by_process.get(&process);
        let claim = own.map_or(claim, |own| own.claim.and(claim));
        let others = self.by_process.iter().filter(|(other, _)| **other != process);
        let claims = others.map(|(other, holder)| (*other, holder.claim));
        claims.filter(|(_, other)| claim.conflicts(*other)).collect()
    }

    /// Gives it to `process`, which no other is in the way of.
    pub(super) fn take(&mut self, process: Incarnation, claim: Claim) -> Change {
        let newcomer = Holder { claim: Claim { writes: false, ..claim }, times: 0, seen: (0, 0) };
        let holder = self.by_process.entry(process).or_insert(newcomer);
        let wrote = holder.claim.writes;
        holder.claim = holder.claim.and(claim);
        holder.times = holder.times.saturating_add(1);
        Change::of_writer(holder.claim.writes && !wrote)
    }

    /// Takes it from `process`, if it was given to it only once more than it was released; none if it has it not.
    pub(super) fn release(&mut self, process: Incarnation) -> Option<Change> {
        let holder = self.by_process.get_mut(&process)?;
        holder.times -= 1;
        let is_kept = holder.times > 0 && !mutant("agent.released-at-once");
        if is_kept { Some(Change::OfNoWriter) } else { Some(self.forget(process)) }
    }

    /// Takes it from `process`, however often it was given to it.
    pub(super) fn forget(&mut self, process: Incarnation) -> Change {
        Change::of_writer(self.by_process.remove(&process).is_some_and(|holder| holder.claim.writes))
    }

    /// As what `process` has it, if no other does.
    pub(super) fn only(&self, process: Incarnation) -> Option<Claim> {
        let holder = self.by_process.get(&process).filter(|_| self.by_process.len() == 1)?;
        Some(holder.claim)
    }

    /// Whether all who have it lease it, so that no process reads bytes that another writes at that moment.
    pub(super) fn all_lease(&self) -> bool {
        let mut claims = self.by_process.values().map(|holder| holder.claim.sharing);
        let is_leased =
            claims.all(|sharing| sharing == RegionSharing::Leased) || mutant("agent.quiet-beside-others");
        !self.by_process.is_empty() && is_leased
    }

    /// Notes by which number the kernel knows a process that has it, and since when if it may have mapped the region.
    pub(super) fn saw(&mut self, process: Incarnation, seen: (u32, u64)) {
        if let Some(holder) = self.by_process.get_mut(&process) {
            holder.seen = seen;
        }
    }

    /// All of them, as a journal has them.
    pub(super) fn kept(&self) -> Vec<KeptHolder> {
        let kept = |(process, holder): (&Incarnation, &Holder)| {
            let Holder { claim: Claim { writes, sharing }, times, seen: (pid, mapped_since) } = *holder;
            KeptHolder { process: *process, pid, mapped_since, writes, sharing, times }
        };
        self.by_process.iter().map(kept).collect()
    }

    /// Those that a journal has.
    pub(super) fn of_kept(kept: &[KeptHolder]) -> Self {
        let holder = |kept: &KeptHolder| {
            let KeptHolder { process, pid, mapped_since, writes, sharing, times } = *kept;
            (process, Holder { claim: Claim { writes, sharing }, times, seen: (pid, mapped_since) })
        };
        Self { by_process: kept.iter().map(holder).collect() }
    }

    /// Whether `process` has it.
    pub(super) fn has(&self, process: Incarnation) -> bool {
        self.by_process.contains_key(&process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READER: Claim = Claim { writes: false, sharing: RegionSharing::Leased };
    const WRITER: Claim = Claim { writes: true, sharing: RegionSharing::Leased };
    const LOOKER: Claim = Claim { writes: false, sharing: RegionSharing::Together };
    const COUNTER: Claim = Claim { writes: true, sharing: RegionSharing::Together };
    const ONE: Incarnation = Incarnation(1);
    const OTHER: Incarnation = Incarnation(2);
    const THIRD: Incarnation = Incarnation(3);

    #[test]
    fn one_writer_or_many_readers_or_all_who_share() {
        let conflicts = [
            (READER, [false, true, false, true]),
            (WRITER, [true, true, true, true]),
            (LOOKER, [false, true, false, false]),
            (COUNTER, [true, true, false, false]),
        ];
        for (first, expected) in conflicts {
            let mut holders = Holders::default();
            holders.take(ONE, first);
            let found =
                [READER, WRITER, LOOKER, COUNTER].map(|next| !holders.in_the_way(OTHER, next).is_empty());
            assert_eq!(found, expected, "beside {first:?}");
        }
    }

    #[test]
    fn the_only_reader_may_write_and_one_of_two_may_not() {
        let mut holders = Holders::default();
        assert_eq!(holders.take(ONE, READER), Change::OfNoWriter);
        assert!(holders.in_the_way(ONE, WRITER).is_empty());
        assert_eq!(holders.take(OTHER, READER), Change::OfNoWriter);
        assert_eq!(holders.in_the_way(ONE, WRITER), [(OTHER, READER)]);
        assert_eq!(holders.release(OTHER), Some(Change::OfNoWriter));
        assert_eq!(holders.take(ONE, WRITER), Change::OfWriters);
        assert_eq!(holders.take(ONE, READER), Change::OfNoWriter, "it writes already");
        assert_eq!(holders.in_the_way(THIRD, READER), [(ONE, WRITER)]);
    }

    #[test]
    fn a_region_that_one_process_shares_is_not_leased_by_all() {
        let mut holders = Holders::default();
        assert!(!holders.all_lease(), "no process has it");
        holders.take(ONE, READER);
        assert!(holders.all_lease());
        holders.take(OTHER, LOOKER);
        assert!(!holders.all_lease());
        holders.forget(OTHER);
        holders.take(ONE, WRITER);
        assert!(holders.all_lease());
        holders.forget(ONE);
        holders.take(OTHER, COUNTER);
        assert!(!holders.all_lease());
    }

    #[test]
    fn what_was_given_three_times_is_released_three_times() {
        let mut holders = Holders::default();
        for _ in 0..3 {
            holders.take(ONE, WRITER);
        }
        assert_eq!(holders.release(ONE), Some(Change::OfNoWriter));
        assert_eq!(holders.release(ONE), Some(Change::OfNoWriter));
        assert!(holders.has(ONE));
        assert_eq!(holders.release(ONE), Some(Change::OfWriters));
        assert_eq!((holders.release(ONE), holders.has(ONE)), (None, false));
        holders.take(OTHER, WRITER);
        holders.take(OTHER, WRITER);
        assert_eq!(holders.forget(OTHER), Change::OfWriters, "a process that is gone has nothing");
    }
}
