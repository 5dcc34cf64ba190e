//! The requests of the application to its far memory.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use outboard_wire::Time;

use super::chunks::{Access, Answer, ChunkKey, State};
use super::departures::Making;
use super::jobs::{Errand, Job};
use super::mistakes::Found;
use super::pages::{Cell, Pages};
use super::region::{PagedRegion, Path, Pattern};
use super::space::{PageSpace, ProcessAddress, Span};
use super::stats::{PagingStats, Traffic, get};

/// Where a chunk is, for those who want it without touching it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// In its region, where it stays until it is released.
    Held,
    /// On its way.
    Coming,
    /// At its memory server.
    Absent,
    /// Nowhere: its memory server is lost for good.
    Lost,
    /// Nowhere: its pages were thrown away by a system call of this process.
    ThrownAway,
}

impl<S: PageSpace> Pages<S> {
    /// Chunks that may be newer here than at the server have to be written back from now on; see
    /// [`write_back`](Self::write_back).
    pub fn begin_flush(&self, region: &PagedRegion) {
        let _uninterrupted = self.space.uninterrupted();
        self.shelves.iter().for_each(|shelf| shelf.lock().shard.owe(region.number));
    }

    /// Moves out what a flush waits for, so that it is written back. Touched again, it comes back. Returns how much of
    /// it is not at the server yet, in chunks.
    pub fn write_back(&self, region: &Arc<PagedRegion>) -> usize {
        let _uninterrupted = self.space.uninterrupted();
        let mut owed = 0;
        for (shard, shelf) in self.shelves.iter().enumerate() {
            let keys: Vec<ChunkKey> = shelf.lock().shard.owed_here(region.number).collect();
            for key in keys {
                self.send_home(shard, region, key);
            }
            owed += shelf.lock().shard.owed(region.number);
        }
        owed
    }

    /// Chunks that will hardly be needed again: their places in the buffer are the next to be taken.
    pub fn dont_need(&self, region: &PagedRegion, first: u32, end: u32) {
        let _uninterrupted = self.space.uninterrupted();
        for index in first..end.min(region.chunks()) {
            self.dismiss(region, index);
        }
    }

    /// The counts so far.
    pub fn stats(&self) -> PagingStats {
        let _uninterrupted = self.space.uninterrupted();
        let tally = &self.tally;
        let mut stats = PagingStats {
            buffer: self.buffer() as u64,
            stuck: get(&tally.stuck),
            traffic: Traffic {
                demand: get(&tally.demand_bytes),
                ahead: get(&tally.ahead_bytes),
                saved: get(&tally.saved_bytes),
                by_agent: get(&tally.agent_bytes),
                by_copy: get(&tally.copy_bytes),
            },
            agent_hits: get(&tally.agent_hits),
            agent_late: get(&tally.agent_late),
            agent_misses: get(&tally.agent_misses),
            agent_passed: get(&tally.agent_passed),
            agent_losses: get(&tally.agent_losses),
            ..PagingStats::default()
        };
        for shelf in &self.shelves {
            let cell = shelf.lock();
            let counts = cell.shard.counts();
            stats.faults_fetched += counts.fetched;
            stats.faults_for_pages += counts.pages;
            stats.faults_joined += counts.joined;
            stats.faults_rescued += counts.rescued;
            stats.faults_parked += counts.parked;
            stats.chunks_ahead += counts.ahead;
            stats.chunks_blank += counts.blank;
            stats.evictions += counts.evicted;
            stats.saves += counts.saved;
            stats.buffer_used += cell.shard.used() as u64;
            for (sum, count) in stats.edges.iter_mut().zip(counts.edges) {
                *sum += count;
            }
        }
        stats
    }

    /// The choices for each region, for people.
    pub fn explain(&self) -> Vec<String> {
        let _uninterrupted = self.space.uninterrupted();
        let now = self.space.time(Time::ZERO);
        let regions = self.regions();
        self.waiting.explain().into_iter().chain(regions.iter().map(|region| region.explain(now))).collect()
    }

