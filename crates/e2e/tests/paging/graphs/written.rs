//! What is written is read again, whatever the agent is told to keep.

use std::time::Duration;

use outboard::{BufferSize, CacheMode, FarOptions, Outboard, Path, RegionOptions};

use super::cases::By;
use super::cluster::Cluster;

const CHUNK: usize = 4 << 10;
const CHUNKS: usize = 32;
const PATIENCE: Duration = Duration::from_secs(30);

/// Numbers that look as if drawn by chance (xorshift).
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as usize % end
    }
}

/// Adds here and there, more often than there is room for, and compares with plain memory.
fn add_and_compare(cluster: &Cluster, by: By, options: &RegionOptions, waits: bool) {
    let buffer = FarOptions::default().with_chunk(CHUNK).with_buffer(BufferSize::Bytes(8 * CHUNK));
    let far = Outboard::at(cluster.server(by)).with_agent(cluster.agent(by)).far_with(buffer).unwrap();
    let mut numbers = far.allocate_with::<u64>(CHUNKS * CHUNK / 8, options).unwrap();
    assert!(!waits || far.wait_for_agent(PATIENCE));
    let mut model = vec![0; numbers.len()];
    let mut chance = Chance(0x5eed);
    for _ in 0..500 {
        let at = chance.below(model.len());
        numbers[at] += 1;
        model[at] += 1;
        assert_eq!(numbers[at], model[at], "{by:?} {options:?}, number {at}");
    }
    assert!(*numbers == *model, "{by:?} {options:?}");
    let numbers = numbers.freeze().unwrap();
    assert!(far.wait_for_agent(PATIENCE));
    assert!(*numbers == *model, "{by:?} {options:?}, once it is only read");
}

#[test]
fn also_where_writes_pass_the_agent_by() {
    let cluster = Cluster::start();
    for path in [Path::Agent, Path::Auto] {
        for cache in [CacheMode::Static, CacheMode::Dynamic, CacheMode::Auto] {
            let options = RegionOptions { chunk: CHUNK, path, cache, ..RegionOptions::default() };
            for (by, waits) in [(By::Shm, false), (By::Tcp, true)] {
                add_and_compare(&cluster, by, &options, waits);
            }
        }
    }
    cluster.stop();
}
