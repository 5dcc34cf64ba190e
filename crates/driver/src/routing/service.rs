//! What a rank does with its links to the other ranks.

use std::collections::HashMap;
use std::time::Duration;

use outboard_link::{
    AccessError, Completion, Disposition, Frame, Link, LinkError, Loss, OneSided, Outcome, Peer,
    RemoteMemory, SendError, Token,
};
use outboard_routing::Kept;
use outboard_wire::routing::{ACK, Ack, Form, GREETING, Greeting, RUN, Run};
use outboard_wire::{FrameHead, Incarnation, JobId, Rank, Rights, Time};

use super::buffers::Buffers;
use super::peer::{Departed, PeerRank};
use crate::{LinkId, Origin, Service};

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
}

impl RankConfig {
    /// The number of a space that has one on the wire.
    fn set_of(&self, space: u8) -> u8 {
        if space == SIGNALS { self.spaces } else { space }
    }
}

/// A run that is here and has not been handled.
#[derive(Clone, Copy, Debug)]
pub struct Arrived {
    /// Whose messages they are.
    pub source: u32,
    /// Where they lie, among the slots of [`Buffers::incoming`].
    pub slot: u32,
    /// How many bytes there are.
    pub len: u32,
    /// To which space they belong; signals are behind the last.
    pub space: u8,
    /// What they are.
    pub form: Form,
}

/// The number of the space for signals, on the wire.
const SIGNALS: u8 = u8::MAX;

/// Marks the token of an opening; others are reads into the slot whose number they are.
const OPENING: u64 = 1 << 32;
/// How many runs of one rank may wait to be read. An honest one never has more under way.
const TO_READ_MAX: usize = outboard_routing::WINDOW as usize;

/// What a rank does with its links to the other ranks.
pub struct RankService {
    config: RankConfig,
    buffers: Buffers,
    peers: Vec<PeerRank>,
    links: HashMap<LinkId, u32>,
    /// What is being read, by its slot.
    reading: Vec<Option<Run>>,
    arrived: Vec<Arrived>,
    departed: Vec<Departed>,
}

impl RankService {
    /// A rank without links.
    pub fn new(config: RankConfig, buffers: Buffers) -> Self {
        let spaces = usize::from(config.spaces) + 1;
        let peers = config.members.iter().map(|incarnation| PeerRank::new(*incarnation, spaces)).collect();
        let reading = vec![None; buffers.slots.len()];
        Self {
            config,
            buffers,
            peers,
            links: HashMap::new(),
            reading,
            arrived: Vec::new(),
            departed: Vec::new(),
        }
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
            // Nobody will have it; whoever sends finds out who has departed.
            None => self.buffers.give_back(buffer),
        }
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

    /// How many runs other ranks are not known to have.
    pub fn kept(&self) -> usize {
        self.peers.iter().flat_map(|peer| &peer.traffic).map(|traffic| traffic.outgoing.kept()).sum()
    }

    fn peer_of(&mut self, link: LinkId) -> Option<(u32, &mut PeerRank)> {
        let rank = *self.links.get(&link)?;
        Some((rank, self.peers.get_mut(rank as usize)?))
    }

