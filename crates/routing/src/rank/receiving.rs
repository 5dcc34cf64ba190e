//! What comes from other ranks.

use outboard_contract::{
    AccessError, AccessOutcome, Completion, Disposition, Frame, Link, LinkError, RemoteMemory, Token,
};
use outboard_wire::mutant;
use outboard_wire::routing::{ACK, Ack, GREETING, Greeting, RUN, Run};

use super::WINDOW;
use super::service::{Arrived, OPENING, RankService, SIGNALS};

impl RankService {
    /// What a frame of a rank says, or why it makes no sense.
    pub(super) fn read_frame(&mut self, rank: u32, frame: &Frame<'_>) -> Result<Disposition, String> {
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
                let set = self.config.set_of(ack.space);
                if (ack.source.0, ack.destination.0) != (me, rank) || set > self.config.spaces {
                    return Err("it acknowledged what is not its own".to_owned());
                }
                self.on_ack(rank, set, ack.missing);
            }
            kind => return Err(format!("it sent a frame of kind {kind} and {len} bytes")),
        }
        Ok(Disposition::Taken)
    }

    /// A rank has everything before this one of what was sent to it in a set.
    pub(super) fn on_ack(&mut self, rank: u32, set: u8, missing: u64) {
        let Some(peer) = self.peers.get_mut(rank as usize) else { return };
        let (buffers, outgoing) = (&mut self.buffers, &mut peer.traffic[usize::from(set)].outgoing);
        let acknowledged = outgoing.on_ack(missing, |buffer| buffers.give_back(buffer));
        if let Err(error) = acknowledged {
            self.give_up(rank, error.to_string());
        } else if peer.traffic.iter().all(|traffic| traffic.outgoing.kept() == 0) {
            peer.is_carried = false;
        }
    }

    /// How many runs of one rank may wait here. An honest one never has more under way.
    fn waiting_max(&self) -> usize {
        (usize::from(self.config.spaces) + 1) * WINDOW as usize
    }

    /// Keeps a run that came when there was no slot for it.
    pub(super) fn put_aside(&mut self, rank: u32, run: Run, bytes: Vec<u8>) -> Result<(), String> {
        let most = self.waiting_max();
        let aside = &mut self.peers[rank as usize].aside;
        // By different ways a run may have come twice.
        let is_there = |(other, _): &(Run, Vec<u8>)| (other.space, other.number) == (run.space, run.number);
        if aside.iter().any(is_there) {
            return Ok(());
        }
        if aside.len() >= most {
            return Err("it has more runs under way than it may".to_owned());
        }
        aside.push_back((run, bytes));
        Ok(())
    }

    pub(super) fn take_run(&mut self, rank: u32, run: Run, frame: &Frame<'_>) -> Result<Disposition, String> {
        let (set, most) = (self.config.set_of(run.space), self.waiting_max());
        let peer = &mut self.peers[rank as usize];
        let traffic = &mut peer.traffic[usize::from(set)];
        if !traffic.incoming.is_new(run.number) {
            // It may not know that we have it.
            traffic.is_owed = true;
            return Ok(Disposition::Taken);
        }
        if run.at.is_some() {
            if peer.to_read.len() >= most {
                return Err("it has more runs under way than it may".to_owned());
            }
            peer.to_read.push_back(run);
            return Ok(Disposition::Taken);
        }
        let bytes = frame.payload.part(Run::LEN, run.len as usize);
        match self.buffers.slots.take(set) {
            Some(slot) => {
                let at = self.buffers.slot_offset(slot);
                self.buffers.incoming().window_mut().write_window(at, bytes);
                self.note(rank, run, slot);
            }
            // Whatever is behind it may be for another space, which must not wait for this one.
            None => self.put_aside(rank, run, bytes.to_vec())?,
        }
        Ok(Disposition::Taken)
    }

    /// Takes in what was set aside, as far as there are slots. Returns whether there was anything.
    pub(super) fn take_aside(&mut self, rank: u32) -> bool {
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
            let at = self.buffers.slot_offset(slot);
            self.buffers.incoming().window_mut().write(at, &bytes);
            self.note(rank, run, slot);
            moved = true;
        }
        moved
    }

    /// A run is here.
    pub(super) fn note(&mut self, rank: u32, run: Run, slot: u32) {
        let space = self.config.set_of(run.space);
        let traffic = &mut self.peers[rank as usize].traffic[usize::from(space)];
        traffic.is_owed |= !mutant("routing.run-not-acknowledged");
        if traffic.incoming.note(run.number) {
            let Run { len, form, .. } = run;
            self.arrived.push(Arrived { source: rank, slot, at: 0, len, space, form });
        } else {
            self.buffers.give_slot_back(slot);
        }
    }

    /// A one-sided operation on the memory of a rank has ended.
    pub(super) fn on_ended(&mut self, rank: u32, completion: Completion) {
        let Completion { token, result } = completion;
        if token.0 == OPENING {
            match result {
                Ok(AccessOutcome::Opened(region)) => self.peers[rank as usize].region = Some(region),
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

    /// Reads what has been announced, as far as there are slots. Returns whether anything was.
    pub(super) fn read_runs<L: Link + RemoteMemory>(
        &mut self,
        rank: u32,
        link: &mut L,
    ) -> Result<bool, LinkError> {
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
            let into = self.buffers.slot_offset(slot);
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
        if moved {
            // Mapped memory is read within the call.
            link.completions(|completion| self.on_ended(rank, completion));
        }
        Ok(moved)
    }
}
