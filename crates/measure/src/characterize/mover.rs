//! Moves bytes over one link, by every operation.

use std::time::{Duration, Instant};

use outboard_link::memory::Buffer;
use outboard_link::{AccessError, AccessOutcome, Link, OpenRegion, RemoteMemory, Token, Waiter};
use outboard_wire::Grant;
use outboard_wire::trial::{GRANT, REGION_LEN};

use super::flow::Flow;
use super::operation::{MeasuredOperation, Sides};
use crate::error::Named;
use crate::{MeasureError, percentile};

/// How long a daemon may take for anything, on the busiest machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The longest answer that a daemon gives to a trial.
const GIVEN_MAX: usize = 128 << 10;
/// How many bytes are under way at once when only their number counts.
const AHEAD: usize = 1 << 20;

/// How long a series of transfers takes that is timed as a whole: hardly longer than a process runs undisturbed.
const SERIES: Duration = Duration::from_millis(2);

/// How large the buffer of a [`Mover`] is.
pub(super) const BUFFER_LEN: usize = 4 << 20;

/// One link with the memory on both of its ends.
pub(super) struct Mover<'a, L> {
    link: &'a mut L,
    waiter: Waiter,
    region: OpenRegion,
    buffer: &'a Buffer,
    /// How many bytes have been moved: says where in region and buffer the next come from and go to.
    at: u64,
}

impl<'a, L: Link + RemoteMemory> Mover<'a, L> {
    /// Opens the daemon's trial region. All movers of a link must have the same `waiter`.
    pub(super) fn open(link: &'a mut L, waiter: Waiter, buffer: &'a Buffer) -> Result<Self, MeasureError> {
        let region = open(link, waiter, &GRANT)?;
        Ok(Self { link, waiter, region, buffer, at: 0 })
    }