    fn give_up(&mut self, rank: u32, why: String) {
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

    /// What a frame of a rank says, or why it makes no sense.
    fn read_frame(&mut self, rank: u32, frame: &Frame<'_>) -> Result<Disposition, String> {
        let len = frame.payload.len();
        let me = self.config.rank;
        let ranks = self.peers.len() as u32;
        let Some(peer) = self.peers.get_mut(rank as usize) else { return Ok(Disposition::Taken) };
        match frame.head.kind {
            GREETING if len == Greeting::LEN => {
                let greeting = Greeting::decode(&frame.payload.array::<{ Greeting::LEN }>(0))
                    .map_err(|error| error.to_string())?;
                if greeting.ranks != ranks || greeting.bundle_bytes as usize != self.buffers.bundle_bytes() {
                    return Err(format!(
                        "it has bundles of {} bytes in a job of {} ranks, here they have {} in a job of {ranks}; use the \
                         same settings everywhere",
                        greeting.bundle_bytes,
                        greeting.ranks,
                        self.buffers.bundle_bytes()
                    ));
                }
                peer.grant = Some(greeting.grant);
            }
            RUN if len >= Run::LEN => {
                let run = Run::decode(&frame.payload.array::<{ Run::LEN }>(0), len)
                    .map_err(|error| error.to_string())?;
                if (run.source.0, run.destination.0) != (rank, me)
                    || run.len as usize > self.buffers.bundle_bytes()
                {
                    return Err("it sent a run that is not its own, not for here, or too long".to_owned());
                }
                if run.space != SIGNALS && run.space >= self.config.spaces {
                    let (space, spaces) = (run.space, self.config.spaces);
                    return Err(format!("it uses message space {space}, here there are {spaces}"));
                }
                return self.take_run(rank, run, frame);
            }
            ACK if len == Ack::LEN => {
                let ack = Ack::decode(&frame.payload.array::<{ Ack::LEN }>(0)).map_err(|e| e.to_string())?;
                let set = usize::from(self.config.set_of(ack.space));
                let traffic = peer.traffic.get_mut(set);
                let is_ours = (ack.source.0, ack.destination.0) == (me, rank);
                let Some(traffic) = traffic.filter(|_| is_ours) else {
                    return Err("it acknowledged what is not its own".to_owned());
                };
                let buffers = &mut self.buffers;
                traffic
                    .outgoing
                    .on_ack(ack.missing, |buffer| buffers.give_back(buffer))
                    .map_err(|error| error.to_string())?;
            }
            kind => return Err(format!("it sent a frame of kind {kind} and {len} bytes")),
        }
        Ok(Disposition::Taken)
    }

    fn take_run(&mut self, rank: u32, run: Run, frame: &Frame<'_>) -> Result<Disposition, String> {
        let set = self.config.set_of(run.space);
        let peer = &mut self.peers[rank as usize];
        let traffic = &mut peer.traffic[usize::from(set)];
        if !traffic.incoming.is_new(run.number) {
            // It may not know that we have it.
            traffic.is_owed = true;
            return Ok(Disposition::Taken);
        }
        if run.at.is_some() {
            if peer.to_read.len() >= TO_READ_MAX {
                return Err("it has more runs under way than it may".to_owned());
            }
            peer.to_read.push_back(run);
            return Ok(Disposition::Taken);
        }
        let bytes = frame.payload.part(Run::LEN, run.len as usize);
        match self.buffers.slots.take(set) {
            Some(slot) => {
                let at = self.buffers.offset(slot);
                self.buffers.incoming().window_mut().write_window(at, bytes);
                self.note(rank, run, slot);
            }
            // Whatever is behind it may be for another space, which must not wait for this one.
            None if peer.aside.len() < TO_READ_MAX => peer.aside.push_back((run, bytes.to_vec())),
            None => return Err("it has more runs under way than it may".to_owned()),
        }
        Ok(Disposition::Taken)
    }

    /// Takes in what was set aside, as far as there are slots. Returns whether there was anything.
    fn take_aside(&mut self, rank: u32) -> bool {
        let mut moved = false;
        for _ in 0..self.peers[rank as usize].aside.len() {
            let peer = &mut self.peers[rank as usize];
            let Some((run, bytes)) = peer.aside.pop_front() else { break };
            let set = self.config.set_of(run.space);
            if !peer.traffic[usize::from(set)].incoming.is_new(run.number) {
                continue;
            }
            let Some(slot) = self.buffers.slots.take(set) else {
                peer.aside.push_back((run, bytes));
                continue;
            };
            let at = self.buffers.offset(slot);
            self.buffers.incoming().window_mut().write(at, &bytes);
            self.note(rank, run, slot);
            moved = true;
        }
        moved
    }

    /// A run is here.
    fn note(&mut self, rank: u32, run: Run, slot: u32) {
        let space = self.config.set_of(run.space);
        let traffic = &mut self.peers[rank as usize].traffic[usize::from(space)];
        traffic.is_owed = true;
        if traffic.incoming.note(run.number) {
            let Run { len, form, .. } = run;
            self.arrived.push(Arrived { source: rank, slot, len, space, form });
        } else {
            self.buffers.give_slot_back(slot);
        }
    }

    /// Begins to read what has been announced, as far as there are slots.
    fn read_runs<L: Link + RemoteMemory>(&mut self, rank: u32, link: &mut L) -> Result<bool, LinkError> {
        let mut moved = false;
        let peer = &mut self.peers[rank as usize];
        let Some(region) = peer.region else { return Ok(false) };
        for _ in 0..peer.to_read.len() {
            let Some(run) = peer.to_read.pop_front() else { break };
            let (at, set) = (run.at.unwrap_or(0), self.config.set_of(run.space));
            if !peer.traffic[usize::from(set)].incoming.is_new(run.number) {
                continue;
            }
            let Some(slot) = self.buffers.slots.take(set) else {
                // Those behind it may be for another space.
                peer.to_read.push_back(run);
                continue;
            };
            let into = slot as usize * self.buffers.bundle_bytes();
            let token = Token(slot.into());
            match link.read(region, at, self.buffers.incoming(), into, run.len as usize, token) {
                Ok(()) => {
                    self.reading[slot as usize] = Some(run);
                    moved = true;
                }
                Err(AccessError::Full | AccessError::Busy) => {
                    self.buffers.give_slot_back(slot);
                    peer.to_read.push_back(run);
                    break;
                }
                Err(AccessError::Lost(error)) => {
                    self.buffers.give_slot_back(slot);
                    return Err(error);
                }
                Err(error) => {
                    self.buffers.give_slot_back(slot);
                    let why = format!("its bundles cannot be read: {error}");
                    self.give_up(rank, why);
                    break;
                }
            }
        }
        Ok(moved)
    }

    /// Sends word of sealed bundles, or the bundles.
    fn send_runs<L: Link>(&mut self, rank: u32, link: &mut L, is_mapped: bool) -> Result<bool, LinkError> {
        let mut moved = false;
        for set in 0..self.peers[rank as usize].traffic.len() {
            while let Some(kept) = self.peers[rank as usize].traffic[set].outgoing.unsent().copied() {
                match self.send_run(rank, &kept, link, is_mapped) {
                    Ok(()) => self.peers[rank as usize].traffic[set].outgoing.mark_sent(),
                    Err(SendError::Full) => return Ok(moved),
                    Err(SendError::Lost(error)) => return Err(error),
                    Err(SendError::TooLong { max, .. }) => {
                        let why = format!(
                            "its link takes {max} bytes at once: enlarge link.ring, or choose smaller bundles"
                        );
                        self.give_up(rank, why);
                        return Ok(true);
                    }
                }
                moved = true;
            }
        }
        Ok(moved)
    }

    fn send_run<L: Link>(
        &self,
        rank: u32,
        kept: &Kept,
        link: &mut L,
        is_mapped: bool,
    ) -> Result<(), SendError> {
        let (at, len) = (self.buffers.offset(kept.buffer), kept.len as usize);
        let run = Run {
            source: Rank(self.config.rank),
            destination: Rank(rank),
            number: kept.number,
            at: is_mapped.then_some(at as u64),
            len: kept.len,
            space: kept.space,
            form: kept.form,
        };
        let head = FrameHead::new(RUN);
        if is_mapped {
            return link.send(head, &run.encode());
        }
        let mut window = link.reserve(head, Run::LEN + len)?;
        window.write(0, &run.encode());
        window.write_window(Run::LEN, self.buffers.outgoing().window(at, len));
        link.commit(Run::LEN + len);
        Ok(())
    }

    /// Tells a rank what has arrived of its runs. Returns whether it has to be told.
    fn acknowledge<L: Link>(&mut self, rank: u32, link: &mut L) -> Result<bool, LinkError> {
        let (source, destination, spaces) = (Rank(rank), Rank(self.config.rank), self.config.spaces);
        let mut moved = false;
        for (set, traffic) in (0..).zip(&mut self.peers[rank as usize].traffic) {
            if !traffic.is_owed {
                continue;
            }
            let space = if set == spaces { SIGNALS } else { set };
            let ack = Ack { source, destination, missing: traffic.incoming.missing(), space };
            match link.send(FrameHead::new(ACK), &ack.encode()) {
                Ok(()) => traffic.is_owed = false,
                Err(SendError::Lost(error)) => return Err(error),
                Err(_) => return Ok(true),
            }
            moved = true;
        }
        Ok(moved)
    }
}

impl Service for RankService {
    type Note = ();

