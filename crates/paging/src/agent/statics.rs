//! Whole regions in memory of their own, which applications read without asking.

use std::sync::atomic::Ordering;

use outboard_contract::memory::Buffer;
use outboard_contract::{AccessError, Link, LinkError, OpenRegion, RemoteMemory};
use outboard_wire::paging::{CacheMode, PagingReply};
use outboard_wire::{Grant, RegionId, mutant};

use super::cache::{CopySpan, RegionNumber, StaticCopy, WaiterId, WriteItem};
use super::client::ClientAnswer;
use super::server::Token;
use super::shared::{Delivery, Lent, SharedPaging, SharedState};
use super::worker::{PagingWorker, Pending};

/// Where reading is copying, no more than this is read in one turn.
const MAPPED_MAX: u64 = 64 << 10;

/// A region that was or is being copied as a whole.
pub(super) struct StaticRegion {
    pub(super) plan: StaticCopy,
    pub(super) memory: Buffer,
    pub(super) grant: Grant,
    is_loading: bool,
}

/// A range of a static copy that is being read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copying {
    number: RegionNumber,
    /// Which copy: a region that has begun a new write epoch has another one.
    copy: RegionId,
    /// The copy's name for it.
    range: u32,
}

impl SharedPaging {
    /// Begins to copy a region, unless that has begun or there is no room. Returns how it is cached then.
    pub(super) fn copy_region(&self, state: &mut SharedState, number: RegionNumber, size: u64) -> CacheMode {
        let otherwise = if self.has_cache() { CacheMode::Dynamic } else { CacheMode::Off };
        let Some(region) = state.regions.get_mut(&number) else { return otherwise };
        if region.copy.is_some() {
            return CacheMode::Static;
        }
        let is_fitting =
            state.static_bytes.checked_add(size).is_some_and(|all| all <= self.config().static_max);
        let lent = is_fitting.then(|| self.surroundings.lend(RegionId(state.next_copy), size)).flatten();
        let Some(Lent { grant, memory }) = lent else {
            region.mode = otherwise;
            return otherwise;
        };
        let mut copy = StaticRegion { plan: StaticCopy::new(size), memory, grant, is_loading: true };
        let writing = state.writing.get(&number).filter(|_| !mutant("paging.new-copy-misses-writes"));
        for (offset, len) in writing.into_iter().flatten() {
            copy.plan.write_begins(*offset, (*len).into());
        }
        state.next_copy += 1;
        state.static_bytes += size;
        self.copies_loading.fetch_add(1, Ordering::Relaxed);
        region.copy = Some(copy);
        CacheMode::Static
    }

