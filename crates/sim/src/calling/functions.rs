//! The functions that callers call: those of the hash table of `apps/kv`, one that marks a cell, and one that marks a cell and goes
//! on at another memory server.

use std::sync::OnceLock;

use outboard_calling::{FunctionImage, FunctionNeeds};
use outboard_wire::calling::Allowed;
use outboard_wire::{Generation, RegionId, RegionKey, Rights};

use super::history::Op;

const OBJECT: &[u8] = include_bytes!("../../../../apps/kv/functions/kv-v3.o");

/// Adds one to the cell of its first argument, replies where that is, reads the first cell as often as its second says, and
/// returns what was in its own before. While it reads it can be moved.
const MARK: &str = "
    ldxdw r6, [r1+0]
    ldxdw r7, [r1+8]
    stxdw [r10-8], r6
    mov r1, r10
    add r1, -8
    mov r2, 8
    call reply
    mov r1, 0
    mov r2, r6
    mov r3, 1
    call region_fetch_add
    mov r8, r0
    loop:
    jeq r7, 0, end
    mov r1, 0
    mov r2, 0
    mov r3, r10
    add r3, -16
    mov r4, 8
    call region_read
    add r7, -1
    ja loop
    end:
    mov r0, r8
    exit";

/// Marks the cell of its first argument, then goes on at the server of its second as the function of its third with the fourth and
/// fifth, unless the cell was marked before.
const HOP: &str = "
    ldxdw r6, [r1+0]
    ldxdw r7, [r1+8]
    ldxdw r8, [r1+16]
    ldxdw r9, [r1+24]
    stxdw [r10-16], r9
    ldxdw r9, [r1+32]
    stxdw [r10-8], r9
    stxdw [r10-24], r6
    mov r1, r10
    add r1, -24
    mov r2, 8
    call reply
    mov r1, 0
    mov r2, r6
    mov r3, 1
    call region_fetch_add
    jeq r0, 0, on
    exit
    on:
    mov r1, r7
    mov r2, r8
    mov r3, r10
    add r3, -16
    mov r4, 16
    call forward_to
    mov r0, 0
    exit";

/// A function, by its place among [`images`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Get,
    Put,
    Delete,
    Mark,
    Hop,
}

impl Name {
    pub(super) const ALL: [Self; 5] = [Self::Get, Self::Put, Self::Delete, Self::Mark, Self::Hop];

    pub(super) fn image(self) -> &'static FunctionImage {
        static IMAGES: OnceLock<[FunctionImage; 5]> = OnceLock::new();
        let images = IMAGES.get_or_init(|| {
            // The objects in the repository are known to be right, and so are the texts above.
            let object = |entry| FunctionImage::from_object(OBJECT, entry).expect("an object of ours");
            let text = |text| FunctionImage::from_text(text, "main").expect("a text of ours");
            [object("kv_get"), object("kv_put"), object("kv_delete"), text(MARK), text(HOP)]
        });
        &images[self as usize]
    }

    /// How it is registered. Getting only reads.
    pub(super) fn wanted(self) -> FunctionNeeds {
        let (region, rights) = match self {
            Self::Get => (TABLE, Rights::READ),
            Self::Put | Self::Delete => (TABLE, Rights::READ.and(Rights::WRITE)),
            Self::Mark | Self::Hop => (CELLS, Rights::READ.and(Rights::WRITE)),
        };
        let allowed =
            Allowed { region, generation: GENERATION, key: KEY, rights, size: size_of(region) as u64 };
        FunctionNeeds { regions: vec![allowed], fuel: 100_000, reply_max: 64 }
    }
}

/// The region of the hash table, and that of the cells.
pub(super) const TABLE: RegionId = RegionId(7);
pub(super) const CELLS: RegionId = RegionId(8);
pub(super) const GENERATION: Generation = Generation(1);
pub(super) const KEY: RegionKey = RegionKey([9; 16]);

/// How many cells there are; every call has its own. The first one belongs to no call.
pub(super) const CELLS_MAX: usize = 4096;

const SLOT_BYTES: u64 = 64;
const SLOTS: u64 = 96;
const BUCKETS: u64 = 2;
const SLOTS_AT: u64 = 576 + BUCKETS * 128;

/// How long a region is.
pub(super) fn size_of(region: RegionId) -> usize {
    if region == TABLE {
        (SLOTS_AT + SLOTS * SLOT_BYTES).next_multiple_of(4096) as usize
    } else {
        CELLS_MAX * 8
    }
}

/// The results of functions of the table.
const DONE: u64 = 0;
const BUSY: u64 = 3;

/// The beginning of an empty table.
pub(super) fn header() -> Vec<u8> {
    let words = [0x3330_764b_6274_754f, BUCKETS - 1, SLOTS, SLOT_BYTES, SLOTS_AT, 0, 0, 0];
    words.map(u64::to_le_bytes).concat()
}

/// The function and the arguments of an operation on the table.
pub(super) fn table_call(key: u8, op: Op) -> (Name, Vec<u8>) {
    let (name, value) = match op {
        Op::Get(_) => (Name::Get, None),
        Op::Put(value) => (Name::Put, Some(value)),
        Op::Delete(_) => (Name::Delete, None),
    };
    let length = value.map_or(0, |_| 16);
    let shape = SLOT_BYTES << 8 | u64::from(BUCKETS.trailing_zeros());
    let mut words = vec![1 << 32 | length, shape, 0, u64::from(key)];
    // Two words, so that a torn value shows.
    words.extend(value.into_iter().flat_map(|value| [value, !value]));
    (name, words.into_iter().flat_map(u64::to_le_bytes).collect())
}

/// The meaning of an answer of the table: the value found or the change made, or nothing if others were in the way.
pub(super) fn read_answer(op: Op, value: u64, reply: &[u8]) -> Result<Option<Op>, String> {
    if value == BUSY {
        return Ok(None);
    }
    Ok(Some(match op {
        Op::Get(_) if value == DONE => {
            let words: Vec<u64> = reply.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
            match words[..] {
                [value, inverse] if value == !inverse => Op::Get(Some(value)),
                _ => return Err(format!("a value comes in one piece, not as {reply:02x?}")),
            }
        }
        Op::Get(_) => Op::Get(None),
        Op::Put(put) if value == DONE => Op::Put(put),
        Op::Put(_) => return Err(format!("a put ends well, not with {value}")),
        Op::Delete(_) => Op::Delete(value == DONE),
    }))
}
