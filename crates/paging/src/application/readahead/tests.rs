use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

#[test]
fn a_scan_is_seen_and_asked_ahead() {
    let mut ahead = ReadAhead::new(1000, 32);
    assert_eq!(ahead.touched(10), None);
    assert_eq!(ahead.touched(11), None);
    let first = ahead.touched(12).unwrap();
    assert_eq!(first.chunks().collect::<Vec<_>>(), [13, 14, 15, 16]);
    let mut asked: Vec<u32> = first.chunks().collect();
    let mut marker = first.marker;
    let mut faults = 3;
    while marker < 900 {
        faults += 1;
        let Some(next) = ahead.touched(marker) else { panic!("marker {marker} asks for nothing") };
        asked.extend(next.chunks());
        marker = next.marker;
    }
    assert_eq!(asked, (13..13 + asked.len() as u32).collect::<Vec<_>>());
    assert!(faults < 40, "{faults} faults");
}

#[test]
fn strides_and_directions_are_seen() {
    for stride in [-7i64, -1, 3, 100] {
        let mut ahead = ReadAhead::new(10_000, 16);
        let at = |step: i64| (5000 + stride * step) as u32;
        assert_eq!((ahead.touched(at(0)), ahead.touched(at(1))), (None, None));
        let next = ahead.touched(at(2)).unwrap();
        assert_eq!(next.chunks().collect::<Vec<_>>(), (3..7).map(at).collect::<Vec<_>>());
    }
}

#[test]
fn random_faults_ask_for_little() {
    let mut random = fastrand::Rng::with_seed(1);
    let mut ahead = ReadAhead::new(1 << 20, 32);
    let asked: u32 = (0..10_000)
        .filter_map(|_| ahead.touched(random.u32(0..1 << 20)))
        .map(|ahead| ahead.chunks().count() as u32)
        .sum();
    assert!(asked < 500, "{asked}");
}

#[test]
fn random_faults_in_a_small_region_are_not_taken_for_streams() {
    let mut random = fastrand::Rng::with_seed(5);
    let mut ahead = ReadAhead::new(1024, 32);
    let mut ask = |chunk| ahead.touched(chunk).map_or(0, |ahead| ahead.chunks().count() as u32);
    let asked: u32 = (0..20_000).map(|_| ask(random.u32(..1024))).sum();
    assert!(asked < 8_000, "{asked} chunks ahead of 20000 random faults");
    // A scan that follows is found soon.
    let asked: u32 = (0..200).map(ask).sum();
    assert!(asked > 100, "{asked} chunks ahead of a scan of 200");
}

proptest! {
    #[test]
    fn nothing_outside_the_region_is_asked_for(
        chunks in 1..200u32,
        faults in prop::collection::vec((0..200u32, -3..4i32), 1..100),
    ) {
        let mut ahead = ReadAhead::new(chunks, 16);
        for (start, stride) in faults {
            for step in 0..5 {
                let chunk = start as i32 + stride * step;
                if (0..chunks as i32).contains(&chunk) {
                    for asked in ahead.touched(chunk as u32).into_iter().flat_map(Ahead::chunks) {
                        prop_assert!(asked < chunks);
                    }
                }
            }
        }
    }
}

#[test]
fn threads_that_take_turns_in_one_pass_are_one_stream() {
    for is_downwards in [false, true] {
        let mut ahead = ReadAhead::new(10_000, 16);
        let mut random = fastrand::Rng::with_seed(7);
        let mut asked = HashSet::new();
        let (mut faults, mut wasted) = (0, 0);
        // Four threads take blocks of three chunks from one front; each is somewhere in its block.
        let mut places: Vec<u32> = Vec::new();
        let mut next = 0;
        while next < 3000 || !places.is_empty() {
            while places.len() < 4 && next < 3000 {
                places.push(next);
                next += 3;
            }
            let at = random.usize(..places.len());
            let chunk = places[at];
            places[at] += 1;
            if places[at].is_multiple_of(3) {
                places.swap_remove(at);
            }
            let number = if is_downwards { 5000 - chunk } else { chunk };
            if !asked.contains(&number) {
                faults += 1;
            }
            if let Some(window) = ahead.touched(number) {
                wasted += u32::from(window.stride.abs() != 1) * window.count;
                asked.extend(window.chunks());
            }
        }
        assert!(faults < 300, "{faults} of 3000 chunks were not asked for in time");
        assert!(wasted < 150, "{wasted} chunks were asked for by steps that no thread takes");
    }
}
