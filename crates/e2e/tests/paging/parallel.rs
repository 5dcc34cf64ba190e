//! Parallel iterators on arrays in far memory, with many more threads than the buffer has chunks for each.

use outboard::{Path, RegionOptions};
use outboard_e2e::{Daemon, Place};
use rayon::ThreadPoolBuilder;
use rayon::prelude::*;

use super::{connect, options};

const CHUNK: usize = 4096;
const SEATS: usize = 32;
const THREADS: usize = 8;
const LEN: usize = 200_000;

fn mixed(number: usize) -> u64 {
    (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[test]
fn all_that_works_on_slices_works_on_far_arrays() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let pool = ThreadPoolBuilder::new().num_threads(THREADS).build().unwrap();
    for address in [daemon.local(), daemon.remote()] {
        let far = connect(&options(address, CHUNK, SEATS * CHUNK));
        let region = RegionOptions { chunk: CHUNK, path: Path::Direct, ..Default::default() };
        let mut numbers = far.allocate_with::<u64>(LEN, &region).unwrap();
        let mut model: Vec<u64> = (0..LEN).map(mixed).collect();
        pool.install(|| {
            // By elements, which rayon halves as it likes, and by blocks.
            numbers.par_iter_mut().enumerate().for_each(|(number, place)| *place = mixed(number));
            assert!(numbers[..] == model[..]);
            numbers.par_chunks_mut(1000).for_each(|block| block.iter_mut().for_each(|number| *number ^= 5));
            model.iter_mut().for_each(|number| *number ^= 5);
            let most = numbers.par_iter().copied().reduce(|| 0, u64::max);
            assert_eq!(Some(most), model.iter().copied().max());
            let even: Vec<u64> = numbers.par_iter().copied().filter(|number| number % 1024 == 0).collect();
            assert!(even.iter().eq(model.iter().filter(|number| *number % 1024 == 0)));
            numbers.par_sort_unstable();
        });
        model.sort_unstable();
        assert!(numbers[..] == model[..]);
        assert!(far.stats().evictions > 1000 && far.stats().buffer_used <= (SEATS * CHUNK) as u64);
        // What is frozen is read by all of them.
        let frozen = numbers.freeze().unwrap();
        let sums = pool.install(|| {
            rayon::join(
                || {
                    frozen
                        .par_iter()
                        .fold(|| 0u64, |sum, number| sum.wrapping_add(*number))
                        .reduce(|| 0, u64::wrapping_add)
                },
                || frozen.par_windows(2).all(|pair| pair[0] <= pair[1]),
            )
        });
        assert_eq!(sums, (model.iter().fold(0u64, |sum, number| sum.wrapping_add(*number)), true));
    }
    daemon.end();
    place.assert_nothing_left();
}
