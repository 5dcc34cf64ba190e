//! What a rank does with its links to the other ranks.

use std::collections::HashMap;
use std::time::Duration;

use outboard_contract::{
    AccessError, Completion, Disposition, Frame, FrameSendError, Link, LinkError, LinkId, LinkOrigin, Loss,
    OneSided, Peer, RemoteMemory, Service, Token,
};
use outboard_wire::routing::{Form, GREETING, Greeting, JobKey, Run};
use outboard_wire::{FrameHead, Incarnation, JobId, Rights, Role, Time, mutant};

use super::buffers::Buffers;
use super::carrier::CarrierLink;
use super::peer::{Departed, PeerRank};
use super::{Carrier, Outgoing};

/// Who a rank is, and whom it talks to.
#[derive(Clone, Debug)]
pub struct RankConfig {
    /// The job.
    pub job: JobId,
    /// The rank.
    pub rank: u32,
    /// How many message spaces there are, besides the one for signals.
    pub spaces: u8,
    /// All ranks of the job, in order, by what only the job knows of them.
    pub members: Vec<Incarnation>,
    /// How long a rank may be away before it is given up, on a link whose loss does not mean that it is gone.
    pub deadline: Duration,
    /// How long the agent may be silent before it is not used.
    pub agent_patience: Duration,
}

impl RankConfig {
    /// What agents know the job by. A process outside of the job cannot know how its ranks call themselves.
    pub fn key(&self) -> JobKey {
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let roster = self.members.iter().fold(SPREAD, |hash, member| {
            let mixed = (hash ^ member.0).wrapping_mul(SPREAD);
            mixed ^ (mixed >> 29)
        });
        JobKey { job: self.job, roster }
    }

    /// The number of a space that has one on the wire.
    pub(super) fn set_of(&self, space: u8) -> u8 {
        if space == SIGNALS { self.spaces } else { space }
    }
}

/// What has gone by the agent so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Bundles that were given to it.
    pub bundles_sent: u64,
    /// Their bytes.
    pub bytes_sent: u64,
    /// Parcels that came from it.
    pub parcels: u64,
    /// Their bytes, heads included.
    pub parcel_bytes: u64,
}

/// A run that is here and has not been handled.
#[derive(Clone, Copy, Debug)]
pub struct Arrived {
    /// Whose messages they are.
    pub source: u32,
    /// Where they lie, among the slots of [`Buffers::incoming`].
    pub slot: u32,
    /// Where they begin in the slot.
    pub at: u32,
    /// How many bytes there are.
    pub len: u32,
    /// To which space they belong; signals are behind the last.
    pub space: u8,
    /// What they are.
    pub form: Form,
}

/// The number of the space for signals, on the wire.
pub(super) const SIGNALS: u8 = u8::MAX;

/// Marks the token of an opening; others are reads into the slot whose number they are.
pub(super) const OPENING: u64 = 1 << 32;

/// What a rank does with its links to the other ranks.
pub struct RankService {
    pub(super) config: RankConfig,
    pub(super) buffers: Buffers,
    pub(super) peers: Vec<PeerRank>,
    links: HashMap<LinkId, u32>,
    /// What is being read, by its slot.
    pub(super) reading: Vec<Option<Run>>,
    pub(super) arrived: Vec<Arrived>,
    departed: Vec<Departed>,
    pub(super) carriage: Carrier,
    pub(super) carrier: CarrierLink,
    key: JobKey,
    /// When the links were last given their turn.
    pub(super) now: Time,
}

impl RankService {
    /// A rank without links.
    pub fn new(config: RankConfig, buffers: Buffers) -> Self {
        let spaces = usize::from(config.spaces) + 1;
        let peers = config.members.iter().map(|incarnation| PeerRank::new(*incarnation, spaces)).collect();
        let reading = vec![None; buffers.slots.len()];
        let key = config.key();
        let carrier = CarrierLink::new(config.members.len(), buffers.slots.len() + 1);
        Self {
            carriage: Carrier::Inline,
            carrier,
            config,
            buffers,
            peers,
            links: HashMap::new(),
            reading,
            arrived: Vec::new(),
            departed: Vec::new(),
            key,
            now: Time::ZERO,
        }
    }

    /// Chooses who carries messages from now on. What is under way arrives by the way that it has taken.
    pub fn set_carriage(&mut self, carriage: Carrier) {
        self.carriage = carriage;
    }

