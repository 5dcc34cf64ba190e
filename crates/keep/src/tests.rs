//! A journal that is cut short says what was said before the cut; one in which a bit has changed is refused.

use outboard_wire::control::RegionSharing;
use outboard_wire::{Generation, Incarnation, RegionId, RegionKey, StoreId};

use crate::*;

fn life(number: u64) -> ServerLife {
    ServerLife {
        incarnation: Incarnation(number),
        boot: [3; 16],
        store: StoreId(77),
        place: StorePlace { device: 8, inode: 9, born: 10 },
        last_region: RegionId(0),
    }
}

fn holder(random: &mut fastrand::Rng) -> KeptHolder {
    KeptHolder {
        process: Incarnation(random.u64(..)),
        pid: random.u32(..),
        mapped_since: random.u64(..),
        writes: random.bool(),
        sharing: if random.bool() { RegionSharing::Leased } else { RegionSharing::Together },
        times: random.u32(1..9),
    }
}

fn region(number: u64, random: &mut fastrand::Rng) -> KeptRegion {
    let size = random.u64(1..1 << 40);
    KeptRegion {
        region: RegionId(number),
        generation: Generation(random.u32(1..)),
        size,
        memory: size.next_multiple_of(4096),
        chunk_log2: 16,
        is_sparse: random.bool(),
        name: format!("region “{number}”"),
        owner: random.bool().then(|| Incarnation(random.u64(..))),
        keys: std::array::from_fn(|_| RegionKey(random.u128(..).to_le_bytes())),
        epoch: random.u64(1..1000),
        holders: (0..random.usize(..4)).map(|_| holder(random)).collect(),
    }
}

/// Records that may follow each other.
fn records(random: &mut fastrand::Rng, count: usize) -> Vec<JournalRecord> {
    let mut records = vec![JournalRecord::Began(life(1))];
    let mut there: Vec<u64> = Vec::new();
    let mut last = 0;
    while records.len() < count {
        let known = (!there.is_empty()).then(|| RegionId(there[random.usize(..there.len())]));
        records.push(match (random.u8(..12), known) {
            (0..2, Some(region)) => JournalRecord::Epoch { region, epoch: random.u64(1..2000) },
            (2..5, Some(region)) => {
                let holders = (0..random.usize(..4)).map(|_| holder(random)).collect();
                JournalRecord::Held { region, epoch: random.u64(1..2000), holders }
            }
            (5, Some(region)) => {
                there.retain(|other| *other != region.0);
                JournalRecord::Freed { region }
            }
            (6, Some(RegionId(number))) => JournalRecord::Region(Box::new(region(number, random))),
            (7, _) => JournalRecord::Ended,
            (8, _) => {
                JournalRecord::Began(ServerLife { last_region: RegionId(last), ..life(random.u64(1..)) })
            }
            _ => {
                last += random.u64(1..4);
                there.push(last);
                JournalRecord::Region(Box::new(region(last, random)))
            }
        });
    }
    records
}

/// A journal, and after each record where it ends and what was said until then.
fn journal(records: &[JournalRecord]) -> (Vec<u8>, Vec<(usize, KeptState)>) {
    let (mut bytes, mut state) = (header().to_vec(), KeptState::new());
    let mut steps = vec![(bytes.len(), state.clone())];
    for (number, record) in records.iter().enumerate() {
        append(number as u32, record, &mut bytes);
        state.apply(record);
        steps.push((bytes.len(), state.clone()));
    }
    (bytes, steps)
}

#[test]
fn what_is_written_is_read_and_the_fewest_records_say_the_same() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let records = records(&mut random, 40);
        let (bytes, steps) = journal(&records);
        let reading = read(&bytes).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let (len, state) = steps.last().unwrap();
        assert_eq!((reading.len, reading.records as usize, &reading.state), (*len, records.len(), state));
        assert!(state.regions.keys().all(|region| *region <= state.life.unwrap().last_region));
        let (short, _) = journal(&state.records());
        assert_eq!(&read(&short).unwrap().state, state, "seed {seed}");
    }
}

#[test]
fn a_journal_that_is_cut_anywhere_says_what_was_said_before() {
    let records = records(&mut fastrand::Rng::with_seed(7), 30);
    let (bytes, steps) = journal(&records);
    for cut in HEADER_LEN..=bytes.len() {
        let (len, state) = steps.iter().rev().find(|(len, _)| *len <= cut).unwrap();
        let reading = read(&bytes[..cut]).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
        assert_eq!((reading.len, &reading.state), (*len, state), "cut at {cut}");
    }
    for cut in 0..HEADER_LEN {
        assert_eq!(read(&bytes[..cut]), Err(JournalError::NoJournal));
    }
}

#[test]
fn room_behind_the_records_is_no_record() {
    let (mut bytes, steps) = journal(&records(&mut fastrand::Rng::with_seed(8), 10));
    let len = bytes.len();
    for room in [1, 15, 16, 17, 4096] {
        bytes.resize(len + room, 0);
        assert_eq!(
            read(&bytes).map(|reading| (reading.len, reading.state)),
            Ok(steps.last().unwrap().clone())
        );
    }
}

#[test]
fn a_journal_in_which_a_bit_has_changed_is_refused() {
    let (bytes, _) = journal(&records(&mut fastrand::Rng::with_seed(9), 12));
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            assert!(read(&changed).is_err(), "bit {bit} of byte {at}");
        }
    }
}

#[test]
fn a_record_in_another_place_is_refused() {
    let records = records(&mut fastrand::Rng::with_seed(10), 8);
    let (bytes, steps) = journal(&records);
    let (from, to) = (steps[3].0, steps[4].0);
    let without = [&bytes[..from], &bytes[to..]].concat();
    let twice = [&bytes[..to], &bytes[from..]].concat();
    assert_eq!(read(&without), Err(JournalError::Damaged { offset: from }));
    assert_eq!(read(&twice), Err(JournalError::Damaged { offset: to }));
}

#[test]
fn what_cannot_follow_is_refused() {
    let mut random = fastrand::Rng::with_seed(11);
    let region_of =
        |number, random: &mut fastrand::Rng| JournalRecord::Region(Box::new(region(number, random)));
    let began = JournalRecord::Began(life(1));
    let twins = {
        let JournalRecord::Region(one) = region_of(1, &mut random) else { unreachable!() };
        let other = KeptRegion { region: RegionId(2), ..(*one).clone() };
        [JournalRecord::Region(one), JournalRecord::Region(Box::new(other))]
    };
    let wrong = [
        vec![region_of(1, &mut random)],
        vec![began.clone(), JournalRecord::Freed { region: RegionId(1) }],
        vec![began.clone(), JournalRecord::Epoch { region: RegionId(1), epoch: 2 }],
        [vec![began], twins.to_vec()].concat(),
    ];
    for records in wrong {
        let mut bytes = header().to_vec();
        records.iter().enumerate().for_each(|(number, record)| append(number as u32, record, &mut bytes));
        assert!(matches!(read(&bytes), Err(JournalError::Damaged { .. })), "{records:?}");
    }
}

#[test]
fn another_format_is_told() {
    let mut bytes = header();
    bytes[8..12].copy_from_slice(&(FORMAT + 1).to_le_bytes());
    let sum = crate::checksum::checksum(&bytes[..12]);
    bytes[12..].copy_from_slice(&sum.to_le_bytes());
    let error = read(&bytes).unwrap_err();
    assert_eq!(error, JournalError::Format { found: FORMAT + 1 });
    assert!(error.to_string().contains("format 2") && error.to_string().contains("format 1"), "{error}");
}
