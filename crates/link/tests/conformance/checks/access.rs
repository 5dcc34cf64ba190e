//! One-sided access does what it says, in the order that is promised.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use outboard_link::memory::{Buffer, Segment};
use outboard_link::{AccessError, AccessOutcome, Link, RemoteMemory, Token};
use outboard_wire::Rights;

use crate::fixture::{Fixture, Sides};
use crate::pair::{ALL, Pair, REGION_BYTES, frame, receive_into, region};

/// A pair whose ben exports a region that ada has opened for everything.
pub(crate) fn opened<F: Fixture>() -> (Pair<F>, outboard_link::OpenRegion, Arc<Segment>) {
    let sides = Sides::default();
    let export = region(1);
    let (grant, memory) = (export.grant(ALL).unwrap(), Arc::clone(&export.memory));
    sides.ben.add(export);
    let mut pair = Pair::<F>::with(&sides);
    let opened = pair.open(&grant, Rights::ALL).unwrap();
    (pair, opened, memory)
}

fn random_bytes(random: &mut fastrand::Rng, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    random.fill(&mut bytes);
    bytes
}

/// Reads and writes of all lengths at all alignments touch exactly their span.
pub(crate) fn reads_and_writes<F: Fixture>() {
    let (mut pair, opened, memory) = opened::<F>();
    let mut random = fastrand::Rng::with_seed(11);
    let mut model = random_bytes(&mut random, REGION_BYTES);
    memory.window_mut(0, REGION_BYTES).write(0, &model);
    let longest = REGION_BYTES.min(pair.ada.capabilities().max_access);
    for round in 0..60 {
        let len = match round {
            0 => 0,
            1 => longest,
            _ => random.usize(0..longest.min(9000)),
        };
        let offset = random.usize(0..=REGION_BYTES - len);
        assert_eq!(pair.read(opened, offset as u64, len).unwrap(), model[offset..offset + len]);
        let data = random_bytes(&mut random, len);
        let offset = random.usize(0..=REGION_BYTES - len);
        pair.write(opened, offset as u64, &data).unwrap();
        model[offset..offset + len].copy_from_slice(&data);
        assert_eq!(memory.window(0, REGION_BYTES).to_vec(), model, "{len} bytes at {offset}");
    }
    assert!(pair.ada.counters().accesses >= 120);
}

/// Compare-and-swap and fetch-add return the word before, and wrap around.
pub(crate) fn does_atomics<F: Fixture>() {
    let (mut pair, opened, memory) = opened::<F>();
    let last = REGION_BYTES as u64 - 8;
    for offset in [0, 8, 4096, last] {
        let word = memory.word(offset as usize);
        assert_eq!(pair.fetch_add(opened, offset, 5).unwrap(), 0);
        assert_eq!(pair.fetch_add(opened, offset, u64::MAX).unwrap(), 5);
        assert_eq!(word.load(SeqCst), 4);
        assert_eq!(pair.compare_swap(opened, offset, (3, 99)).unwrap(), 4, "not what was expected");
        assert_eq!(word.load(SeqCst), 4);
        assert_eq!(pair.compare_swap(opened, offset, (4, u64::MAX)).unwrap(), 4);
        assert_eq!(pair.fetch_add(opened, offset, 1).unwrap(), u64::MAX);
        assert_eq!(word.load(SeqCst), 0, "a sum wraps around");
    }
}

/// As many operations as the link can hold are under way; each comes back with its own token and result.
pub(crate) fn completes_each_token_once<F: Fixture>() {
    let (mut pair, opened, memory) = opened::<F>();
    for word in 0..1024 {
        memory.word(word * 8).store(word as u64, SeqCst);
    }
    let total = 2000u64;
    let buffer = Buffer::allocate(total as usize * 8).unwrap();
    let mut begun = 0;
    let mut ended = BTreeMap::new();
    let mut was_full = false;
    pair.until("all operations to end", |pair| {
        while begun < total {
            let word = begun % 1024 * 8;
            let result = if begun.is_multiple_of(2) {
                pair.ada.read(opened, word, &buffer, begun as usize * 8, 8, Token(begun))
            } else {
                pair.ada.fetch_add(opened, word, 0, Token(begun))
            };
            match result {
                Ok(()) => begun += 1,
                Err(AccessError::Full) => {
                    was_full = true;
                    break;
                }
                Err(error) => panic!("{error}"),
            }
        }
        pair.ada.completions(|completion| {
            let twice = ended.insert(completion.token, completion.result.unwrap());
            assert_eq!(twice, None, "{:?} ended twice", completion.token);
        });
        (ended.len() as u64 == total).then_some(())
    });
    assert!(was_full, "2000 operations at once are more than the link said it can hold");
    for (token, outcome) in ended {
        let expected = token.0 % 1024;
        match outcome {
            AccessOutcome::Read => assert_eq!(buffer.window().word(token.0 as usize * 8), expected),
            outcome => assert_eq!(outcome, AccessOutcome::Old(expected)),
        }
    }
}

