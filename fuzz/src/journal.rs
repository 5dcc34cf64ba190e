//! The decoders of what a memory server writes down.

use outboard_keep::{
    DumpCheck, DumpError, DumpHeader, JournalRecord, KeptHolder, KeptRegion, ServerLife, StorePlace, append,
    end_of_dump, header, piece_head, read,
};
use outboard_wire::control::RegionSharing;
use outboard_wire::{Generation, Incarnation, RegionId, RegionKey, StoreId};

use crate::FuzzVerdict;
use crate::wire::refused;

/// A journal. What it adds up to is the same when it is written anew.
pub(crate) fn journal(bytes: &[u8]) -> FuzzVerdict {
    match read(bytes) {
        Ok(reading) => {
            assert!(reading.len <= bytes.len());
            let mut again = header().to_vec();
            let records = reading.state.records();
            records.iter().enumerate().for_each(|(number, record)| append(number as u32, record, &mut again));
            assert_eq!(read(&again).map(|reading| reading.state), Ok(reading.state));
            FuzzVerdict::Decoded
        }
        Err(error) => refused(error),
    }
}

pub(crate) fn journal_seeds() -> Vec<Vec<u8>> {
    let holder = KeptHolder {
        process: Incarnation(5),
        pid: 4242,
        mapped_since: 99,
        writes: true,
        sharing: RegionSharing::Together,
        times: 2,
    };
    let region = KeptRegion {
        region: RegionId(3),
        generation: Generation(7),
        size: 1 << 20,
        memory: 1 << 20,
        chunk_log2: 16,
        is_sparse: true,
        name: "größe".to_owned(),
        owner: Some(Incarnation(5)),
        keys: std::array::from_fn(|key| RegionKey([key as u8; 16])),
        epoch: 4,
        holders: vec![holder],
    };
    let life = ServerLife {
        incarnation: Incarnation(1),
        boot: [2; 16],
        store: StoreId(3),
        place: StorePlace { device: 4, inode: 5, born: 6 },
        last_region: RegionId(2),
    };
    let records = [
        JournalRecord::Began(life),
        JournalRecord::Region(Box::new(region)),
        JournalRecord::Epoch { region: RegionId(3), epoch: 6 },
        JournalRecord::Held { region: RegionId(3), epoch: 7, holders: vec![holder, holder] },
        JournalRecord::Freed { region: RegionId(3) },
        JournalRecord::Ended,
    ];
    let journal = |count: usize| {
        let mut bytes = header().to_vec();
        let first = records[..count].iter().enumerate();
        first.for_each(|(number, record)| append(number as u32, record, &mut bytes));
        bytes
    };
    (0..=records.len()).map(journal).collect()
}

/// A region that was saved.
pub(crate) fn dump(bytes: &[u8]) -> FuzzVerdict {
    match read_dump(bytes) {
        Ok(again) => {
            assert_eq!(again, bytes, "what was read is written alike");
            FuzzVerdict::Decoded
        }
        Err(error) => refused(error),
    }
}

fn read_dump(bytes: &[u8]) -> Result<Vec<u8>, DumpError> {
    let (start, mut rest) = bytes.split_first_chunk().ok_or(DumpError::NoDump)?;
    let about = DumpHeader::decode(start)?;
    let (mut check, mut again) = (DumpCheck::new(about), about.encode().to_vec());
    loop {
        let (head, behind) = rest.split_first_chunk().ok_or(check.cut_short())?;
        let Some(piece) = check.head(*head)? else {
            again.extend_from_slice(&end_of_dump(&about, check.written()));
            return if behind.is_empty() { Ok(again) } else { Err(check.too_long()) };
        };
        let (content, behind) = behind.split_at_checked(piece.len).ok_or(check.cut_short())?;
        check.content(&piece, content)?;
        assert!(piece.offset + content.len() as u64 <= about.size);
        again.extend_from_slice(&piece_head(piece.offset, content));
        again.extend_from_slice(content);
        rest = behind;
    }
}

pub(crate) fn dump_seeds() -> Vec<Vec<u8>> {
    let about = DumpHeader { size: 1 << 40, chunk_log2: 16 };
    let mut one = about.encode().to_vec();
    one.extend_from_slice(&end_of_dump(&about, 0));
    let mut other = about.encode().to_vec();
    for (offset, content) in [(0, &b"begin"[..]), (1 << 39, b"far away")] {
        other.extend_from_slice(&piece_head(offset, content));
        other.extend_from_slice(content);
    }
    other.extend_from_slice(&end_of_dump(&about, 13));
    vec![one, other]
}
