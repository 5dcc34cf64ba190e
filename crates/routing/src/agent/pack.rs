//! Runs into parcels.

use std::collections::VecDeque;

use outboard_contract::memory::Window;
use outboard_contract::{AccessError, LinkError, LinkId, RemoteMemory, Token};
use outboard_wire::routing::{JobKey, Run, run_in_parcel};
use outboard_wire::{Rank, Time};

use super::backlog::Blocked;
use super::shared::{Errand, Hop, RoutingConfig};
use super::side::{Kind, Parcel, Side};
use super::worker::{Hopper, RoutingWorker};
use super::{Packing, ParcelRoom};

/// How many runs that waited are looked at in one turn.
const UNBLOCKED_AT_ONCE: usize = 4096;

/// The token of a run's bytes.
const FETCHING: Token = Token(2);

/// What became of a run.
enum Packed {
    /// Its head is in a parcel of this hopper; its bytes go here in the agent's memory.
    At(u64, usize),
    /// There is no room at present.
    Later,
    /// No neighbour is known that could take it.
    Nowhere,
}

impl RoutingWorker {
    pub(super) fn hopper(&mut self, job: JobKey, rank: Rank, now: Time) -> Option<u64> {
        let hop = *self.table.jobs.get(&job)?.get(&rank.0)?;
        if let Some(id) = self.by_hop.get(&(job, hop.link)) {
            return Some(*id);
        }
        let id = self.next_hopper;
        self.next_hopper += 1;
        let packing = Packing::new(self.shared.config().packing, hop.capacity, now);
        self.hoppers.insert(id, Hopper { job, hop, packing, waiting: VecDeque::new() });
        self.by_hop.insert((job, hop.link), id);
        Some(id)
    }

    /// Finds a place for a run in a parcel for its next hop, and writes its head there.
    fn pack(&mut self, job: JobKey, run: &Run, now: Time) -> Packed {
        let bytes = run_in_parcel(run.len as usize) as u32;
        let Some(id) = self.hopper(job, run.destination, now) else {
            self.counts.unroutable += 1;
            return Packed::Nowhere;
        };
        loop {
            let Some(hopper) = self.hoppers.get_mut(&id) else { return Packed::Nowhere };
            if bytes > hopper.hop.capacity {
                self.counts.unroutable += 1;
                return Packed::Nowhere;
            }
            match hopper.packing.room(bytes) {
                ParcelRoom::There => {
                    let (buffer, at) = hopper.packing.add(bytes, now);
                    let place = self.shared.offset(buffer) + at as usize;
                    let head = Run { at: None, ..*run }.encode();
                    self.shared.memory().window_mut().write(place, &head);
                    self.counts.runs += 1;
                    self.counts.bytes += u64::from(run.len);
                    self.publish_at.get_or_insert(now + RoutingConfig::PERIOD);
                    return Packed::At(id, place + Run::LEN);
                }
                ParcelRoom::AfterClosing => self.close(id),
                ParcelRoom::AfterOpening => {
                    // A next hop that takes nothing leaves the last buffers to others.
                    if hopper.packing.under_way() > 1 && !self.buffers.are_plenty() {
                        return Packed::Later;
                    }
                    let Some(buffer) = self.buffers.take() else { return Packed::Later };
                    hopper.packing.open(buffer, now);
                    self.open.push(id);
                }
                ParcelRoom::Later => return Packed::Later,
            }
        }
    }

