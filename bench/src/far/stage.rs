//! What all rounds share, and what is done in one.

use std::collections::BTreeMap;

use outboard_link::memory::Segment;
use outboard_measure::Effort;

use super::keeper::Keeper;
use super::swap::Kind;
use super::task::{Far, Outcome, Place, Task};
use super::work::{Contents, Took, Work, word};
use crate::daemons::{Host, HostSpec};
use crate::error::Named;
use crate::group::MemoryGroup;
use crate::pair::PeerProgram;
use crate::{BenchError, BenchOptions};

const KIB_4: usize = 4 << 10;
const KIB_64: usize = 64 << 10;
const WORDS: &str = "bench.far.words";
const GRAPH: &str = "bench.far.graph";

/// How much is done.
pub(super) struct Extent {
    /// How large the programs' memory is.
    pub(super) bytes: usize,
    /// Random reads where most are hits, and where most are faults.
    hits: u64,
    faults: u64,
    pub(super) rounds: u64,
}

impl Extent {
    pub(super) fn of(effort: Effort) -> Self {
        match effort {
            Effort::Tiny => Self { bytes: 12 << 20, hits: 20_000, faults: 500, rounds: 1 },
            Effort::Quick => Self { bytes: 96 << 20, hits: 300_000, faults: 6_000, rounds: 3 },
            Effort::Full => Self { bytes: 384 << 20, hits: 4_000_000, faults: 60_000, rounds: 5 },
        }
    }
}

/// What was measured: where, and what was done there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Case {
    DramRandom,
    DramScan,
    DramTouch,
    DramRanks,
    FitsRandom,
    FitsScan,
    FitsTouch,
    NearFit,
    RandomShm,
    RandomThreads,
    RandomTcp,
    RandomSwap,
    RandomZram,
    RandomHandOver,
    ScanShm,
    ScanSwap,
    RanksShm,
    RanksSwap,
}

/// The times of every case, round by round.
#[derive(Default)]
pub(super) struct Times {
    cases: BTreeMap<Case, Vec<Took>>,
    /// The most that far memory wrote back in the steady state while everything fitted.
    pub(super) saved_of_fitting: u64,
}

impl Times {
    /// Items per second in each round.
    pub(super) fn rates(&self, case: Case) -> Vec<f64> {
        let all = self.cases.get(&case).into_iter().flatten();
        all.map(|took| took.items as f64 / took.seconds).collect()
    }

    fn note(&mut self, cases: &[Case], outcome: &Outcome) -> Result<(), BenchError> {
        for (case, took) in cases.iter().zip(&outcome.took) {
            self.cases.entry(*case).or_default().push(*took);
        }
        Ok(())
    }

    /// Whether all have found the same in this round.
    fn compare(&self, cases: &[Case]) -> Result<(), BenchError> {
        let last = |case| self.cases.get(case).and_then(|all| all.last()).map(|took| took.digest);
        let mut found = cases.iter().filter_map(last);
        let Some(expected) = found.next() else { return Ok(()) };
        match found.find(|found| *found != expected) {
            Some(found) => Err(BenchError::Changed { what: "what was read", expected, found }),
            None => Ok(()),
        }
    }
}

/// What all rounds share.
pub(super) struct Stage {
    program: PeerProgram,
    server: Host,
    extent: Extent,
    /// Where a third of the memory is all there is; none where groups cannot be made.
    group: Option<MemoryGroup>,
    segment: Segment,
    keeper: Keeper,
    /// Rivals that cannot be had here, and why.
    pub(super) skipped: Vec<String>,
    lacks: Vec<Kind>,
}

impl Stage {
    pub(super) fn build(options: &BenchOptions, extent: Extent) -> Result<Self, BenchError> {
        let program = options.peer.clone();
        let server = Host::start(&program, &HostSpec::Memory { data_dir: None, workers: None })?;
        let segment = Segment::create(c"outboard-bench-words", extent.bytes).named("memfd_create")?;
        // SAFETY: as long as the segment, aligned to a page, and no other thread has it yet.
        let words =
            unsafe { std::slice::from_raw_parts_mut(segment.start().as_ptr().cast(), extent.bytes / 8) };
        Contents::Words.fill(words);
        debug_assert_eq!(words.first(), Some(&word(0)));
        let (mut skipped, mut lacks) = (Vec::new(), Vec::new());
        let group = MemoryGroup::create("far").inspect_err(|error| {
            skipped.push(format!("skipped: a swap file and zram: {}", crate::error::chain(error)));
            lacks.extend([Kind::File, Kind::Zram]);
        });
        let keeper = Keeper::start(&program)?;
        let mut stage = Self { program, server, extent, group: group.ok(), segment, keeper, skipped, lacks };
        for (name, contents) in [(WORDS, Contents::Words), (GRAPH, Contents::Graph)] {
            stage.far(Some(name), KIB_64, 3).prepare(stage.extent.bytes, contents)?;
        }
        stage.confine()?;
        Ok(stage)
    }

    /// How far memory is used with one `part`th of the memory, over shared memory.
    fn far(&self, region: Option<&str>, chunk: usize, part: usize) -> Far {
        let server = self.server.local.to_string();
        let buffer = (self.extent.bytes / part).next_multiple_of(chunk);
        Far { server, region: region.map(str::to_owned), chunk, buffer, with_system_calls: false }
    }

    fn task(&self, place: Place, contents: Contents, works: &[Work], seed: u64) -> Task {
        Task { place, bytes: self.extent.bytes, contents, works: works.to_vec(), seed }
    }

