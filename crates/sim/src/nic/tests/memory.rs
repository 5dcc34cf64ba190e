//! Whatever is decided, and whichever node dies, the target's memory is what a plain array holds: at the NIC's own pace.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use outboard_wire::access::AccessStatus;
use outboard_wire::writing::{Batch, Drained, WriterId};
use outboard_wire::{Incarnation, Time};
use outboard_writing::{Begun, Drainer, Hint, Write, WritePath, WriteSequencer, WriterConfig};

use super::super::Parameters;
use super::super::hardware::Target;
use crate::chances;

const SIZE: usize = 64 << 10;
const WRITER: WriterId = WriterId([2; 16]);

enum News {
    /// The NIC puts the bytes into memory, and acknowledges.
    Offloaded { token: u64, offset: usize, bytes: Vec<u8> },
    /// The processor drains.
    Arrived { batch: Batch, entries: Vec<u8> },
    /// Its answer is back.
    Answered(Drained),
}

struct Play {
    target: Target,
    drainer: Drainer<()>,
    memory: Vec<u8>,
    writer: WriteSequencer,
    now: f64,
    agenda: BTreeMap<Reverse<(u64, u64)>, News>,
    number: u64,
}

impl Play {
    fn new(config: WriterConfig) -> Self {
        let mut play = Self {
            target: Target::new(Parameters::default()),
            drainer: Drainer::new(WRITER),
            memory: vec![0; SIZE],
            writer: WriteSequencer::new(WRITER, config, Time::ZERO),
            now: 0.0,
            agenda: BTreeMap::new(),
            number: 0,
        };
        play.attach();
        play
    }

    fn time(&self) -> Time {
        Time::from_nanos(self.now as u64)
    }

    fn expect(&mut self, at: f64, news: News) {
        self.number += 1;
        // The last of a reversed order is the soonest; what is due at once keeps its order.
        self.agenda.insert(Reverse(((at * 1e3) as u64, self.number)), news);
    }

    /// The drainer's carrier is another one. What the former still brings comes all the same, and late.
    fn attach(&mut self) {
        let attach = self.writer.attach(Incarnation(1));
        let answer = self.drainer.attach(attach.attempt);
        self.drainer.present(attach.attempt, 0, ());
        self.expect(self.now + 1600.0, News::Answered(answer));
    }

    fn begin(&mut self, write: &Write<'_>) -> bool {
        match self.writer.begin(self.time(), write) {
            Err(_) => return false,
            Ok(Begun::Unload { .. }) => {}
            Ok(Begun::Offload { token, .. }) => {
                let at = self.target.offload(self.now, write.offset, write.bytes.len() as u64);
                let (offset, bytes) = (write.offset as usize, write.bytes.to_vec());
                self.expect(at, News::Offloaded { token, offset, bytes });
            }
        }
        self.send();
        true
    }

    fn send(&mut self) {
        while let Some(batch) = self.writer.next_batch() {
            let entries = self.writer.entries(&batch).to_vec();
            self.writer.batch_sent(&batch);
            let at = self.target.unload(self.now, &vec![64; batch.head.count as usize]);
            self.expect(at - 800.0, News::Arrived { batch: batch.head, entries });
        }
    }

    fn advance(&mut self) {
        let Some((Reverse((at, _)), news)) = self.agenda.pop_last() else {
            panic!("writes are under way and nothing will happen");
        };
        self.now = self.now.max(at as f64 / 1e3);
        let now = self.time();
        match news {
            News::Offloaded { token, offset, bytes } => {
                self.memory[offset..offset + bytes.len()].copy_from_slice(&bytes);
                self.writer.offloaded(now, token, Ok(()));
            }
            News::Arrived { batch, entries } => {
                let memory = &mut self.memory;
                let answer = self.drainer.drain(&batch, entries[..].into(), |arrival| {
                    let offset = arrival.offset as usize;
                    arrival.bytes.read(0, &mut memory[offset..offset + arrival.bytes.len()]);
                    AccessStatus::Done
                });
                let answer = answer.expect("the writer's batches are well formed");
                self.expect(self.now + 800.0, News::Answered(answer));
            }
            News::Answered(answer) => {
                self.writer.drained(now, &answer).expect("the drainer speaks the truth");
                self.send();
            }
        }
    }
}

#[test]
fn any_decisions_give_the_same_memory() {
    for seed in 0..40 {
        let mut random = chances(seed, "writing");
        let ring_bytes = 1 << random.u32(11..16);
        let mut play = Play::new(WriterConfig { ring_bytes, ..WriterConfig::default() });
        let mut expected = vec![0; SIZE];
        for number in 0..1500 {
            let len = random.usize(..300);
            let offset = if random.bool() { random.usize(..400) } else { random.usize(..SIZE - len) };
            let bytes: Vec<u8> = (0..len).map(|_| random.u8(..)).collect();
            let path = [None, Some(WritePath::Offload), Some(WritePath::Unload)][random.usize(..3)];
            let (offset, signal) = (offset as u64, false);
            let write = Write { slot: 0, offset, bytes: &bytes, hint: Hint::None, path, signal };
            while !play.begin(&write) {
                play.advance();
            }
            expected[offset as usize..][..len].copy_from_slice(&bytes);
            match random.u32(..200) {
                0 => play.attach(),
                1..4 => {
                    play.writer.fence();
                    while !play.writer.is_idle() {
                        play.advance();
                    }
                    assert!(play.memory == expected, "seed {seed}, write {number}: memory differs");
                }
                _ => {}
            }
        }
        while !play.writer.is_idle() {
            play.advance();
        }
        assert!(play.memory == expected, "seed {seed}: memory differs");
        assert!(play.writer.counts().resent > 0, "seed {seed}: no node died in the middle of something");
    }
}
