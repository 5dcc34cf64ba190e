//! Numbers and bytes at which things go wrong.

use outboard_e2e::Random;
use outboard_wire::{FrameHead, FrameKind, Generation, Grant, RegionId, RegionKey, Rights, Room};

/// Where lengths, counts, offsets and numbers go wrong.
const EDGES: [u64; 22] = [
    0,
    1,
    7,
    8,
    15,
    4095,
    4096,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_fff0,
    0xffff_ffff,
    0x1_0000_0000,
    1 << 40,
    1 << 47,
    1 << 60,
    i64::MAX as u64,
    1 << 63,
    u64::MAX - 15,
    u64::MAX - 7,
    u64::MAX,
];

/// A number from the ends of ranges, or near one, or any.
pub(crate) fn edge(random: &mut Random) -> u64 {
    match random.below(8) {
        0 => random.next(),
        1 => random.below(1 << 20),
        2 => EDGES[random.below(EDGES.len() as u64) as usize].wrapping_add(random.below(3)).wrapping_sub(1),
        _ => EDGES[random.below(EDGES.len() as u64) as usize],
    }
}

/// One that is below `end` most of the time.
pub(crate) fn mostly_below(end: u64, random: &mut Random) -> u64 {
    if random.once_in(4) { edge(random) } else { random.below(end.max(1)) }
}

pub(crate) fn rights(random: &mut Random) -> Rights {
    Rights::from_bits(random.below(8) as u8).unwrap_or(Rights::ALL)
}

pub(crate) fn key(random: &mut Random) -> RegionKey {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&random.next().to_le_bytes());
    RegionKey(bytes)
}

/// A grant that nobody has given, or one that says more than was given.
pub(crate) fn grant(real: Option<&Grant>, random: &mut Random) -> Grant {
    let Some(real) = real.filter(|_| !random.once_in(3)) else {
        return Grant {
            region: RegionId(mostly_below(64, random)),
            generation: Generation(edge(random) as u32),
            key: key(random),
            rights: rights(random),
            size: edge(random),
        };
    };
    let mut grant = *real;
    match random.below(5) {
        0 => grant.size = real.size.wrapping_add(random.below(1 << 20)),
        1 => grant.size = edge(random),
        2 => grant.rights = rights(random),
        3 => grant.generation = Generation(real.generation.0.wrapping_add(random.below(3) as u32)),
        _ => {}
    }
    grant
}

/// Bytes that were right, with a few changes; or longer, or shorter.
pub(crate) fn mutate(mut bytes: Vec<u8>, random: &mut Random) -> Vec<u8> {
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len() as u64 + 1) as usize;
        match random.below(6) {
            0 => bytes.truncate(at),
            1 => bytes.extend_from_slice(&edge(random).to_le_bytes()),
            2 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            3 if at < bytes.len() => bytes[at] = random.next() as u8,
            _ => {
                let value = edge(random).to_le_bytes();
                let width = 1usize << random.below(4);
                bytes
                    .iter_mut()
                    .skip(at & !(width - 1))
                    .zip(value)
                    .take(width)
                    .for_each(|(to, from)| *to = from);
            }
        }
    }
    bytes
}

/// The same bytes most of the time, changed ones otherwise.
pub(crate) fn perhaps(bytes: Vec<u8>, random: &mut Random) -> Vec<u8> {
    if random.once_in(3) { mutate(bytes, random) } else { bytes }
}

/// Some bytes, of a length that means something to somebody.
pub(crate) fn some_bytes(most: usize, random: &mut Random) -> Vec<u8> {
    let len = mostly_below(256, random).min(most as u64) as usize;
    random.bytes(len)
}

/// Who reads it, and what it is taken for.
pub(crate) fn any_head(random: &mut Random) -> FrameHead {
    const ROOMS: [Room; 7] =
        [Room::Link, Room::Control, Room::Paging, Room::Routing, Room::Calling, Room::Writing, Room::Trial];
    let room = ROOMS[random.below(ROOMS.len() as u64) as usize];
    let kind = match random.below(8) {
        0 => FrameKind(random.next() as u16),
        _ => FrameKind::new(room, random.below(48) as u8),
    };
    let head = FrameHead::new(kind).with_tag(edge(random) as u32);
    head.with_flow(outboard_wire::Flow(edge(random) as u32))
}
