//! Which chunks leave the buffer: how many are fetched more often than by a pager that knew the future?
//!
//! The product's own shard plays what programs touch, with room for a third of their chunks. Beside it play the chunk that was
//! used least recently, the one that came first, and the one that is needed latest, which nothing beats; and the one that is touched
//! least often in all, which nothing beats that knows how often chunks are touched, but not when.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, VecDeque};
use std::path::Path;

use outboard_paging::application::Recording;
use outboard_paging::application::chunks::{Access, Answer, ArrivalStep, ChunkKey, Shard, SizeClass, State};

use super::programs::{PROGRAMS, Program, Touches};
use crate::BenchError;
use crate::error::chain;
use crate::harness::{Effort, Figure, Unit};

const CLASS: SizeClass = SizeClass(12);
const VERSUS: &str =
    "of the chunk that was used least recently, also over those of one that knows the future";

/// How often chunks were fetched.
struct Misses {
    ours: u64,
    /// How often one was moved out and in again without being fetched.
    rescued: u64,
    least_recent: u64,
    first_come: u64,
    least_often: u64,
    optimum: u64,
}

/// A figure for each program, and what there is to say about it.
pub(super) fn figures(effort: Effort) -> (Vec<Figure>, Vec<String>) {
    let edges = match effort {
        Effort::Tiny => 1 << 15,
        Effort::Quick => 1 << 18,
        Effort::Full => 1 << 20,
    };
    PROGRAMS.iter().map(|program: &Program| figure(program.name, &(program.play)(edges))).unzip()
}

/// The figure of a recording that `far.record` has written, and what there is to say about it.
pub(super) fn played(file: &Path) -> Result<(Figure, String), BenchError> {
    let failed = |why: String| BenchError::Recording { file: file.display().to_string(), why };
    let bytes = std::fs::read(file).map_err(|error| failed(error.to_string()))?;
    let recording = Recording::decode(&bytes).map_err(|error| failed(chain(&error)))?;
    let touches = Touches::of(&recording)
        .ok_or_else(|| failed("it has no touches, or of chunks of several sizes".to_owned()))?;
    Ok(figure("played", &touches))
}

fn figure(name: &str, touches: &Touches) -> (Figure, String) {
    let room = (touches.footprint / 3).max(1);
    let misses = Misses::of(touches, room);
    let over = |count: u64| count as f64 / misses.optimum as f64;
    let (ours, least_recent) = (over(misses.ours), over(misses.least_recent));
    let note = format!(
        "{name}: {} touches of {} chunks, room for {room}; {} fetched at least; over that ours {ours:.2} (and {:.2} moved in again), \
         least recently used {least_recent:.2}, first come {:.2}, least often touched in all {:.2}",
        touches.chunks.len(),
        touches.footprint,
        misses.optimum,
        over(misses.rescued),
        over(misses.first_come),
        over(misses.least_often),
    );
    let name = format!("far.replacement.over_optimal.{name}");
    (Figure::new(name, Unit::Slowdown, ours, least_recent, VERSUS), note)
}

impl Touches {
    /// Those of a recording, if there are any and all chunks are of one size.
    fn of(recording: &Recording) -> Option<Self> {
        let mut numbers = HashMap::new();
        let mut chunks = Vec::new();
        for key in &recording.touches {
            let next = numbers.len() as u32;
            let number = *numbers.entry(*key).or_insert(next);
            if chunks.last() != Some(&number) {
                chunks.push(number);
            }
        }
        let touched = |number: u32| recording.touches.iter().any(|key| key.region == number);
        let regions = recording.regions.iter().filter(|region| touched(region.number));
        let classes: BTreeSet<u8> = regions.map(|region| region.class.0).collect();
        (classes.len() == 1).then_some(Self { chunks, footprint: numbers.len() })
    }
}

impl Misses {
    fn of(touches: &Touches, room: usize) -> Self {
        let (ours, rescued) = by_shard(&touches.chunks, room);
        let (least_recent, first_come) = (least_recent(&touches.chunks, room), first_come(touches, room));
        let (least_often, optimum) = (least_often(touches, room), optimum(touches, room));
        Self { ours, rescued, least_recent, first_come, least_often, optimum }
    }
}

/// The product's shard, whose fetches end at once, and which has time to make room after each.
fn by_shard(chunks: &[u32], room: usize) -> (u64, u64) {
    let mut shard = Shard::new(room * CLASS.bytes());
    shard.prepare(CLASS);
    for &chunk in chunks {
        let key = ChunkKey::new(0, chunk);
        while shard.state(key) != State::Resident {
            match shard.fault(key, CLASS, Access::Read) {
                Answer::Fetch(seat) => {
                    if shard.filled(seat, false) == ArrivalStep::MoveIn {
                        shard.arrived(seat);
                    }
                }
                Answer::Rescue(seat) => shard.rescued(seat),
                Answer::MakeRoom => {
                    if let Some(seat) = shard.oldest() {
                        shard.left(seat, false);
                    }
                }
                Answer::Here | Answer::Joined | Answer::Parked => break,
            }
        }
        while shard.wants_room()
            && let Some(seat) = shard.next_to_leave()
        {
            shard.left(seat, false);
        }
    }
    (shard.counts().fetched, shard.counts().rescued)
}

