//! One workload under one policy.

use std::collections::VecDeque;

use outboard_wire::writing::{Drained, WriterId};
use outboard_wire::{Incarnation, Time};
use outboard_writing::{
    Begun, EndedWrite, Hint, Preference, Write, WritePath, WriteSequencer, WriterConfig, WriterStats,
};

use super::clairvoyant;
use super::hardware::Target;
use super::workload::Stream;
use super::{Parameters, Workload};

/// The chooser of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steerer {
    /// The plan: always this one.
    Fixed(WritePath),
    /// The writer itself.
    Adaptive,
    /// A writer that looks into the cache and into the future.
    Clairvoyant,
}

/// The game to play.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The numbers of the model.
    pub numbers: Parameters,
    /// The writes.
    pub workload: Workload,
    /// The chooser.
    pub steerer: Steerer,
    /// How many writes there are.
    pub writes: u64,
    /// How many of them, at the beginning, are not counted.
    pub warm_up: u64,
    /// Where chance comes from.
    pub seed: u64,
}

impl Plan {
    /// The plainest plan that has the same outcome: a writer that only unloads never meets the translation cache, so that only
    /// the lengths of writes matter, and one that only offloads never meets the target's processor.
    pub fn plainest(mut self) -> Self {
        let Steerer::Fixed(path) = self.steerer else {
            self.numbers = self.numbers.plainest();
            return self;
        };
        self.numbers = self.numbers.met_by(path).plainest();
        if path == WritePath::Unload && self.workload != Workload::Large {
            self.workload = Workload::Hot;
        }
        self
    }
}

/// The outcome.
#[derive(Clone, Debug)]
pub struct NicOutcome {
    /// From the beginning of a write to its completion, on average, in nanoseconds.
    pub mean_ns: f64,
    /// Writes per second.
    pub rate: f64,
    /// The share of offloaded pages whose translation was at hand.
    pub hit_share: f64,
    /// The writer's counts.
    pub counts: WriterStats,
    /// Why, in the writer's words.
    pub explanation: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum News {
    Offloaded { token: u64 },
    Drained { through: u64 },
}

/// The coming events, soonest first; times in thousandths of nanoseconds, so that they can be ordered. It is short, and
/// what comes is mostly the latest.
#[derive(Default)]
struct Agenda {
    entries: VecDeque<(u64, News)>,
}

impl Agenda {
    fn add(&mut self, at_ns: f64, news: News) {
        let entry = ((at_ns * TICKS) as u64, news);
        let before = self.entries.iter().rev().take_while(|other| **other > entry).count();
        self.entries.insert(self.entries.len() - before, entry);
    }

    /// The next event, and its time.
    fn next(&mut self) -> Option<(f64, News)> {
        self.entries.pop_front().map(|(at, news)| (at as f64 / TICKS, news))
    }
}

struct Stage {
    plan: Plan,
    stream: Stream,
    target: Target,
    writer: WriteSequencer,
    now: f64,
    agenda: Agenda,
    /// When the writes under way were begun, by number.
    began: VecDeque<f64>,
    first_id: u64,
    lengths: Vec<u64>,
    under_way: usize,
    sum_ns: f64,
    counted: u64,
    counted_since: f64,
    bytes: Vec<u8>,
}

const WRITER: WriterId = WriterId([1; 16]);
const TICKS: f64 = 1e3;

/// Plays `plan`. The same plan always has the same outcome.
pub fn play(plan: &Plan) -> NicOutcome {
    let preference = match plan.steerer {
        Steerer::Fixed(path) => Preference::Fixed(path),
        Steerer::Adaptive | Steerer::Clairvoyant => Preference::Auto,
    };
    let config = WriterConfig { preference, ring_bytes: 1 << 20, ..WriterConfig::default() };
    let mut writer = WriteSequencer::new(WRITER, config, Time::ZERO);
    let attach = writer.attach(Incarnation(1));
    let answer = Drained { writer: WRITER, attempt: attach.attempt, through: 0, refusals: Vec::new() };
    writer.drained(Time::ZERO, &answer).expect("a target of which nothing is known yet");
    let mut stage = Stage {
        stream: Stream::new(&plan.workload, plan.seed),
        target: Target::new(plan.numbers),
        writer,
        now: 0.0,
        agenda: Agenda::default(),
        began: VecDeque::new(),
        first_id: 1,
        lengths: Vec::new(),
        under_way: 0,
        sum_ns: 0.0,
        counted: 0,
        counted_since: 0.0,
        bytes: vec![0; 64 << 10],
        plan: plan.clone(),
    };
    stage.run();
    let (hits, misses) = (stage.target.hits as f64, stage.target.misses as f64);
    NicOutcome {
        mean_ns: stage.sum_ns / stage.counted as f64,
        rate: stage.counted as f64 * 1e9 / (stage.now - stage.counted_since),
        hit_share: hits / (hits + misses).max(1.0),
        counts: stage.writer.counts(),
        explanation: stage.writer.policy().explain(stage.time()).to_string(),
    }
}

impl Stage {
    fn time(&self) -> Time {
        Time::from_nanos(self.now as u64)
    }

