//! A site for tests, whose accesses end at once or when the test says so.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use outboard_wire::calling::TrapReason;

use crate::{AccessProgress, Answered, Executor, SiteHost, SiteOperation, Ticket};

/// A region of words that tests can look at.
pub(super) type Words = Rc<RefCell<Vec<u8>>>;

/// An access that was begun and has not ended.
pub(super) enum Begun {
    Read(u64, usize),
    Write(u64, Vec<u8>),
    CompareSwap(u64, u64, u64),
    FetchAdd(u64, u64),
}

/// A site whose regions are here, or far away.
#[derive(Default)]
pub(super) struct Here {
    pub(super) is_far: bool,
    pub(super) begun: VecDeque<(Ticket, Words, Begun)>,
    pub(super) logged: Vec<String>,
    /// Whether bytes come nearer before they are read.
    pub(super) approaches: bool,
    /// Reads that were announced, and are not done; and how many that were at most.
    announced: usize,
    pub(super) announced_most: usize,
}

pub(super) fn word(bytes: &[u8], offset: u64) -> Result<u64, TrapReason> {
    if !offset.is_multiple_of(8) {
        return Err(TrapReason::Misaligned);
    }
    let at = offset as usize;
    let word = bytes.get(at..at + 8).ok_or(TrapReason::OutOfBounds)?;
    Ok(u64::from_le_bytes(word.try_into().unwrap()))
}

fn read(region: &Words, offset: u64, into: &mut [u8]) -> Result<u64, TrapReason> {
    let (region, at) = (region.borrow(), offset as usize);
    let end = at.checked_add(into.len()).ok_or(TrapReason::OutOfBounds)?;
    into.copy_from_slice(region.get(at..end).ok_or(TrapReason::OutOfBounds)?);
    Ok(0)
}

fn write(region: &Words, offset: u64, from: &[u8]) -> Result<u64, TrapReason> {
    let (mut region, at) = (region.borrow_mut(), offset as usize);
    let end = at.checked_add(from.len()).ok_or(TrapReason::OutOfBounds)?;
    region.get_mut(at..end).ok_or(TrapReason::OutOfBounds)?.copy_from_slice(from);
    Ok(0)
}

fn change(region: &Words, offset: u64, new: impl FnOnce(u64) -> u64) -> Result<u64, TrapReason> {
    let was = word(&region.borrow(), offset)?;
    write(region, offset, &new(was).to_le_bytes())?;
    Ok(was)
}

fn swap(expected: u64, desired: u64) -> impl FnOnce(u64) -> u64 {
    move |was| if was == expected { desired } else { was }
}

impl Here {
    fn say(&self, result: impl FnOnce() -> Result<u64, TrapReason>) -> AccessProgress {
        if self.is_far {
            return AccessProgress::Pending;
        }
        result().map_or_else(AccessProgress::Refused, AccessProgress::Done)
    }

    /// Ends the access that was begun first.
    pub(super) fn end_one(&mut self, executor: &mut Executor<Words>) -> bool {
        let Some((ticket, region, begun)) = self.begun.pop_front() else { return false };
        let mut bytes = Vec::new();
        let result = match begun {
            Begun::Read(offset, length) => {
                bytes.resize(length, 0);
                read(&region, offset, &mut bytes).map(|_| Answered::Read(&bytes))
            }
            Begun::Write(offset, from) => write(&region, offset, &from).map(Answered::Done),
            Begun::CompareSwap(offset, expected, desired) => {
                change(&region, offset, swap(expected, desired)).map(Answered::Done)
            }
            Begun::FetchAdd(offset, addend) => {
                change(&region, offset, |was| was.wrapping_add(addend)).map(Answered::Done)
            }
        };
        executor.complete(ticket, result.unwrap_or_else(Answered::Refused));
        // A ticket is good once.
        executor.complete(ticket, Answered::Done(77));
        true
    }
}

impl SiteHost for Here {
    type Region = Words;

    fn read(&mut self, region: &Words, offset: u64, into: &mut [u8]) -> AccessProgress {
        self.announced = self.announced.saturating_sub(1);
        self.say(|| read(region, offset, into))
    }

    fn write(&mut self, region: &Words, offset: u64, from: &[u8]) -> AccessProgress {
        self.say(|| write(region, offset, from))
    }

    fn compare_swap(
        &mut self,
        region: &Words,
        offset: u64,
        (expected, desired): (u64, u64),
    ) -> AccessProgress {
        self.say(|| change(region, offset, swap(expected, desired)))
    }

    fn fetch_add(&mut self, region: &Words, offset: u64, addend: u64) -> AccessProgress {
        self.say(|| change(region, offset, |was| was.wrapping_add(addend)))
    }

    fn begin(&mut self, ticket: Ticket, region: &Words, operation: SiteOperation<'_>) {
        let begun = match operation {
            SiteOperation::Read { offset, length } => Begun::Read(offset, length),
            SiteOperation::Write { offset, bytes } => Begun::Write(offset, bytes.to_vec()),
            SiteOperation::CompareSwap { offset, expected, desired } => {
                Begun::CompareSwap(offset, expected, desired)
            }
            SiteOperation::FetchAdd { offset, addend } => Begun::FetchAdd(offset, addend),
        };
        self.begun.push_back((ticket, Rc::clone(region), begun));
    }

    fn approach(&mut self, _region: &Words, _offset: u64, _length: usize) -> bool {
        self.announced += usize::from(self.approaches);
        self.announced_most = self.announced_most.max(self.announced);
        self.approaches
    }

    fn time(&mut self) -> u64 {
        42
    }

    fn random(&mut self) -> u64 {
        4
    }

    fn log(&mut self, message: &[u8]) {
        self.logged.push(String::from_utf8_lossy(message).into_owned());
    }
}
