//! Access beyond one's rights is refused, in so many words, and the link lives on.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use outboard_link::memory::Buffer;
use outboard_link::{AccessError, Link, OneSided, RemoteMemory, Token};
use outboard_wire::{Generation, Grant, RegionId, RegionKey, Rights};

use super::access::opened;
use crate::fixture::{Fixture, Sides};
use crate::pair::{ALL, Pair, READ_ONLY, REGION_BYTES, region};

const SIZE: u64 = REGION_BYTES as u64;

/// What a key does not allow cannot be had through what it does allow.
pub(crate) fn of_roundabout_reads<F: Fixture>() {
    let sides = Sides::default();
    let mut export = region(1);
    let (write_key, call_key) = (RegionKey([0x11; 16]), RegionKey([0x22; 16]));
    export.keys = vec![(write_key, Rights::WRITE), (call_key, Rights::CALL)];
    let (write, call) = (export.grant(0).unwrap(), export.grant(1).unwrap());
    sides.ben.add(export);
    let mut pair = Pair::<F>::with(&sides);
    let is_mapped = pair.ada.capabilities().one_sided == OneSided::Mapped;
    match pair.open(&call, Rights::CALL) {
        // A process that maps memory can read it, whatever it promises.
        Err(AccessError::NoRight { .. }) => {}
        Err(other) => panic!("{other}"),
        Ok(region) => {
            assert!(!is_mapped);
            let refused = pair.read(region, 0, 8).unwrap_err();
            assert!(matches!(refused, AccessError::NoRight { .. }), "{refused}");
        }
    }
    match pair.open(&write, Rights::WRITE) {
        Err(AccessError::NoRight { .. }) => {}
        Err(other) => panic!("{other}"),
        Ok(region) => {
            assert!(!is_mapped);
            pair.write(region, 0, &[7; 8]).unwrap();
            let refused = pair.read(region, 0, 8).unwrap_err();
            assert!(matches!(refused, AccessError::NoRight { needed: Rights::READ }), "{refused}");
            let refused = pair.fetch_add(region, 0, 0).unwrap_err();
            assert!(matches!(refused, AccessError::NoRight { .. }), "{refused}");
            let refused = pair.compare_swap(region, 0, (1, 2)).unwrap_err();
            assert!(matches!(refused, AccessError::NoRight { .. }), "{refused}");
        }
    }
    pair.assert_alive();
}

/// A region ends where its grant says, though whole pages lie behind it.
pub(crate) fn beyond_the_grant<F: Fixture>() {
    let sides = Sides::default();
    let export = region(1);
    let shorter = Grant { size: 5000, ..export.grant(ALL).unwrap() };
    let longer = Grant { size: SIZE + 1, ..shorter };
    sides.ben.add(export);
    let mut pair = Pair::<F>::with(&sides);
    let region = pair.open(&shorter, Rights::READ).unwrap();
    pair.read(region, 4992, 8).unwrap();
    let refused = pair.read(region, 4993, 8).unwrap_err();
    assert!(matches!(refused, AccessError::OutOfBounds { size: 5000, .. }), "{refused}");
    pair.assert_alive();
    // A grant that says more than there is opens nothing, and costs neither side the link.
    let refused = pair.open(&longer, Rights::READ).unwrap_err();
    assert!(matches!(refused, AccessError::OutOfBounds { .. }), "{refused}");
    pair.assert_alive();
}

/// Only the right region, generation and key open anything, and never for more than the key allows.
pub(crate) fn of_wrong_grants<F: Fixture>() {
    let sides = Sides::default();
    let export = region(1);
    let (all, read_only) = (export.grant(ALL).unwrap(), export.grant(READ_ONLY).unwrap());
    sides.ben.add(export);
    let mut pair = Pair::<F>::with(&sides);
    let mut almost = all.key;
    almost.0[15] ^= 1;
    let wrong = [
        Grant { key: RegionKey([0; 16]), ..all },
        Grant { key: almost, ..all },
        Grant { generation: Generation(2), ..all },
        Grant { generation: Generation(4), ..all },
        Grant { region: RegionId(99), ..all },
        Grant { region: RegionId(u64::MAX), ..all },
    ];
    for grant in wrong {
        let refused = pair.open(&grant, Rights::READ).unwrap_err();
        assert!(matches!(refused, AccessError::NotOpen), "{grant:?}: {refused}");
        pair.assert_alive();
    }
    for rights in [Rights::WRITE, Rights::CALL, Rights::READ.and(Rights::WRITE), Rights::ALL] {
        let refused = pair.open(&read_only, rights).unwrap_err();
        assert!(matches!(refused, AccessError::NoRight { .. }), "{rights}: {refused}");
        assert!(refused.to_string().contains("write") || rights == Rights::CALL, "{refused}");
    }
    // What the grant says of itself opens nothing that its key does not.
    let boast = Grant { rights: Rights::ALL, ..read_only };
    assert!(matches!(pair.open(&boast, Rights::ALL), Err(AccessError::NoRight { .. })));
    pair.open(&read_only, Rights::READ).unwrap();
    pair.open(&all, Rights::ALL).unwrap();
    pair.assert_alive();
}

