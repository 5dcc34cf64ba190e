//! Which chunks were touched, as far as the pager has seen it: a recording that can be kept and played again.
//!
//! Chunks that are here are touched without a fault, so a recording has the touches of chunks that are not here. With the smallest buffer that is
//! nearly every change from one chunk to another.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use thiserror::Error;

use super::chunks::{ChunkKey, SizeClass};

/// A region that chunks were touched of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedRegion {
    /// Its number in the process.
    pub number: u32,
    /// How large its chunks are.
    pub class: SizeClass,
    /// How many chunks it has.
    pub chunks: u32,
}

/// Takes touches down, in memory that it has from the beginning. What comes when that is full is left out.
#[derive(Debug)]
pub(super) struct Recorder {
    /// Each as a number that is not zero.
    touches: Box<[AtomicU64]>,
    next: AtomicUsize,
    regions: Mutex<Vec<RecordedRegion>>,
}

impl Recorder {
    /// Room for so many touches; `None` for none.
    pub(super) fn new(most: usize) -> Option<Self> {
        let touches = std::iter::repeat_with(AtomicU64::default).take(most).collect();
        (most > 0).then(|| Self { touches, next: AtomicUsize::new(0), regions: Mutex::default() })
    }

    pub(super) fn region(&self, region: RecordedRegion) {
        self.regions.lock().unwrap_or_else(PoisonError::into_inner).push(region);
    }

    /// A chunk is touched. May be called in a signal handler.
    pub(super) fn touch(&self, key: ChunkKey) {
        if self.next.load(Ordering::Relaxed) < self.touches.len()
            && let Some(place) = self.touches.get(self.next.fetch_add(1, Ordering::Relaxed))
        {
            place.store((u64::from(key.region) << 32 | u64::from(key.index)) + 1, Ordering::Release);
        }
    }

    /// The touches that were taken down so far.
    pub(super) fn recording(&self) -> Recording {
        let taken = self.next.load(Ordering::Acquire).min(self.touches.len());
        let touches = self.touches[..taken].iter().map(|place| place.load(Ordering::Acquire));
        // A thread may be about to take one down.
        let touches = touches.filter_map(|packed| packed.checked_sub(1));
        let key = |packed: u64| ChunkKey::new((packed >> 32) as u32, packed as u32);
        let regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Recording { regions, touches: touches.map(key).collect() }
    }
}

/// Which chunks were touched, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// The regions, in the order in which they were mapped.
    pub regions: Vec<RecordedRegion>,
    /// The chunks.
    pub touches: Vec<ChunkKey>,
}

/// Why bytes are no recording.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum BadRecording {
    /// They begin with something else.
    #[error("it does not begin as a recording of far memory does; far.record writes them")]
    NoRecording,
    /// They end too early, or something in them cannot be.
    #[error("it is damaged at byte {at}; record it again")]
    Damaged {
        /// Where.
        at: usize,
    },
}

const BEGINNING: &[u8; 8] = b"touches1";