/// A frame sent after a write on the same link arrives after it.
pub(crate) fn orders_frames_after_writes<F: Fixture>() {
    let (mut pair, opened, memory) = opened::<F>();
    let mut random = fastrand::Rng::with_seed(12);
    let total = 500u32;
    let mut sent = 0;
    let mut received = 0;
    pair.until("frames behind writes", |pair| {
        for _ in 0..random.u32(0..8).min(total - sent) {
            let next = sent + 1;
            let mut data = vec![0; 8 + random.usize(0..512) * 8];
            data[..8].copy_from_slice(&u64::from(next).to_le_bytes());
            let last = data.len() - 8;
            data[last..].copy_from_slice(&u64::from(next).to_le_bytes());
            let end = u64::from(next) * 8 % 4096;
            let place = 8192 + end * 8;
            match pair.ada.write(opened, place, data[..].into(), Token(next.into())) {
                Ok(()) => {}
                Err(AccessError::Full) => break,
                Err(error) => panic!("{error}"),
            }
            let payload = [place.to_le_bytes(), (data.len() as u64).to_le_bytes()].concat();
            pair.ada.send(frame(next, 0).head, &payload).unwrap();
            sent = next;
        }
        pair.ada.flush().unwrap();
        pair.ada.completions(|completion| assert_eq!(completion.result.unwrap(), AccessOutcome::Written));
        let mut frames = Vec::new();
        receive_into(&mut pair.ben, 50, &mut frames).unwrap();
        for frame in frames {
            received += 1;
            assert_eq!(frame.head.tag, received);
            check_behind(&memory, &frame.payload, received);
        }
        (received == total).then_some(())
    });
}

/// The write that a frame announces is there, or a later one at the same place.
fn check_behind(memory: &Segment, payload: &[u8], number: u32) {
    let words: Vec<u64> =
        payload.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    let first = memory.word(words[0] as usize).load(SeqCst);
    assert!(first >= number.into(), "frame {number} overtook its write: {first}");
}

/// Regions are opened and closed again and again, and an old handle never reaches a new opening. A grant that says more
/// than there is opens nothing, and costs neither side the link.
pub(crate) fn reopens_regions<F: Fixture>() {
    let sides = Sides::default();
    let (first, second) = (region(1), region(2));
    let grants = [first.grant(ALL).unwrap(), second.grant(ALL).unwrap()];
    second.memory.word(0).store(222, SeqCst);
    first.memory.word(0).store(111, SeqCst);
    sides.ben.add(first);
    sides.ben.add(second);
    let mut pair = Pair::<F>::with(&sides);
    let mut stale = Vec::new();
    for round in 0..40 {
        let which = round % 2;
        let opened = pair.open(&grants[which], Rights::READ).unwrap();
        assert!(!stale.contains(&opened), "a handle was given out twice");
        let expected = [111u64, 222][which].to_le_bytes();
        assert_eq!(pair.read(opened, 0, 8).unwrap(), expected);
        for old in &stale {
            let refused = pair.read(*old, 0, 8).unwrap_err();
            assert!(matches!(refused, AccessError::NotOpen), "{refused}");
        }
        pair.ada.close_region(opened);
        pair.ada.close_region(opened);
        let refused = pair.read(opened, 0, 8).unwrap_err();
        assert!(matches!(refused, AccessError::NotOpen), "{refused}");
        if stale.len() < 4 {
            stale.push(opened);
        }
        let more = outboard_wire::Grant { size: grants[which].size + 1, ..grants[which] };
        let refused = pair.open(&more, Rights::READ).unwrap_err();
        assert!(matches!(refused, AccessError::OutOfBounds { .. }), "{refused}");
    }
    pair.assert_alive();
}
