//! A writer over a link that delays and reorders what it may, to a target whose drainers die, beside a plain array.

use std::collections::VecDeque;

use outboard_wire::access::AccessStatus;
use outboard_wire::writing::{Batch, Drained};
use proptest::prelude::*;

use super::*;
use crate::Drainer;

const SIZE: usize = 2048;
const READ_ONLY: u32 = 7;

/// A target with its memory, the link to it, and what may still be on its way.
struct Target {
    memory: Vec<u8>,
    drainer: Drainer<u32>,
    /// One-sided writes on their way, which may arrive in any order.
    offloads: Vec<(u64, WriteSpan, Vec<u8>)>,
    /// Batches on their way, in order, each by the carrier of its attempt.
    batches: VecDeque<(Batch, Vec<u8>)>,
    /// Batches whose carrier was given up: they may come at any time, or never.
    strays: Vec<(Batch, Vec<u8>)>,
    answers: VecDeque<Drained>,
}

struct World {
    now: Time,
    writer: WriteSequencer,
    target: Target,
    /// What the memory must be: every write in the order in which they began.
    expected: Vec<u8>,
    /// Refusals that must come.
    refused: Vec<WriteId>,
    /// Those of writes that were under way when the target forgot the writer: it cannot say what became of them before.
    doubtful: Vec<WriteId>,
    names: u8,
    random: fastrand::Rng,
}

impl World {
    fn new(seed: u64, config: WriterConfig) -> Self {
        let identity = WriterId([3; 16]);
        let mut world = Self {
            now: Time::ZERO,
            writer: WriteSequencer::new(identity, config, Time::ZERO),
            target: Target {
                memory: vec![0; SIZE],
                drainer: Drainer::new(identity),
                offloads: Vec::new(),
                batches: VecDeque::new(),
                strays: Vec::new(),
                answers: VecDeque::new(),
            },
            expected: vec![0; SIZE],
            refused: Vec::new(),
            doubtful: Vec::new(),
            names: 3,
            random: fastrand::Rng::with_seed(seed),
        };
        world.attach();
        world
    }

    fn attach(&mut self) {
        let attach = self.writer.attach(Incarnation(1));
        let lost: Vec<_> = self.target.batches.drain(..).collect();
        self.target.strays.extend(lost);
        self.target.answers.clear();
        let answer = self.target.drainer.attach(attach.attempt);
        self.target.drainer.present(attach.attempt, 0, 0);
        self.target.drainer.present(attach.attempt, READ_ONLY, READ_ONLY);
        self.target.answers.push_back(answer);
    }

    /// The target does not know the writer any more, and takes nothing of what is on its way from it.
    fn forget(&mut self) {
        self.target.batches.clear();
        self.target.strays.clear();
        self.target.answers.clear();
        self.doubtful.extend(&self.refused);
        self.writer.strand();
    }

    /// Offloads what a target that has forgotten does not take; then the writer comes under another name.
    fn move_stranded(&mut self) {
        while let Some(stranded) = self.writer.next_stranded(self.now) {
            if self.random.u8(..4) == 0 {
                self.writer.not_moved(&stranded);
                return;
            }
            let bytes = self.writer.stranded_bytes(&stranded).to_vec();
            self.target.offloads.push((stranded.token, stranded.span, bytes));
            self.writer.moved();
        }
        if self.writer.is_stranded() && !self.writer.has_unloaded() {
            self.names += 1;
            self.writer.renew(WriterId([self.names; 16]));
            self.target.drainer = Drainer::new(WriterId([self.names; 16]));
            self.attach();
        }
    }

