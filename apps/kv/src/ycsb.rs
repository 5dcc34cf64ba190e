//! The workloads A, B and C of YCSB: which keys are read and written, and values that show whether they are right.

use std::time::Instant;

use crate::{Kv, KvError, TableAnswer};

/// How much is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Half of the operations are puts.
    A,
    /// 1 in 20 is.
    B,
    /// None is.
    C,
}

impl Mix {
    /// How many of 100 operations are puts.
    pub fn puts_of_100(self) -> u32 {
        match self {
            Self::A => 50,
            Self::B => 5,
            Self::C => 0,
        }
    }
}

/// Which keys are used how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Every key as often as any other.
    Uniform,
    /// By Zipf's law with the exponent 0.99, as YCSB draws them; those that are used often lie anywhere.
    Zipf,
}

/// What is done with which key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct YcsbOperation(u32);

const PUT: u32 = 1 << 31;

impl YcsbOperation {
    /// Gets this key.
    pub fn get(key: u32) -> Self {
        Self(key & !PUT)
    }

    /// Puts each of these keys.
    pub fn puts(keys: std::ops::Range<u32>) -> impl Iterator<Item = Self> {
        keys.map(|key| Self(key | PUT))
    }

    /// The key's number.
    #[inline]
    pub fn key(self) -> u32 {
        self.0 & !PUT
    }

    /// Whether it is a put; else it is a get.
    #[inline]
    pub fn is_put(self) -> bool {
        self.0 & PUT != 0
    }
}

/// The most keys that operations can name.
pub const KEYS_MAX: u32 = PUT;

/// Draws so many operations on the keys below `keys`, the same for the same seed.
pub fn trace(
    keys: u32,
    mix: Mix,
    distribution: Distribution,
    operations: usize,
    seed: u64,
) -> Vec<YcsbOperation> {
    let keys = keys.clamp(1, KEYS_MAX);
    let mut random = fastrand::Rng::with_seed(seed);
    let zipf = (distribution == Distribution::Zipf).then(|| Zipf::new(keys));
    let puts = mix.puts_of_100();
    let draw = |_| {
        let key = match &zipf {
            Some(zipf) => (scatter(u64::from(zipf.rank(random.f64()))) % u64::from(keys)) as u32,
            None => random.u32(..keys),
        };
        YcsbOperation(if random.u32(..100) < puts { key | PUT } else { key })
    };
    (0..operations).map(draw).collect()
}

const EXPONENT: f64 = 0.99;

/// Draws ranks as "Quickly generating billion-record synthetic databases" (Gray and others, 1994) does.
struct Zipf {
    keys: f64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    fn new(keys: u32) -> Self {
        let zeta: f64 = (1..=keys).map(|rank| f64::from(rank).powf(-EXPONENT)).sum();
        let of_two = 1.0 + 0.5f64.powf(EXPONENT);
        let keys = f64::from(keys);
        let eta = (1.0 - (2.0 / keys).powf(1.0 - EXPONENT)) / (1.0 - of_two / zeta);
        Self { keys, zeta, eta }
    }

    fn rank(&self, drawn: f64) -> u32 {
        let scaled = drawn * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(EXPONENT) {
            return 1;
        }
        let rank = self.keys * (self.eta * drawn - self.eta + 1.0).powf(1.0 / (1.0 - EXPONENT));
        rank.min(self.keys - 1.0) as u32
    }
}

#[inline]
fn scatter(word: u64) -> u64 {
    let mixed = (word ^ word >> 32).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// Fills `value` for a key's so many-th put: its first word says both, and every other follows from it.
pub fn fill(value: &mut [u8], key: u32, version: u32) {
    let first = u64::from(key) << 32 | u64::from(version);
    let words = value.chunks_mut(8).zip(std::iter::successors(Some(first), |word| Some(scatter(*word))));
    for (part, word) in words {
        part.copy_from_slice(&word.to_le_bytes()[..part.len()]);
    }
}

/// Whether this is a value that was put for the key, as a whole.
pub fn is_right(value: &[u8], key: u32, length: usize) -> bool {
    let Some(first) = value.first_chunk().map(|first| u64::from_le_bytes(*first)) else { return false };
    let words = value.chunks(8).zip(std::iter::successors(Some(first), |word| Some(scatter(*word))));
    let follows = |(part, word): (&[u8], u64)| *part == word.to_le_bytes()[..part.len()];
    value.len() == length && first >> 32 == u64::from(key) && words.into_iter().all(follows)
}

/// What became of operations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Those that were done.
    pub done: u64,
    /// Gets that found no key, or another value than was put. There are none.
    pub wrong: u64,
    /// Those that others were in the way of; they are done later.
    pub again: u64,
    /// How long each took, in nanoseconds, if that was asked for.
    pub times_ns: Vec<u32>,
}

impl Tally {
    /// Counts those of another as well.
    pub fn add(&mut self, Self { done, wrong, again, times_ns }: Self) {
        (self.done, self.wrong, self.again) = (self.done + done, self.wrong + wrong, self.again + again);
        self.times_ns.extend(times_ns);
    }
}

/// Does operations on one table, many at once.
pub struct YcsbLoad {
    kv: Kv,
    value: Vec<u8>,
    depth: usize,
    version: u32,
    is_timed: bool,
    /// What is under way, by the last bits of its call's number, and when it began.
    under_way: Vec<(YcsbOperation, u32)>,
}

/// The numbers of calls that are under way at the same time differ by less.
const PLACES: usize = 8192;
/// The shortest value that can be checked, in bytes.
pub const VALUE_MIN: usize = 8;
/// How often to look for answers before others may have the processor.
const LOOKS: u32 = 2000;

