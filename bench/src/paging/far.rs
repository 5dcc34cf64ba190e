//! Rounds of our own: far memory as an application uses it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use outboard::{
    Advice, BufferSize, FarMapping, FarMemory, FarOptions, FarSlice, FarVec, FaultAnswer, Outboard, Path,
    RegionOptions,
};
use outboard_link::Address;

use super::touches::{Touches, word};
use crate::BenchError;
use crate::harness::Round;
use crate::raw::{Shape, Traffic};

/// How the application holds its array.
enum Array {
    ReadOnly(FarSlice<u64>),
    Writable(FarVec<u64>),
}

/// Who uses far memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// One who has system calls wait for far memory, which takes privilege and fault threads.
    WithSystemCalls,
    /// One without privilege and without settings, as most are.
    Usual,
}

/// Faults that far memory answers.
pub(crate) struct FarFaults {
    far: FarMemory,
    name: String,
    array: Array,
    shape: Shape,
    touches: Touches,
}

impl FarFaults {
    /// Makes a region of this shape at `server`, with what [`word`] says in every page, and a buffer for a part of it.
    pub(crate) fn start(
        server: &Address,
        shape: Shape,
        writable: bool,
        user: User,
    ) -> Result<Self, BenchError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("bench-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let buffer = shape.buffer * shape.chunk_len;
        let mut options =
            FarOptions::default().with_buffer(BufferSize::Bytes(buffer)).with_chunk(shape.chunk_len);
        match user {
            User::WithSystemCalls => options.faults = FaultAnswer::Threads,
            User::Usual => options.is_unprivileged = true,
        }
        let far = Outboard::at(server.clone()).far_with(options)?;
        let region = RegionOptions {
            chunk: shape.chunk_len,
            path: Path::Direct,
            name: Some(name.clone()),
            ..Default::default()
        };
        let mut array = far.allocate_with::<u64>(shape.footprint() / 8, &region)?;
        for (index, place) in array.iter_mut().enumerate() {
            *place = word(index * 8);
        }
        array.flush()?;
        let array = if writable {
            Array::Writable(array)
        } else {
            drop(array);
            Array::ReadOnly(far.open(&name, &region)?)
        };
        let faults = Self { far, name, array, shape, touches: Touches::new(&shape, 1) };
        // The question is what a fault on a chunk costs: touches without an order would have pages come.
        faults.mapping().advise(0..shape.footprint(), Advice::Whole)?;
        Ok(faults)
    }

    /// What its region is called at the server.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn mapping(&self) -> &FarMapping {
        match &self.array {
            Array::ReadOnly(array) => array.mapping(),
            Array::Writable(array) => array.mapping(),
        }
    }

    fn start_of_region(&self) -> *mut u8 {
        self.mapping().as_ptr().as_ptr()
    }

    /// The times of those of `count` random accesses that faulted.
    pub(crate) fn round(&mut self, traffic: Traffic, count: u64) -> Result<Round, BenchError> {
        let start = self.start_of_region();
        let far = &self.far;
        // SAFETY: the region of this shape, which no other code uses; it may be written if there are stores.
        let times_ns = unsafe { self.touches.run(start, traffic, count, || far.fetches()) };
        times_ns.map(Round::times)
    }

    /// Faults per second of `threads` threads, each with `count` random accesses.
    pub(crate) fn rate_round(&mut self, threads: u64, count: u64) -> Result<Round, BenchError> {
        let (start, before, began) = (self.start_of_region() as usize, self.far.fetches(), Instant::now());
        let shape = self.shape;
        let touch = move |seed: u64| {
            let mut touches = Touches::new(&shape, seed);
            // SAFETY: as above, and all of them only read.
            unsafe { touches.run(start as *mut u8, Traffic::Loads, count, || 0) }.map(|_| ())
        };
        let seed = self.touches.next().map_or(0, |touch| touch.value);
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..threads).map(|thread| scope.spawn(move || touch(seed ^ thread))).collect();
            all.into_iter().try_for_each(|thread| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
        })?;
        Ok(Round::rate(self.far.fetches() - before, began.elapsed().as_secs_f64()))
    }

    /// Bytes per second of a scan of everything.
    pub(crate) fn scan_round(&mut self) -> Result<Round, BenchError> {
        let array: &[u64] = match &self.array {
            Array::ReadOnly(array) => array,
            Array::Writable(array) => array,
        };
        let began = Instant::now();
        let sum = array.iter().fold(0u64, |sum, word| sum.wrapping_add(*word));
        std::hint::black_box(sum);
        Ok(Round::rate(self.shape.footprint() as u64, began.elapsed().as_secs_f64()))
    }
}
