//! What goes by an agent.

use std::collections::VecDeque;
use std::time::Duration;

use outboard_contract::{
    AccessError, AccessOutcome, Completion, Disposition, Frame, FrameSendError, Link, LinkError, LinkId,
    OneSided, OpenRegion, RemoteMemory, Token,
};
use outboard_wire::routing::{
    ANNOUNCE, ATTACH, Announcement, DETACH, Form, PARCEL, PING, PONG, ParcelHead, ParcelMemory, REFUSED,
    REFUSED_MAX, RUN, RankAttachment, Run, TAKEN, WELCOME, next_in_parcel, run_in_parcel,
};
use outboard_wire::{FrameHead, Grant, Rank, Rights, Time, mutant};

use super::peer::PeerRank;
use super::service::{Arrived, OPENING, RankService};

/// How many parcels an agent may have under way to a rank.
const PARCELS_MAX: usize = 256;

/// Marks the token of a parcel that is read; the rest is its slot.
const PARCEL_TOKEN: u64 = 1 << 33;

/// A parcel of which word has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Announced {
    tag: u32,
    at: u64,
    len: u32,
}

/// What a rank knows of the agent that carries messages for it.
#[derive(Default)]
pub(super) struct CarrierLink {
    pub(super) link: Option<LinkId>,
    has_attached: bool,
    /// What opens its memory, until that has been presented.
    grant: Option<Grant>,
    pub(super) region: Option<OpenRegion>,
    /// Which ranks it reaches.
    reachable: Vec<bool>,
    to_take: VecDeque<Announced>,
    /// Parcels that are being read, by their slots.
    reading: Vec<Option<Announced>>,
    /// Parcels that were taken, and the agent does not know it.
    taken: VecDeque<u32>,
    /// Why it is not used although it is there.
    refused: Option<String>,
    /// Whether it was given something since it was last heard, and when that was.
    pub(super) has_given: bool,
    heard_at: Time,
    /// When it was asked whether it is there, and has not answered.
    asked_at: Option<Time>,
    is_asking: bool,
    /// Whether it has not answered for so long that it is not used. It may have been stopped, which a link through shared
    /// memory does not tell.
    pub(super) is_silent: bool,
    /// The link by which it is to be told so.
    pub(super) to_detach: Option<LinkId>,
    pub(super) bundles_sent: u64,
    pub(super) bytes_sent: u64,
    pub(super) parcels: u64,
    pub(super) parcel_bytes: u64,
}

impl CarrierLink {
    pub(super) fn new(ranks: usize, slots: usize) -> Self {
        Self { reachable: vec![false; ranks], reading: vec![None; slots], ..Self::default() }
    }

    pub(super) fn reaches(&self, rank: u32) -> bool {
        self.reachable[rank as usize]
    }

    pub(super) fn is_there(&self) -> bool {
        self.link.is_some() && self.refused.is_none() && !self.is_silent
    }

    /// It has said something.
    pub(super) fn heard(&mut self, now: Time) {
        (self.heard_at, self.asked_at, self.is_silent, self.has_given) = (now, None, false, false);
    }

    /// When to ask it, and when to stop waiting for its answer.
    pub(super) fn next_deadline(&self, patience: Duration) -> Option<Time> {
        self.link?;
        match self.asked_at {
            Some(asked) => (!self.is_silent).then_some(asked + patience * 3 / 4),
            None => self.has_given.then_some(self.heard_at + patience / 4),
        }
    }
}

/// Why the memory of an agent is of no use, if it is not because the agent is gone.
fn unless_lost(error: &AccessError) -> Result<(), String> {
    match error {
        AccessError::Lost(_) => Ok(()),
        error => Err(format!("its parcels cannot be read: {error}")),
    }
}

impl RankService {
    pub(super) fn carrier_connected(&mut self, link: LinkId) {
        self.carrier_lost();
        self.carrier.link = Some(link);
    }