impl YcsbLoad {
    /// With values of so many bytes, and so many operations at once.
    pub fn new(kv: Kv, value_len: usize, depth: usize) -> Self {
        let nothing = (YcsbOperation(0), 0);
        let (value, depth) = (vec![0; value_len.max(VALUE_MIN)], depth.clamp(1, PLACES / 2));
        Self { kv, value, depth, version: 0, is_timed: false, under_way: vec![nothing; PLACES] }
    }

    /// The same, noting how long each operation takes.
    pub fn timed(self) -> Self {
        Self { is_timed: true, ..self }
    }

    /// The table that it uses.
    pub fn kv(&self) -> &Kv {
        &self.kv
    }

    /// Puts every key below `keys` once.
    pub fn fill(&mut self, keys: u32) -> Result<Tally, KvError> {
        self.run(YcsbOperation::puts(0..keys))
    }

    /// Does all of these.
    pub fn run(&mut self, operations: impl IntoIterator<Item = YcsbOperation>) -> Result<Tally, KvError> {
        let mut tally = Tally::default();
        let mut operations = operations.into_iter();
        let mut repeated: Vec<YcsbOperation> = Vec::new();
        let began = Instant::now();
        let (mut is_over, mut looks) = (false, 0);
        loop {
            let now = if self.is_timed { began.elapsed().as_nanos() as u32 } else { 0 };
            while self.kv.under_way() < self.depth {
                let Some(operation) = repeated.pop().or_else(|| operations.next()) else {
                    is_over = true;
                    break;
                };
                self.begin(operation, now)?;
            }
            if is_over && self.kv.under_way() == 0 && repeated.is_empty() {
                return Ok(tally);
            }
            if self.drain(began, &mut tally, &mut repeated)? > 0 {
                looks = 0;
            } else if looks < LOOKS {
                looks += 1;
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }

    #[inline]
    fn begin(&mut self, operation: YcsbOperation, now: u32) -> Result<(), KvError> {
        let key = u64::from(operation.key()).to_le_bytes();
        let id = if operation.is_put() {
            self.version += 1;
            fill(&mut self.value, operation.key(), self.version);
            self.kv.begin_put(&key, &self.value)?
        } else {
            self.kv.begin_get(&key)?
        };
        self.under_way[id.0 as usize % PLACES] = (operation, now);
        Ok(())
    }

    #[inline]
    fn drain(
        &mut self,
        began: Instant,
        tally: &mut Tally,
        repeated: &mut Vec<YcsbOperation>,
    ) -> Result<usize, KvError> {
        let (under_way, length, is_timed) = (&self.under_way, self.value.len(), self.is_timed);
        let (mut failed, mut now) = (None, None);
        let ended = self.kv.drain(|id, answer| {
            let (operation, at) = under_way[id.0 as usize % PLACES];
            match answer {
                Ok(TableAnswer::Done(value)) => {
                    let is_wrong = !operation.is_put() && !is_right(value, operation.key(), length);
                    tally.wrong += u64::from(is_wrong);
                }
                Ok(TableAnswer::NotFound) => tally.wrong += 1,
                Err(KvError::Busy) => {
                    tally.again += 1;
                    repeated.push(operation);
                    return;
                }
                Err(error) => failed = Some(error),
            }
            tally.done += 1;
            if is_timed {
                let now = *now.get_or_insert_with(|| began.elapsed().as_nanos() as u32);
                tally.times_ns.push(now.wrapping_sub(at));
            }
        });
        failed.map_or(Ok(ended), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_has_the_shares_that_its_mix_says() {
        for (mix, share) in [(Mix::A, 0.5), (Mix::B, 0.05), (Mix::C, 0.0)] {
            let operations = trace(1000, mix, Distribution::Uniform, 100_000, 1);
            let puts = operations.iter().filter(|operation| operation.is_put()).count() as f64 / 1e5;
            assert!((puts - share).abs() < 0.01, "{puts} of {mix:?}");
            assert!(operations.iter().all(|operation| operation.key() < 1000));
        }
    }

    #[test]
    fn zipf_prefers_few_keys_and_uniform_none() {
        let most = |distribution| {
            let mut counts = vec![0u32; 10_000];
            for operation in trace(10_000, Mix::C, distribution, 1_000_000, 7) {
                counts[operation.key() as usize] += 1;
            }
            counts.sort_unstable_by(|one, other| other.cmp(one));
            counts
        };
        let zipf = most(Distribution::Zipf);
        // The first rank has 1/zeta of all: about 1 in 10 here. The hundredth has a hundredth of that.
        assert!((80_000..130_000).contains(&zipf[0]), "{}", zipf[0]);
        assert!((500..3000).contains(&zipf[100]), "{}", zipf[100]);
        assert!(most(Distribution::Uniform)[0] < 200);
    }

    #[test]
    fn a_value_is_right_as_a_whole_for_its_key_only() {
        for length in [8, 9, 16, 64, 100] {
            let mut value = vec![0; length];
            fill(&mut value, 77, 3);
            assert!(is_right(&value, 77, length));
            assert!(!is_right(&value, 78, length));
            assert!(!is_right(&value, 77, length + 1));
            for at in 4..length {
                let mut torn = value.clone();
                torn[at] ^= 1;
                // The count of puts alone may be any, if what follows follows from it.
                assert!(length == 8 && at < 4 || !is_right(&torn, 77, length), "{length} at {at}");
            }
        }
        assert!(!is_right(&[], 0, 0));
    }

    #[test]
    fn the_same_seed_gives_the_same_trace() {
        let draw = |seed| trace(50, Mix::A, Distribution::Zipf, 100, seed);
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
        assert!(trace(0, Mix::A, Distribution::Zipf, 10, 1).iter().all(|operation| operation.key() == 0));
    }
}