    /// What has gone by the agent so far.
    pub fn carried(&self) -> Carried {
        let CarrierLink { bundles_sent, bytes_sent, parcels, parcel_bytes, .. } = self.carrier;
        Carried { bundles_sent, bytes_sent, parcels, parcel_bytes }
    }

    /// How many ranks the agent reaches at present.
    pub fn reached_by_agent(&self) -> usize {
        (0..self.peers.len() as u32).filter(|rank| self.carrier.reaches(*rank)).count()
    }

    /// Whether the agent has not answered for so long that it is not used.
    pub fn is_agent_silent(&self) -> bool {
        self.carrier.is_silent
    }

    /// Whether an agent could be used at present.
    pub fn is_agent_there(&self) -> bool {
        self.carrier.is_there()
    }

    #[inline]
    pub(super) fn goes_by_agent(&self, rank: u32) -> bool {
        self.carriage == Carrier::Agent && self.carrier.reaches(rank) && !self.carrier.is_silent
    }

    pub(super) fn key(&self) -> JobKey {
        self.key
    }

    /// The memory of bundles.
    pub fn buffers(&mut self) -> &mut Buffers {
        &mut self.buffers
    }

    /// Sends a buffer's bytes to another rank, as soon as there is a way. The buffer is free again when it has them.
    pub fn seal(&mut self, rank: u32, (buffer, len): (u32, u32), space: u8, form: Form) {
        match self.peers.get_mut(rank as usize).filter(|peer| !peer.has_departed) {
            Some(peer) => {
                let on_wire = if space == self.config.spaces { SIGNALS } else { space };
                peer.traffic[usize::from(space)].outgoing.seal(buffer, len, on_wire, form);
            }
            // No rank will have it; the sender finds out who has departed.
            None => self.buffers.give_back(buffer),
        }
    }

    /// How many buffers and slots are free.
    pub fn free_places(&self) -> (u32, u32) {
        (self.buffers.free() as u32, self.buffers.slots.free() as u32)
    }

    /// Exchanges what has arrived for an empty list.
    pub fn swap_arrived(&mut self, empty: &mut Vec<Arrived>) {
        std::mem::swap(&mut self.arrived, empty);
    }

    /// Ranks that are not there any more.
    pub fn departed(&self) -> &[Departed] {
        &self.departed
    }

    /// With how many ranks there is a link.
    pub fn connected(&self) -> usize {
        self.links.len()
    }

    /// The number of the next run for a rank in a message space.
    pub fn next_number(&self, rank: u32, space: u8) -> u64 {
        self.outgoing(rank, space).map_or(0, Outgoing::next_number)
    }

    /// Whether a rank is known to have a run.
    pub fn has_arrived(&self, rank: u32, space: u8, number: u64) -> bool {
        self.outgoing(rank, space).is_some_and(|outgoing| number < outgoing.acknowledged())
    }

    fn outgoing(&self, rank: u32, space: u8) -> Option<&Outgoing> {
        let traffic = &self.peers.get(rank as usize)?.traffic;
        traffic.get(usize::from(space)).map(|traffic| &traffic.outgoing)
    }

    /// How many runs of a message space a rank is not known to have.
    pub fn kept_for(&self, rank: u32, space: u8) -> usize {
        self.outgoing(rank, space).map_or(0, Outgoing::kept)
    }

    /// How many runs other ranks are not known to have.
    pub fn kept(&self) -> usize {
        self.peers.iter().flat_map(|peer| &peer.traffic).map(|traffic| traffic.outgoing.kept()).sum()
    }

    fn peer_of(&mut self, link: LinkId) -> Option<(u32, &mut PeerRank)> {
        let rank = *self.links.get(&link)?;
        Some((rank, self.peers.get_mut(rank as usize)?))
    }

    pub(super) fn give_up(&mut self, rank: u32, why: String) {
        self.let_go(rank, why, false);
    }

    fn let_go(&mut self, rank: u32, why: String, has_left: bool) {
        let Some(peer) = self.peers.get_mut(rank as usize).filter(|peer| !peer.has_departed) else { return };
        peer.has_departed = true;
        for traffic in &mut peer.traffic {
            traffic.outgoing.give_up(|buffer| self.buffers.give_back(buffer));
        }
        self.departed.push(Departed { rank, why, has_left });
    }
}

impl Service for RankService {
    type Note = ();

