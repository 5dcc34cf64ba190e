//! What goes to other ranks.

use outboard_contract::{FrameSendError, Link, LinkError};
use outboard_wire::routing::{ACK, Ack, Form, RUN, Run};
use outboard_wire::{FrameHead, Rank};

use super::Kept;
use super::service::{RankService, SIGNALS};

impl RankService {
    /// Sends word of sealed bundles, or the bundles.
    pub(super) fn send_runs<L: Link>(
        &mut self,
        rank: u32,
        link: &mut L,
        is_mapped: bool,
    ) -> Result<bool, LinkError> {
        let mut moved = false;
        let by_agent = self.goes_by_agent(rank);
        for set in 0..self.peers[rank as usize].traffic.len() {
            while let Some(kept) = self.peers[rank as usize].traffic[set].outgoing.unsent().copied() {
                match self.send_run(rank, &kept, link, is_mapped) {
                    Ok(()) => self.mark_sent(rank, set, &kept, by_agent),
                    Err(FrameSendError::Full) => return Ok(moved),
                    Err(FrameSendError::Lost(error)) => return Err(error),
                    Err(FrameSendError::TooLong { max, .. }) => {
                        let why = format!(
                            "its link takes {max} bytes at once: enlarge link.ring, or choose smaller bundles"
                        );
                        if by_agent {
                            self.refuse_carrier(why);
                        } else {
                            self.give_up(rank, why);
                        }
                        return Ok(true);
                    }
                }
                moved = true;
            }
        }
        Ok(moved)
    }

    fn mark_sent(&mut self, rank: u32, set: usize, kept: &Kept, by_agent: bool) {
        let peer = &mut self.peers[rank as usize];
        peer.traffic[set].outgoing.mark_sent();
        if by_agent {
            peer.is_carried = true;
            self.carrier.has_given = true;
            self.carrier.bundles_sent += 1;
            self.carrier.bytes_sent += u64::from(kept.len);
        }
    }

    fn send_run<L: Link>(
        &self,
        rank: u32,
        kept: &Kept,
        link: &mut L,
        is_mapped: bool,
    ) -> Result<(), FrameSendError> {
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
        window.write_window(Run::LEN, self.buffers.outgoing().window().part(at, len));
        link.commit(Run::LEN + len);
        Ok(())
    }

    /// Tells a rank what has arrived of its runs, by its own link or by the agent's. Returns whether it has to be told.
    pub(super) fn acknowledge<L: Link>(&mut self, rank: u32, link: &mut L) -> Result<bool, LinkError> {
        let (other, me, spaces) = (Rank(rank), Rank(self.config.rank), self.config.spaces);
        let by_agent = self.goes_by_agent(rank);
        let mut moved = false;
        for (set, traffic) in (0..).zip(&mut self.peers[rank as usize].traffic) {
            if !traffic.is_owed {
                continue;
            }
            let space = if set == spaces { SIGNALS } else { set };
            let missing = traffic.incoming.missing();
            let sent = if by_agent {
                let (source, destination, form) = (me, other, Form::Ack);
                let run = Run { source, destination, number: missing, at: None, len: 0, space, form };
                link.send(FrameHead::new(RUN), &run.encode())
            } else {
                let ack = Ack { source: other, destination: me, missing, space };
                link.send(FrameHead::new(ACK), &ack.encode())
            };
            match sent {
                Ok(()) => {
                    (traffic.is_owed, self.carrier.has_given) = (false, self.carrier.has_given | by_agent)
                }
                Err(FrameSendError::Lost(error)) => return Err(error),
                Err(_) => return Ok(true),
            }
            moved = true;
        }
        Ok(moved)
    }
}