    /// No application uses a copy any more.
    fn drop_copy(&self, state: &mut SharedState, mut copy: StaticRegion) {
        // Those who waited for it ask again what there is instead.
        self.tell(copy.plan.take_waiters());
        self.surroundings.take_back(copy.grant.region);
        state.static_bytes -= copy.grant.size;
        if copy.is_loading {
            self.copies_loading.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// A write-back to a region is over. If it failed, its place in a copy is read again.
    pub(super) fn end_copy_write(&self, state: &mut SharedState, item: &WriteItem, is_done: bool) {
        state.forget_write(item);
        let region = state.regions.get_mut(&item.number);
        if let Some(copy) = region.and_then(|region| region.copy.as_mut()) {
            copy.plan.write_ends(item.offset, item.len.into(), is_done);
            let waiters = self.review_copy(copy);
            self.tell(waiters);
        }
    }

    /// Tells attachments that what they wait for has changed.
    fn tell(&self, waiters: Vec<WaiterId>) {
        for waiter in waiters {
            self.deliver(waiter, Delivery::StaticReady(waiter));
        }
    }

    /// The bytes of a region were written by others: a copy of it is of no use.
    pub(super) fn drop_outdated_copy(&self, state: &mut SharedState, number: RegionNumber) {
        let copy = state.regions.get_mut(&number).and_then(|region| region.copy.take());
        if let Some(copy) = copy {
            self.drop_copy(state, copy);
        }
    }

    /// A reading of a static copy has ended. One of a copy that is no more says nothing about the next.
    pub(super) fn end_copying(&self, copying: &Copying, is_done: bool) {
        let mut state = self.state();
        let copy = state.regions.get_mut(&copying.number).and_then(|region| region.copy.as_mut());
        let Some(copy) = copy.filter(|copy| copy.grant.region == copying.copy) else { return };
        copy.plan.finish(copying.range, is_done);
        let waiters = self.review_copy(copy);
        self.tell(waiters);
    }

    /// Notes whether a copy has become complete or incomplete. Returns who waited for it.
    fn review_copy(&self, copy: &mut StaticRegion) -> Vec<WaiterId> {
        let is_complete = copy.plan.is_complete();
        match (copy.is_loading, is_complete) {
            (true, true) => drop(self.copies_loading.fetch_sub(1, Ordering::Relaxed)),
            (false, false) => drop(self.copies_loading.fetch_add(1, Ordering::Relaxed)),
            _ => {}
        }
        copy.is_loading = !is_complete;
        if is_complete { copy.plan.take_waiters() } else { Vec::new() }
    }
}

impl SharedState {
    /// The grant that opens the copy of a region, if one was asked for; `None` if it must be waited for.
    pub(super) fn wait_for_copy(
        &mut self,
        number: RegionNumber,
        mode: CacheMode,
        waiter: WaiterId,
    ) -> Option<Option<Grant>> {
        let copy = self.regions.get_mut(&number).and_then(|region| region.copy.as_mut());
        let Some(copy) = copy.filter(|_| mode == CacheMode::Static) else { return Some(None) };
        if copy.plan.is_complete() {
            return Some(Some(copy.grant));
        }
        copy.plan.wait(waiter);
        None
    }

    /// A write-back is over.
    fn forget_write(&mut self, item: &WriteItem) {
        let Some(writing) = self.writing.get_mut(&item.number) else { return };
        if let Some(at) = writing.iter().position(|it| *it == (item.offset, item.len)) {
            writing.swap_remove(at);
        }
        if writing.is_empty() {
            self.writing.remove(&item.number);
        }
    }

    /// A write-back begins. Returns the copy that it may be copied into at once.
    pub(super) fn copy_to_write(&mut self, number: RegionNumber, offset: u64, len: u32) -> Option<Buffer> {
        self.writing.entry(number).or_default().push((offset, len));
        let copy = self.regions.get_mut(&number)?.copy.as_mut()?;
        copy.plan.write_begins(offset, len.into()).then(|| copy.memory.clone())
    }
}

impl PagingWorker {
    /// Reads the next bytes of static copies whose server this is.
    pub(super) fn load_copies<L: Link + RemoteMemory>(
        &mut self,
        index: usize,
        link: &mut L,
        is_mapped: bool,
    ) -> Result<bool, LinkError> {
        let limit = if is_mapped { MAPPED_MAX } else { u64::MAX };
        let len_max = (link.capabilities().max_access as u64).min(limit);
        let mut moved = false;
        while !(is_mapped && moved)
            && let Some((reading, buffer, open, CopySpan { offset, len, .. })) =
                self.next_copying(index, len_max)
        {
            let token = Token::Static { number: reading }.encode();
            match link.read(open, offset, &buffer, offset as usize, len as usize, token) {
                Ok(()) => {
                    moved = true;
                    self.shared.counts.read_bytes.add(len);
                }
                Err(AccessError::Lost(error)) => {
                    self.end_static_read(index, reading, false);
                    return Err(error);
                }
                Err(_) => {
                    self.end_static_read(index, reading, false);
                    break;
                }
            }
        }
        Ok(moved)
    }

    /// The next range of a copy to read: by which number, into what, from which region, and where.
    fn next_copying(&mut self, index: usize, len_max: u64) -> Option<(u32, Buffer, OpenRegion, CopySpan)> {
        if self.shared.copies_loading.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut state = self.shared.state();
        let side = &mut self.servers[index];
        state.regions.iter_mut().find_map(|(number, region)| {
            let (copy, open) = (region.copy.as_mut()?, side.readable(*number)?);
            let range = copy.plan.next_read(len_max)?;
            let (number, copy_of) = (*number, copy.grant.region);
            let reading = side.copying.insert(Copying { number, copy: copy_of, range: range.number });
            Some((reading, copy.memory.clone(), open, range))
        })
    }

    /// A reading of a static copy has ended.
    pub(super) fn end_static_read(&mut self, index: usize, reading: u32, is_done: bool) {
        if let Some(copying) = self.servers[index].copying.remove(reading) {
            self.shared.end_copying(&copying, is_done);
        }
    }

    /// The copy that an attachment waits for is complete, or there is another one in its place, or none.
    pub(super) fn static_ready(&mut self, waiter: WaiterId) {
        let request = waiter.0 as u32;
        // A client that is not there any more has left its place, and its waiter, to others: what is answered must be right
        // for the client that has the place now.
        let Some(Pending::Attach { client, tag, number: Some(number), .. }) = self.pending.get(request)
        else {
            return;
        };
        let (client, tag, number) = (*client, *tag, *number);
        let mut state = self.shared.state();
        let Some(static_grant) = state.wait_for_copy(number, CacheMode::Static, waiter) else { return };
        drop(state);
        self.pending.remove(request);
        let mode = CacheMode::Static;
        self.answer(client, ClientAnswer::Plain { tag, reply: PagingReply::Attached { mode, static_grant } });
    }
}
