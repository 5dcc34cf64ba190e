//! The hash table of `apps/kv` and its functions, as sites know them.

use std::sync::{Arc, OnceLock};

use outboard_calling::{Binding, Client, Executor, Function, FunctionImage};
use outboard_wire::calling::Allowed;
use outboard_wire::{Generation, RegionId, RegionKey, Rights};

use super::history::Op;

const OBJECT: &[u8] = include_bytes!("../../../../apps/kv/functions/kv-v3.o");

/// The region that the table lies in.
pub(super) const REGION: RegionId = RegionId(7);
pub(super) const GENERATION: Generation = Generation(1);
pub(super) const KEY: RegionKey = RegionKey([9; 16]);

const SLOT_BYTES: u64 = 64;
const SLOTS: u64 = 96;
const BUCKETS: u64 = 2;
const SLOTS_AT: u64 = 576 + BUCKETS * 128;
/// How long the region is.
pub(super) const SIZE: usize = (SLOTS_AT + SLOTS * SLOT_BYTES).next_multiple_of(4096) as usize;

/// What functions return.
const DONE: u64 = 0;
const BUSY: u64 = 3;

/// The beginning of an empty table.
pub(super) fn header() -> Vec<u8> {
    let words = [0x3330_764b_6274_754f, BUCKETS - 1, SLOTS, SLOT_BYTES, SLOTS_AT, 0, 0, 0];
    words.map(u64::to_le_bytes).concat()
}

/// How a function is registered.
pub(super) fn allowed() -> Allowed {
    Allowed { region: REGION, generation: GENERATION, key: KEY, rights: Rights::ALL, size: SIZE as u64 }
}

/// Get, put and delete. Looking at them takes longer than any run, so it is done once.
fn functions() -> &'static [Arc<Function>; 3] {
    static FUNCTIONS: OnceLock<[Arc<Function>; 3]> = OnceLock::new();
    FUNCTIONS.get_or_init(|| {
        ["kv_get", "kv_put", "kv_delete"].map(|entry| {
            // What lies in the repository is known to be right.
            let image = FunctionImage::from_object(OBJECT, entry).expect("an object of ours");
            Arc::new(Function::prepare(&image).expect("a function of ours"))
        })
    })
}

/// One more who calls at a site.
pub(super) fn open<R: Clone>(executor: &mut Executor<R>, region: &R) -> Client {
    let client = executor.open(Arc::default());
    for (handle, function) in functions().iter().enumerate() {
        let (function, regions) = (Arc::clone(function), vec![(region.clone(), Rights::ALL)]);
        let binding = Binding { function, regions, fuel: 100_000, reply_max: 64 };
        executor.bind(client, handle as u32, binding);
    }
    client
}

/// The function's number and its arguments.
pub(super) fn arguments(key: u8, op: Op) -> (u32, Vec<u8>) {
    let (handle, value) = match op {
        Op::Get(_) => (0, None),
        Op::Put(value) => (1, Some(value)),
        Op::Delete(_) => (2, None),
    };
    let length = value.map_or(0, |_| 16);
    let shape = SLOT_BYTES << 8 | u64::from(BUCKETS.trailing_zeros());
    let mut words = vec![1 << 32 | length, shape, 0, u64::from(key)];
    // Two words, so that a torn value shows.
    words.extend(value.into_iter().flat_map(|value| [value, !value]));
    (handle, words.into_iter().flat_map(u64::to_le_bytes).collect())
}

/// What an answer says: what was found or done, or nothing if others were in the way.
pub(super) fn read(op: Op, value: u64, reply: &[u8]) -> Result<Option<Op>, String> {
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
