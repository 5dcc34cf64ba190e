//! What comes from ranks and agents.

use outboard_contract::{Disposition, Frame, LinkId, show_size};
use outboard_wire::routing::{
    ANNOUNCE, ATTACH, Announcement, Attachment, DETACH, PARCEL, PING, ParcelHead, RUN, Run, TAKEN,
    run_in_parcel,
};
use outboard_wire::{DecodeError, Time, mutant};

use super::shared::Hop;
use super::side::{Kind, RankSide, Side};
use super::worker::RoutingWorker;

impl RoutingWorker {
    /// A frame about messages has come.
    pub fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        match self.read_frame(link, &frame, now) {
            Ok(disposition) => disposition,
            Err(why) => {
                self.give_up(link, why);
                Disposition::Taken
            }
        }
    }

    fn read_frame(&mut self, link: LinkId, frame: &Frame<'_>, now: Time) -> Result<Disposition, String> {
        let (kind, len) = (frame.head.kind, frame.payload.len());
        let said = |error: DecodeError| error.to_string();
        if kind == ATTACH && len == Attachment::LEN {
            let attachment = Attachment::decode(&frame.payload.array::<{ Attachment::LEN }>(0));
            if let Err(why) = self.attach(link, attachment.map_err(said)?) {
                self.shared.host.warn(&format!("messages of a rank are not carried: {why}"));
                self.refusals.insert(link, why);
            }
            return Ok(Disposition::Taken);
        }
        if self.given_up.contains_key(&link) {
            return Ok(Disposition::Taken);
        }
        // A rank that was refused, or goes without, may not have noticed yet.
        let Some(side) = self.sides.get_mut(&link) else { return Ok(Disposition::Taken) };
        match (&mut side.kind, kind) {
            (Kind::Rank(_), DETACH) => self.detach(link),
            (Kind::Rank(_), PING) => side.owes_pong = !mutant("routing.ping-not-answered"),
            (_, TAKEN) => {
                if let Some(sent) = side.under_way.remove(&frame.head.tag) {
                    self.give_back(&sent.parcel, sent.is_read);
                }
            }
            (Kind::Rank(_), RUN) if len >= Run::LEN => return self.on_run(link, frame, now),
            // What is heard of an agent that is not known yet would be lost.
            (Kind::Agent { is_met: false }, ANNOUNCE) => return Ok(Disposition::Deferred),
            (Kind::Agent { .. }, ANNOUNCE) if len == Announcement::LEN => {
                let announcement = Announcement::decode(&frame.payload.array::<{ Announcement::LEN }>(0));
                self.shared.hear(link, &announcement.map_err(said)?);
            }
            (Kind::Agent { .. }, PARCEL) if len >= ParcelHead::LEN => {
                let head = ParcelHead::decode(&frame.payload.array::<{ ParcelHead::LEN }>(0), len);
                let parcel = frame.payload.part(ParcelHead::LEN, len - ParcelHead::LEN);
                self.on_parcel((link, frame.head.tag), head.map_err(said)?.job, parcel, now)?;
            }
            _ => return Err(format!("a frame of kind {kind} and {len} bytes")),
        }
        Ok(Disposition::Taken)
    }

    fn attach(&mut self, link: LinkId, attachment: Attachment) -> Result<(), String> {
        let Attachment { rank, bundle_bytes, parcel_bytes, .. } = attachment;
        let longest = run_in_parcel(bundle_bytes as usize);
        let stride = self.shared.config().stride();
        if longest > stride || longest > parcel_bytes as usize {
            return Err(format!(
                "bundles of {} do not fit into parcels of {}: enlarge agent.parcel",
                show_size(u64::from(bundle_bytes)),
                show_size(self.shared.config().parcel_bytes as u64)
            ));
        }
        if let Some(Side { kind: Kind::Rank(known), .. }) = self.sides.get(&link)
            && known.attachment == attachment
        {
            return Ok(());
        }
        if self.sides.contains_key(&link) {
            return Err("it is attached already".to_owned());
        }
        let capacity = stride.min(parcel_bytes as usize) as u32;
        let hop = Hop { link, worker: self.index, capacity, is_rank: true };
        self.shared.attach(&attachment, hop).map_err(|error| error.to_string())?;
        self.sides.insert(link, Side::new(Kind::Rank(RankSide::new(attachment))));
        self.shared.host.attached(rank);
        Ok(())
    }

    fn on_run(&mut self, link: LinkId, frame: &Frame<'_>, now: Time) -> Result<Disposition, String> {
        let Some(Side { kind: Kind::Rank(rank), .. }) = self.sides.get_mut(&link) else {
            return Ok(Disposition::Taken);
        };
        let run = Run::decode(&frame.payload.array::<{ Run::LEN }>(0), frame.payload.len());
        let run = run.map_err(|error| error.to_string())?;
        let Attachment { job, bundle_bytes, .. } = rank.attachment;
        if run.source != rank.attachment.rank || run.len > bundle_bytes {
            return Err("a run that is not its own, or too long".to_owned());
        }
        if run.at.is_some() {
            if rank.queue.len() >= rank.queue_max() {
                return Err("more runs under way than it has bundles".to_owned());
            }
            rank.queue.push_back(run);
            rank.stuck_at = None;
            return Ok(Disposition::Taken);
        }
        if self.backlog.is_overfull(job) {
            return Ok(Disposition::Deferred);
        }
        self.pack_bytes(job, &run, frame.payload.part(Run::LEN, run.len as usize), now);
        Ok(Disposition::Taken)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use outboard_contract::Peer;
    use outboard_contract::memory::Buffer;
    use outboard_wire::routing::JobKey;
    use outboard_wire::{
        Auth, FrameHead, Generation, Grant, Incarnation, Introduction, JobId, Rank, RegionId, RegionKey,
        Rights, Role, Text,
    };

    use super::*;
    use crate::agent::{PackingConfig, RouterHost, RoutingConfig, RoutingCounts, SharedRouting};

    /// A daemon that does nothing for its router.
    struct Alone;

    impl RouterHost for Alone {
        fn wake(&self, _: usize) {}
        fn warn(&self, _: &str) {}
        fn attached(&self, _: Rank) {}
        fn detached(&self) {}
        fn count(&self, _: RoutingCounts) {}
    }

    fn worker() -> RoutingWorker {
        let packing = PackingConfig { hold: Duration::ZERO, under_way: 4 };
        let config = RoutingConfig { workers: 1, parcel_bytes: 1 << 12, parcels: 4, packing, relays: false };
        let memory = Buffer::allocate(config.memory_bytes()).unwrap();
        let grant = Grant {
            region: RegionId(1),
            generation: Generation(1),
            key: RegionKey([7; 16]),
            rights: Rights::READ,
            size: memory.len() as u64,
        };
        RoutingWorker::new(0, Arc::new(SharedRouting::new(config, (memory, grant), Arc::new(Alone))))
    }

    fn agent() -> Peer {
        let intro = Introduction {
            incarnation: Incarnation(2),
            role: Role::Agent,
            job: JobId(0),
            rank: Rank(0),
            pid: 1,
            name: Text::new("other"),
            max_payload: 1 << 20,
            auth: Auth::NONE,
        };
        Peer::new(intro, "elsewhere")
    }

    /// Two agents that come to know each other while their ranks do too: who speaks first must not speak in vain.
    #[test]
    fn what_an_agent_says_before_it_is_known_waits() {
        let mut worker = worker();
        let (id, now) = (LinkId(1), Time::ZERO);
        worker.on_open(id, &agent());
        let job = JobKey { job: JobId(7), roster: 1 };
        let said = Announcement { job, rank: Rank(3), is_reachable: true, hops: 0 }.encode();
        let frame = || Frame { head: FrameHead::new(ANNOUNCE), payload: said.as_slice().into() };
        assert_eq!(worker.on_frame(id, frame(), now), Disposition::Deferred);
        worker.meet(id, usize::MAX);
        assert_eq!(worker.on_frame(id, frame(), now), Disposition::Taken);
        let hops = worker.shared.table().jobs[&job].clone();
        assert_eq!(hops.get(&3).map(|hop| hop.link), Some(id));
    }
}