    fn on_open(&mut self, link: LinkId, peer: &Peer, origin: LinkOrigin, _now: Time) {
        let intro = peer.intro();
        if intro.role == Role::Agent {
            // One that calls by itself is none that was chosen.
            if matches!(origin, LinkOrigin::Dialled(_)) {
                self.carrier_connected(link);
            }
            return;
        }
        let rank = intro.rank.0;
        if intro.job != self.config.job || rank == self.config.rank {
            return;
        }
        // A peer that does not know a rank's number is not that rank.
        if let Some(known) = self.peers.get_mut(rank as usize).filter(|p| p.incarnation == intro.incarnation)
        {
            known.connected(link);
            self.links.insert(link, rank);
        }
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        if self.carrier.link == Some(link) {
            self.carrier.heard(now);
            return self.read_carrier_frame(&frame).unwrap_or_else(|why| {
                self.refuse_carrier(why);
                Disposition::Taken
            });
        }
        let Some((rank, _)) = self.peer_of(link) else { return Disposition::Taken };
        match self.read_frame(rank, &frame) {
            Ok(disposition) => disposition,
            Err(why) => {
                self.give_up(rank, why);
                Disposition::Taken
            }
        }
    }

    fn on_completion(&mut self, link: LinkId, completion: Completion, _now: Time) {
        if self.carrier.link == Some(link) {
            self.on_carrier_ended(completion);
        } else if let Some((rank, _)) = self.peer_of(link) {
            self.on_ended(rank, completion);
        }
    }

    fn send<L: Link + RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
        now: Time,
    ) -> Result<bool, LinkError> {
        self.now = now;
        if self.carrier.to_detach == Some(id) {
            return self.detach(id, link);
        }
        if self.carrier.link == Some(id) {
            return self.send_to_carrier(link);
        }
        let grant = *self.buffers.grant();
        let greeting = Greeting {
            grant,
            ranks: self.peers.len() as u32,
            bundle_bytes: self.buffers.bundle_bytes() as u32,
        };
        let Some((rank, peer)) = self.peer_of(id) else { return Ok(false) };
        if peer.link != Some(id) {
            // The other end has connected anew: what goes into this one is lost.
            return Ok(false);
        }
        let is_mapped = link.capabilities().one_sided == OneSided::Mapped;
        peer.is_mapped = is_mapped;
        if !peer.has_greeting {
            match link.send(FrameHead::new(GREETING), &greeting.encode()) {
                Ok(()) => peer.has_greeting = true,
                Err(FrameSendError::Lost(error)) => return Err(error),
                Err(_) => return Ok(false),
            }
        }
        if let Some(grant) = peer.grant.filter(|_| is_mapped) {
            match link.open(&grant, Rights::READ, Token(OPENING)) {
                Ok(()) => peer.grant = None,
                Err(AccessError::Lost(error)) => return Err(error),
                Err(_) => {}
            }
        }
        let by_agent = self.goes_by_agent(rank);
        let moved = self.take_aside(rank) | (!by_agent && self.send_runs(rank, link, is_mapped)?);
        let has_read = self.read_runs(rank, link)?;
        Ok(moved | has_read | (!by_agent && self.acknowledge(rank, link)?))
    }

    fn on_lost(&mut self, link: LinkId, error: &LinkError, now: Time) {
        if self.carrier.link == Some(link) {
            return self.carrier_lost();
        }
        let Some(rank) = self.links.remove(&link) else { return };
        for (slot, run) in self.reading.iter_mut().enumerate() {
            if run.is_some_and(|run| run.source.0 == rank) {
                *run = None;
                self.buffers.give_slot_back(slot as u32);
            }
        }
        let Some(peer) = self
            .peers
            .get_mut(rank as usize)
            .filter(|peer| peer.link == Some(link) || mutant("routing.old-link-ends-the-new"))
        else {
            return;
        };
        peer.disconnected(now, error.to_string());
        let has_left = matches!(error.loss, Loss::Closed { .. });
        if peer.is_mapped || has_left {
            // Only the end of a process cuts a link within a node.
            self.let_go(rank, error.to_string(), has_left);
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        let lost = self.peers.iter().filter(|peer| !peer.has_departed).filter_map(|peer| peer.lost.as_ref());
        let lost = lost.map(|(since, _)| *since + self.config.deadline);
        lost.chain(self.carrier.next_deadline(self.config.agent_patience)).min()
    }

    fn on_time(&mut self, now: Time) {
        self.watch_carrier(now);
        for rank in 0..self.peers.len() as u32 {
            let lost = self.peers[rank as usize].lost.clone();
            if let Some((_, why)) = lost.filter(|(since, _)| *since + self.config.deadline <= now) {
                self.give_up(rank, why);
            }
        }
    }
}
