use outboard_driver::{LinkId, LinkOrigin, Outbox};
use outboard_link::{Completion, Disposition, Frame, Link, LinkError, Peer, RemoteMemory};
use outboard_wire::FrameHead;
use outboard_wire::writing::{BATCH, Batch, DRAINED, Drained, EntryHead};

use super::*;
use crate::wrong::Wrong;

/// The mistakes that a node which gets batches makes on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    /// It acknowledges a batch and does nothing else with it.
    Forgets,
    /// It acknowledges a batch before it deals with it.
    Hurries,
    /// It loses the end of the last write.
    Tears,
    /// It applies an earlier batch of the writer in place of this one.
    Repeats,
}

/// Does it to every third batch.
struct Mistaken<S> {
    machine: S,
    mistake: Mistake,
    batches: u64,
    outbox: Outbox,
    /// A batch that comes once more.
    kept: Option<(Batch, Vec<u8>)>,
}

impl<S> Mistaken<S> {
    fn new(machine: S, mistake: Mistake) -> Self {
        Self { machine, mistake, batches: 0, outbox: Outbox::default(), kept: None }
    }

    fn acknowledge(&mut self, link: LinkId, batch: &Batch) {
        let through = batch.first + u64::from(batch.count) - 1;
        let drained = Drained { writer: batch.writer, attempt: batch.attempt, through, refusals: Vec::new() };
        let mut payload = Vec::new();
        drained.encode(&mut payload);
        self.outbox.push(link, FrameHead::new(DRAINED), payload);
    }

    /// The payload to go on with, if any.
    fn mistake(&mut self, link: LinkId, mut payload: Vec<u8>) -> Option<Vec<u8>> {
        let batch = Batch::decode(&payload[..Batch::LEN]).ok()?;
        self.batches += 1;
        if !self.batches.is_multiple_of(3) {
            return Some(payload);
        }
        match self.mistake {
            Mistake::Forgets => {
                self.acknowledge(link, &batch);
                return None;
            }
            Mistake::Hurries => self.acknowledge(link, &batch),
            Mistake::Tears if payload.len() > Batch::LEN + EntryHead::LEN + 8 => {
                let end = payload.len();
                payload[end - 8..].fill(0xee);
            }
            Mistake::Tears => {}
            Mistake::Repeats => {
                let entries = payload.split_off(Batch::LEN);
                let former = self.kept.replace((batch, entries.clone()));
                let is_like = |other: &Batch| (other.writer, other.count) == (batch.writer, batch.count);
                let again = former.filter(|(other, bytes)| is_like(other) && *bytes != entries);
                payload.extend(again.map_or(entries, |(_, bytes)| bytes));
            }
        }
        Some(payload)
    }
}

impl<S: Service> Service for Mistaken<S> {
    type Note = S::Note;

    fn on_turn(&mut self, now: Time) -> bool {
        self.machine.on_turn(now)
    }

    fn on_open(&mut self, link: LinkId, peer: &Peer, origin: LinkOrigin, now: Time) {
        self.machine.on_open(link, peer, origin, now);
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        if frame.head.kind != BATCH {
            return self.machine.on_frame(link, frame, now);
        }
        match self.mistake(link, frame.payload.to_vec()) {
            Some(payload) => {
                let changed = Frame { payload: payload[..].into(), ..frame };
                self.machine.on_frame(link, changed, now)
            }
            None => Disposition::Taken,
        }
    }

    fn on_completion(&mut self, link: LinkId, completion: Completion, now: Time) {
        self.machine.on_completion(link, completion, now);
    }

    fn send<L: Link + RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
        now: Time,
    ) -> Result<bool, LinkError> {
        Ok(self.outbox.send(id, link)? | self.machine.send(id, link, now)?)
    }

    fn on_lost(&mut self, link: LinkId, error: &LinkError, now: Time) {
        self.outbox.forget(link);
        self.machine.on_lost(link, error, now);
    }

    fn next_deadline(&self) -> Option<Time> {
        self.machine.next_deadline()
    }

    fn on_time(&mut self, now: Time) {
        self.machine.on_time(now);
    }
}

/// The first promise that is broken under the first seeds.
fn first_broken(play: impl Fn(u64, &Recorder)) -> Option<String> {
    (0..16).find_map(|seed| {
        let recorder = Recorder::new(8);
        play(seed, &recorder);
        recorder.broken().map(|broken| format!("seed {seed}: {}", broken.promise))
    })
}

fn with_server(mistake: Mistake) -> String {
    let play = |seed, recorder: &Recorder| {
        let hide = move |server| Mistaken::new(server, mistake);
        play_with(seed, recorder, hide, |agent| agent, (|writer| writer, |writer| writer));
    };
    first_broken(play).expect("a checker notices")
}

#[test]
fn right_machines_keep_their_promises() {
    assert_eq!(first_broken(|seed, recorder| _ = play(seed, recorder)), None);
}

#[test]
fn a_server_that_forgets_what_it_acknowledges_is_noticed() {
    let promise = with_server(Mistake::Forgets);
    assert!(promise.contains("is visible"), "{promise}");
}

#[test]
fn a_server_that_tears_a_write_is_noticed() {
    let promise = with_server(Mistake::Tears);
    assert!(promise.contains("nothing is torn"), "{promise}");
}

#[test]
fn a_server_that_applies_a_batch_again_is_noticed() {
    let promise = with_server(Mistake::Repeats);
    let is_told = ["applied once", "in order", "is visible"].iter().any(|told| promise.contains(told));
    assert!(is_told, "{promise}");
}

#[test]
fn an_agent_that_acknowledges_in_place_of_the_server_is_noticed() {
    let play = |seed, recorder: &Recorder| {
        let hide = |agent| Mistaken::new(agent, Mistake::Hurries);
        play_with(seed, recorder, |server| server, hide, (|writer| writer, |writer| writer));
    };
    let promise = first_broken(play).expect("a checker notices");
    assert!(promise.contains("is visible"), "{promise}");
}

#[test]
fn a_writer_that_does_not_wait_behind_a_fence_is_noticed() {
    let play = |seed, recorder: &Recorder| {
        let hide = |machine| Wrong { machine, mistake: |writer: &mut WriterNode| writer.pretend_fence() };
        play_with(seed, recorder, |server| server, |agent| agent, (hide, |wrong: &Wrong<_>| &wrong.machine));
    };
    let promise = first_broken(play).expect("a checker notices");
    assert!(promise.contains("a fence orders everything"), "{promise}");
}