/// Spans that are not inside the region are refused, however large their numbers are.
pub(crate) fn out_of_bounds<F: Fixture>() {
    let (mut pair, opened, memory) = opened::<F>();
    let spans = [
        (SIZE, 1),
        (SIZE - 1, 2),
        (SIZE - 7, 8),
        (SIZE + 4096, 16),
        (u64::MAX, 1),
        (u64::MAX - 7, 8),
        (u64::MAX - 15, 4096),
        (1 << 63, 8),
        (1 << 32, 8),
    ];
    for (offset, len) in spans {
        let refused = [
            pair.read(opened, offset, len).map(drop).unwrap_err(),
            pair.write(opened, offset, &vec![0xee; len]).unwrap_err(),
        ];
        for refused in refused {
            match &refused {
                AccessError::OutOfBounds { offset: at, len: long, size } => {
                    assert_eq!((*at, *long, *size), (offset, len as u64, SIZE));
                }
                other => panic!("{len} bytes at {offset}: {other}"),
            }
        }
        pair.assert_alive();
    }
    for offset in [SIZE, SIZE + 8, u64::MAX - 7, 1 << 63] {
        assert!(matches!(pair.fetch_add(opened, offset, 1), Err(AccessError::OutOfBounds { .. })));
        let swapped = pair.compare_swap(opened, offset, (0, 1));
        assert!(matches!(swapped, Err(AccessError::OutOfBounds { .. })));
    }
    assert!(pair.read(opened, SIZE, 0).is_ok(), "no bytes at the very end are inside");
    assert!(memory.window(0, REGION_BYTES).to_vec().iter().all(|byte| *byte == 0), "nothing was touched");
    pair.assert_alive();
}

/// One access is no longer than the link says.
pub(crate) fn of_long_accesses<F: Fixture>() {
    let (mut pair, opened, _) = opened::<F>();
    let max = pair.ada.capabilities().max_access;
    let Some(longer) = max.checked_add(1).filter(|len| *len < 1 << 30) else { return };
    let buffer = Buffer::allocate(longer).unwrap();
    let read = pair.ada.read(opened, 0, &buffer, 0, longer, Token(1)).unwrap_err();
    let write = pair.ada.write(opened, 0, buffer.window().part(0, longer), Token(2)).unwrap_err();
    for refused in [read, write] {
        assert!(matches!(refused, AccessError::TooLong { len, max: limit } if (len, limit) == (longer, max)));
    }
    pair.assert_alive();
}

/// A region opened to read is only read.
pub(crate) fn of_writes_without_the_right<F: Fixture>() {
    let sides = Sides::default();
    let export = region(1);
    let (all, memory) = (export.grant(ALL).unwrap(), Arc::clone(&export.memory));
    sides.ben.add(export);
    let mut pair = Pair::<F>::with(&sides);
    // The key allows more than was asked for; what counts is what was asked for.
    let opened = pair.open(&all, Rights::READ).unwrap();
    let refused = [
        pair.write(opened, 0, &[1; 8]).unwrap_err(),
        pair.fetch_add(opened, 0, 1).map(drop).unwrap_err(),
        pair.compare_swap(opened, 0, (0, 1)).map(drop).unwrap_err(),
    ];
    for refused in refused {
        let is_right = matches!(refused, AccessError::NoRight { needed } if needed.includes(Rights::WRITE));
        assert!(is_right, "{refused}");
    }
    assert_eq!(memory.word(0).load(SeqCst), 0);
    assert_eq!(pair.read(opened, 0, 8).unwrap(), [0; 8]);
    pair.assert_alive();
}

/// Atomics work on aligned words.
pub(crate) fn of_misaligned_atomics<F: Fixture>() {
    let (mut pair, opened, memory) = opened::<F>();
    for offset in [1, 4, 7, SIZE - 9] {
        let refused = pair.fetch_add(opened, offset, 1).unwrap_err();
        assert!(matches!(refused, AccessError::Misaligned { offset: at } if at == offset), "{refused}");
        let refused = pair.compare_swap(opened, offset, (0, 1)).unwrap_err();
        assert!(matches!(refused, AccessError::Misaligned { offset: at } if at == offset), "{refused}");
    }
    assert!(memory.window(0, REGION_BYTES).to_vec().iter().all(|byte| *byte == 0), "nothing was touched");
    pair.assert_alive();
}

/// A handle that another link gave out opens nothing here unless it was given out here too.
pub(crate) fn of_foreign_handles<F: Fixture>() {
    let (mut other, _, _) = opened::<F>();
    let (mut pair, here, _) = opened::<F>();
    let mut foreign = Vec::new();
    for _ in 0..4 {
        let grant = region(1).grant(ALL).unwrap();
        foreign.push(other.open(&grant, Rights::ALL).unwrap());
    }
    for handle in foreign.into_iter().filter(|handle| *handle != here) {
        let refused = pair.read(handle, 0, 8).unwrap_err();
        assert!(matches!(refused, AccessError::NotOpen), "{refused}");
        pair.ada.close_region(handle);
    }
    assert_eq!(pair.read(here, 0, 8).unwrap(), [0; 8]);
    pair.assert_alive();
}

/// A region that is exported no more is not opened again, and one of the same id in a new life is another.
pub(crate) fn of_removed_regions<F: Fixture>() {
    let sides = Sides::default();
    let export = region(1);
    let grant = export.grant(ALL).unwrap();
    sides.ben.add(export);
    let mut pair = Pair::<F>::with(&sides);
    pair.open(&grant, Rights::READ).unwrap();
    sides.ben.remove(RegionId(1));
    let refused = pair.open(&grant, Rights::READ).unwrap_err();
    assert!(matches!(refused, AccessError::NotOpen), "{refused}");
    let mut reborn = region(1);
    reborn.generation = Generation(4);
    let new_grant = reborn.grant(ALL).unwrap();
    sides.ben.add(reborn);
    let refused = pair.open(&grant, Rights::READ).unwrap_err();
    assert!(matches!(refused, AccessError::NotOpen), "{refused}");
    pair.open(&new_grant, Rights::READ).unwrap();
    pair.assert_alive();
}
