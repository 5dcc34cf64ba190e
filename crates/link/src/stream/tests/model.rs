//! A pair of links under delays against the simplest thing that could be right: two queues and an array.

use std::collections::{HashMap, VecDeque};

use proptest::prelude::*;

use super::*;
use crate::memory::Buffer;

/// How much of the region the model knows.
const SIZE: usize = 4096;

#[derive(Clone, Debug)]
enum Step {
    Send { by_first: bool, len: usize },
    Write { offset: usize, len: usize },
    Read { offset: usize, len: usize },
    Add { word: usize, addend: u64 },
    Take { by_first: bool, max: usize },
    Pass { micros: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let span = || (0..SIZE - 600, 0..600usize);
    prop_oneof![
        (any::<bool>(), 0..9000usize).prop_map(|(by_first, len)| Step::Send { by_first, len }),
        span().prop_map(|(offset, len)| Step::Write { offset, len }),
        span().prop_map(|(offset, len)| Step::Read { offset, len }),
        (0..SIZE / 8, any::<u64>()).prop_map(|(word, addend)| Step::Add { word, addend }),
        (any::<bool>(), 0..9usize).prop_map(|(by_first, max)| Step::Take { by_first, max }),
        (0..20_000u64).prop_map(|micros| Step::Pass { micros }),
    ]
}

/// The result that an operation of the first side must bring: the owner serves them in the order they were begun.
enum Expected {
    Written,
    Old(u64),
    Bytes(Buffer, Vec<u8>),
}

struct Model {
    pair: Pair,
    region: OpenRegion,
    memory: Vec<u8>,
    /// The bytes on their way to the first and to the second side.
    frames: [VecDeque<Vec<u8>>; 2],
    expected: HashMap<u64, Expected>,
    begun: u64,
}

impl Model {
    fn begin(&mut self, begun: Result<(), AccessError>, expected: impl FnOnce(&mut Vec<u8>) -> Expected) {
        match begun {
            Ok(()) => {
                let expected = expected(&mut self.memory);
                self.expected.insert(self.begun, expected);
            }
            Err(AccessError::Full) => {}
            Err(other) => panic!("{other}"),
        }
    }

    fn run(&mut self, step: Step) {
        self.begun += 1;
        let (token, region) = (Token(self.begun), self.region);
        match step {
            Step::Send { by_first, len } => {
                let payload = vec![self.begun as u8; len];
                let link = if by_first { &mut self.pair.first } else { &mut self.pair.second };
                if link.send(NOTE, &payload).is_ok() {
                    self.frames[usize::from(by_first)].push_back(payload);
                }
                link.flush().unwrap();
            }
            Step::Write { offset, len } => {
                let data = vec![self.begun as u8; len];
                let begun = self.pair.first.write(region, offset as u64, data[..].into(), token);
                self.begin(begun, |memory| {
                    memory[offset..offset + len].copy_from_slice(&data);
                    Expected::Written
                });
            }
            Step::Read { offset, len } => {
                let into = Buffer::allocate(len).unwrap();
                let begun = self.pair.first.read(region, offset as u64, &into, 0, len, token);
                self.begin(begun, |memory| Expected::Bytes(into, memory[offset..offset + len].to_vec()));
            }
            Step::Add { word, addend } => {
                let begun = self.pair.first.fetch_add(region, word as u64 * 8, addend, token);
                self.begin(begun, |memory| {
                    let bytes: &mut [u8; 8] = (&mut memory[word * 8..word * 8 + 8]).try_into().unwrap();
                    let old = u64::from_le_bytes(*bytes);
                    *bytes = old.wrapping_add(addend).to_le_bytes();
                    Expected::Old(old)
                });
            }
            Step::Take { by_first, max } => self.take(by_first, max),
            Step::Pass { micros } => self.pair.pass(Duration::from_micros(micros)).unwrap(),
        }
        self.collect();
    }

    fn take(&mut self, by_first: bool, max: usize) {
        let link = if by_first { &mut self.pair.first } else { &mut self.pair.second };
        let coming = &mut self.frames[usize::from(!by_first)];
        link.receive(max, |frame| {
            assert_eq!(Some(frame.payload.to_vec()), coming.pop_front());
            Disposition::Taken
        })
        .unwrap();
    }

    fn collect(&mut self) {
        let expected = &mut self.expected;
        self.pair.first.completions(|Completion { token, result }| {
            match (expected.remove(&token.0).unwrap(), result.unwrap()) {
                (Expected::Written, AccessOutcome::Written) => {}
                (Expected::Old(right), AccessOutcome::Old(old)) => assert_eq!(old, right),
                (Expected::Bytes(into, right), AccessOutcome::Read) => {
                    assert_eq!(into.window().part(0, right.len()).to_vec(), right);
                }
                (_, other) => panic!("{token:?} ended with {other:?}"),
            }
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn links_do_what_queues_and_an_array_do(seed: u64, steps in proptest::collection::vec(step(), 1..200)) {
        let plan = FaultPlan::delayed(Duration::ZERO, Duration::from_millis(10));
        let mut pair = Pair::with_config(seed, plan, small());
        let region = pair.open(Rights::READ.and(Rights::WRITE)).unwrap();
        let (memory, expected) = (vec![0; SIZE], HashMap::new());
        let mut model = Model { pair, region, memory, frames: Default::default(), expected, begun: 0 };
        for step in steps {
            model.run(step);
        }
        for _ in 0..10_000 {
            model.run(Step::Take { by_first: true, max: 100 });
            model.run(Step::Take { by_first: false, max: 100 });
            model.run(Step::Pass { micros: 1000 });
            if model.expected.is_empty() && model.frames.iter().all(VecDeque::is_empty) {
                break;
            }
        }
        prop_assert!(model.expected.is_empty() && model.frames.iter().all(VecDeque::is_empty));
        prop_assert_eq!(model.pair.memory.window(0, SIZE).to_vec(), model.memory);
    }
}
