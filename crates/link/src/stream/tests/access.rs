use super::*;
use crate::memory::Buffer;

fn buffer() -> Buffer {
    Buffer::allocate(REGION).unwrap()
}

#[test]
fn reads_writes_and_atomics_reach_the_memory() {
    let mut pair = Pair::new(FaultPlan::none());
    let region = pair.open(Rights::READ.and(Rights::WRITE)).unwrap();
    pair.first.write(region, 101, b"outboard"[..].into(), Token(1)).unwrap();
    assert!(matches!(pair.complete().unwrap()[0].result, Ok(AccessOutcome::Written)));
    assert_eq!(&pair.memory.window(101, 8).array::<8>(0), b"outboard");
    let into = buffer();
    pair.first.read(region, 100, &into, 3, 10, Token(2)).unwrap();
    assert!(matches!(
        pair.complete().unwrap()[0],
        Completion { token: Token(2), result: Ok(AccessOutcome::Read) }
    ));
    assert_eq!(&into.window().array::<10>(3), b"\0outboard\0");
    pair.first.fetch_add(region, 8, 5, Token(3)).unwrap();
    assert!(matches!(pair.complete().unwrap()[0].result, Ok(AccessOutcome::Old(0))));
    pair.first.compare_swap(region, 8, 5, 9, Token(4)).unwrap();
    assert!(matches!(pair.complete().unwrap()[0].result, Ok(AccessOutcome::Old(5))));
    pair.first.compare_swap(region, 8, 5, 11, Token(5)).unwrap();
    assert!(matches!(pair.complete().unwrap()[0].result, Ok(AccessOutcome::Old(9))));
    assert_eq!(pair.memory.window(8, 8).word(0), 9);
    assert_eq!(pair.second.counters().accesses_served, 6);
}

#[test]
fn wrong_accesses_fail_before_they_travel() {
    let mut pair = Pair::new(FaultPlan::none());
    let region = pair.open(Rights::READ).unwrap();
    let into = buffer();
    let size = REGION as u64;
    let out = pair.first.read(region, size - 7, &into, 0, 8, Token(1)).unwrap_err();
    assert!(
        matches!(out, AccessError::OutOfBounds { offset, len: 8, size: s } if offset == size - 7 && s == size)
    );
    assert!(pair.first.read(region, u64::MAX, &into, 0, 8, Token(1)).is_err());
    let denied = pair.first.write(region, 0, b"x"[..].into(), Token(1)).unwrap_err();
    assert!(matches!(denied, AccessError::NoRight { needed: Rights::WRITE }));
    assert!(matches!(pair.first.fetch_add(region, 0, 1, Token(1)), Err(AccessError::NoRight { .. })));
    let both = pair.open(Rights::READ.and(Rights::WRITE)).unwrap();
    assert!(matches!(pair.first.fetch_add(both, 4, 1, Token(1)), Err(AccessError::Misaligned { offset: 4 })));
    let long = pair.first.capabilities().max_access + 1;
    assert!(matches!(pair.first.read(both, 0, &into, 0, long, Token(1)), Err(AccessError::TooLong { .. })));
    assert_eq!(pair.first.completions(|_| ()), 0);
}

#[test]
fn only_the_right_key_generation_and_rights_open_a_region() {
    let mut pair = Pair::new(FaultPlan::none());
    let right = pair.grant;
    let wrong = [
        Grant { key: RegionKey([9; 16]), ..right },
        Grant { generation: Generation(2), ..right },
        Grant { region: RegionId(8), ..right },
    ];
    for grant in wrong {
        pair.grant = grant;
        assert!(matches!(pair.open(Rights::READ), Err(AccessError::NotOpen)));
    }
    pair.grant = Grant { key: RegionKey([6; 16]), ..right };
    assert!(matches!(pair.open(Rights::WRITE), Err(AccessError::NoRight { needed: Rights::WRITE })));
    pair.open(Rights::READ).unwrap();
}

#[test]
fn regions_that_are_closed_or_withdrawn_are_not_open() {
    let mut pair = Pair::new(FaultPlan::none());
    let into = buffer();
    let region = pair.open(Rights::READ).unwrap();
    pair.first.close_region(region);
    pair.settle().unwrap();
    assert!(matches!(pair.first.read(region, 0, &into, 0, 8, Token(1)), Err(AccessError::NotOpen)));
    let again = pair.open(Rights::READ).unwrap();
    assert_ne!(region, again);
    pair.exports.remove(RegionId(7));
    pair.first.read(again, 0, &into, 0, 8, Token(2)).unwrap();
    assert!(matches!(pair.complete().unwrap()[0].result, Err(AccessError::NotOpen)));
    // The region that has the old place now is not the one that the old slot meant.
    let (_, _, grant) = exports();
    let memory = Arc::new(Segment::create(c"test", REGION).unwrap());
    pair.exports.add(Export {
        region: grant.region,
        generation: grant.generation,
        memory,
        keys: vec![(grant.key, grant.rights)],
    });
    pair.open(Rights::READ).unwrap();
    pair.first.read(again, 0, &into, 0, 8, Token(3)).unwrap();
    assert!(matches!(pair.complete().unwrap()[0].result, Err(AccessError::NotOpen)));
}

