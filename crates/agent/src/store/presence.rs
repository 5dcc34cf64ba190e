//! Processes come, go, and come back.

use outboard_wire::{Incarnation, Time};

use super::RegionStore;
use super::clients::{Left, Parting};
use super::region::StoredRegion;

impl RegionStore {
    /// How many processes without links are waited for.
    pub fn awaited(&self) -> usize {
        self.clients.awaited()
    }

    /// A process has opened a link, perhaps one of several. `shown` is what others are told of it. If it was lost
    /// and has been waited for, it has what it had.
    pub fn link_opened(&mut self, now: Time, process: Incarnation, pid: u32, shown: &str) {
        self.on_time(now);
        self.clients.link_opened(process, pid, shown);
    }

    /// A link of a process is gone. With the last one it has nothing any more, unless it may come back: its regions
    /// go, except those that others find by name or file. Returns how many bytes came free.
    pub fn link_lost(&mut self, now: Time, process: Incarnation, parting: Parting) -> u64 {
        let used_before = self.used();
        if self.is_resting {
            return 0;
        }
        match self.clients.link_lost(now, process, parting) {
            Left::Remains => {}
            Left::Away if self.has_anything(process) => {}
            Left::Away | Left::Gone => self.dismiss(process),
        }
        self.on_time(now);
        used_before.saturating_sub(self.used())
    }

    /// When [`on_time`](Self::on_time) is due.
    pub fn next_deadline(&self) -> Option<Time> {
        self.clients.next_deadline()
    }

    /// Time has passed. Processes that have been waited for long enough lose the regions that no other process can find,
    /// and keep others only until a process asks for them.
    pub fn on_time(&mut self, now: Time) {
        self.now = self.now.max(now);
        while let Some(process) = self.clients.next_overdue(self.now) {
            self.end_unnamed(process);
            if !self.has_anything(process) {
                self.clients.forget(process);
            }
        }
        while let Some(process) = self.clients.next_surplus() {
            self.shut_out(process);
            self.dismiss(process);
        }
    }

    /// Bytes of regions that end unless their process comes back.
    pub(super) fn awaiting_bytes(&self) -> u64 {
        let ends = |stored: &&StoredRegion| {
            let is_awaited = stored.owner.is_some_and(|owner| self.clients.is_awaited(owner));
            is_awaited && stored.kept.is_with_client()
        };
        self.regions.values().filter(ends).map(StoredRegion::taken).sum()
    }

    fn has_anything(&self, process: Incarnation) -> bool {
        let has_it = |stored: &StoredRegion| stored.owner == Some(process) || stored.holders.has(process);
        self.regions.values().any(has_it)
    }

    /// Changes the keys of regions that this process alone has, so that it cannot use them without having them. What
    /// it has beside others stays open to it, for they have the same keys.
    fn shut_out(&mut self, process: Incarnation) {
        for (region, stored) in &mut self.regions {
            let Some(claim) = stored.holders.only(process) else { continue };
            // Without random numbers nothing is given to another process either.
            if stored.take_from(&[(process, claim)]).is_ok() {
                self.exports.add(stored.export(*region));
                // A journal that cannot be written refuses the next process that asks.
                let _ = stored.note_all(*region);
            }
        }
    }

    /// Takes everything from a process.
    pub(super) fn dismiss(&mut self, process: Incarnation) {
        self.clients.forget(process);
        for (region, stored) in &mut self.regions {
            let has_it = stored.holders.has(process);
            stored.apply(|holders| holders.forget(process));
            if has_it {
                // A server that forgets this waits for the process after its next start.
                let _ = stored.note_holders(*region);
            }
        }
        self.end_unnamed(process);
    }

    /// Ends the regions of a process that no other can find.
    fn end_unnamed(&mut self, process: Incarnation) {
        let mut unnamed = Vec::new();
        for (region, stored) in &mut self.regions {
            if stored.owner.take_if(|owner| *owner == process).is_some() && stored.kept.is_with_client() {
                unnamed.push(*region);
            }
        }
        unnamed.into_iter().for_each(|region| self.remove(region));
    }
}