    fn on_open(&mut self, link: LinkId, peer: &Peer, _origin: Origin, _now: Time) {
        let intro = peer.intro();
        let rank = intro.rank.0;
        if intro.job != self.config.job || rank == self.config.rank {
            return;
        }
        // Whoever does not know a rank's number is somebody else.
        if let Some(known) = self.peers.get_mut(rank as usize).filter(|p| p.incarnation == intro.incarnation)
        {
            known.connected(link);
            self.links.insert(link, rank);
        }
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, _now: Time) -> Disposition {
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
        let Some((rank, peer)) = self.peer_of(link) else { return };
        let Completion { token, result } = completion;
        if token.0 == OPENING {
            match result {
                Ok(Outcome::Opened(region)) => peer.region = Some(region),
                Ok(_) | Err(AccessError::Lost(_)) => {}
                Err(error) => self.give_up(rank, format!("its bundles cannot be opened: {error}")),
            }
            return;
        }
        let slot = token.0 as u32;
        let Some(run) = self.reading.get_mut(slot as usize).and_then(Option::take) else { return };
        match result {
            Ok(_) => self.note(rank, run, slot),
            Err(error) => {
                self.buffers.give_slot_back(slot);
                if !matches!(error, AccessError::Lost(_)) {
                    self.give_up(rank, format!("its bundles cannot be read: {error}"));
                }
            }
        }
    }