fn least_recent(chunks: &[u32], room: usize) -> u64 {
    let (mut used, mut by_use) = (BTreeMap::new(), BTreeMap::new());
    let mut misses = 0;
    for (now, &chunk) in chunks.iter().enumerate() {
        match used.insert(chunk, now) {
            Some(before) => _ = by_use.remove(&before),
            None => {
                misses += 1;
                if used.len() > room
                    && let Some((_, oldest)) = by_use.pop_first()
                {
                    used.remove(&oldest);
                }
            }
        }
        by_use.insert(now, chunk);
    }
    misses
}

fn first_come(touches: &Touches, room: usize) -> u64 {
    let (mut is_here, mut queue) = (vec![false; touches.footprint], VecDeque::new());
    let mut misses = 0;
    for &chunk in &touches.chunks {
        if !std::mem::replace(&mut is_here[chunk as usize], true) {
            misses += 1;
            queue.push_back(chunk);
            if queue.len() > room
                && let Some(first) = queue.pop_front()
            {
                is_here[first as usize] = false;
            }
        }
    }
    misses
}

/// The chunk leaves that is touched least often from the beginning to the end.
fn least_often(touches: &Touches, room: usize) -> u64 {
    let mut counts = vec![0_u64; touches.footprint];
    touches.chunks.iter().for_each(|chunk| counts[*chunk as usize] += 1);
    let (mut here, mut misses) = (BTreeSet::new(), 0);
    for &chunk in &touches.chunks {
        if here.insert((counts[chunk as usize], chunk)) {
            misses += 1;
            // The one that has come is needed now.
            let other = here.iter().find(|(_, other)| *other != chunk).copied();
            if here.len() > room
                && let Some(other) = other
            {
                here.remove(&other);
            }
        }
    }
    misses
}

/// The chunk leaves that is needed latest.
fn optimum(touches: &Touches, room: usize) -> u64 {
    const NEVER: u32 = u32::MAX;
    let mut next_use = vec![NEVER; touches.chunks.len()];
    let mut latest = vec![NEVER; touches.footprint];
    for (now, &chunk) in touches.chunks.iter().enumerate().rev() {
        next_use[now] = std::mem::replace(&mut latest[chunk as usize], now as u32);
    }
    // When each chunk that is here is needed next; entries of the heap that say otherwise are old.
    let mut needed: Vec<Option<u32>> = vec![None; touches.footprint];
    let (mut heap, mut here, mut misses) = (BinaryHeap::new(), 0, 0);
    for (now, &chunk) in touches.chunks.iter().enumerate() {
        if needed[chunk as usize].is_none() {
            misses += 1;
            here += 1;
            while here > room
                && let Some((next, other)) = heap.pop()
            {
                if needed[other as usize] == Some(next) {
                    needed[other as usize] = None;
                    here -= 1;
                }
            }
        }
        needed[chunk as usize] = Some(next_use[now]);
        heap.push((next_use[now], chunk));
    }
    misses
}

#[cfg(test)]
mod tests {
    use outboard_paging::application::RecordedRegion;

    use super::*;

    fn touches(chunks: &[u32]) -> Touches {
        Touches { chunks: chunks.to_vec(), footprint: 8 }
    }

    #[test]
    fn each_policy_lets_go_of_its_own_choice() {
        let cycle = touches(&[0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3]);
        assert_eq!((least_recent(&cycle.chunks, 3), first_come(&cycle, 3)), (12, 12));
        // 0 1 2 come, 3 for 2, 2 for 1, 1 for 0, 0 for 3.
        assert_eq!(optimum(&cycle, 3), 6);
        let again = touches(&[0, 1, 0, 2, 0, 3, 0, 4, 0]);
        assert_eq!((least_recent(&again.chunks, 2), first_come(&again, 2), optimum(&again, 2)), (5, 7, 5));
        assert_eq!((least_often(&again, 2), least_often(&cycle, 3)), (5, 8));
        assert_eq!(optimum(&touches(&[5, 5, 5]), 1), 1);
    }

    #[test]
    fn a_recording_is_played() {
        let region = |number, class| RecordedRegion { number, class: SizeClass(class), chunks: 9 };
        let key = ChunkKey::new;
        let keys = vec![key(3, 8), key(3, 8), key(1, 0), key(3, 8), key(1, 5)];
        let mut recording =
            Recording { regions: vec![region(1, 12), region(2, 16), region(3, 12)], touches: keys };
        let touches = Touches::of(&recording).unwrap();
        assert_eq!((touches.chunks, touches.footprint), (vec![0, 1, 0, 2], 3));
        recording.touches.push(key(2, 1));
        assert!(Touches::of(&recording).is_none(), "chunks of two sizes");
        assert!(Touches::of(&Recording::default()).is_none());
        let missing = played(Path::new("/no recording is here")).unwrap_err();
        assert!(chain(&missing).contains("/no recording is here"));
    }

    #[test]
    fn nothing_beats_the_optimum() {
        let (figures, notes) = figures(Effort::Tiny);
        for (figure, note) in figures.iter().zip(notes) {
            assert!(figure.value >= 1.0 && figure.yardstick >= 1.0, "{note}");
        }
    }
}
