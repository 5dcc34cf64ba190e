//! Bytes that applications want.

use std::time::Duration;

use outboard_contract::{Disposition, LinkId};
use outboard_wire::Time;
use outboard_wire::paging::{CacheMode, Fetch, FetchSource, PagingReply, PagingStatus};

use super::cache::{
    CacheRequest, CacheVerdict, Caching, EndedWait, LoadOrder, Purpose, ReadId, RegionNumber, Transfer,
    WaiterId,
};
use super::client::{Attached, ClientAnswer, ClientSide};
use super::shared::{Delivery, FETCH_MAX, SharedPaging, SharedState};
use super::worker::{PagingWorker, Pending};

/// How often it is considered whether caching a region pays.
const REVIEW: Duration = Duration::from_millis(1);

/// The finding of a look into the shared state.
enum Found {
    Cache(CacheVerdict),
    /// The region is not cached at present.
    Bypass,
    Copy(ClientAnswer),
}

impl PagingWorker {
    /// An application wants bytes.
    pub(super) fn fetch(&mut self, link: LinkId, tag: u32, fetch: &Fetch, now: Time) -> Disposition {
        let (attached, server) = match self.find(link, fetch) {
            Ok(found) => found,
            Err(status) => {
                if let Some(client) = self.clients.get_mut(&link) {
                    client.answer(tag, PagingReply::not_fetched(status));
                }
                return Disposition::Taken;
            }
        };
        // Whatever the cache says, there is a way.
        let has_bounces = self.clients.get(&link).is_some_and(ClientSide::has_bounces);
        let Some(bounce) = self.bounces.last().copied().filter(|_| has_bounces) else {
            return Disposition::Deferred;
        };
        let number = self.pending.insert(Pending::Fetch { client: link, tag });
        let (region, offset, len) = (attached.number, fetch.offset, fetch.length);
        let ask = CacheRequest { region, offset, len, urgency: fetch.urgency, waiter: self.waiter(number) };
        let found = self.look_up(&ask, &attached, tag, now);
        let (Some(client), lane) = (self.clients.get_mut(&link), &mut self.servers[server].lane) else {
            return Disposition::Taken;
        };
        match found {
            Found::Cache(CacheVerdict::Waits) => {
                client.under_way += 1;
                for order in self.orders.drain(..) {
                    lane.push(transfer(&self.shared, &order), Purpose::Load(order.load));
                }
                return Disposition::Taken;
            }
            Found::Cache(CacheVerdict::Uncached) | Found::Bypass => {
                client.under_way += 1;
                client.bounces += 1;
                self.bounces.pop();
                if let Some(pending) = self.pending.get_mut(number) {
                    *pending = Pending::Uncached { client: link, tag, bounce, len };
                }
                let at = self.shared.bounce_at(bounce) as u64;
                lane.push(Transfer { region, offset, at, len: len.into() }, Purpose::Uncached(number));
                return Disposition::Taken;
            }
            Found::Cache(CacheVerdict::Hit(place)) => {
                client.answer_bytes(ClientAnswer::Slot { tag, source: FetchSource::Hit, place });
            }
            Found::Copy(answer) => client.answer_bytes(answer),
            Found::Cache(CacheVerdict::OutOfBounds) => {
                client.answer(tag, PagingReply::not_fetched(PagingStatus::OutOfBounds));
            }
        }
        self.pending.remove(number);
        Disposition::Taken
    }

    /// The region of a fetch, and which of the servers has it.
    fn find(&self, link: LinkId, fetch: &Fetch) -> Result<(Attached, usize), PagingStatus> {
        let client = self.clients.get(&link).ok_or(PagingStatus::NotOpen)?;
        let attached = client.attached.get(&(fetch.region, fetch.generation)).ok_or(PagingStatus::NotOpen)?;
        if fetch.length > FETCH_MAX {
            return Err(PagingStatus::Malformed);
        }
        if !is_inside(fetch.offset, fetch.length, attached.size) {
            return Err(PagingStatus::OutOfBounds);
        }
        let server = self.servers.iter().position(|side| side.incarnation() == attached.name.server);
        Ok((*attached, server.ok_or(PagingStatus::Unavailable)?))
    }

    /// Asks the cache, or finds out that it is not to be asked. Orders are left in `self.orders`.
    fn look_up(&mut self, ask: &CacheRequest, attached: &Attached, tag: u32, now: Time) -> Found {
        let mut state = self.shared.state();
        let state = &mut *state;
        if attached.mode == CacheMode::Static
            && let Some(copy) = state.regions.get(&ask.region).and_then(|region| region.copy.as_ref())
            && copy.plan.is_complete()
        {
            let copy = copy.memory.clone();
            return Found::Copy(ClientAnswer::Static { tag, copy, offset: ask.offset, len: ask.len });
        }
        let is_auto = attached.mode == CacheMode::Auto;
        // Without a cache its slots have no memory, also while a copy of the region is not complete.
        let is_off = attached.mode == CacheMode::Off || !self.shared.has_cache();
        if is_off || (is_auto && !state.is_on(ask.region)) {
            state.cache.bypassed(ask.region, ask.urgency);
            if is_auto {
                state.play(now, ask, attached);
            }
            return Found::Bypass;
        }
        let verdict = state.cache.request(ask, &mut self.orders);
        if is_auto {
            let is_hit = matches!(verdict, CacheVerdict::Hit(_));
            state.consider(now, ask.region, attached, is_hit);
        }
        self.shared.note_plans(state);
        Found::Cache(verdict)
    }