    fn send<L: Link + RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
        now: Time,
    ) -> Result<bool, LinkError> {
        let grant = *self.buffers.grant();
        let greeting = Greeting {
            grant,
            ranks: self.peers.len() as u32,
            bundle_bytes: self.buffers.bundle_bytes() as u32,
        };
        let Some((rank, peer)) = self.peer_of(id) else { return Ok(false) };
        let is_mapped = link.capabilities().one_sided == OneSided::Mapped;
        peer.is_mapped = is_mapped;
        if !peer.has_greeting {
            match link.send(FrameHead::new(GREETING), &greeting.encode()) {
                Ok(()) => peer.has_greeting = true,
                Err(SendError::Lost(error)) => return Err(error),
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
        let mut moved = self.send_runs(rank, link, is_mapped)? | self.take_aside(rank);
        if self.read_runs(rank, link)? {
            moved = true;
            link.completions(|completion| self.on_completion(id, completion, now));
        }
        Ok(moved | self.acknowledge(rank, link)?)
    }

    fn on_lost(&mut self, link: LinkId, error: &LinkError, now: Time) {
        let Some(rank) = self.links.remove(&link) else { return };
        for (slot, run) in self.reading.iter_mut().enumerate() {
            if run.is_some_and(|run| run.source.0 == rank) {
                *run = None;
                self.buffers.give_slot_back(slot as u32);
            }
        }
        let Some(peer) = self.peers.get_mut(rank as usize).filter(|peer| peer.link == Some(link)) else {
            return;
        };
        peer.disconnected(now, error.to_string());
        let has_left = matches!(error.loss, Loss::Closed { .. });
        if peer.is_mapped || has_left {
            // Nobody but the end of a process cuts a link within a node.
            self.let_go(rank, error.to_string(), has_left);
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        let lost = self.peers.iter().filter(|peer| !peer.has_departed).filter_map(|peer| peer.lost.as_ref());
        lost.map(|(since, _)| *since + self.config.deadline).min()
    }

    fn on_time(&mut self, now: Time) {
        for rank in 0..self.peers.len() as u32 {
            let lost = self.peers[rank as usize].lost.clone();
            if let Some((_, why)) = lost.filter(|(since, _)| *since + self.config.deadline <= now) {
                self.give_up(rank, why);
            }
        }
    }
}