    fn write(
        &mut self,
        path: Option<WritePath>,
        slot: u32,
        offset: u64,
        bytes: &[u8],
    ) -> Result<WriteId, NotYet> {
        let write = Write { slot, offset, bytes, hint: Hint::None, path, signal: false };
        let span = WriteSpan { slot, offset, len: bytes.len() as u64 };
        let id = match self.writer.begin(self.now, &write)? {
            Begun::Offload { id, token } => {
                self.target.offloads.push((token, span, bytes.to_vec()));
                id
            }
            Begun::Unload { id } => id,
        };
        if self.target.judge(Some(&slot).filter(|slot| [0, READ_ONLY].contains(slot)), offset, bytes.len())
            == AccessStatus::Done
        {
            self.expected[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        } else {
            self.refused.push(id);
        }
        Ok(id)
    }

    /// Lets something happen.
    fn step(&mut self) {
        self.now += core::time::Duration::from_nanos(self.random.u64(1..1000));
        self.move_stranded();
        while let Some(batch) = self.writer.next_batch() {
            let entries = self.writer.entries(&batch).to_vec();
            self.writer.batch_sent(&batch);
            self.target.batches.push_back((batch.head, entries));
        }
        match self.random.u8(0..8) {
            0..=2 if !self.target.offloads.is_empty() => {
                let at = self.random.usize(..self.target.offloads.len());
                let (token, span, bytes) = self.target.offloads.swap_remove(at);
                let result = self.target.one_sided(&span, &bytes);
                self.writer.offloaded(self.now, token, result);
            }
            3..=4 => self.target.take_batch(),
            5 if !self.target.strays.is_empty() => {
                let at = self.random.usize(..self.target.strays.len());
                let (batch, entries) = self.target.strays.swap_remove(at);
                self.target.drain(&batch, &entries);
            }
            _ => {
                if let Some(answer) = self.target.answers.pop_front() {
                    self.writer.drained(self.now, &answer).expect("the target speaks the truth");
                }
            }
        }
    }

    fn settle(&mut self) {
        for _ in 0..200_000 {
            if self.writer.is_idle() {
                return;
            }
            self.step();
        }
        panic!("writes never end: {:?}", self.writer.counts());
    }

    fn check(&mut self) {
        self.settle();
        assert!(self.target.memory == self.expected, "memory differs from the model");
        let mut faults: Vec<WriteId> = Vec::new();
        while let Some(ended) = self.writer.next_ended() {
            let is_told = match ended.result {
                Err(WriteFault::Lost) => self.doubtful.contains(&ended.id),
                result => result.is_err(),
            };
            assert!(is_told, "{ended:?}");
            faults.push(ended.id);
        }
        faults.sort_unstable();
        assert_eq!(faults, std::mem::take(&mut self.refused));
    }
}

impl Target {
    fn judge(&self, region: Option<&u32>, offset: u64, len: usize) -> AccessStatus {
        match region {
            None => AccessStatus::NotOpen,
            Some(&READ_ONLY) => AccessStatus::NoRight,
            Some(_) if offset + len as u64 > SIZE as u64 => AccessStatus::OutOfBounds,
            Some(_) => AccessStatus::Done,
        }
    }

    fn one_sided(&mut self, span: &WriteSpan, bytes: &[u8]) -> Result<(), WriteFault> {
        let slot = Some(&span.slot).filter(|slot| [0, READ_ONLY].contains(slot));
        match self.judge(slot, span.offset, bytes.len()) {
            AccessStatus::Done => {
                self.memory[span.offset as usize..][..bytes.len()].copy_from_slice(bytes);
                Ok(())
            }
            status => Err(WriteFault::Refused(status)),
        }
    }

    fn take_batch(&mut self) {
        if let Some((batch, entries)) = self.batches.pop_front() {
            let answer = self.drain(&batch, &entries);
            self.answers.push_back(answer);
        }
    }

