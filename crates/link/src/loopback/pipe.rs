//! One direction of a connection.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::Thread;

use outboard_wire::{FrameHeader, Time};

use super::fault::{Dice, Fate, FaultPlan, Tally};
use crate::ring::record_len;
use crate::stream::Arrival;

/// Bytes on their way, and what may befall them.
pub(super) struct Pipe {
    bytes: VecDeque<u8>,
    /// When the bytes arrive, in order; the lengths add up to all of them.
    parcels: VecDeque<Parcel>,
    /// A record that is not whole yet, while single frames are looked at.
    partial: Vec<u8>,
    looks_at_frames: bool,
    capacity: usize,
    dice: Dice,
    /// Nothing more is put in.
    pub(super) is_finished: bool,
    /// Nothing more is taken out.
    pub(super) is_abandoned: bool,
    /// The waker of the end that waits for bytes to arrive.
    pub(super) reader: Option<Thread>,
    /// The waker of the end that waits for room.
    pub(super) writer: Option<Thread>,
}

struct Parcel {
    at: Time,
    len: usize,
}

/// The fate of bytes that were put in.
pub(super) enum Taken {
    /// This many were taken.
    Bytes(usize),
    /// The connection broke.
    Broken,
}

impl Pipe {
    pub(super) fn new(capacity: usize, dice: Dice) -> Self {
        Self {
            bytes: VecDeque::new(),
            parcels: VecDeque::new(),
            partial: Vec::new(),
            looks_at_frames: false,
            capacity,
            dice,
            is_finished: false,
            is_abandoned: false,
            reader: None,
            writer: None,
        }
    }

    /// From here on the bytes are records, and the plan applies.
    pub(super) fn begin_records(&mut self, plan: &FaultPlan) {
        self.looks_at_frames = plan.concerns_frames();
    }

    /// How many bytes it takes. The beginning of a record does not count until its end is here: a record that is
    /// longer than the pipe would never leave.
    pub(super) fn room(&self) -> usize {
        self.capacity.saturating_sub(self.bytes.len())
    }

    pub(super) fn put(&mut self, now: Time, bytes: &[u8], plan: &FaultPlan, tally: &Tally) -> Taken {
        let len = self.room().min(bytes.len());
        if !self.looks_at_frames {
            self.enqueue(now, &bytes[..len]);
            return Taken::Bytes(len);
        }
        self.partial.extend_from_slice(&bytes[..len]);
        let mut partial = std::mem::take(&mut self.partial);
        let mut start = 0;
        while let Some(record) = first_record(&partial[start..]) {
            start += record.len();
            if !self.put_record(now, record, plan, tally) {
                return Taken::Broken;
            }
        }
        partial.drain(..start);
        self.partial = partial;
        Taken::Bytes(len)
    }

    /// Lets its fate befall one record; false if the connection breaks.
    fn put_record(&mut self, now: Time, record: &[u8], plan: &FaultPlan, tally: &Tally) -> bool {
        let delay = self.dice.delay(plan);
        let at = now + delay;
        tally.delayed.fetch_add(u64::from(!delay.is_zero()), Relaxed);
        match self.dice.fate(plan, record.len()) {
            Fate::Arrive => self.enqueue(at, record),
            Fate::Twice => {
                tally.duplicated.fetch_add(1, Relaxed);
                self.enqueue(at, record);
                self.enqueue(at, record);
            }
            Fate::Drop => {
                tally.dropped.fetch_add(1, Relaxed);
            }
            Fate::Truncate(len) => {
                tally.truncated.fetch_add(1, Relaxed);
                self.enqueue(at, &record[..len]);
            }
            Fate::Close => {
                tally.closed.fetch_add(1, Relaxed);
                return false;
            }
        }
        true
    }

    fn enqueue(&mut self, at: Time, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.bytes.extend(bytes);
        match self.parcels.back_mut() {
            // Nothing overtakes what was sent before.
            Some(last) if last.at >= at => last.len += bytes.len(),
            _ => self.parcels.push_back(Parcel { at, len: bytes.len() }),
        }
        if let Some(reader) = self.reader.take() {
            reader.unpark();
        }
    }

    /// Hands out what has arrived by now, at most `most` bytes, in pieces with where they belong.
    pub(super) fn take(&mut self, now: Time, most: usize, mut sink: impl FnMut(usize, &[u8])) -> Arrival {
        let mut len = 0;
        while let Some(parcel) = self.parcels.front_mut().filter(|parcel| parcel.at <= now) {
            let part = parcel.len.min(most - len);
            parcel.len -= part;
            len += part;
            if parcel.len > 0 {
                break;
            }
            self.parcels.pop_front();
        }
        if len == 0 {
            return if self.is_at_end() { Arrival::End } else { Arrival::Nothing };
        }
        let (first, second) = self.bytes.as_slices();
        let split = first.len().min(len);
        sink(0, &first[..split]);
        sink(split, &second[..len - split]);
        self.bytes.drain(..len);
        if let Some(writer) = self.writer.take() {
            writer.unpark();
        }
        Arrival::Bytes(len)
    }

    fn is_at_end(&self) -> bool {
        self.is_finished && self.parcels.is_empty()
    }

    /// When the reader will find something.
    pub(super) fn next_arrival(&self) -> Option<Time> {
        match self.parcels.front() {
            Some(parcel) => Some(parcel.at),
            None if self.is_at_end() => Some(Time::ZERO),
            None => None,
        }
    }

    /// No more bytes: the reader finds the end after what is on its way.
    pub(super) fn finish(&mut self) {
        self.is_finished = true;
        self.wake();
    }

    /// Wakes the waiting thread, because the pipe's state has changed for good.
    pub(super) fn wake(&mut self) {
        self.reader.take().into_iter().chain(self.writer.take()).for_each(|thread| thread.unpark());
    }
}

/// The record at the start of `bytes`, if it is whole. Bytes that are no record pass as they are.
fn first_record(bytes: &[u8]) -> Option<&[u8]> {
    if bytes.len() < FrameHeader::LEN {
        return None;
    }
    let len =
        FrameHeader::decode(bytes).map_or(bytes.len(), |header| record_len(header.payload_len() as usize));
    bytes.get(..len)
}