    fn perform(&self, task: &Task, is_confined: bool) -> Result<Outcome, BenchError> {
        let segment = matches!(task.place, Place::HandOver { .. }).then_some(&self.segment);
        task.perform_in(&self.program, self.group.as_ref().filter(|_| is_confined), segment)
    }

    /// Gives the group as much memory as far memory with a third of everything needs, all of its process included.
    fn confine(&mut self) -> Result<(), BenchError> {
        let Some(group) = &self.group else { return Ok(()) };
        let works = [
            (WORDS, KIB_4, Work::Random { reads: self.extent.faults }),
            (WORDS, KIB_64, Work::Scan),
            (GRAPH, KIB_64, Work::Ranks),
        ];
        for (region, chunk, work) in works {
            let place = Place::Far(self.far(Some(region), chunk, 3));
            self.perform(&self.task(place, Contents::Words, &[work], 0), true)?;
        }
        let peak = group.peak()?;
        // Two runs differ a little, and one that has no room left is killed.
        group.limit((peak + (peak / 16).max(8 << 20)).next_multiple_of(1 << 20))
    }

    /// One round of everything.
    pub(super) fn round(&mut self, round: u64, times: &mut Times) -> Result<(), BenchError> {
        let seed = round + 1;
        let random = Work::Random { reads: self.extent.faults };
        self.round_of_fitting(seed, times)?;
        for (case, region, chunk, work) in [
            (Case::RandomShm, WORDS, KIB_4, random),
            (Case::RandomThreads, WORDS, KIB_4, random),
            (Case::RandomTcp, WORDS, KIB_4, random),
            (Case::ScanShm, WORDS, KIB_64, Work::Scan),
            (Case::RanksShm, GRAPH, KIB_64, Work::Ranks),
        ] {
            let mut far = self.far(Some(region), chunk, 3);
            far.with_system_calls = case == Case::RandomThreads;
            if case == Case::RandomTcp {
                far.server = self.server.remote.to_string();
            }
            let task = self.task(Place::Far(far), Contents::Fresh, &[work], seed);
            times.note(&[case], &self.perform(&task, true)?)?;
        }
        let buffer = self.extent.bytes / 3;
        let hand_over = Place::HandOver { chunk: KIB_4, buffer };
        let task = self.task(hand_over, Contents::Fresh, &[random], seed);
        times.note(&[Case::RandomHandOver], &self.perform(&task, true)?)?;
        self.round_of_swap(
            Kind::File,
            &[Case::RandomSwap, Case::ScanSwap],
            &[random, Work::Scan],
            seed,
            times,
        )?;
        self.round_of_swap(Kind::File, &[Case::RanksSwap], &[Work::Ranks], seed, times)?;
        self.round_of_swap(Kind::Zram, &[Case::RandomZram], &[random], seed, times)?;
        times.compare(&[
            Case::RandomShm,
            Case::RandomThreads,
            Case::RandomTcp,
            Case::RandomHandOver,
            Case::RandomSwap,
            Case::RandomZram,
        ])?;
        times.compare(&[Case::DramScan, Case::FitsScan, Case::ScanShm, Case::ScanSwap])?;
        times.compare(&[Case::DramRanks, Case::RanksShm, Case::RanksSwap])
    }

    /// Plain memory, and far memory where all or nearly all fits.
    fn round_of_fitting(&mut self, seed: u64, times: &mut Times) -> Result<(), BenchError> {
        let hits = Work::Random { reads: self.extent.hits };
        let both = [hits, Work::Scan];
        let own =
            |contents, works: &[Work]| self.perform(&self.task(Place::Own, contents, works, seed), false);
        times.note(&[Case::DramRandom, Case::DramScan], &own(Contents::Words, &both)?)?;
        times.note(&[Case::DramTouch], &own(Contents::Fresh, &[Work::FirstTouch])?)?;
        times.note(&[Case::DramRanks], &own(Contents::Graph, &[Work::Ranks])?)?;
        let far = |far: Far, works: &[Work]| {
            self.perform(&self.task(Place::Far(far), Contents::Fresh, works, seed), false)
        };
        let fitting = far(self.far(Some(WORDS), KIB_64, 1), &both)?;
        times.saved_of_fitting = times.saved_of_fitting.max(fitting.saved);
        times.note(&[Case::FitsRandom, Case::FitsScan], &fitting)?;
        times.compare(&[Case::DramRandom, Case::FitsRandom])?;
        times.note(&[Case::FitsTouch], &far(self.far(None, KIB_64, 1), &[Work::FirstTouch])?)?;
        let mut nearly = self.far(Some(WORDS), KIB_4, 1);
        nearly.buffer = (nearly.buffer / 10 * 9).next_multiple_of(KIB_4);
        let some = Work::Random { reads: 6 * self.extent.faults };
        times.note(&[Case::NearFit], &far(nearly, &[some])?)
    }

    /// A program whose memory is swapped, if that can be had.
    fn round_of_swap(
        &mut self,
        kind: Kind,
        cases: &[Case],
        works: &[Work],
        seed: u64,
        times: &mut Times,
    ) -> Result<(), BenchError> {
        if self.lacks.contains(&kind) {
            return Ok(());
        }
        let contents = if works.contains(&Work::Ranks) { Contents::Graph } else { Contents::Words };
        match self.keeper.swap(kind, 2 * self.extent.bytes as u64)? {
            Ok(_on) => {
                let outcome = self.perform(&self.task(Place::Own, contents, works, seed), true)?;
                times.note(cases, &outcome)
            }
            Err(why) => {
                let what = if kind == Kind::File { "a swap file" } else { "zram" };
                self.skipped.push(format!("skipped: {what}: {why}"));
                self.lacks.push(kind);
                Ok(())
            }
        }
    }
}