    /// The choices for a region, for people.
    pub fn explain_region(&self, region: &PagedRegion) -> String {
        let _uninterrupted = self.space.uninterrupted();
        region.explain(self.space.time(Time::ZERO))
    }

    /// The application says how it will use chunks.
    pub fn set_pattern(&self, region: &PagedRegion, chunks: Range<u32>, pattern: Pattern) {
        let _uninterrupted = self.space.uninterrupted();
        region.patterns.set(chunks, pattern);
    }

    /// Whether all fault threads know what their agent will do with every region that may go by it.
    pub fn is_settled_with_agent(&self) -> bool {
        let _uninterrupted = self.space.uninterrupted();
        let threads = self.config.threads as u64;
        let is_settled = |region: &Arc<PagedRegion>| {
            region.spec.path == Path::Direct || region.answered_by_agents.load(Ordering::Acquire) >= threads
        };
        self.regions().iter().all(is_settled)
    }

    /// The memory servers, by their numbers, that the agent does not know, as it has said last.
    pub fn servers_unknown_to_agent(&self) -> BTreeSet<usize> {
        let _uninterrupted = self.space.uninterrupted();
        let regions = self.regions();
        let unknown = regions.iter().filter(|region| region.is_unknown_to_agent.load(Ordering::Acquire));
        unknown.map(|region| region.spec.at).collect()
    }

    /// How many fault threads have a link to a memory server.
    pub fn server_links(&self, server: usize) -> usize {
        self.server_links[server].load(Ordering::Acquire) as usize
    }

    /// On how many links a region is open.
    pub fn opened(&self, region: &PagedRegion) -> u64 {
        region.opened.load(Ordering::Acquire)
    }

    /// How many faults have brought bytes from afar, which costs less to ask than all of [`stats`](Self::stats).
    pub fn fetches(&self) -> u64 {
        get(&self.tally.fetches)
    }

    /// Sets aside the room that pinned chunks take. If one part of the buffer has too little, says how many of its bytes
    /// are pinned and how many may be.
    pub fn reserve_pins(&self, region: &PagedRegion, chunks: Range<u32>) -> Result<(), (usize, usize)> {
        let _uninterrupted = self.space.uninterrupted();
        let bytes = region.chunk_bytes();
        for index in chunks.clone() {
            let key = region.key(index);
            let mut cell = self.shelves[self.shard_of(key)].lock();
            let most = self.pins_max(bytes);
            if cell.pinned + bytes > most {
                let pinned = cell.pinned;
                drop(cell);
                self.release_pins(region, chunks.start..index);
                return Err((pinned, most));
            }
            cell.pinned += bytes;
        }
        Ok(())
    }

    /// Gives the room of pinned chunks back.
    pub fn release_pins(&self, region: &PagedRegion, chunks: Range<u32>) {
        let _uninterrupted = self.space.uninterrupted();
        for index in chunks {
            let key = region.key(index);
            self.shelves[self.shard_of(key)].lock().pinned -= region.chunk_bytes();
        }
    }

    /// The parts of a chunk that have bytes of a span: all of it, or pages of it if it is divided or absent.
    pub(super) fn parts(
        &self,
        cell: &Cell,
        region: &PagedRegion,
        index: u32,
        span: Span,
    ) -> impl Iterator<Item = ChunkKey> + Clone + use<S> {
        let whole = region.key(index);
        let is_whole = cell.shard.has(whole) || !region.can_be_divided(index);
        let last = span.start.plus(span.len.max(1) - 1);
        let pages = if is_whole { 0..1 } else { region.page_at(span.start)..region.page_at(last) + 1 };
        pages.map(move |page| if is_whole { whole } else { whole.of_page(page) })
    }

    /// Keeps these addresses of a chunk in the region, or no longer. Returns whether they are there.
    pub fn pin(&self, (region, index): (&PagedRegion, u32), span: Span, is_pinned: bool) -> bool {
        let _uninterrupted = self.space.uninterrupted();
        let mut cell = self.shelves[self.shard_of(region.key(index))].lock();
        let parts = self.parts(&cell, region, index, span);
        parts.fold(true, |are_there, key| are_there & cell.shard.pin(key, is_pinned))
    }