    /// Fetches the runs of which a rank has sent word, as far as there is room for them.
    pub(super) fn fetch_runs<L: RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
        now: Time,
    ) -> Result<bool, LinkError> {
        let freed = self.freed;
        let Some(Side { kind: Kind::Rank(rank), .. }) = self.sides.get_mut(&id) else { return Ok(false) };
        let Some(region) = rank.region else { return Ok(false) };
        if rank.queue.is_empty() || rank.stuck_at == Some(freed) {
            return Ok(false);
        }
        let job = rank.attachment.job;
        let mut queue = std::mem::take(&mut rank.queue);
        let mut moved = false;
        for _ in 0..queue.len() {
            let Some(run) = queue.pop_front() else { break };
            let (hopper, place) = match self.pack(job, &run, now) {
                Packed::At(hopper, place) => (hopper, place),
                Packed::Later => {
                    queue.push_back(run);
                    continue;
                }
                Packed::Nowhere => continue,
            };
            moved = true;
            let (at, len) = (run.at.unwrap_or(0), run.len as usize);
            let fetched = link.read(region, at, self.shared.memory(), place, len, FETCHING);
            let mut failed = fetched.err();
            // Mapped memory is read within the call.
            link.completions(|completion| failed = failed.take().or(completion.result.err()));
            if let Some(error) = failed {
                if let Some(hopper) = self.hoppers.get_mut(&hopper) {
                    hopper.packing.take_back(run_in_parcel(len) as u32);
                }
                if let AccessError::Lost(error) = error {
                    return Err(error);
                }
                self.give_up(id, format!("the bundles of rank {} cannot be read: {error}", run.source.0));
                return Ok(true);
            }
        }
        if let Some(Side { kind: Kind::Rank(rank), .. }) = self.sides.get_mut(&id) {
            rank.stuck_at = (!queue.is_empty()).then_some(self.freed);
            rank.queue = queue;
        }
        Ok(moved)
    }

    /// Packs a run whose bytes are here, or keeps it until there is room.
    pub(super) fn pack_bytes(&mut self, job: JobKey, run: &Run, bytes: Window<'_>, now: Time) {
        match self.pack(job, run, now) {
            Packed::At(_, place) => self.shared.memory().window_mut().write_window(place, bytes),
            Packed::Later => self.block(job, *run, bytes.to_vec()),
            Packed::Nowhere => {}
        }
    }

    fn block(&mut self, job: JobKey, run: Run, bytes: Vec<u8>) {
        self.counts.blocked += 1;
        self.backlog.push(Blocked { job, run, bytes });
    }

    /// Packs what waited, as far as there is room now. Returns whether there was anything.
    pub(super) fn unblock(&mut self, now: Time) -> bool {
        self.backlog.begin_look(self.freed);
        if !self.backlog.has_more() {
            return false;
        }
        let mut moved = false;
        for _ in 0..UNBLOCKED_AT_ONCE {
            let Some(blocked) = self.backlog.next() else { break };
            match self.pack(blocked.job, &blocked.run, now) {
                Packed::Later => {
                    self.backlog.push(blocked);
                    continue;
                }
                Packed::At(_, place) => self.shared.memory().window_mut().write(place, &blocked.bytes),
                Packed::Nowhere => {}
            }
            moved = true;
        }
        for Side { withheld, taken, .. } in self.sides.values_mut() {
            withheld.retain(|(tag, job)| {
                let is_overfull = self.backlog.is_overfull(*job);
                if !is_overfull {
                    taken.push_back(*tag);
                }
                is_overfull
            });
        }
        moved || self.backlog.has_more()
    }

    /// Sends a hopper's open parcel.
    pub(super) fn close(&mut self, id: u64) {
        let Some(hopper) = self.hoppers.get_mut(&id) else { return };
        let (job, hop) = (hopper.job, hopper.hop);
        let Some(open) = hopper.packing.close() else { return };
        self.open.retain(|other| *other != id);
        let (buffer, len) = (open.buffer, open.len);
        self.dispatch(hop, Parcel { job, worker: self.index, packing: id, buffer, at: 0, len });
    }

    /// Gives a parcel to the worker that has the link to its next hop.
    pub(super) fn dispatch(&mut self, hop: Hop, parcel: Parcel) {
        if hop.is_rank {
            self.counts.parcels_to_ranks += 1;
            self.counts.parcels_to_ranks_bytes += u64::from(parcel.len);
        } else {
            self.counts.parcels_to_agents += 1;
            self.counts.parcels_to_agents_bytes += u64::from(parcel.len);
        }
        if hop.worker != self.index {
            self.errands[hop.worker].push(Errand::Send(hop.link, parcel));
        } else if let Some(side) = self.sides.get_mut(&hop.link) {
            side.parcels.push_back(parcel);
        } else {
            self.give_back(&parcel, true);
        }
    }

    /// Sends the parcels for which there is nothing more to wait. Returns whether there were any.
    pub(super) fn close_due(&mut self, now: Time) -> bool {
        let is_due = |id: &&u64| self.hoppers.get(id).is_some_and(|hopper| hopper.packing.is_due(now));
        let due: Vec<u64> = self.open.iter().filter(is_due).copied().collect();
        due.iter().for_each(|id| self.close(*id));
        !due.is_empty()
    }
}
