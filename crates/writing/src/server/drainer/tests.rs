use super::*;

const WRITER: WriterId = WriterId([1; 16]);

fn entries(writes: &[(u32, u64, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (slot, offset, data) in writes {
        let head = EntryHead { slot: *slot, len: data.len() as u32, offset: *offset };
        bytes.extend_from_slice(&head.encode());
        bytes.extend_from_slice(data);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    bytes
}

fn batch(attempt: u32, first: u64, count: u32) -> Batch {
    Batch { writer: WRITER, attempt, count, first, settled: 0 }
}

/// Drains into a list of what was applied.
fn drain(
    drainer: &mut Drainer<&'static str>,
    batch: &Batch,
    bytes: &[u8],
    applied: &mut Vec<(Option<&'static str>, u64, Vec<u8>)>,
) -> Result<Drained, Malformed> {
    drainer.drain(batch, bytes.into(), |arrival| {
        applied.push((arrival.region.copied(), arrival.offset, arrival.bytes.to_vec()));
        if arrival.region.is_some() { AccessStatus::Done } else { AccessStatus::NotOpen }
    })
}

#[test]
fn entries_are_applied_once_however_often_they_come() {
    let mut drainer = Drainer::new(WRITER);
    assert_eq!(drainer.attach(1).through, 0);
    drainer.present(1, 2, "region");
    let mut applied = Vec::new();
    let bytes = entries(&[(2, 8, b"first"), (2, 16, b"second")]);
    assert_eq!(drain(&mut drainer, &batch(1, 1, 2), &bytes, &mut applied).unwrap().through, 2);
    assert_eq!(drain(&mut drainer, &batch(1, 1, 2), &bytes, &mut applied).unwrap().through, 2);
    let bytes = entries(&[(2, 16, b"second"), (2, 24, b"third")]);
    assert_eq!(drain(&mut drainer, &batch(1, 2, 2), &bytes, &mut applied).unwrap().through, 3);
    let expected = [(8, "first"), (16, "second"), (24, "third")];
    let expected = expected.map(|(offset, text)| (Some("region"), offset, text.as_bytes().to_vec()));
    assert_eq!(applied, expected);
}

#[test]
fn what_an_earlier_attempt_still_brings_is_not_applied() {
    let mut drainer = Drainer::new(WRITER);
    drainer.attach(1);
    drainer.present(1, 0, "region");
    drainer.attach(2);
    let mut applied = Vec::new();
    let bytes = entries(&[(0, 0, b"old")]);
    let answer = drain(&mut drainer, &batch(1, 1, 1), &bytes, &mut applied).unwrap();
    assert_eq!((answer.attempt, answer.through, applied.len()), (2, 0, 0));
    drainer.present(1, 0, "region");
    let answer = drain(&mut drainer, &batch(2, 1, 1), &bytes, &mut applied).unwrap();
    assert_eq!(
        answer.refusals,
        [RefusedEntry { sequence: 1, status: AccessStatus::NotOpen }],
        "regions are presented anew"
    );
}

#[test]
fn refusals_are_told_until_the_writer_says_that_it_knows() {
    let mut drainer = Drainer::new(WRITER);
    drainer.attach(1);
    drainer.present(1, 0, "region");
    let mut applied = Vec::new();
    let bytes = entries(&[(5, 0, b"nowhere"), (0, 0, b"here")]);
    let refusals = vec![RefusedEntry { sequence: 1, status: AccessStatus::NotOpen }];
    assert_eq!(drain(&mut drainer, &batch(1, 1, 2), &bytes, &mut applied).unwrap().refusals, refusals);
    assert_eq!(drainer.attach(2).refusals, refusals);
    let later = Batch { settled: 2, ..batch(2, 3, 1) };
    let answer = drain(&mut drainer, &later, &entries(&[(5, 0, b"")]), &mut applied).unwrap();
    assert_eq!(answer.refusals, [RefusedEntry { sequence: 3, status: AccessStatus::NotOpen }]);
}

#[test]
fn nothing_of_a_malformed_batch_is_applied() {
    let good = entries(&[(0, 0, b"12345678"), (0, 8, b"12345678")]);
    let mut longer = good.clone();
    longer.extend_from_slice(&[0; 8]);
    let mut lying = good.clone();
    lying[24 + 4..24 + 8].copy_from_slice(&u32::MAX.to_le_bytes());
    for bytes in [&good[..good.len() - 8], &good[..30], &longer, &lying, &[]] {
        let mut drainer = Drainer::new(WRITER);
        drainer.attach(1);
        let mut applied = Vec::new();
        assert_eq!(drain(&mut drainer, &batch(1, 1, 2), bytes, &mut applied), Err(Malformed));
        assert!(applied.is_empty());
    }
}

#[test]
fn a_gap_is_not_jumped_over() {
    let mut drainer = Drainer::new(WRITER);
    drainer.attach(1);
    let mut applied = Vec::new();
    let answer = drain(&mut drainer, &batch(1, 2, 1), &entries(&[(0, 0, b"late")]), &mut applied).unwrap();
    assert_eq!((answer.through, applied.len()), (0, 0));
}

#[test]
fn a_slot_costs_what_was_presented_and_nothing_while_the_writer_is_away() {
    let mut drainer = Drainer::new(WRITER);
    drainer.attach(1);
    drainer.present(1, SLOTS_MAX - 1, 8);
    drainer.present(1, SLOTS_MAX, 9);
    assert_eq!(drainer.slots.len(), 1);
    drainer.rest();
    assert!(drainer.slots.is_empty());
}