    /// Looks where a chunk is, and keeps these addresses of it in its region if they are there.
    pub fn hold(&self, (region, index): (&Arc<PagedRegion>, u32), span: Span) -> Whereabouts {
        let _uninterrupted = self.space.uninterrupted();
        let shard = self.shard_of(region.key(index));
        let mut cell = self.shelves[shard].lock();
        let parts = self.parts(&cell, region, index, span);
        for (before, key) in parts.clone().enumerate() {
            let found = self.hold_part(&mut cell, shard, (region, key), span);
            if found != Whereabouts::Held {
                parts.take(before).for_each(|key| cell.shard.release(key));
                return found;
            }
        }
        Whereabouts::Held
    }

    fn hold_part(
        &self,
        cell: &mut Cell,
        shard: usize,
        (region, key): (&PagedRegion, ChunkKey),
        span: Span,
    ) -> Whereabouts {
        if cell.shard.state(key) == State::Absent {
            return if region.is_lost() { Whereabouts::Lost } else { Whereabouts::Absent };
        }
        match cell.shard.fault(key, region.class_of(key), Access::Read) {
            Answer::Here => {}
            Answer::Rescue(seat) => self.rescue(cell, shard, (region, key), seat),
            _ => return Whereabouts::Coming,
        }
        // Links and kernel know whole pages only.
        let (page, part) = (self.space.page_bytes(), region.span_of(key));
        let start = span.start.page(page).start.max(part.start);
        let end = ProcessAddress::new(span.end().get().next_multiple_of(page)).min(part.end());
        match self.look_at(cell, (region, key), Span { start, len: end.since(start) }) {
            Found::Here => {}
            Found::Vanished => return Whereabouts::Absent,
            Found::ThrownAway => return Whereabouts::ThrownAway,
        }
        assert!(cell.shard.hold(key), "it is in its region");
        Whereabouts::Held
    }

    /// Lets go of these addresses of a chunk. Returns whether a thread waits for seats.
    pub fn release(&self, (region, index): (&PagedRegion, u32), span: Span) -> bool {
        let _uninterrupted = self.space.uninterrupted();
        let mut cell = self.shelves[self.shard_of(region.key(index))].lock();
        self.parts(&cell, region, index, span).for_each(|key| cell.shard.release(key));
        cell.shard.parked() > 0
    }

    /// A chunk that a thread waits for without touching it, or the next of its absent pages from `from` on; none if all is known
    /// or there is no room now. Ask again until there is none.
    pub(super) fn want(&self, region: &Arc<PagedRegion>, index: u32, from: &mut u16) -> Option<Job> {
        let shard = self.shard_of(region.key(index));
        let mut cell = self.shelves[shard].lock();
        if region.is_lost() || region.is_closing() {
            return None;
        }
        let mut making = Making::default();
        let (mut job, mut has_come) = (None, false);
        while job.is_none()
            && let Some(key) = self.absent_part(&mut cell, shard, (region, index), from)
        {
            let seat = cell.shard.fetch_ahead(key, region.class_of(key));
            self.discard_frames(&mut cell, shard);
            self.had_no_seat.store(seat.is_none(), Ordering::Release);
            if let Some(seat) = seat {
                job = self.fill(&mut cell, shard, region, seat, Errand::Demand);
                has_come |= job.is_none();
            } else if self.move_out_for(&mut cell, shard, &mut making) {
                *from = key.page.unwrap_or(0);
            } else {
                break;
            }
        }
        drop(cell);
        if has_come {
            self.tell_waiting();
        }
        job
    }

    /// Whether a thread waits for a chunk without touching it, and there is no seat for it.
    pub(super) fn is_cramped(&self) -> bool {
        self.tries.load(Ordering::Acquire) > 0 && self.had_no_seat.load(Ordering::Acquire)
    }

    /// Tells those who wait for a chunk without touching it that one has come.
    pub(super) fn tell_waiting(&self) {
        if self.tries.load(Ordering::Acquire) > 0 {
            self.space.announce();
        }
    }
}
