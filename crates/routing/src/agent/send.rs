//! What goes to ranks and agents.

use outboard_contract::{
    AccessError, FrameSendError, Link, LinkError, LinkId, Loss, OneSided, RemoteMemory, Token,
};
use outboard_wire::routing::{
    ANNOUNCE, PARCEL, PONG, ParcelHead, ParcelMemory, REFUSED, REFUSED_MAX, TAKEN, WELCOME,
};
use outboard_wire::{FrameHead, Rights, Time};

use super::shared::{Errand, Hop};
use super::side::{Kind, Parcel, Sent, Side};
use super::worker::RoutingWorker;

/// The token of an opening.
const OPENING: Token = Token(1);

impl RoutingWorker {
    /// Puts what is due for this link into it, as far as it has room. Returns whether anything was sent.
    pub fn send<L: Link + RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
        now: Time,
    ) -> Result<bool, LinkError> {
        if let Some(why) = self.refusals.get(&id) {
            let why = &why.as_bytes()[..why.len().min(REFUSED_MAX)];
            return match link.send(FrameHead::new(REFUSED), why) {
                Ok(()) => Ok(self.refusals.remove(&id).is_some()),
                Err(FrameSendError::Lost(error)) => Err(error),
                Err(_) => Ok(false),
            };
        }
        if let Some(why) = self.given_up.remove(&id) {
            link.close(&why);
            return Err(LinkError { peer: link.peer().clone(), loss: Loss::ClosedHere });
        }
        if !self.sides.contains_key(&id) {
            return Ok(false);
        }
        self.meet(id, link.capabilities().max_payload);
        let is_mapped = link.capabilities().one_sided == OneSided::Mapped;
        let sent = match self.send_words(id, link, is_mapped) {
            Ok(()) => self.send_parcels(id, link, is_mapped),
            Err(error) => Err(error),
        };
        let mut moved = match sent {
            Ok(moved) => moved,
            Err(FrameSendError::Lost(error)) => return Err(error),
            Err(FrameSendError::Full) => false,
            Err(error @ FrameSendError::TooLong { .. }) => {
                self.give_up(id, error.to_string());
                return Ok(true);
            }
        };
        if is_mapped {
            moved |= self.fetch_runs(id, link, now)?;
        }
        // What is full now goes in this turn, to those who have theirs later in it.
        self.close_due(now);
        self.run_errands();
        Ok(moved)
    }

    /// Uses another agent, if the link to it takes whole parcels.
    pub(super) fn meet(&mut self, id: LinkId, longest: usize) {
        let Some(Side { kind: Kind::Agent { is_met }, .. }) = self.sides.get_mut(&id) else { return };
        if std::mem::replace(is_met, true) {
            return;
        }
        let stride = self.shared.config().stride();
        if ParcelHead::LEN + stride > longest {
            return self.shared.host.warn(&format!(
                "another agent is not given messages, because the link to it takes {longest} bytes at once: enlarge \
                 link.ring, or choose a smaller agent.parcel"
            ));
        }
        self.shared.meet(Hop { link: id, worker: self.index, capacity: stride as u32, is_rank: false });
    }

    /// Welcomes, announcements, and word of what was taken.
    fn send_words<L: Link + RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
        is_mapped: bool,
    ) -> Result<(), FrameSendError> {
        let Some(side) = self.sides.get_mut(&id) else { return Ok(()) };
        if let Kind::Rank(rank) = &mut side.kind {
            if !rank.has_welcome {
                link.send(FrameHead::new(WELCOME), &ParcelMemory { grant: self.shared.grant() }.encode())?;
                rank.has_welcome = true;
            }
            if let Some(grant) = rank.grant.filter(|_| is_mapped) {
                match link.open(&grant, Rights::READ, OPENING) {
                    Ok(()) => rank.grant = None,
                    Err(AccessError::Lost(error)) => return Err(FrameSendError::Lost(error)),
                    Err(_) => {}
                }
            }
        }
        if side.owes_pong {
            link.send(FrameHead::new(PONG), &[])?;
            side.owes_pong = false;
        }
        while let Some(announcement) = side.announcements.front() {
            link.send(FrameHead::new(ANNOUNCE), &announcement.encode())?;
            side.announcements.pop_front();
        }
        while let Some(tag) = side.taken.front() {
            link.send(FrameHead::new(TAKEN).with_tag(*tag), &[])?;
            side.taken.pop_front();
        }
        Ok(())
    }

    fn send_parcels<L: Link>(
        &mut self,
        id: LinkId,
        link: &mut L,
        is_mapped: bool,
    ) -> Result<bool, FrameSendError> {
        let mut moved = false;
        loop {
            let Some(side) = self.sides.get_mut(&id) else { return Ok(moved) };
            let Some(parcel) = side.parcels.front().copied() else { return Ok(moved) };
            // Agents do not map each other's memory: they are on different nodes.
            let is_read = is_mapped && matches!(side.kind, Kind::Rank(_));
            let tag = side.next_tag;
            let head = FrameHead::new(PARCEL).with_tag(tag);
            let at = self.shared.offset(parcel.buffer) + parcel.at as usize;
            let said = ParcelHead { job: parcel.job, at: is_read.then_some(at as u64), len: parcel.len };
            if is_read {
                link.send(head, &said.encode())?;
            } else {
                let len = parcel.len as usize;
                let mut window = link.reserve(head, ParcelHead::LEN + len)?;
                window.write(0, &said.encode());
                window.write_window(ParcelHead::LEN, self.shared.memory().window().part(at, len));
                link.commit(ParcelHead::LEN + len);
            }
            side.parcels.pop_front();
            side.next_tag = tag.wrapping_add(1);
            side.under_way.insert(tag, Sent { parcel, is_read });
            if !is_read {
                self.free_buffer(&parcel);
            }
            moved = true;
        }
    }

    fn free_buffer(&mut self, parcel: &Parcel) {
        if parcel.worker == self.index {
            self.buffers.give_back(parcel.buffer);
            self.freed += 1;
        } else {
            self.errands[parcel.worker].push(Errand::Free(parcel.buffer));
        }
    }
}
