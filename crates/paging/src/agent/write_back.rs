//! Bytes that applications write back.

use outboard_contract::memory::Window;
use outboard_contract::{Disposition, LinkId};
use outboard_wire::paging::{PagingReply, PagingStatus, WriteBack};
use outboard_wire::{Rights, Time, mutant};

use super::cache::WriteItem;
use super::client::ClientAnswer;
use super::fetch::is_inside;
use super::shared::FETCH_MAX;
use super::worker::{PagingWorker, Pending};

impl PagingWorker {
    /// An application writes bytes back: they go to the server, and the cache is brought up to date. They are
    /// acknowledged when the server has them.
    pub(super) fn write_back(
        &mut self,
        link: LinkId,
        tag: u32,
        back: &WriteBack,
        data: Window<'_>,
    ) -> Disposition {
        let Some(client) = self.clients.get_mut(&link) else { return Disposition::Taken };
        let attached = client.attached.get(&(back.region, back.generation)).copied();
        let status = match attached {
            None => PagingStatus::NotOpen,
            Some(attached) if !attached.rights.includes(Rights::WRITE) => PagingStatus::NoRight,
            Some(_) if back.length > FETCH_MAX => PagingStatus::Malformed,
            Some(attached) if !is_inside(back.offset, back.length, attached.size) => {
                PagingStatus::OutOfBounds
            }
            Some(_) => PagingStatus::Done,
        };
        let server = attached.and_then(|attached| {
            self.servers.iter().position(|side| side.incarnation() == attached.name.server)
        });
        let (Some(attached), Some(server), PagingStatus::Done) = (attached, server, status) else {
            let status = if status == PagingStatus::Done { PagingStatus::Unavailable } else { status };
            client.answer(tag, PagingReply::Written { status, epoch: 0 });
            return Disposition::Taken;
        };
        if !self.servers[server].writes.has_room(back.length) {
            return Disposition::Deferred;
        }
        client.under_way += 1;
        let number = self.pending.insert(Pending::Write { client: link, tag });
        let (waiter, side) = (self.waiter(number), &mut self.servers[server]);
        let mut state = self.shared.state();
        let (write, place) = state.cache.write_begins(attached.number, back.offset, back.length);
        state.shadow.written(attached.number, back.offset, back.length);
        let copy = state.copy_to_write(attached.number, back.offset, back.length);
        drop(state);
        if let Some(place) = place {
            let mut memory = self.shared.memory().window_mut();
            memory.write_window(self.shared.at(&place), data);
        }
        if let Some(copy) = copy {
            copy.window_mut().write_window(back.offset as usize, data);
        }
        let item = WriteItem {
            waiter,
            number: attached.number,
            write,
            region: back.region,
            generation: back.generation,
            key: back.key,
            epoch: back.epoch,
            offset: back.offset,
            len: back.length,
        };
        if let Some(at) = side.writes.push(item) {
            side.stage.window_mut().write_window(at as usize, data);
        }
        self.shared.counts.write_backs.add(1);
        if mutant("paging.acknowledged-before-the-server") {
            self.pending.remove(number);
            let reply = PagingReply::Written { status: PagingStatus::Done, epoch: back.epoch };
            self.answer(link, ClientAnswer::Plain { tag, reply });
        }
        Disposition::Taken
    }

    /// A server has answered a frame of write-backs.
    pub(super) fn on_reply(&mut self, link: LinkId, tag: u32, reply: Option<PagingReply>) {
        let Some(PagingReply::Written { status, epoch }) = reply else { return };
        let Some(side) = self.servers.iter_mut().find(|side| side.link == link) else { return };
        let mut items = std::mem::take(&mut self.written);
        if side.writes.acknowledged(tag, |item| items.push(*item)) {
            side.lane.ended();
        }
        self.end_writes(&mut items, status, epoch);
        self.written = items;
    }

    /// Write-backs are over: acknowledged, refused or lost.
    pub(super) fn end_writes(&mut self, items: &mut Vec<WriteItem>, status: PagingStatus, epoch: u64) {
        if items.is_empty() {
            return;
        }
        let mut state = self.shared.state();
        for item in items.iter() {
            let is_done = status == PagingStatus::Done;
            state.cache.write_ends(item.write, is_done);
            self.shared.end_copy_write(&mut state, item, is_done);
            if state.cache.advance_epoch(item.number, epoch) {
                self.shared.drop_outdated_copy(&mut state, item.number);
            }
        }
        drop(state);
        for item in items.drain(..) {
            if let Some(Pending::Write { client, tag }) = self.pending.remove(item.waiter.0 as u32) {
                self.answer(
                    client,
                    ClientAnswer::Plain { tag, reply: PagingReply::Written { status, epoch } },
                );
            }
        }
    }

    /// A link to a server is lost: whatever waits for it is told so at once.
    pub(super) fn lose_server(&mut self, index: usize, now: Time) {
        let mut side = self.servers.swap_remove(index);
        let over = &mut self.over;
        side.lane.fail_all(|purpose, is_done| over.push((purpose, is_done)));
        self.end_transfers(None, now);
        let mut items = std::mem::take(&mut self.written);
        if !mutant("paging.lost-write-backs-untold") {
            side.writes.fail_all(|item| items.push(*item));
        }
        self.end_writes(&mut items, PagingStatus::Unavailable, 0);
        self.written = items;
        for (_, copying) in side.copying.iter() {
            self.shared.end_copying(copying, false);
        }
        self.refuse_attachments(&side);
    }
}