    /// Whatever the agent had may be lost.
    pub(super) fn carrier_lost(&mut self) {
        let carrier = &mut self.carrier;
        (carrier.link, carrier.grant, carrier.region) = (None, None, None);
        (carrier.has_attached, carrier.refused, carrier.to_detach) = (false, None, None);
        (carrier.is_silent, carrier.asked_at, carrier.is_asking) = (false, None, false);
        carrier.to_take.clear();
        carrier.taken.clear();
        for slot in 0..carrier.reading.len() {
            if self.carrier.reading[slot].take().is_some() {
                self.buffers.give_slot_back(slot as u32);
            }
        }
        (0..self.peers.len() as u32).for_each(|rank| self.set_reachable(rank, false));
    }

    /// An agent that makes no sense is not used any more.
    pub(super) fn refuse_carrier(&mut self, why: String) {
        let link = self.carrier.link;
        self.carrier_lost();
        (self.carrier.refused, self.carrier.to_detach) = (Some(why), link);
    }

    /// Tells an agent that is not used that it should not carry anything to here: others would wait for it.
    pub(super) fn detach<L: Link>(&mut self, id: LinkId, link: &mut L) -> Result<bool, LinkError> {
        match link.send(FrameHead::new(DETACH), &[]) {
            Ok(()) => Ok(self.carrier.to_detach.take_if(|to| *to == id).is_some()),
            Err(FrameSendError::Lost(error)) => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// Why messages do not go by the agent although they should; none if nothing is known against it.
    pub fn refused(&self) -> Option<&str> {
        self.carrier.refused.as_deref()
    }

    fn set_reachable(&mut self, rank: u32, is_reachable: bool) {
        self.carrier.reachable[rank as usize] = is_reachable;
        if !is_reachable && !mutant("routing.lost-agent-not-noticed") {
            self.peers[rank as usize].way_lost_at_agent();
        }
    }

    /// What a frame of the agent says, or why it makes no sense.
    pub(super) fn read_carrier_frame(&mut self, frame: &Frame<'_>) -> Result<Disposition, String> {
        let len = frame.payload.len();
        match frame.head.kind {
            WELCOME if len == ParcelMemory::LEN => {
                let welcome = ParcelMemory::decode(&frame.payload.array::<{ ParcelMemory::LEN }>(0));
                self.carrier.grant = Some(welcome.map_err(|error| error.to_string())?.grant);
            }
            ANNOUNCE if len == Announcement::LEN => {
                let announcement = Announcement::decode(&frame.payload.array::<{ Announcement::LEN }>(0));
                let announcement = announcement.map_err(|error| error.to_string())?;
                let rank = announcement.rank.0;
                if announcement.job != self.key() || rank as usize >= self.peers.len() {
                    return Err("it announced a rank that is not of this job".to_owned());
                }
                self.set_reachable(rank, announcement.is_reachable);
            }
            PARCEL if len >= ParcelHead::LEN => {
                let head = ParcelHead::decode(&frame.payload.array::<{ ParcelHead::LEN }>(0), len);
                return self.on_parcel(head.map_err(|error| error.to_string())?, frame);
            }
            PONG => {}
            REFUSED if len <= REFUSED_MAX => {
                let why = String::from_utf8_lossy(&frame.payload.to_vec()).into_owned();
                return Err(why);
            }
            // Other rooms' frames are not for a rank's messages.
            kind if kind.0 >> 8 != RUN.0 >> 8 => {}
            kind => return Err(format!("it sent a frame of kind {kind} and {len} bytes")),
        }
        Ok(Disposition::Taken)
    }

    fn on_parcel(&mut self, head: ParcelHead, frame: &Frame<'_>) -> Result<Disposition, String> {
        let (tag, len) = (frame.head.tag, head.len);
        if head.job != self.key() || len as usize > self.buffers.slot_bytes() {
            return Err("it sent a parcel of another job, or one that is too long".to_owned());
        }
        if let Some(at) = head.at {
            if self.carrier.to_take.len() >= PARCELS_MAX {
                return Err("it has more parcels under way than it may".to_owned());
            }
            self.carrier.to_take.push_back(Announced { tag, at, len });
            return Ok(Disposition::Taken);
        }
        let slot = self.parcel_slot();
        let at = self.buffers.slot_offset(slot);
        let bytes = frame.payload.part(ParcelHead::LEN, len as usize);
        self.buffers.incoming().window_mut().write_window(at, bytes);
        self.on_parcel_read(slot, Announced { tag, at: 0, len })?;
        Ok(Disposition::Taken)
    }

    /// A slot for a parcel. If there is none, the one that is always there: what is in it is set aside at once.
    fn parcel_slot(&mut self) -> u32 {
        let party = self.config.spaces + 1;
        self.buffers.slots.take(party).unwrap_or(self.buffers.overflow())
    }

    /// A one-sided operation on the memory of the agent has ended.
    pub(super) fn on_carrier_ended(&mut self, completion: Completion) {
        let Completion { token, result } = completion;
        let slot = (token.0 & PARCEL_TOKEN != 0).then_some(token.0 as u32);
        let parcel = slot.and_then(|slot| self.carrier.reading.get_mut(slot as usize)?.take());
        let sense = match (result, slot, parcel) {
            (Ok(_), Some(slot), Some(parcel)) => self.on_parcel_read(slot, parcel),
            (Err(error), Some(slot), Some(_)) => {
                self.buffers.give_slot_back(slot);
                unless_lost(&error)
            }
            (Ok(AccessOutcome::Opened(region)), None, _) => {
                self.carrier.region = Some(region);
                Ok(())
            }
            (Err(error), None, _) => unless_lost(&error),
            // What was read of a former link.
            _ => Ok(()),
        };
        sense.unwrap_or_else(|why| self.refuse_carrier(why));
    }

    /// A parcel is here: its runs are noted, each where it lies.
    fn on_parcel_read(&mut self, slot: u32, parcel: Announced) -> Result<(), String> {
        let Announced { tag, len, .. } = parcel;
        self.carrier.parcels += 1;
        self.carrier.parcel_bytes += u64::from(len);
        if !mutant("routing.parcel-not-taken-by-rank") {
            self.carrier.taken.push_back(tag);
        }
        let mut at = 0;
        let result = loop {
            if at + Run::LEN > len as usize {
                break if at == len as usize { Ok(()) } else { Err("a parcel ends early".to_owned()) };
            }
            let place = self.buffers.slot_offset(slot) + at;
            let head = self.buffers.incoming().window().part(place, Run::LEN).array::<{ Run::LEN }>(0);
            match next_in_parcel(&head, len as usize - at) {
                Ok(run) => match self.on_run_in_parcel(slot, at + Run::LEN, &run) {
                    Ok(()) => at += run_in_parcel(run.len as usize),
                    Err(why) => break Err(why),
                },
                Err(error) => break Err(error.to_string()),
            }
        };
        // It was held while its runs were looked at.
        if !mutant("routing.parcel-keeps-its-slot") {
            self.buffers.give_slot_back(slot);
        }
        result
    }

    fn on_run_in_parcel(&mut self, slot: u32, at: usize, run: &Run) -> Result<(), String> {
        let (rank, set) = (run.source.0, self.config.set_of(run.space));
        let is_known = rank != self.config.rank && (rank as usize) < self.peers.len();
        let is_for_here = run.destination.0 == self.config.rank && set <= self.config.spaces;
        if !is_known || !is_for_here || run.len as usize > self.buffers.bundle_bytes() {
            return Err("a parcel has a run that is not for here, or too long".to_owned());
        }
        if self.peers[rank as usize].has_departed {
            return Ok(());
        }
        if run.form == Form::Ack {
            self.on_ack(rank, set, run.number);
            return Ok(());
        }
        let peer = &mut self.peers[rank as usize];
        let traffic = &mut peer.traffic[usize::from(set)];
        traffic.is_owed = true;
        if slot == self.buffers.overflow() {
            if traffic.incoming.is_new(run.number) {
                let place = self.buffers.slot_offset(slot) + at;
                let bytes = self.buffers.incoming().window().part(place, run.len as usize).to_vec();
                return self.put_aside(rank, *run, bytes);
            }
        } else if traffic.incoming.note(run.number) {
            self.buffers.hold_slot(slot);
            let Run { len, form, .. } = *run;
            self.arrived.push(Arrived { source: rank, slot, at: at as u32, len, space: set, form });
        }
        Ok(())
    }

    /// Asks an agent that was given something and has said nothing for a while, and does without one that does not answer.
    pub(super) fn watch_carrier(&mut self, now: Time) {
        let patience = self.config.agent_patience;
        if self.carrier.next_deadline(patience).is_none_or(|due| due > now) {
            return;
        }
        let carrier = &mut self.carrier;
        // A rank that was away itself has heard no agent.
        let was_away = now.since(self.now) > patience / 8;
        if carrier.asked_at.is_none() || was_away {
            (carrier.asked_at, carrier.is_asking) = (Some(now), true);
            return;
        }
        carrier.is_silent = true;
        // Whatever it has may never arrive, what was acknowledged by it neither.
        self.peers.iter_mut().for_each(PeerRank::way_lost_at_agent);
    }

    /// Sends what is due for the agent, and for others by it.
    pub(super) fn send_to_carrier<L: Link + RemoteMemory>(
        &mut self,
        link: &mut L,
    ) -> Result<bool, LinkError> {
        let is_mapped = link.capabilities().one_sided == OneSided::Mapped;
        if !self.carrier.has_attached {
            let attachment = RankAttachment {
                job: self.key(),
                rank: Rank(self.config.rank),
                ranks: self.peers.len() as u32,
                grant: *self.buffers.grant(),
                bundle_bytes: self.buffers.bundle_bytes() as u32,
                parcel_bytes: self.buffers.slot_bytes() as u32,
            };
            match link.send(FrameHead::new(ATTACH), &attachment.encode()) {
                Ok(()) => self.carrier.has_attached = true,
                Err(FrameSendError::Lost(error)) => return Err(error),
                Err(_) => return Ok(false),
            }
        }
        if let Some(grant) = self.carrier.grant.filter(|_| is_mapped) {
            match link.open(&grant, Rights::READ, Token(OPENING)) {
                Ok(()) => self.carrier.grant = None,
                Err(AccessError::Lost(error)) => return Err(error),
                Err(_) => {}
            }
        }
        let mut moved = self.read_parcels(link)?;
        if self.carrier.is_asking {
            match link.send(FrameHead::new(PING), &[]) {
                Ok(()) => self.carrier.is_asking = false,
                Err(FrameSendError::Lost(error)) => return Err(error),
                Err(_) => return Ok(moved),
            }
        }
        while let Some(tag) = self.carrier.taken.front() {
            match link.send(FrameHead::new(TAKEN).with_tag(*tag), &[]) {
                Ok(()) => drop(self.carrier.taken.pop_front()),
                Err(FrameSendError::Lost(error)) => return Err(error),
                Err(_) => return Ok(moved),
            }
            moved = true;
        }
        for rank in 0..self.peers.len() as u32 {
            if self.goes_by_agent(rank) {
                moved |= self.send_runs(rank, link, is_mapped)?;
                moved |= self.acknowledge(rank, link)?;
            }
            moved |= self.take_aside(rank);
        }
        Ok(moved)
    }

    /// Reads the parcels of which word has come.
    fn read_parcels<L: RemoteMemory>(&mut self, link: &mut L) -> Result<bool, LinkError> {
        let Some(region) = self.carrier.region else { return Ok(false) };
        let mut moved = false;
        while let Some(announced) = self.carrier.to_take.front().copied() {
            let slot = self.parcel_slot();
            if self.carrier.reading[slot as usize].is_some() {
                break;
            }
            let into = self.buffers.slot_offset(slot);
            let token = Token(PARCEL_TOKEN | u64::from(slot));
            let (at, len) = (announced.at, announced.len as usize);
            match link.read(region, at, self.buffers.incoming(), into, len, token) {
                Ok(()) => self.carrier.reading[slot as usize] = Some(announced),
                Err(error) => {
                    self.buffers.give_slot_back(slot);
                    match error {
                        AccessError::Full | AccessError::Busy => break,
                        AccessError::Lost(error) => return Err(error),
                        error => {
                            self.refuse_carrier(format!("its parcels cannot be read: {error}"));
                            break;
                        }
                    }
                }
            }
            self.carrier.to_take.pop_front();
            moved = true;
        }
        // Mapped memory is read within the call.
        link.completions(|completion| self.on_carrier_ended(completion));
        Ok(moved)
    }
}
