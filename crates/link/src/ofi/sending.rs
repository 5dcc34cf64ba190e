//! Bytes of the stream as messages of an endpoint.

use zerocopy::IntoBytes;

use super::bytes::{Leaving, OfiBytes, Word, lost};
use super::credits::{Content, Header, KEPT};
use super::endpoint::Sizes;
use super::long_slots::LongSlots;
use super::setbacks::Setbacks;
use crate::Loss;
use crate::memory::Window;

impl OfiBytes {
    /// Gives the provider what it had no room for, and pays what is owed.
    pub(super) fn post(&mut self) {
        if self.failure.is_some() {
            return;
        }
        while let Some((slot, is_awaited)) = self.unposted.last().copied() {
            match self.endpoint.receive(slot) {
                Ok(true) => {
                    self.unposted.pop();
                    if is_awaited {
                        self.credits.freed();
                    }
                }
                Ok(false) => break,
                Err(fault) => return self.fail(lost(fault)),
            }
        }
        if self.credits.is_indebted()
            && !self.is_finished
            && let Some(slot) = self.free.pop()
        {
            let header = self.credits.next(false);
            self.endpoint.send_slot(slot).write(0, header.as_bytes());
            self.leaving.push_back(Leaving { slot, len: Header::LEN, to: None });
        }
        self.say();
        self.submit();
    }

    /// Gives filled slots to the provider, in batches.
    fn submit(&mut self) {
        let mut has_left = false;
        while let Some(Leaving { slot, len, to }) = self.leaving.front().copied() {
            let has_more = self.leaving.len() > 1;
            let begun = match to {
                Some((far, note)) => self.endpoint.write_far((slot, note), far, has_more),
                None => self.endpoint.send(slot, len, has_more),
            };
            match begun {
                Ok(true) => {
                    self.leaving.pop_front();
                    has_left = true;
                }
                Ok(false) => break,
                Err(fault) => {
                    self.fail(lost(fault));
                    break;
                }
            }
        }
        let is_waiting = self.is_handshake && !self.leaving.is_empty();
        if is_waiting || (has_left && (self.peer_wants_bells || self.is_handshake)) {
            self.side.ring();
        }
    }

    /// Takes as much as may be on its way now, from two pieces that lie one behind the other.
    pub(super) fn put(&mut self, head: Window<'_>, body: Window<'_>) -> Result<usize, Loss> {
        let total = head.len() + body.len();
        if self.endpoint.accesses.writes > 0 && !self.endpoint.offer().orders_writes {
            // A message that is sent now would overtake them.
            self.turn()?;
            if self.endpoint.accesses.writes > 0 {
                return Ok(0);
            }
        }
        let is_long_full = self.endpoint.long.as_ref().is_some_and(LongSlots::is_full);
        if self.free.len() <= KEPT || !self.credits.has() || is_long_full {
            self.turn()?;
        }
        let mut taken = 0;
        while taken < total && self.free.len() > KEPT && self.credits.has() && self.failure.is_none() {
            let left = Header::LEN + (total - taken);
            let Some((slot, longest)) = self.take_slot(left) else { break };
            let len = left.min(longest) - Header::LEN;
            let header = self.credits.next(true);
            let mut place = self.endpoint.send_slot(slot);
            place.write(0, header.as_bytes());
            let from_head = head.len().saturating_sub(taken).min(len);
            if from_head > 0 {
                place.write_window(Header::LEN, head.part(taken, from_head));
            }
            if from_head < len {
                let at = (taken + from_head) - head.len();
                place.write_window(Header::LEN + from_head, body.part(at, len - from_head));
            }
            let far = self.far.as_mut().filter(|_| slot >= self.endpoint.sizes().sends);
            let to = far.map(|far| far.next(Header::LEN + len));
            self.leaving.push_back(Leaving { slot, len: Header::LEN + len, to });
            taken += len;
        }
        self.submit();
        Ok(taken)
    }

    /// A slot for a message of up to `len` bytes, and how many it can have. `None` if it has to wait for one.
    fn take_slot(&mut self, len: usize) -> Option<(usize, usize)> {
        let far = self.far.as_ref().filter(|_| len > self.message_bytes);
        if let Some(longest) = far.map(|far| far.message_bytes) {
            let slot = self.take_long();
            if slot.is_some() || self.endpoint.long.is_some() {
                return slot.map(|slot| (slot, longest));
            }
        }
        self.free.pop().map(|slot| (slot, self.message_bytes))
    }

    /// A slot for a long message, if one is free. They are made when the first is needed, if the pool has room; without
    /// it there is none.
    pub(super) fn take_long(&mut self) -> Option<usize> {
        let Sizes { sends, long_sends, .. } = self.endpoint.sizes();
        if self.endpoint.long.is_none() && long_sends > 0 && self.long_setbacks.may_try(self.now) {
            match LongSlots::make(&self.endpoint, self.pool_bytes) {
                Ok(Some(long)) => {
                    self.endpoint.long = Some(long);
                    self.long_setbacks = Setbacks::NONE;
                }
                Ok(None) => {}
                // A message whose memory cannot be registered is sent in pieces.
                Err(_) => self.long_setbacks.add(self.now),
            }
        }
        self.endpoint.long.as_mut()?.take().map(|number| sends + number)
    }

    /// Whether the provider has not sent everything yet.
    pub(super) fn is_sending(&self) -> bool {
        let is_long_idle = self.endpoint.long.as_ref().is_none_or(LongSlots::is_idle);
        self.free.len() < self.endpoint.sizes().sends || !is_long_idle
    }

    /// Says what is to be said of long messages.
    fn say(&mut self) {
        while !self.is_finished && !self.unsaid.is_empty() {
            let Some(slot) = self.free.pop() else { return };
            let Some(word) = self.unsaid.pop_front() else { return };
            let content = match word {
                Word::Landing(_) => Content::Landing,
                Word::Withdrawal => Content::Withdrawal,
                Word::Release => Content::Release,
            };
            if let (Word::Withdrawal, Some(withdrawal)) = (word, &mut self.withdrawal) {
                withdrawal.is_sent_after(self.credits.sent_with_bytes());
            }
            let header = self.credits.header(content);
            let mut place = self.endpoint.send_slot(slot);
            place.write(0, header.as_bytes());
            let mut len = Header::LEN;
            if let Word::Landing(grant) = word {
                place.write(len, grant.as_bytes());
                len += size_of_val(&grant);
            }
            self.leaving.push_back(Leaving { slot, len, to: None });
        }
    }
}