    fn drain(&mut self, batch: &Batch, entries: &[u8]) -> Drained {
        let mut memory = std::mem::take(&mut self.memory);
        let mut drainer = std::mem::replace(&mut self.drainer, Drainer::new(WriterId([0; 16])));
        let answer = drainer.drain(batch, entries.into(), |arrival| {
            let status = self.judge(arrival.region, arrival.offset, arrival.bytes.len());
            if status == AccessStatus::Done {
                let to = &mut memory[arrival.offset as usize..][..arrival.bytes.len()];
                arrival.bytes.read(0, to);
            }
            status
        });
        (self.memory, self.drainer) = (memory, drainer);
        answer.expect("the writer speaks the truth")
    }
}

#[derive(Clone, Debug)]
enum Act {
    Write {
        path: Option<WritePath>,
        slot: u32,
        offset: u64,
        len: usize,
    },
    Fence,
    Steps(u8),
    /// The agent that carried the batches is gone; what it had may still arrive.
    DrainerDies,
    /// The target has forgotten the writer.
    Forgets,
}

fn path() -> impl Strategy<Value = Option<WritePath>> {
    prop_oneof![Just(None), Just(Some(WritePath::Offload)), Just(Some(WritePath::Unload))]
}

fn act() -> impl Strategy<Value = Act> {
    let write = (path(), 0_u64..SIZE as u64, 0_usize..100).prop_map(|(path, offset, len)| Act::Write {
        path,
        slot: 0,
        offset,
        len,
    });
    let crowded = (path(), 0_u64..64, 1_usize..32).prop_map(|(path, offset, len)| Act::Write {
        path,
        slot: 0,
        offset,
        len,
    });
    let wrong = (path(), prop_oneof![Just(0), Just(1), Just(READ_ONLY)], 0_u64..2 * SIZE as u64)
        .prop_map(|(path, slot, offset)| Act::Write { path, slot, offset, len: 8 });
    prop_oneof![
        4 => write,
        6 => crowded,
        1 => wrong,
        1 => Just(Act::Fence),
        4 => (0_u8..12).prop_map(Act::Steps),
        1 => Just(Act::DrainerDies),
        1 => Just(Act::Forgets),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn any_decisions_give_the_same_memory(
        seed in any::<u64>(),
        acts in proptest::collection::vec(act(), 1..300),
    ) {
        let config = WriterConfig {
            ring_bytes: 1024,
            unloaded_max: 16,
            offloaded_max: 8,
            batches_max: 2,
            batch_bytes: 200,
            ..WriterConfig::default()
        };
        let mut world = World::new(seed, config);
        for (number, act) in acts.into_iter().enumerate() {
            match act {
                Act::Write { path, slot, offset, len } => {
                    let bytes: Vec<u8> = (0..len).map(|at| (number + at) as u8 | 1).collect();
                    while world.write(path, slot, offset, &bytes).is_err() {
                        world.step();
                    }
                }
                Act::Fence => {
                    world.writer.fence();
                    world.check();
                }
                Act::Steps(steps) => (0..steps).for_each(|_| world.step()),
                Act::DrainerDies if world.writer.is_stranded() => {}
                Act::DrainerDies => world.attach(),
                Act::Forgets if world.names == u8::MAX => {}
                Act::Forgets => world.forget(),
            }
        }
        world.check();
    }
}

#[test]
fn a_fence_holds_later_writes_back_until_all_before_have_ended() {
    let mut world = World::new(1, WriterConfig::default());
    world.write(Some(WritePath::Unload), 0, 0, b"before").unwrap();
    world.write(Some(WritePath::Offload), 0, 100, b"before").unwrap();
    world.writer.fence();
    assert_eq!(world.write(Some(WritePath::Offload), 0, 500, b"after"), Err(NotYet::Fenced));
    world.check();
    world.write(Some(WritePath::Offload), 0, 500, b"after").unwrap();
    world.check();
}

#[test]
fn writes_over_the_same_bytes_follow_or_wait() {
    let mut world = World::new(2, WriterConfig::default());
    let answer = world.target.answers.pop_front().expect("to the attachment");
    world.writer.drained(world.now, &answer).unwrap();
    world.write(Some(WritePath::Unload), 0, 8, &[1; 8]).unwrap();
    assert_eq!(world.write(Some(WritePath::Offload), 0, 15, &[2; 8]), Err(NotYet::Ordered));
    world.write(None, 0, 15, &[3; 8]).unwrap();
    assert_eq!(world.writer.counts().followed, 1);
    world.write(Some(WritePath::Offload), 0, 23, &[4; 8]).unwrap();
    assert_eq!(world.write(Some(WritePath::Unload), 0, 30, &[5; 1]), Err(NotYet::Ordered));
    world.check();
}

#[test]
fn a_writer_that_is_not_taken_offloads_everything_in_order() {
    let mut world = World::new(5, WriterConfig::default());
    world.write(Some(WritePath::Unload), 0, 8, &[1; 8]).unwrap();
    world.write(Some(WritePath::Unload), 0, 12, &[2; 8]).unwrap();
    world.forget();
    assert_eq!(world.write(Some(WritePath::Unload), 0, 15, &[3; 8]), Err(NotYet::Ordered));
    assert_eq!(world.write(None, 0, 15, &[3; 8]), Err(NotYet::Ordered));
    world.write(Some(WritePath::Unload), 0, 64, &[4; 8]).unwrap();
    world.check();
    let WriterStats { offloaded, unloaded, .. } = world.writer.counts();
    assert_eq!((offloaded, unloaded), (3, 0));
}

#[test]
fn what_a_target_may_have_done_before_it_forgot_the_writer_is_not_called_refused() {
    let mut writer = WriteSequencer::new(WriterId([1; 16]), WriterConfig::default(), Time::ZERO);
    let attempt = writer.attach(Incarnation(1)).attempt;
    let answer = Drained { writer: WriterId([1; 16]), attempt, through: 0, refusals: Vec::new() };
    writer.drained(Time::ZERO, &answer).unwrap();
    let path = Some(WritePath::Unload);
    let sent = Write { slot: 0, offset: 0, bytes: b"sent", hint: Hint::None, path, signal: true };
    writer.begin(Time::ZERO, &sent).unwrap();
    let batch = writer.next_batch().unwrap();
    writer.batch_sent(&batch);
    writer.begin(Time::ZERO, &Write { offset: 64, ..sent }).unwrap();
    writer.strand();
    let ends = [Err(WriteFault::Lost), Err(WriteFault::Refused(AccessStatus::NotOpen))];
    for end in ends {
        let stranded = writer.next_stranded(Time::ZERO).unwrap();
        writer.moved();
        writer.offloaded(Time::ZERO, stranded.token, Err(WriteFault::Refused(AccessStatus::NotOpen)));
        assert_eq!(writer.next_ended().unwrap().result, end);
    }
}

#[test]
fn what_is_said_late_to_a_writer_that_was_forgotten_settles_nothing() {
    let mut writer = WriteSequencer::new(WriterId([1; 16]), WriterConfig::default(), Time::ZERO);
    let attempt = writer.attach(Incarnation(1)).attempt;
    let said = |through| Drained { writer: WriterId([1; 16]), attempt, through, refusals: Vec::new() };
    writer.drained(Time::ZERO, &said(0)).unwrap();
    let path = Some(WritePath::Unload);
    for offset in [0, 64, 128] {
        let write = Write { slot: 0, offset, bytes: b"sent", hint: Hint::None, path, signal: true };
        writer.begin(Time::ZERO, &write).unwrap();
    }
    let batch = writer.next_batch().unwrap();
    writer.batch_sent(&batch);
    writer.strand();
    writer.next_stranded(Time::ZERO).unwrap();
    writer.moved();
    // Of the two that are left neither is the first or the second, and there is no third.
    for through in [1, 2, 3] {
        writer.drained(Time::ZERO, &said(through)).unwrap();
        assert_eq!(writer.next_ended(), None);
    }
}

#[test]
fn what_was_unloaded_ends_when_the_target_is_lost() {
    let mut world = World::new(3, WriterConfig::default());
    let one = world.write(Some(WritePath::Unload), 0, 0, &[1; 8]).unwrap();
    let other = world.write(Some(WritePath::Offload), 0, 64, &[1; 8]).unwrap();
    world.writer.lost(world.now);
    let ended: Vec<EndedWrite> = std::iter::from_fn(|| world.writer.next_ended()).collect();
    assert_eq!(ended.iter().map(|ended| ended.id).collect::<Vec<_>>(), [one, other]);
    assert!(ended.iter().all(|ended| ended.result == Err(WriteFault::Lost)));
    assert!(world.writer.is_idle());
}

#[test]
fn a_target_that_claims_what_cannot_be_is_not_believed() {
    let mut world = World::new(4, WriterConfig::default());
    world.step();
    world.settle();
    let claim = |attempt, through| Drained { writer: WriterId([3; 16]), attempt, through, refusals: vec![] };
    while let Some(answer) = world.target.answers.pop_front() {
        world.writer.drained(world.now, &answer).unwrap();
    }
    world.write(Some(WritePath::Unload), 0, 0, &[1; 8]).unwrap();
    assert_eq!(world.writer.drained(world.now, &claim(1, 1)), Err(Nonsense), "nothing was sent yet");
    assert_eq!(world.writer.drained(world.now, &claim(2, 0)), Err(Nonsense));
    assert_eq!(
        world.writer.drained(world.now, &claim(0, 9)),
        Ok(()),
        "an earlier attempt is not listened to"
    );
    world.check();
}

#[test]
fn a_write_that_the_link_did_not_take_leaves_no_gap_in_the_numbers() {
    let mut writer = WriteSequencer::new(WriterId([1; 16]), WriterConfig::default(), Time::ZERO);
    let path = Some(WritePath::Offload);
    let write = Write { slot: 0, offset: 0, bytes: b"x", hint: Hint::None, path, signal: true };
    let Ok(Begun::Offload { id, token }) = writer.begin(Time::ZERO, &write) else {
        panic!("it is offloaded")
    };
    writer.not_offloaded(token);
    assert!(writer.is_idle());
    let Ok(Begun::Offload { id: again, .. }) = writer.begin(Time::ZERO, &write) else {
        panic!("it is offloaded")
    };
    assert_eq!(id, again);
    assert_eq!(writer.counts().offloaded, 1);
}

#[test]
fn no_write_begins_while_the_ends_of_others_are_not_asked_for() {
    let config = WriterConfig { untold_max: 3, ..WriterConfig::default() };
    let mut writer = WriteSequencer::new(WriterId([1; 16]), config, Time::ZERO);
    let write = Write { slot: 0, offset: 0, bytes: b"x", hint: Hint::None, path: None, signal: true };
    for _ in 0..3 {
        let begun = writer.begin_at_once(Time::ZERO, &write).unwrap();
        let BegunAtOnce::Offload(at_once) = begun else { panic!("it is offloaded") };
        writer.offloaded_at_once(Time::ZERO, at_once, Ok(()));
    }
    assert_eq!(writer.begin_at_once(Time::ZERO, &write), Err(NotYet::Untold));
    assert_eq!(writer.begin(Time::ZERO, &write), Err(NotYet::Untold));
    assert!(writer.next_ended().is_some());
    assert!(writer.begin(Time::ZERO, &write).is_ok());
}

#[test]
fn no_setting_is_too_large() {
    let most = usize::MAX;
    let config = WriterConfig {
        unloaded_max: most,
        offloaded_max: most,
        batches_max: most,
        ..WriterConfig::default()
    };
    assert!(WriteSequencer::new(WriterId([1; 16]), config, Time::ZERO).is_idle());
}
