//! Arrays in far memory that grow, beside a `Vec`.

use std::fmt::Debug;
use std::thread;

use outboard::{FarArena, FarError, FarHome, FarMemory, FarVec, Path, Plain, RegionOptions};
use outboard_e2e::{Daemon, Place, Random, seed};

use super::discards::memory_of;
use super::{connect, options};

const CHUNK: usize = 4096;
const SEATS: usize = 32;

fn region() -> RegionOptions {
    RegionOptions { chunk: CHUNK, path: Path::Direct, ..Default::default() }
}

/// A memory server that gives out more memory than there is.
pub(super) fn roomy(place: &Place) -> Daemon {
    let arguments = ["--listen", &place.socket(), "--listen", "tcp:127.0.0.1:0", "--capacity", "1TiB"];
    Daemon::start(place, "memory", "roomy", &arguments)
}

/// Does the same to both, many times, and compares them.
fn do_as_a_vector<T: Plain + Debug + PartialEq, H: FarHome>(
    array: &mut FarVec<T, H>,
    of: impl Fn(u64) -> T,
    random: &mut Random,
    longest: u64,
) {
    let mut model: Vec<T> = array.to_vec();
    for step in 0..150 {
        let len = random.below(longest) as usize;
        let number = random.next();
        match number % 8 {
            0 | 1 => {
                let more: Vec<T> = (0..len as u64 / 4).map(|at| of(number ^ at)).collect();
                array.extend_from_slice(&more).unwrap();
                model.extend_from_slice(&more);
            }
            2 => {
                array.resize(len, of(number)).unwrap();
                model.resize(len, of(number));
            }
            // What was used before is made zero again.
            3 => {
                array.resize(len, of(0)).unwrap();
                model.resize(len, of(0));
            }
            4 => {
                array.truncate(len);
                model.truncate(len);
            }
            5 => array.shrink_to_fit().unwrap(),
            6 => {
                array.reserve(len).unwrap();
                assert!(array.capacity() >= model.len() + len);
            }
            _ => {
                for at in 0..len as u64 / 16 {
                    array.push(of(at)).unwrap();
                    model.push(of(at));
                }
                assert_eq!(array.pop(), model.pop());
                if let Some(at) = (number as usize).checked_rem(model.len()) {
                    (array[at], model[at]) = (of(number), of(number));
                }
            }
        }
        assert!(array.capacity() >= array.len());
        assert!(array[..] == model[..], "step {step}, {} elements beside {}", array.len(), model.len());
    }
}

#[test]
fn they_do_as_vectors_do_in_regions_and_in_arenas() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let seed = seed();
    for address in [daemon.local(), daemon.remote()] {
        let far = connect(&options(address, CHUNK, SEATS * CHUNK));
        let arena = far.arena(64 << 20, &region()).unwrap();
        thread::scope(|scope| {
            for thread in 0..3 {
                let (far, arena) = (&far, &arena);
                scope.spawn(move || {
                    let mut random = Random::new(seed + thread);
                    // Several times what there is room for.
                    let mut words = far.vec_with_capacity_and::<u64>(10, &region()).unwrap();
                    do_as_a_vector(&mut words, |at| at, &mut random, 20_000);
                    let mut odd = FarVec::new_in(arena);
                    do_as_a_vector(&mut odd, |at| [at as u8; 24], &mut random, 5_000);
                    let mut short = FarVec::<u16, FarArena>::with_capacity_in(3, arena).unwrap();
                    do_as_a_vector(&mut short, |at| at as u16, &mut random, 200);
                    let mut nothing = FarVec::new_in(arena);
                    do_as_a_vector(&mut nothing, |_| (), &mut random, 1_000);
                });
            }
        });
        assert_eq!(arena.allocated(), 0);
    }
    daemon.end();
    place.assert_nothing_left();
}

#[test]
fn room_that_was_never_written_costs_nothing() {
    let place = Place::new();
    let daemon = roomy(&place);
    let far = connect(&options(daemon.local(), CHUNK, SEATS * CHUNK));
    let before = memory_of(&daemon);
    let mut array = far.vec_with_capacity_and::<u64>(32 << 30, &region()).unwrap();
    let start = array.as_ptr();
    array.resize(16 << 30, 0).unwrap();
    (array[0], array[8 << 30]) = (1, 2);
    array.push(3).unwrap();
    assert_eq!((array.as_ptr(), array.len(), array.capacity()), (start, (16 << 30) + 1, 32 << 30));
    array.flush().unwrap();
    assert!(memory_of(&daemon) - before <= 3 * CHUNK as u64);
    assert_eq!(far.fetches(), 0);
    array.truncate(1);
    array.shrink_to_fit().unwrap();
    assert_eq!(array[..], [1]);
    array.flush().unwrap();
    assert!(memory_of(&daemon) - before <= CHUNK as u64);
    // What it had is zero now.
    array.resize((8 << 30) + 1, 0).unwrap();
    assert_eq!(array[8 << 30], 0);
    drop((array, far));
    daemon.end();
    place.assert_nothing_left();
}

#[test]
fn an_array_that_moves_gives_its_region_back_and_one_with_a_name_stays() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let far = connect(&options(daemon.local(), CHUNK, SEATS * CHUNK));
    let mut array: FarVec<u32> = far.allocate_with(0, &region()).unwrap();
    let mut moves = 0;
    for value in 0..100_000 {
        let before = array.as_ptr();
        array.push(value).unwrap();
        moves += u32::from(before != array.as_ptr());
    }
    assert!((2..=8).contains(&moves), "{moves} moves");
    assert!(array.iter().copied().eq(0..100_000));
    let regions = |far: &FarMemory| far.explain().iter().filter(|line| line.contains("in chunks of")).count();
    assert_eq!(regions(&far), 1, "{:?}", far.explain());

    let named = RegionOptions { name: Some("known".to_owned()), ..region() };
    let mut known: FarVec<u32> = far.allocate_with(1024, &named).unwrap();
    let error = known.push(1).unwrap_err();
    assert!(matches!(&error, FarError::CannotGrow { name, room: 4096 } if name == "known"), "{error}");
    known.truncate(1000);
    known.push(1).unwrap();
    assert_eq!((known.len(), known[1000]), (1001, 1));
    let error = known.advise(0..1025, outboard::Advice::Random).unwrap_err();
    assert!(matches!(error, FarError::OutOfBounds { end: 4100, size: 4096, .. }), "{error}");
    let error = known.reserve(usize::MAX).unwrap_err();
    assert!(matches!(error, FarError::TooLong { .. }), "{error}");
    // Its elements are those that it has, not those there was room for.
    let frozen = known.freeze().unwrap();
    assert_eq!((frozen.len(), frozen[1000]), (1001, 1));
    drop((array, frozen, far));
    daemon.end();
    place.assert_nothing_left();
}
