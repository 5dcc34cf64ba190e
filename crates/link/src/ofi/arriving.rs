//! Messages that have arrived, and what they say of long ones.

use std::time::Duration;

use outboard_wire::DecodeError;
use zerocopy::FromBytes;

use super::bytes::{OfiBytes, Whereabouts, Word};
use super::credits::{Content, Header};
use super::landing::{FarLanding, Grant, Landing};
use super::pool;
use super::setbacks::Setbacks;
use super::withdrawal::Withdrawal;
use crate::{Loss, Violation};

/// How long room for long messages goes unused before others may have it.
const IDLE_TIME: Duration = Duration::from_secs(2);

impl OfiBytes {
    /// A message has arrived in a slot.
    pub(super) fn receive_in(&mut self, slot: usize, len: usize) -> Result<(), Violation> {
        let message = self.endpoint.received(slot);
        let available = message.len() as u64;
        let message = message.get(..len).ok_or(Violation::Oversize { len: len as u64, available })?;
        let (header, body) = Header::read_from_prefix(message)
            .map_err(|_| DecodeError::BadValue { what: "length of a message", value: len as u64 })?;
        let (at, len) = match header.content()? {
            Content::Bytes => (Whereabouts::Slot(slot), len),
            Content::Landing => {
                let wrong = DecodeError::BadValue { what: "length of a landing", value: body.len() as u64 };
                let grant = Grant::read_from_bytes(body).map_err(|_| wrong)?;
                let (messages, longest) = (self.credits.theirs(), self.endpoint.sizes().slot_bytes);
                if self.far.is_some() || !self.endpoint.offer().tells {
                    return Err(DecodeError::BadValue { what: "second landing", value: 1 }.into());
                }
                self.far = Some(FarLanding::new(&grant, messages, longest)?);
                (Whereabouts::Slot(slot), Header::LEN)
            }
            Content::Withdrawal => {
                self.far.as_ref().ok_or(DecodeError::BadValue { what: "withdrawal of nothing", value: 0 })?;
                (Whereabouts::Word(slot, Content::Withdrawal), Header::LEN)
            }
            Content::Release if self.withdrawal.is_some() => {
                (Whereabouts::Word(slot, Content::Release), Header::LEN)
            }
            Content::Release => {
                let wrong = DecodeError::BadValue { what: "release of what is not withdrawn", value: 0 };
                return Err(wrong.into());
            }
        };
        // A message as long as they get is a piece of a longer one.
        if len == self.endpoint.sizes().short_bytes && self.endpoint.landing.is_none() {
            self.make_landing();
        }
        self.arrive(at, len, &header)
    }

    /// The peer has written a message.
    pub(super) fn be_told(&mut self, note: u32) -> Result<(), Violation> {
        let unwanted = DecodeError::BadValue { what: "note of a message", value: note.into() };
        let landing = self.endpoint.landing.as_ref().ok_or(unwanted)?;
        let (place, len) = landing.find(note)?;
        let header: Header = zerocopy::transmute!(landing.message(place, len).array::<{ Header::LEN }>(0));
        if header.content()? != Content::Bytes {
            return Err(unwanted.into());
        }
        self.landing_used = self.now;
        if !std::mem::replace(&mut self.is_landing_used, true) {
            self.landing_setbacks = Setbacks::NONE;
        }
        self.arrive(Whereabouts::Place(place), len, &header)
    }

    /// Gives unused room for long messages up, if another link could use it: the room that ours leave from at once, the room that the
    /// peer's are written to after it has been told.
    pub(super) fn give_up_idle(&mut self) {
        let now = self.now;
        let is_long_idle = now >= self.long_used + IDLE_TIME;
        self.endpoint.long.take_if(|long| is_long_idle && long.is_idle() && pool::take_wish());
        let is_landing_idle = now >= self.landing_used + IDLE_TIME;
        let has_landing = self.endpoint.landing.is_some() && self.withdrawal.is_none();
        if has_landing && is_landing_idle && pool::take_wish() {
            self.withdrawal = Some(Withdrawal::default());
            self.unsaid.push_back(Word::Withdrawal);
        }
    }

    /// A peer that does not give back what it was told to give back is not waited for without end.
    pub(super) fn await_release(&mut self) -> Result<(), Loss> {
        let is_read = self.arrived[self.next as usize % self.arrived.len()].is_none();
        match &mut self.withdrawal {
            Some(withdrawal) if is_read => {
                withdrawal.look(self.now, self.credits.dealt_with(), self.deadline)
            }
            _ => Ok(()),
        }
    }

    /// Makes room for long messages, if it can be done. Without it they come in pieces.
    fn make_landing(&mut self) {
        let sizes = self.endpoint.sizes();
        let is_of_use = self.endpoint.offer().tells && sizes.slot_bytes > sizes.short_bytes;
        if !is_of_use || !self.landing_setbacks.may_try(self.now) {
            return;
        }
        let places = (self.credits.ours(), sizes.slot_bytes);
        match Landing::make(&self.endpoint, places, self.pool_bytes) {
            Ok(Some(landing)) => {
                self.unsaid.push_back(Word::Landing(landing.grant()));
                self.endpoint.landing = Some(landing);
                (self.landing_used, self.is_landing_used) = (self.now, false);
            }
            // To ask whether the pool has room costs nothing, and says that a link wants it.
            Ok(None) => {}
            Err(_) => self.landing_setbacks.add(self.now),
        }
    }

    /// A message is here. Messages are read by their numbers, whatever order they are told of in.
    fn arrive(&mut self, at: Whereabouts, len: usize, header: &Header) -> Result<(), Violation> {
        let sequence = self.credits.take(header)?;
        let ahead = sequence.wrapping_sub(self.next as u32);
        let place = (self.next + u64::from(ahead)) as usize % self.arrived.len();
        if ahead as usize >= self.arrived.len() || self.arrived[place].is_some() {
            return Err(DecodeError::BadValue { what: "number of a message", value: sequence.into() }.into());
        }
        self.arrived[place] = Some((at, len));
        Ok(())
    }

    /// Does what the peer has said, now that everything before it was read: so no more than one word of each kind is ever
    /// on its way.
    pub(super) fn obey(&mut self, content: Content) {
        match content {
            Content::Withdrawal => {
                self.far = None;
                self.endpoint.long.take_if(|long| long.is_idle());
                self.unsaid.push_back(Word::Release);
            }
            Content::Release => {
                (self.endpoint.landing, self.withdrawal) = (None, None);
                // A peer that has no room to send from would leave the next one unused as well.
                if !self.is_landing_used {
                    self.landing_setbacks.add(self.now);
                }
            }
            Content::Bytes | Content::Landing => {}
        }
    }
}