impl Recording {
    /// As bytes: numbers of seven bits each with a bit that says whether more follows, touches as the distance from the one before.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = BEGINNING.to_vec();
        put(&mut bytes, self.regions.len() as u64);
        for RecordedRegion { number, class, chunks } in &self.regions {
            for part in [u64::from(*number), class.0.into(), u64::from(*chunks)] {
                put(&mut bytes, part);
            }
        }
        put(&mut bytes, self.touches.len() as u64);
        let mut before = ChunkKey::new(0, 0);
        for &key in &self.touches {
            put(&mut bytes, key.region.into());
            let from = if key.region == before.region { before.index } else { 0 };
            let distance = i64::from(key.index) - i64::from(from);
            put(&mut bytes, (distance << 1 ^ distance >> 63) as u64);
            before = key;
        }
        bytes
    }

    /// Reads the bytes that [`encode`](Self::encode) has written. Touches are of chunks that there are.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadRecording> {
        let rest = bytes.strip_prefix(BEGINNING).ok_or(BadRecording::NoRecording)?;
        let mut reader = Reader { all: bytes.len(), rest };
        let mut regions: Vec<RecordedRegion> = Vec::new();
        for _ in 0..reader.number()? {
            let [number, class, chunks] = [reader.small()?, reader.small()?, reader.small()?];
            let class = u8::try_from(class).ok().filter(|class| *class < 32).ok_or(reader.damaged())?;
            regions.push(RecordedRegion { number, class: SizeClass(class), chunks });
        }
        let mut touches = Vec::new();
        let mut before = ChunkKey::new(0, 0);
        for _ in 0..reader.number()? {
            let region = reader.small()?;
            let from = if region == before.region { before.index } else { 0 };
            let packed = reader.number()?;
            let distance = (packed >> 1) as i64 ^ -((packed & 1) as i64);
            let index = i64::from(from).checked_add(distance).and_then(|index| u32::try_from(index).ok());
            let index = index.ok_or(reader.damaged())?;
            let is_there = |known: &RecordedRegion| known.number == region && index < known.chunks;
            if !regions.iter().any(is_there) {
                return Err(reader.damaged());
            }
            before = ChunkKey::new(region, index);
            touches.push(before);
        }
        if reader.rest.is_empty() { Ok(Self { regions, touches }) } else { Err(reader.damaged()) }
    }
}

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

struct Reader<'a> {
    all: usize,
    rest: &'a [u8],
}

impl Reader<'_> {
    fn damaged(&self) -> BadRecording {
        BadRecording::Damaged { at: self.all - self.rest.len() }
    }

    fn number(&mut self) -> Result<u64, BadRecording> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let Some((&byte, rest)) = self.rest.split_first() else { break };
            self.rest = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(self.damaged())
    }

    fn small(&mut self) -> Result<u32, BadRecording> {
        u32::try_from(self.number()?).map_err(|_| self.damaged())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(region: u32, index: u32) -> ChunkKey {
        ChunkKey::new(region, index)
    }

    fn recorder(most: usize) -> Recorder {
        let recorder = Recorder::new(most).unwrap();
        recorder.region(RecordedRegion { number: 1, class: SizeClass(12), chunks: u32::MAX });
        recorder.region(RecordedRegion { number: 300, class: SizeClass(16), chunks: 70 });
        recorder
    }

    #[test]
    fn what_was_touched_is_found_again() {
        let recorder = recorder(1000);
        let keys = [key(1, 7), key(1, 6), key(300, 69), key(1, u32::MAX - 1), key(1, 0), key(300, 0)];
        keys.iter().for_each(|key| recorder.touch(*key));
        let recording = recorder.recording();
        assert_eq!(recording.touches, keys);
        assert_eq!(Recording::decode(&recording.encode()), Ok(recording));
    }

    #[test]
    fn a_recording_ends_when_it_is_full() {
        assert!(Recorder::new(0).is_none());
        let recorder = recorder(2);
        (0..5).for_each(|index| recorder.touch(key(1, index)));
        assert_eq!(recorder.recording().touches, [key(1, 0), key(1, 1)]);
    }

    #[test]
    fn what_is_no_recording_is_refused() {
        let recorder = recorder(4);
        recorder.touch(key(300, 69));
        let whole = recorder.recording().encode();
        assert_eq!(Recording::decode(b"touched"), Err(BadRecording::NoRecording));
        for len in BEGINNING.len()..whole.len() {
            assert_eq!(Recording::decode(&whole[..len]), Err(BadRecording::Damaged { at: len }));
        }
        let longer = [&whole[..], &[0]].concat();
        assert_eq!(Recording::decode(&longer), Err(BadRecording::Damaged { at: whole.len() }));
        recorder.touch(key(300, 70));
        let outside = recorder.recording().encode();
        assert!(matches!(Recording::decode(&outside), Err(BadRecording::Damaged { .. })));
    }
}
