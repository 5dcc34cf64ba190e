//! What comes from ranks and agents.

use outboard_contract::{Disposition, Frame, LinkId, show_size};
use outboard_wire::routing::{
    ANNOUNCE, ATTACH, Announcement, DETACH, PARCEL, PING, ParcelHead, RUN, RankAttachment, Run, TAKEN,
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
        if kind == ATTACH && len == RankAttachment::LEN {
            let attachment = RankAttachment::decode(&frame.payload.array::<{ RankAttachment::LEN }>(0));
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

    fn attach(&mut self, link: LinkId, attachment: RankAttachment) -> Result<(), String> {
        let RankAttachment { rank, bundle_bytes, parcel_bytes, .. } = attachment;
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
        let RankAttachment { job, bundle_bytes, .. } = rank.attachment;
        if run.source != rank.attachment.rank || run.len > bundle_bytes {
            return Err("a run that is not its own, or too long".to_owned());
        }
        if run.at.is_some() {
            return match rank.queue(run) {
                true => Ok(Disposition::Taken),
                false => Err("more runs under way than it has bundles".to_owned()),
            };
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
    use outboard_wire::routing::{Form, JobKey};
    use outboard_wire::{
        Auth, FrameHead, Generation, Grant, Incarnation, Introduction, JobId, Rank, RegionId, RegionKey,
        Rights, Role, StoreId, Text, Versions,
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

    const JOB: JobKey = JobKey { job: JobId(7), roster: 1 };

    fn grant(size: u64) -> Grant {
        let (region, generation, key) = (RegionId(1), Generation(1), RegionKey([7; 16]));
        Grant { region, generation, key, rights: Rights::READ, size }
    }

    fn workers(count: usize) -> Vec<RoutingWorker> {
        let packing = PackingConfig { hold: Duration::ZERO, under_way: 4 };
        let config =
            RoutingConfig { workers: count, parcel_bytes: 1 << 12, parcels: 4, packing, relays: false };
        let memory = Buffer::allocate(config.memory_bytes()).unwrap();
        let grant = grant(memory.len() as u64);
        let shared = Arc::new(SharedRouting::new(config, (memory, grant), Arc::new(Alone)));
        (0..count).map(|index| RoutingWorker::new(index, Arc::clone(&shared))).collect()
    }

    fn worker() -> RoutingWorker {
        workers(1).remove(0)
    }

    /// A rank with so many bundles of a KiB is attached.
    fn attach(worker: &mut RoutingWorker, id: LinkId, rank: Rank, bundles: u64) {
        let (grant, bundle_bytes, parcel_bytes) = (grant(bundles << 10), 1 << 10, 1 << 12);
        let attachment = RankAttachment { job: JOB, rank, ranks: 8, grant, bundle_bytes, parcel_bytes };
        hear(worker, id, ATTACH, &attachment.encode());
        assert!(worker.has(id));
    }

    fn hear(worker: &mut RoutingWorker, id: LinkId, kind: outboard_wire::FrameKind, payload: &[u8]) {
        let frame = Frame { head: FrameHead::new(kind), payload: payload.into() };
        assert_eq!(worker.on_frame(id, frame, Time::ZERO), Disposition::Taken);
    }

    fn run(number: u64, destination: u32, at: Option<u64>, len: u32) -> Run {
        let (source, destination) = (Rank(3), Rank(destination));
        Run { source, destination, number, at, len, space: 0, form: Form::Messages }
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
            store: StoreId::NONE,
        };
        Peer::new(intro, Versions::NEWEST, "elsewhere")
    }

    /// Two agents that come to know each other while their ranks do too: who speaks first must not speak in vain.
    #[test]
    fn what_an_agent_says_before_it_is_known_waits() {
        let mut worker = worker();
        let (id, now) = (LinkId(1), Time::ZERO);
        worker.on_open(id, &agent());
        let job = JOB;
        let said = Announcement { job, rank: Rank(3), is_reachable: true, hops: 0 }.encode();
        let frame = || Frame { head: FrameHead::new(ANNOUNCE), payload: said.as_slice().into() };
        assert_eq!(worker.on_frame(id, frame(), now), Disposition::Deferred);
        worker.meet(id, usize::MAX);
        assert_eq!(worker.on_frame(id, frame(), now), Disposition::Taken);
        let hops = worker.shared.table().jobs[&job].clone();
        assert_eq!(hops.get(&3).map(|hop| hop.link), Some(id));
    }
    /// What a rank has sent by another way meanwhile still waits here, and its bundle has another run by now.
    #[test]
    fn word_of_more_runs_than_a_rank_has_bundles_is_borne_while_bundles_are_used_again() {
        let (mut worker, id) = (worker(), LinkId(1));
        attach(&mut worker, id, Rank(3), 4);
        for number in 0..100 {
            hear(&mut worker, id, RUN, &run(number, 5, Some((number % 4) << 10), 1 << 10).encode());
            assert!(worker.given_up.is_empty(), "at run {number}");
        }
        let Kind::Rank(rank) = &worker.sides[&id].kind else { panic!("it is a rank") };
        let waiting: Vec<u64> = rank.queue.iter().map(|run| run.number).collect();
        assert!(waiting.len() <= 8 && waiting.ends_with(&[96, 97, 98, 99]), "{waiting:?}");
        // More places than there are bundles are no bundles.
        for number in 100..200 {
            hear(&mut worker, id, RUN, &run(number, 5, Some(number), 1 << 10).encode());
        }
        assert!(worker.given_up.contains_key(&id));
    }

    /// A parcel of another agent is packed for a rank of another worker, and then the link to that agent breaks.
    #[test]
    fn what_was_packed_is_sent_by_others_when_the_last_link_of_a_worker_is_gone() {
        let [mut at_rank, mut at_agent] = <[RoutingWorker; 2]>::try_from(workers(2)).ok().unwrap();
        let (to_rank, to_agent, now) = (LinkId(1), LinkId(2), Time::ZERO);
        attach(&mut at_rank, to_rank, Rank(5), 4);
        at_agent.on_open(to_agent, &agent());
        at_agent.meet(to_agent, usize::MAX);
        at_agent.on_turn(now);
        let head = ParcelHead { job: JOB, at: None, len: run_in_parcel(0) as u32 }.encode();
        let parcel = [&head[..], &run(1, 5, None, 0).encode()].concat();
        hear(&mut at_agent, to_agent, PARCEL, &parcel);
        assert_eq!(at_agent.kept(), 1);
        at_agent.on_lost(to_agent);
        at_agent.on_turn(now);
        at_rank.on_delivery();
        assert_eq!(at_rank.sides[&to_rank].parcels.len(), 1);
    }
}