    fn run(&mut self) {
        let depth = (self.plan.numbers.depth.round() as usize).max(1);
        for _ in 0..self.plan.writes {
            while self.under_way >= depth {
                self.advance();
            }
            let (offset, len) = self.stream.next(self.now);
            self.write(offset, len);
        }
        while self.under_way > 0 {
            self.advance();
        }
    }

    fn write(&mut self, offset: u64, len: u64) {
        let wanted = self.now;
        loop {
            let path = match self.plan.steerer {
                Steerer::Clairvoyant => {
                    let Self { plan, target, stream, now, .. } = &*self;
                    Some(clairvoyant::choose(&plan.numbers, target, stream, *now, offset, len))
                }
                _ => None,
            };
            let bytes = &self.bytes[..len as usize];
            let write = Write { slot: 0, offset, bytes, hint: Hint::None, path, signal: true };
            match self.writer.begin(Time::from_nanos(self.now as u64), &write) {
                Ok(Begun::Offload { token, .. }) => {
                    let at = self.target.offload(self.now, offset, len);
                    self.agenda.add(at, News::Offloaded { token });
                    break;
                }
                Ok(Begun::Unload { .. }) => {
                    self.lengths.push(len);
                    break;
                }
                // Writes in the way have to end first.
                Err(_) => self.advance(),
            }
        }
        self.began.push_back(wanted);
        self.under_way += 1;
        self.send_batches();
    }

    fn send_batches(&mut self) {
        while let Some(batch) = self.writer.next_batch() {
            self.writer.batch_sent(&batch);
            let count = batch.head.count as usize;
            let at = self.target.unload(self.now, &self.lengths[..count]);
            self.lengths.drain(..count);
            let through = batch.head.first + u64::from(batch.head.count) - 1;
            self.agenda.add(at, News::Drained { through });
        }
    }

    /// Goes on to the next thing that happens.
    fn advance(&mut self) {
        let Some((at, news)) = self.agenda.next() else {
            panic!("writes are under way and nothing will happen");
        };
        self.now = at;
        let now = self.time();
        match news {
            News::Offloaded { token } => self.writer.offloaded(now, token, Ok(())),
            News::Drained { through } => {
                let attempt = self.writer.attempt();
                let drained = Drained { writer: WRITER, attempt, through, refusals: Vec::new() };
                self.writer.drained(now, &drained).expect("the model settles what was sent");
                self.send_batches();
            }
        }
        while let Some(ended) = self.writer.next_ended() {
            self.count(&ended);
        }
    }

    fn count(&mut self, ended: &EndedWrite) {
        self.under_way -= 1;
        let began = self.began[(ended.id.0 - self.first_id) as usize];
        if ended.id.0 > self.plan.warm_up {
            if self.counted == 0 {
                self.counted_since = self.now;
            }
            self.sum_ns += self.now - began;
            self.counted += 1;
        }
        self.began[(ended.id.0 - self.first_id) as usize] = f64::NAN;
        while self.began.front().is_some_and(|began| began.is_nan()) {
            self.began.pop_front();
            self.first_id += 1;
        }
    }
}
