use proptest::prelude::*;

use super::*;
use crate::access::AccessStatus;

const WRITER: WriterId = WriterId([9; 16]);

#[test]
fn messages_are_read_as_they_were_written() {
    let attach = AttachWriter { writer: WRITER, attempt: 7, server: Incarnation(5) };
    assert_eq!(AttachWriter::decode(&attach.encode()).unwrap(), attach);
    let leave = Leave { writer: WRITER, attempt: 8 };
    assert_eq!(Leave::decode(&leave.encode()).unwrap(), leave);
    let present = Present {
        writer: WRITER,
        attempt: 7,
        slot: 3,
        region: RegionId(11),
        generation: Generation(2),
        key: RegionKey([5; 16]),
    };
    assert_eq!(Present::decode(&present.encode()).unwrap(), present);
    let head = EntryHead { slot: 3, len: 13, offset: 1 << 40 };
    assert_eq!(EntryHead::decode(head.encode()), head);
    assert_eq!(EntryHead::stride(13), 32);
}

#[test]
fn numbers_without_meaning_are_refused() {
    let batch = Batch { writer: WRITER, attempt: 1, count: 4, first: 9, settled: 8 };
    assert_eq!(Batch::decode(&batch.encode()).unwrap(), batch);
    let bad = [
        Batch { count: 0, ..batch },
        Batch { count: ENTRIES_MAX + 1, ..batch },
        Batch { first: 0, settled: 0, ..batch },
        Batch { first: u64::MAX, ..batch },
        Batch { settled: 9, ..batch },
    ];
    for batch in bad {
        assert!(Batch::decode(&batch.encode()).is_err(), "{batch:?}");
    }
    let mut slot = Present {
        writer: WRITER,
        attempt: 7,
        slot: SLOTS_MAX,
        region: RegionId(1),
        generation: Generation(1),
        key: RegionKey([0; 16]),
    };
    assert!(Present::decode(&slot.encode()).is_err());
    slot.slot -= 1;
    assert!(Present::decode(&slot.encode()).is_ok());
    assert!(AttachWriter::decode(&[0; AttachWriter::LEN - 1]).is_err());
    assert!(Leave::decode(&[0xff; Leave::LEN]).is_err());
    assert!(AttachWriter::decode(&[0xff; AttachWriter::LEN]).is_err(), "unused bytes are zero");
}

#[test]
fn answers_with_nonsense_are_refused() {
    let refusals = vec![RefusedEntry { sequence: 4, status: AccessStatus::NoRight }];
    let drained = Drained { writer: WRITER, attempt: 2, through: 9, refusals };
    let mut bytes = Vec::new();
    drained.encode(&mut bytes);
    assert_eq!(Drained::decode(&bytes).unwrap(), drained);
    assert!(Drained::decode(&bytes[..bytes.len() - 1]).is_err());
    let longer = [bytes.as_slice(), &[0]].concat();
    assert!(Drained::decode(&longer).is_err());
    let mut wrong = bytes.clone();
    wrong[Drained::FIXED_LEN + 8] = AccessStatus::Done as u8;
    assert!(Drained::decode(&wrong).is_err(), "a refusal needs a reason");
    bytes[20..24].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(Drained::decode(&bytes).is_err());
}

proptest! {
    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..96)) {
        let _ = AttachWriter::decode(&bytes);
        let _ = Present::decode(&bytes);
        let _ = Leave::decode(&bytes);
        let _ = Batch::decode(&bytes);
        let _ = Drained::decode(&bytes);
    }
}