#[test]
fn a_peer_that_has_a_region_open_keeps_it_when_its_keys_change() {
    let mut pair = Pair::new(FaultPlan::none());
    let into = buffer();
    let open = pair.open(Rights::READ).unwrap();
    let Grant { region, generation, .. } = pair.grant;
    let key = RegionKey([8; 16]);
    let memory = Arc::clone(&pair.memory);
    pair.exports.add(Export { region, generation, memory, keys: vec![(key, Rights::READ)] });
    pair.first.read(open, 0, &into, 0, 8, Token(1)).unwrap();
    assert!(matches!(pair.complete().unwrap()[0].result, Ok(AccessOutcome::Read)));
    assert!(matches!(pair.open(Rights::READ), Err(AccessError::NotOpen)), "not with the old key");
    pair.grant.key = key;
    pair.open(Rights::READ).unwrap();
}

#[test]
fn a_read_that_waits_is_not_served_from_a_withdrawn_region() {
    let mut pair = Pair::new(FaultPlan { tear: 1.0, ..FaultPlan::none() });
    let region = pair.open(Rights::READ).unwrap();
    pair.first.read(region, 0, &buffer(), 0, 64, Token(1)).unwrap();
    pair.first.progress(pair.now).unwrap();
    pair.second.progress(pair.now).unwrap();
    pair.exports.remove(RegionId(7));
    assert!(matches!(pair.complete().unwrap()[0].result, Err(AccessError::NotOpen)));
}

#[test]
fn slots_are_bounded_and_come_back() {
    let mut config = small();
    config.stream.regions_max = 3;
    let mut pair = Pair::with_config(1, FaultPlan::none(), config);
    let open: Vec<_> = (0..3).map(|_| pair.open(Rights::READ).unwrap()).collect();
    assert!(matches!(pair.open(Rights::READ), Err(AccessError::Busy)));
    pair.first.close_region(open[1]);
    pair.first.close_region(open[1]);
    pair.open(Rights::READ).unwrap();
    assert!(matches!(pair.open(Rights::READ), Err(AccessError::Busy)));
}

/// Everything both sides can want at once: the longest reads in both directions, and frames on top.
#[test]
fn a_full_house_in_both_directions_comes_to_an_end() {
    let mut pair = Pair::new(FaultPlan::none());
    let here = pair.open(Rights::READ).unwrap();
    let grant = pair.grant;
    pair.second.open(&grant, Rights::READ, Token(0)).unwrap();
    pair.settle().unwrap();
    let mut there = None;
    pair.second.completions(|completion| there = Some(completion.result));
    let Some(Ok(AccessOutcome::Opened(there))) = there else { panic!("not open: {there:?}") };
    let (into, len) = (buffer(), pair.first.capabilities().max_access);
    let (mut begun, mut ended, mut frames) = ([0u32; 2], [0u32; 2], [0u64; 2]);
    for turn in 0..20_000 {
        for (side, link, region) in [(0, &mut pair.first, here), (1, &mut pair.second, there)] {
            while begun[side] < 1024 && link.read(region, 0, &into, 0, len, Token(1)).is_ok() {
                begun[side] += 1;
            }
            while frames[side] < 4000 && link.send(NOTE, &[3; 3000]).is_ok() {
                frames[side] += 1;
            }
            link.flush().unwrap();
            link.progress(pair.now).unwrap();
            link.completions(|completion| {
                completion.result.unwrap();
                ended[side] += 1;
            });
            // Takes little at a time, and not always.
            if turn % 3 != side {
                link.receive(2, |_| Disposition::Taken).unwrap();
            }
        }
        if ended == [1024; 2] && pair.first.counters().frames_received == 4000 {
            break;
        }
    }
    assert_eq!((begun, ended), ([1024; 2], [1024; 2]));
    assert_eq!((pair.first.counters().frames_received, pair.second.counters().frames_received), (4000, 4000));
}

#[test]
fn neither_frames_nor_served_reads_starve_the_other() {
    let mut pair = Pair::new(FaultPlan::none());
    let region = pair.open(Rights::READ).unwrap();
    let (into, len) = (buffer(), 8000);
    let (mut ended, mut sent) = (0u32, 0u32);
    for _ in 0..2000 {
        while pair.first.read(region, 0, &into, 0, len, Token(1)).is_ok() {}
        while pair.second.send(NOTE, &vec![3; len]).is_ok() {
            sent += 1;
        }
        pair.first.progress(pair.now).unwrap();
        pair.second.progress(pair.now).unwrap();
        take_all(&mut pair.first).unwrap();
        ended += pair.first.completions(|_| ()) as u32;
    }
    assert!(ended > 300 && sent > 300, "{ended} reads and {sent} frames");
}

#[test]
fn reads_tear_between_words_only() {
    let mut pair = Pair::new(FaultPlan { tear: 1.0, ..FaultPlan::none() });
    let region = pair.open(Rights::READ).unwrap();
    let into = buffer();
    let mut mixed = 0;
    for round in 1..200u64 {
        let offset = (round * 13) % 64;
        let fill = |value: u8| pair.memory.window_mut(0, 1024).write(0, &[value; 1024]);
        fill(round as u8);
        pair.first.read(region, offset, &into, 0, 512, Token(round)).unwrap();
        pair.first.progress(pair.now).unwrap();
        pair.second.progress(pair.now).unwrap();
        fill(round as u8 + 1);
        pair.complete().unwrap();
        let bytes = into.window().part(0, 512).to_vec();
        let changes: Vec<u64> =
            (1..512).filter(|at| bytes[*at] != bytes[*at - 1]).map(|at| at as u64 + offset).collect();
        assert!(changes.len() <= 1 && changes.iter().all(|at| at.is_multiple_of(8)), "torn at {changes:?}");
        mixed += changes.len();
    }
    assert!(mixed > 150, "{mixed} torn reads were seen");
    assert_eq!(pair.network.faults().torn, 199);
}
