//! The decoders of what travels between writers and those who drain for them.

use outboard_wire::access::AccessStatus;
use outboard_wire::writing::{
    AttachWriter, Batch, Drained, EntryHead, Leave, Present, RefusedEntry, WriterId,
};
use outboard_wire::{Generation, Incarnation, RegionId, RegionKey};
use outboard_writing::Drainer;

use crate::FuzzVerdict;
use crate::routing::same;
use crate::wire::refused;

/// Which decoder, then its bytes.
pub(crate) fn writing(bytes: &[u8]) -> FuzzVerdict {
    let Some((which, bytes)) = bytes.split_first() else { return FuzzVerdict::Refused };
    match which {
        0 => same(AttachWriter::decode(bytes), |message| AttachWriter::decode(&message.encode())),
        1 => same(Present::decode(bytes), |message| Present::decode(&message.encode())),
        2 => same(Leave::decode(bytes), |message| Leave::decode(&message.encode())),
        3 => same(Batch::decode(bytes), |message| Batch::decode(&message.encode())),
        4 => same(Drained::decode(bytes), |message| {
            let mut encoded = Vec::new();
            message.encode(&mut encoded);
            Drained::decode(&encoded)
        }),
        5 => drained(bytes),
        _ => FuzzVerdict::Refused,
    }
}

/// A batch is drained as a memory server does: no entry reaches beyond the bytes that are there, and all of them are
/// settled if they could be.
fn drained(bytes: &[u8]) -> FuzzVerdict {
    let Some((head, entries)) = bytes.split_at_checked(Batch::LEN) else { return FuzzVerdict::Refused };
    let batch = match Batch::decode(head) {
        Ok(batch) => batch,
        Err(error) => return refused(error),
    };
    let mut drainer = Drainer::new(batch.writer);
    drainer.attach(batch.attempt);
    drainer.present(batch.attempt, 0, ());
    let mut applied = 0;
    let answer = drainer.drain(&batch, entries.into(), |arrival| {
        assert!(arrival.bytes.len() <= entries.len());
        applied += 1;
        if arrival.region.is_some() { AccessStatus::Done } else { AccessStatus::NotOpen }
    });
    let Ok(answer) = answer else {
        assert_eq!(applied, 0, "nothing is done of a batch that is malformed");
        return FuzzVerdict::Refused;
    };
    let is_next = batch.first == 1 && batch.attempt == drainer.attempt();
    assert_eq!(applied, if is_next { batch.count } else { 0 });
    assert_eq!(answer.through, u64::from(applied));
    assert!(answer.refusals.iter().all(|refusal| (1..=answer.through).contains(&refusal.sequence)));
    FuzzVerdict::Decoded
}

pub(crate) fn writing_seeds() -> Vec<Vec<u8>> {
    let (writer, attempt) = (WriterId([3; 16]), 2);
    let (region, generation, key) = (RegionId(5), Generation(1), RegionKey([7; 16]));
    let batch = Batch { writer, attempt, count: 2, first: 1, settled: 0 };
    let entry = |slot, len: usize| {
        let head = EntryHead { slot, len: len as u32, offset: 64 };
        [&head.encode()[..], &vec![9; EntryHead::stride(len) - EntryHead::LEN]].concat()
    };
    let mut answer = Vec::new();
    let refusals = vec![RefusedEntry { sequence: 4, status: AccessStatus::OutOfBounds }];
    Drained { writer, attempt, through: 9, refusals }.encode(&mut answer);
    let seeds: [(u8, Vec<u8>); 6] = [
        (0, AttachWriter { writer, attempt, server: Incarnation(11) }.encode().to_vec()),
        (1, Present { writer, attempt, slot: 3, region, generation, key }.encode().to_vec()),
        (2, Leave { writer, attempt }.encode().to_vec()),
        (3, batch.encode().to_vec()),
        (4, answer),
        (5, [&batch.encode()[..], &entry(0, 13), &entry(1, 8)].concat()),
    ];
    seeds.map(|(which, bytes)| [&[which][..], &bytes].concat()).to_vec()
}