    /// A read from a server has ended.
    pub(super) fn end_read(&mut self, index: usize, (id, len, is_done): (ReadId, u32, bool), now: Time) {
        let (side, over) = (&mut self.servers[index], &mut self.over);
        let bytes = if is_done { len.into() } else { 0 };
        side.busy.end(self.shared.time(now), bytes);
        self.shared.counts.read_bytes.add(bytes);
        side.lane.read_ended(id, is_done, |purpose, is_done| over.push((purpose, is_done)));
        self.end_transfers(Some(index), now);
    }

    /// Ends the transfers in `self.over`, and tells the clients that wait for them. `server` is whose bytes they are.
    pub(super) fn end_transfers(&mut self, server: Option<usize>, now: Time) {
        let mut state = self.shared.state();
        if let Some(side) = server.and_then(|index| self.servers.get_mut(index)) {
            let (bytes, busy) = side.busy.take();
            if let Some(meter) = state.net.get_mut(&side.incarnation()) {
                meter.add(now, bytes, busy);
            }
        }
        for (purpose, is_done) in &self.over {
            if let Purpose::Load(load) = purpose {
                state.cache.finish(*load, *is_done, &mut self.ended);
            }
        }
        drop(state);
        let mut over = std::mem::take(&mut self.over);
        for (purpose, is_done) in over.drain(..) {
            if let Purpose::Uncached(number) = purpose {
                self.end_uncached(number, is_done);
            }
        }
        self.over = over;
        let mut ended = std::mem::take(&mut self.ended);
        for end in ended.drain(..) {
            if end.waiter.0 >> 32 == self.index as u64 {
                self.end_wait(end);
            } else {
                self.shared.deliver(end.waiter, Delivery::Ended(end));
            }
        }
        self.ended = ended;
    }

    fn end_uncached(&mut self, number: u32, is_done: bool) {
        let Some(Pending::Uncached { client, tag, bounce, len }) = self.pending.remove(number) else {
            return;
        };
        if is_done {
            return self.answer(client, ClientAnswer::Bounce { tag, bounce, len });
        }
        self.bounces.push(bounce);
        if let Some(side) = self.clients.get_mut(&client) {
            side.bounces = side.bounces.saturating_sub(1);
        }
        self.answer(
            client,
            ClientAnswer::Plain { tag, reply: PagingReply::not_fetched(PagingStatus::Unavailable) },
        );
    }

    /// A request that waited for the cache is over.
    pub(super) fn end_wait(&mut self, end: EndedWait) {
        let EndedWait { waiter: WaiterId(waiter), place, source } = end;
        let Some(Pending::Fetch { client, tag }) = self.pending.remove(waiter as u32) else { return };
        match source {
            Some(source) => self.answer(client, ClientAnswer::Slot { tag, source, place }),
            None => {
                self.shared.state().cache.release(place.slot);
                self.answer(
                    client,
                    ClientAnswer::Plain { tag, reply: PagingReply::not_fetched(PagingStatus::Unavailable) },
                );
            }
        }
    }
}

/// Whether a span lies inside a region of this size.
pub(super) fn is_inside(offset: u64, length: u32, size: u64) -> bool {
    offset.checked_add(length.into()).is_some_and(|end| end <= size)
}

/// An order of the cache as a transfer into the agent's memory.
pub(super) fn transfer(shared: &SharedPaging, order: &LoadOrder) -> Transfer {
    let at = shared.at(&order.place) as u64;
    Transfer { region: order.region, offset: order.offset, at, len: order.place.len.into() }
}

impl SharedState {
    /// Whether caching a region pays at present.
    fn is_on(&self, region: RegionNumber) -> bool {
        let switch = self.regions.get(&region).and_then(|region| region.switch.as_ref());
        switch.is_some_and(|switch| switch.is_on())
    }

    /// Plays a request that is not cached, to know whether it would have hit.
    fn play(&mut self, now: Time, ask: &CacheRequest, attached: &Attached) {
        let cost = self.net.get(&attached.name.server).and_then(|meter| meter.cost());
        let ns_per_byte = cost.map_or(0.0, |cost| cost.value / 65536.0);
        let is_hit = self.shadow.request(now, ask, ns_per_byte);
        self.consider(now, ask.region, attached, is_hit);
    }

    /// Considers from time to time whether caching a region pays.
    fn consider(&mut self, now: Time, number: RegionNumber, attached: &Attached, is_hit: bool) {
        let Some(region) = self.regions.get_mut(&number) else { return };
        let (Some(switch), Some(net)) = (&mut region.switch, self.net.get(&attached.name.server)) else {
            return;
        };
        switch.on_request(now, is_hit);
        if now.since(region.reviewed_at) < REVIEW {
            return;
        }
        region.reviewed_at = now;
        match switch.review(now, net, &self.intra) {
            Some(Caching::On) => self.shadow.detach(number),
            Some(Caching::Off) => self.shadow.attach(number, &region.attachment),
            None => {}
        }
    }
}
