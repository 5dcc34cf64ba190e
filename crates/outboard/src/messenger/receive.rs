//! Messages that have arrived.

use std::slice;

use outboard_routing::Arrived;
use outboard_wire::routing::{Form, Fragment, MessageHead};

use super::bundle::Bundle;
use super::error::MessengerError;
use super::messages::Messenger;
use crate::Plain;

/// Where the bytes of a bundle lie.
pub(super) enum Place {
    /// In a slot of what was received, so far from its beginning.
    Slot(u32, u32),
    /// In a buffer that this rank has sent to itself.
    Own(u32),
    /// Here: a long message, put together.
    Here(Vec<u8>),
}

/// A bundle that has not been handled.
pub(super) struct Item {
    pub(super) source: u32,
    pub(super) place: Place,
    pub(super) len: u32,
    pub(super) form: Form,
}

impl Messenger {
    /// Handles the bundles that have arrived: `handler` may send, also when there is no room, but must not receive. Returns
    /// how many there were.
    pub fn receive_bundles(
        &mut self,
        space: u8,
        mut handler: impl FnMut(&mut Self, Bundle<'_>),
    ) -> Result<usize, MessengerError> {
        self.check_space(space)?;
        self.progress()?;
        let (set, mut handled) = (usize::from(space), 0);
        for _ in 0..self.inbox[set].len() {
            let Some(item) = self.inbox[set].pop_front() else { break };
            self.with_bytes(&item, |this, bytes| {
                this.is_in_handler = true;
                handler(this, Bundle::new((item.source, this.rank), bytes, item.form));
                this.is_in_handler = false;
            });
            self.finish(set, item);
            handled += 1;
        }
        self.idle = if handled > 0 { 0 } else { self.idle.saturating_add(1) };
        if handled == 0 && !self.is_in_handler {
            // There is nothing else to do: no rank should wait for messages in open bundles.
            self.flush_in(space)?;
        }
        match self.nonsense.take() {
            Some((rank, why)) => Err(MessengerError::Nonsense { rank, why }),
            None => Ok(handled),
        }
    }

    /// Handles the messages that have arrived, each with its sender. Returns how many there were.
    pub fn receive(
        &mut self,
        space: u8,
        mut handler: impl FnMut(&mut Self, u32, &[u8]),
    ) -> Result<usize, MessengerError> {
        let (mut count, mut wrong) = (0, None);
        self.receive_bundles(space, |this, bundle| {
            for message in bundle.messages() {
                match message {
                    Ok(message) => {
                        handler(this, bundle.source(), message);
                        count += 1;
                    }
                    Err(why) => wrong = Some((bundle.source(), why)),
                }
            }
        })?;
        match wrong {
            Some((rank, why)) => Err(MessengerError::Nonsense { rank, why: why.to_owned() }),
            None => Ok(count),
        }
    }

    /// Receives messages that are all values of one type.
    pub fn receive_values<T: Plain>(
        &mut self,
        space: u8,
        mut handler: impl FnMut(&mut Self, u32, T),
    ) -> Result<usize, MessengerError> {
        let (mut count, mut wrong) = (0, None);
        self.receive_bundles(space, |this, bundle| match bundle.values::<T>() {
            Some(values) => {
                count += values.len();
                values.iter().for_each(|value| handler(this, bundle.source(), value));
            }
            None => wrong = Some(bundle.source()),
        })?;
        match wrong {
            Some(rank) => {
                let why = format!("not values of {} bytes each", size_of::<T>());
                Err(MessengerError::Nonsense { rank, why })
            }
            None => Ok(count),
        }
    }

    /// A bundle is handled: its memory can be used again.
    pub(super) fn finish(&mut self, set: usize, item: Item) {
        self.stats.bundles_handled += 1;
        self.stats.bytes_handled += u64::from(item.len);
        let buffers = self.worker.service().buffers();
        match item.place {
            Place::Slot(slot, _) => buffers.give_slot_back(slot),
            Place::Own(buffer) => buffers.give_back(buffer),
            // Its parts were counted as they came.
            Place::Here(_) => return,
        }
        self.agreement.handled(set, item.len);
    }

    /// Lends the bytes of a bundle out.
    pub(super) fn with_bytes<R>(&mut self, item: &Item, work: impl FnOnce(&mut Self, &[u8]) -> R) -> R {
        let (len, buffers) = (item.len as usize, self.worker.service().buffers());
        match &item.place {
            Place::Here(bytes) => work(self, bytes),
            Place::Slot(slot, from) => {
                // Whatever `work` does with the messenger, the memory stays.
                let (memory, at) = (buffers.incoming().clone(), buffers.slot_offset(*slot) + *from as usize);
                // SAFETY: a slot that is filled and not given back: no thread writes to it, and no other process ever can.
                let bytes = unsafe { slice::from_raw_parts(memory.start().as_ptr().add(at), len) };
                work(self, bytes)
            }
            Place::Own(buffer) => {
                let (memory, at) = (buffers.outgoing().clone(), buffers.offset(*buffer));
                // SAFETY: a sealed buffer that is not given back: this rank does not write to it, and others may only read.
                let bytes = unsafe { slice::from_raw_parts(memory.start().as_ptr().add(at), len) };
                work(self, bytes)
            }
        }
    }

    /// Puts what has arrived where it belongs. Returns whether there was anything.
    pub(super) fn sort_arrived(&mut self) -> bool {
        let mut arrived = std::mem::take(&mut self.scratch);
        self.worker.service().swap_arrived(&mut arrived);
        let moved = !arrived.is_empty();
        for Arrived { source, slot, at, len, space, form } in arrived.drain(..) {
            let item = Item { source, place: Place::Slot(slot, at), len, form };
            self.inbox[usize::from(space)].push_back(item);
        }
        self.scratch = arrived;
        for set in 0..usize::from(self.spaces) {
            self.join_parts(set);
        }
        self.read_signals();
        moved
    }

    /// Puts long messages together: parts are taken out of the inbox, whole messages put in.
    fn join_parts(&mut self, set: usize) {
        if self.inbox[set].iter().all(|item| item.form != Form::Fragment) {
            return;
        }
        let items = std::mem::take(&mut self.inbox[set]);
        for item in items {
            if item.form != Form::Fragment {
                self.inbox[set].push_back(item);
                continue;
            }
            let source = item.source;
            let joined = self.with_bytes(&item, |this, bytes| {
                let (fragment, part) = Fragment::decode(bytes).map_err(|error| error.to_string())?;
                this.joiners[source as usize].add(fragment, part).map_err(|error| error.to_string())
            });
            self.finish(set, item);
            match joined {
                Ok(Some(bytes)) => {
                    let bytes = as_bundle(self.rank, &bytes);
                    let len = bytes.len() as u32;
                    let item = Item { source, place: Place::Here(bytes), len, form: Form::Messages };
                    self.inbox[set].push_back(item);
                }
                Ok(None) => {}
                Err(why) => self.nonsense = Some((source, why)),
            }
        }
    }
}

/// A message as a bundle of its own.
fn as_bundle(rank: u32, message: &[u8]) -> Vec<u8> {
    let head = MessageHead { size: message.len() as u32, rank: outboard_wire::Rank(rank) };
    let mut bytes = Vec::with_capacity(MessageHead::stride(message.len()));
    bytes.extend(head.word().to_le_bytes());
    bytes.extend(message);
    bytes.resize(MessageHead::stride(message.len()), 0);
    bytes
}
