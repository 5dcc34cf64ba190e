//! Messages that have arrived, and what they say of long ones.

use std::time::Duration;

use outboard_wire::DecodeError;
use zerocopy::FromBytes;

use super::bytes::{OfiBytes, Whereabouts, Word};
use super::credits::{Content, Header};
use super::landing::{FarLanding, Grant, Landing};
use super::pool;
use crate::Violation;

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
            Content::Release if self.is_withdrawn => (Whereabouts::Word(slot, Content::Release), Header::LEN),
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
        self.arrive(Whereabouts::Place(place), len, &header)
    }

    /// Takes room for long messages back that nobody uses, if somebody else could.
    pub(super) fn give_up_landing(&mut self) {
        let is_idle = self.now >= self.landing_used + IDLE_TIME;
        if self.endpoint.landing.is_some() && !self.is_withdrawn && is_idle && pool::take_wish() {
            self.is_withdrawn = true;
            self.unsaid.push_back(Word::Withdrawal);
        }
    }

    /// Makes room for long messages, if it can be done. Without it they come in pieces.
    fn make_landing(&mut self) {
        let sizes = self.endpoint.sizes();
        if !self.endpoint.offer().tells || sizes.slot_bytes <= sizes.short_bytes {
            return;
        }
        let places = (self.credits.ours(), sizes.slot_bytes);
        if let Ok(Some(landing)) = Landing::make(&self.endpoint, places, self.pool_bytes) {
            self.unsaid.push_back(Word::Landing(landing.grant()));
            self.endpoint.landing = Some(landing);
            self.landing_used = self.now;
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
            Content::Release => (self.endpoint.landing, self.is_withdrawn) = (None, false),
            Content::Bytes | Content::Landing => {}
        }
    }
}