    /// What people call the link.
    pub(super) fn link_name(&self) -> &'static str {
        self.link.capabilities().name
    }

    /// Gives the region back.
    pub(super) fn close(self) {
        self.link.close_region(self.region);
    }

    /// Bytes per second, as many under way as pay: the best of several series that take `time` together, since
    /// whatever else the machine does can only slow them down.
    pub(super) fn bandwidth(
        &mut self,
        operation: MeasuredOperation,
        size: usize,
        time: Duration,
    ) -> Result<f64, MeasureError> {
        let piece = self.piece(operation, size);
        let most = self.link.capabilities().max_operations / 2;
        let ahead = (AHEAD / piece).clamp(2, most.max(2)) as u64;
        // So many that beginning and end, when fewer are under way, matter little.
        let mut count = 4 * ahead.max((size / piece) as u64);
        let mut took = self.burst(operation, piece, count, ahead)?;
        while took < SERIES.min(time) / 2 {
            let factor = SERIES.as_nanos() / took.as_nanos().max(1) + 1;
            // Grows in steps: the first, short ones say little of how long a longer one takes.
            count *= factor.min(8) as u64;
            took = self.burst(operation, piece, count, ahead)?;
        }
        let (began, mut shortest) = (Instant::now(), took);
        while began.elapsed() < time {
            shortest = shortest.min(self.burst(operation, piece, count, ahead)?);
        }
        Ok((count * piece as u64) as f64 / shortest.as_secs_f64().max(1e-9))
    }

    /// How long one transfer takes while there is no other, in nanoseconds: the median over about `time`.
    pub(super) fn latency_ns(
        &mut self,
        operation: MeasuredOperation,
        size: usize,
        time: Duration,
    ) -> Result<f64, MeasureError> {
        const LEAST: usize = 3;
        let piece = self.piece(operation, size);
        let pieces = (size / piece) as u64;
        let began = Instant::now();
        let mut times_ns: Vec<f64> = Vec::new();
        while times_ns.len() < LEAST || began.elapsed() < time {
            times_ns.push(self.burst(operation, piece, pieces, pieces)?.as_nanos() as f64);
        }
        Ok(percentile(&mut times_ns, 0.5))
    }

    /// Writes a pattern to all of the daemon's trial memory and looks whether it comes back: a figure of bytes that
    /// were lost would be a lie. It also makes the pages exist, so that the figures do not include that.
    pub(super) fn prove(&mut self) -> Result<(), MeasureError> {
        let word = |offset: usize| !(offset as u64) ^ 0x5a5a;
        let passes = 0..REGION_LEN / BUFFER_LEN;
        self.fill(word);
        self.at = 0;
        for _ in passes.clone() {
            self.pass(MeasuredOperation::Write)?;
        }
        self.at = 0;
        for _ in passes {
            self.fill(|_| 0);
            self.pass(MeasuredOperation::Read)?;
            for offset in lines() {
                let (expected, found) = (word(offset), self.buffer.window().word(offset));
                if found != expected {
                    return Err(MeasureError::Changed { what: "the trial region", expected, found });
                }
            }
        }
        Ok(())
    }

    fn fill(&self, word: impl Fn(usize) -> u64) {
        lines().for_each(|offset| self.buffer.window_mut().set_word(offset, word(offset)));
    }

    /// Moves as much as the buffer holds.
    fn pass(&mut self, operation: MeasuredOperation) -> Result<(), MeasureError> {
        let piece = self.piece(operation, BUFFER_LEN);
        self.burst(operation, piece, (BUFFER_LEN / piece) as u64, 2).map(drop)
    }

    /// How many bytes of a transfer of `size` go at once: what the link carries, as a power of two.
    fn piece(&self, operation: MeasuredOperation, size: usize) -> usize {
        let capabilities = self.link.capabilities();
        let most = match operation.sides() {
            Sides::One => capabilities.max_access,
            Sides::Two => capabilities.max_payload.min(GIVEN_MAX),
        };
        size.min(1 << most.max(1).ilog2())
    }

    /// Moves `count` pieces, up to `ahead` of them at once, and says how long that took.
    pub(super) fn burst(
        &mut self,
        operation: MeasuredOperation,
        piece: usize,
        count: u64,
        ahead: u64,
    ) -> Result<Duration, MeasureError> {
        let Self { region, buffer, at, .. } = *self;
        // Pieces of a power of two never reach over the end of a memory of a larger one.
        let at = at.next_multiple_of(piece as u64);
        let mut flow = Flow { operation, piece, count, ahead, region, buffer, at, begun: 0, ended: 0 };
        let began = Instant::now();
        self.waiter.until(self.link, PATIENCE, "the end of a transfer", |link| {
            Ok(flow.advance(link).map(|is_over| is_over.then_some(())).transpose())
        })??;
        self.at = at + count * piece as u64;
        Ok(began.elapsed())
    }
}

/// A word in every cache line of the buffer.
fn lines() -> impl Iterator<Item = usize> {
    (0..BUFFER_LEN).step_by(64)
}

fn open<L: Link + RemoteMemory>(
    link: &mut L,
    waiter: Waiter,
    grant: &Grant,
) -> Result<OpenRegion, MeasureError> {
    link.open(grant, grant.rights, Token(0))?;
    match complete(link, waiter)? {
        AccessOutcome::Opened(region) => Ok(region),
        _ => Err(AccessError::NotOpen.into()),
    }
}

/// Waits for the end of the only operation that is under way.
fn complete<L: Link + RemoteMemory>(link: &mut L, waiter: Waiter) -> Result<AccessOutcome, MeasureError> {
    link.flush()?;
    let result = waiter.until(link, PATIENCE, "the end of an operation", |link| {
        let mut result = None;
        link.completions(|completion| result = Some(completion.result));
        Ok(result)
    })?;
    Ok(result?)
}

/// Reads a whole region that one access can read.
pub(super) fn read_region<L: Link + RemoteMemory>(
    link: &mut L,
    waiter: Waiter,
    grant: &Grant,
) -> Result<Vec<u8>, MeasureError> {
    let len = grant.size as usize;
    let buffer = Buffer::allocate(len).named("memory for a buffer")?;
    let region = open(link, waiter, grant)?;
    link.read(region, 0, &buffer, 0, len, Token(0))?;
    complete(link, waiter)?;
    link.close_region(region);
    Ok(buffer.window().part(0, len).to_vec())
}
