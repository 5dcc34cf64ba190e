//! How many keys of a B-tree are looked up in a second?

use std::collections::BTreeMap;
use std::time::Instant;

use outboard_btree::{BTree, BTreeError, Tree, TreeOptions};

use super::stage::{Stage, caller, wrong};
use crate::harness::{Duel, Effort, Figure, Progress, Round, Side, Unit};
use crate::{BenchError, BenchOptions};

/// How many questions there are.
pub(super) const COUNT: usize = 1;

const NAME: &str = "calling.btree.lookup.server.shm";
/// How many look-ups are under way at once.
const DEPTH: usize = 256;
/// How many make a round.
const ROUND: u64 = 100_000;
/// Numbers of calls that are under way at the same time differ by less.
const PLACES: usize = 8192;

fn keys(effort: Effort) -> u64 {
    match effort {
        Effort::Tiny => 1000,
        Effort::Quick => 2_000_000,
        Effort::Full => 10_000_000,
    }
}

/// The key of that number, and its value: neither close together nor easily guessed.
fn pair(number: u64) -> (u64, u64) {
    let key = number * 0x1_0001 + 1;
    (key, key.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

struct LookUps {
    tree: BTree,
    random: fastrand::Rng,
    expected: Vec<u64>,
    keys: u64,
}

impl LookUps {
    /// So many look-ups of keys that are there, each of which must give its value.
    fn run(&mut self, count: u64) -> Result<(), BenchError> {
        let (mut begun, mut ended) = (0, 0);
        while ended < count {
            while begun < count && self.tree.under_way() < DEPTH {
                let (key, value) = pair(self.random.u64(..self.keys));
                let id = self.tree.begin_lookup(key).map_err(wrong)?;
                self.expected[id.0 as usize % PLACES] = value;
                begun += 1;
            }
            ended += self.drain()?;
        }
        Ok(())
    }

    fn drain(&mut self) -> Result<u64, BenchError> {
        let (expected, mut failed) = (&self.expected, None::<BTreeError>);
        let mut is_wrong = false;
        let ended = self.tree.drain(|id, answer| match answer {
            Ok(answer) => is_wrong |= answer.value() != Some(expected[id.0 as usize % PLACES]),
            Err(error) => failed = Some(error),
        });
        match failed {
            Some(error) => Err(wrong(error)),
            None if is_wrong => Err(BenchError::Calls { why: "a look-up gave a wrong value".to_owned() }),
            None => Ok(ended as u64),
        }
    }
}

/// The figure.
pub(super) fn figure(
    options: &BenchOptions,
    stage: &mut Stage,
    progress: &mut Progress,
) -> Result<Figure, BenchError> {
    progress.begin(NAME);
    let (effort, keys) = (options.effort, keys(options.effort));
    let shape = TreeOptions { keys: keys * 2 };
    let pairs = || (0..keys).map(pair);
    let tree = Tree::create_with(&mut stage.memory, "bench-calling-btree", &shape, pairs()).map_err(wrong)?;
    let user = BTree::new(caller(&stage.host.local, DEPTH)?, &tree).map_err(wrong)?;
    let random = fastrand::Rng::with_seed(11);
    let mut ours = LookUps { tree: user, random, expected: vec![0; PLACES], keys };
    let map: BTreeMap<u64, u64> = pairs().collect();
    let mut random = fastrand::Rng::with_seed(11);
    let count = effort.items(ROUND);
    let duel = Duel::run(effort, progress, |side| {
        let began = Instant::now();
        match side {
            Side::Ours => ours.run(count)?,
            Side::Yardstick => {
                let is_right = |(key, value): (u64, u64)| map.get(&key) == Some(&value);
                let all_right = (0..count).all(|_| is_right(pair(random.u64(..keys))));
                debug_assert!(all_right, "the map has what was put into it");
                std::hint::black_box(all_right);
            }
        }
        Ok(Round::rate(count, began.elapsed().as_secs_f64()))
    })?;
    let mib = tree.size() >> 20;
    drop(ours);
    tree.free(&mut stage.memory).map_err(wrong)?;
    let versus = format!(
        "look-ups in a BTreeMap of the standard library in this process, without a link: {keys} keys, {mib} MiB, {DEPTH} at once"
    );
    progress.end();
    Ok(duel.figure(NAME, Unit::OperationsPerSecond, 1.0, &versus))
}
