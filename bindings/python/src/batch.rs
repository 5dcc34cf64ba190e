//! Many calls of functions, a window of them under way at a time.

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

use outboard::CallId;
use pyo3::prelude::*;

use crate::errors::{Raised, raise, raised};
use crate::wait::until;

/// How long no call may end before a batch is given up.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked for answers before others get the processor.
const LOOKS: u32 = 64;

/// A batch of calls, whose answers it keeps.
pub(crate) trait Batched: Send {
    type Error: Raised + Send;

    /// Begins the call of that number.
    fn begin(&mut self, number: usize) -> Result<CallId, Self::Error>;

    /// Keeps the answers that have come, and tells `pending` of each. Returns how many there were.
    fn drain(&mut self, pending: &mut Pending) -> Result<usize, Self::Error>;
}

/// The calls that are under way.
#[derive(Default)]
pub(crate) struct Pending {
    numbers: HashMap<u64, usize>,
    again: Vec<usize>,
}

impl Pending {
    /// Which call has ended. None for one of an earlier batch, which was given up.
    pub(crate) fn end(&mut self, id: CallId) -> Option<usize> {
        self.numbers.remove(&id.0)
    }

    /// A call has to be tried again, since others were in its way.
    pub(crate) fn again(&mut self, number: usize) {
        self.again.push(number);
    }
}

/// Does `count` calls, at most `window` at a time.
pub(crate) fn run<B: Batched>(py: Python<'_>, batch: &mut B, count: usize, window: usize) -> PyResult<()> {
    let (mut pending, mut next, mut idle, mut moved) = (Pending::default(), 0, 0, Instant::now());
    until(py, || {
        let mut turn = || -> Result<Option<bool>, B::Error> {
            while pending.numbers.len() < window.max(1) {
                let number = match pending.again.pop() {
                    Some(number) => number,
                    None if next < count => {
                        next += 1;
                        next - 1
                    }
                    None => break,
                };
                pending.numbers.insert(batch.begin(number)?.0, number);
            }
            if pending.numbers.is_empty() {
                return Ok(Some(true));
            }
            if batch.drain(&mut pending)? > 0 {
                (idle, moved) = (0, Instant::now());
                return Ok(None);
            }
            idle += 1;
            if idle > LOOKS {
                thread::yield_now();
            }
            Ok((idle % LOOKS == 0 && moved.elapsed() > PATIENCE).then_some(false))
        };
        turn().transpose()
    })?
    .map_err(raise)?
    .then_some(())
    .ok_or_else(|| {
        let text =
            format!("no call of a batch has ended for {PATIENCE:?}; whether the others ran is not known");
        raised("DeadlineError", text)
    })
}

/// Rows of bytes: all of one length, or each with its own.
pub(crate) struct Rows<'a> {
    bytes: &'a [u8],
    each: usize,
    ends: Option<&'a [u64]>,
}

impl<'a> Rows<'a> {
    pub(crate) fn equal(bytes: &'a [u8], each: usize) -> Self {
        Self { bytes, each, ends: None }
    }

    /// Of which each ends where `ends` says.
    pub(crate) fn ending(bytes: &'a [u8], ends: &'a [u64]) -> Self {
        Self { bytes, each: 0, ends: Some(ends) }
    }

    pub(crate) fn get(&self, row: usize) -> &'a [u8] {
        let (start, end) = match self.ends {
            None => (row * self.each, (row + 1) * self.each),
            Some(ends) => (if row == 0 { 0 } else { ends[row - 1] as usize }, ends[row] as usize),
        };
        &self.bytes[start..end]
    }
}
