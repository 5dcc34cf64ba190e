//! One program of one kind in one place, in a process of its own.

use std::slice;

use outboard::{Address, BufferSize, FarMemory, FarOptions, FarVec, FaultAnswer, Outboard, RegionOptions};
use outboard_link::memory::{Buffer as Pages, Segment, SegmentAccess};
use rustix::mm::{Advice, madvise};
use serde::{Deserialize, Serialize};

use super::work::{Contents, Took, Work};
use crate::BenchError;
use crate::error::{Named, chain};
use crate::group::MemoryGroup;
use crate::pair::{Control, Peer, PeerProgram};
use crate::raw::{HandOver, Shape};

/// What the second process is told to play.
pub(super) const PART: &str = "far.program";

/// Where the program's memory lies.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Place {
    /// In its own, in small pages.
    Own,
    /// At a memory server.
    Far(Far),
    /// In local memory that a handler of SIGBUS copies in, from a segment that is handed over.
    HandOver {
        /// Bytes in a chunk.
        chunk: usize,
        /// Bytes that may be here.
        buffer: usize,
    },
}

/// How far memory is used: as by a program that says how large buffer and chunks are, and nothing else.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Far {
    pub(super) server: String,
    /// The region that has the contents already; a fresh one if none is named.
    pub(super) region: Option<String>,
    pub(super) chunk: usize,
    pub(super) buffer: usize,
    /// Whether system calls are to wait for what is not here, which takes privilege and fault threads; usual users have
    /// neither.
    pub(super) with_system_calls: bool,
}

/// What a program does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) place: Place,
    pub(super) bytes: usize,
    pub(super) contents: Contents,
    pub(super) works: Vec<Work>,
    /// Of its random choices.
    pub(super) seed: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) took: Vec<Took>,
    /// Bytes that far memory wrote back while that was measured.
    pub(super) saved: u64,
}

#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Done(Outcome),
    Failed { why: String },
}

impl Task {
    /// Does it in a fresh process, in a group if there is one, with a segment if it needs one.
    pub(super) fn perform_in(
        &self,
        program: &PeerProgram,
        group: Option<&MemoryGroup>,
        segment: Option<&Segment>,
    ) -> Result<Outcome, BenchError> {
        let peer = Peer::start(program, PART)?;
        if let Some(group) = group {
            group.take(peer.pid())?;
        }
        peer.control.send(self)?;
        if let Some(segment) = segment {
            peer.control.send_descriptor(segment.descriptor())?;
        }
        loop {
            match peer.control.receive::<Answer>("the end of a program") {
                Ok(Answer::Done(outcome)) => return Ok(outcome),
                Ok(Answer::Failed { why }) => return Err(BenchError::PeerFailed { why }),
                // Some take longer than a peer is usually silent; one that is gone is another error.
                Err(BenchError::Stalled { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn perform(&self, control: &Control) -> Result<Outcome, BenchError> {
        match &self.place {
            Place::Own => {
                let memory = Pages::allocate(self.bytes).named("mmap")?;
                let start = memory.window_mut().as_mut_ptr();
                // SAFETY: a mapping of our own that holds nothing yet.
                unsafe { madvise(start.cast(), self.bytes, Advice::LinuxNoHugepage) }.named("madvise")?;
                // SAFETY: mapped as long as `memory`, aligned to a page, and no other code knows it.
                let words = unsafe { slice::from_raw_parts_mut(start.cast(), self.bytes / 8) };
                self.contents.fill(words);
                Ok(Outcome { took: self.works_on(words, 0, || {}), saved: 0 })
            }
            Place::Far(far) => self.perform_far(far),
            Place::HandOver { chunk, buffer } => {
                let descriptor = control.receive_descriptor()?;
                let source = Segment::adopt(descriptor, self.bytes, SegmentAccess::ReadWrite)
                    .map_err(|error| BenchError::PeerFailed { why: chain(&error) })?;
                let shape = Shape { chunk_len: *chunk, chunks: self.bytes / chunk, buffer: buffer / chunk };
                let region = HandOver::start(shape, source)?;
                // SAFETY: mapped as long as `region`, aligned to a page; touching it waits for its bytes.
                let words = unsafe { slice::from_raw_parts_mut(region.region().cast(), self.bytes / 8) };
                Ok(Outcome { took: self.works_on(words, *buffer, || {}), saved: 0 })
            }
        }
    }

    fn perform_far(&self, far: &Far) -> Result<Outcome, BenchError> {
        let (memory, region) = far.connect()?;
        let mut array: FarVec<u64> = match &far.region {
            Some(name) => memory.open_writable(name, &region)?,
            None => memory.allocate_with(self.bytes / 8, &region)?,
        };
        if far.region.is_none() {
            self.contents.fill(&mut array);
        }
        let saved = || -> u64 { memory.stats().traffic.saved };
        let mut before = 0;
        let took = self.works_on(&mut array, far.buffer, || before = saved());
        let saved = saved() - before;
        Ok(Outcome { took, saved })
    }

    /// Does all of it, once for the steady state, in which a `buffer` that was empty is full, and once to be measured, except
    /// what can be done only once.
    fn works_on(&self, words: &mut [u64], buffer: usize, mut is_steady: impl FnMut()) -> Vec<Took> {
        let again = |work: &&Work| **work != Work::FirstTouch;
        for work in self.works.iter().filter(again) {
            let more_than_fits = words.len().min((buffer + buffer / 4) / size_of::<u64>());
            Work::Scan.perform(&mut words[..more_than_fits], 0);
            work.perform(words, !self.seed);
        }
        is_steady();
        self.works.iter().map(|work| work.perform(words, self.seed)).collect()
    }
}

impl Far {
    /// Far memory as it is by default, but for buffer and chunks.
    pub(super) fn connect(&self) -> Result<(FarMemory, RegionOptions), BenchError> {
        let server: Address = self.server.parse()?;
        let mut options = FarOptions::default().with_buffer(BufferSize::Bytes(self.buffer));
        options.chunk = self.chunk;
        match self.with_system_calls {
            true => options.faults = FaultAnswer::Threads,
            false => options.is_unprivileged = true,
        }
        let region = RegionOptions { chunk: self.chunk, ..Default::default() };
        Ok((Outboard::at(server).far_with(options)?, region))
    }

    /// Makes the region and writes its contents, in this process.
    pub(super) fn prepare(&self, bytes: usize, contents: Contents) -> Result<(), BenchError> {
        let (memory, region) = self.connect()?;
        let region = RegionOptions { name: self.region.clone(), ..region };
        let mut array = memory.allocate_with::<u64>(bytes / 8, &region)?;
        contents.fill(&mut array);
        Ok(array.flush()?)
    }
}

/// The second process: does one task and ends.
pub(super) fn serve(control: &Control) -> Result<(), BenchError> {
    let task: Task = control.receive("a task")?;
    let answer = match task.perform(control) {
        Ok(outcome) => Answer::Done(outcome),
        Err(error) => Answer::Failed { why: chain(&error) },
    };
    control.send(&answer)
}
