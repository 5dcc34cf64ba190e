//! The side that takes messages, each once.

use std::collections::BTreeMap;

use fastrand::Rng;
use outboard_driver::{LinkId, Origin, Service};
use outboard_link::{Disposition, Frame, Link, LinkError, Peer, RemoteMemory, SendError};
use outboard_wire::{Incarnation, Rank, Time};

use super::ledger::Ledger;
use super::parcel::{PARCEL, Parcel, Receipt};
use crate::Boot;

/// A source, as duplicates are told by.
type SourceId = (Rank, Incarnation);

struct Sender {
    source: SourceId,
    owes_receipt: bool,
}

/// Takes each message of each life of a source once, in order, and says how far it has got.
pub(super) struct Destination {
    incarnation: Incarnation,
    ledger: Ledger,
    random: Rng,
    /// The next message of each source.
    pub(super) expected: BTreeMap<SourceId, u64>,
    /// The latest life of each source.
    latest: BTreeMap<Rank, Incarnation>,
    senders: BTreeMap<LinkId, Sender>,
}

impl Destination {
    pub(super) fn new(boot: Boot, ledger: Ledger) -> Self {
        Self {
            incarnation: boot.incarnation,
            ledger,
            random: boot.random,
            expected: BTreeMap::new(),
            latest: BTreeMap::new(),
            senders: BTreeMap::new(),
        }
    }

    fn on_parcel(&mut self, source: SourceId, parcel: &Parcel) {
        let expected = self.expected.entry(source).or_insert(parcel.base);
        if parcel.sequence == *expected {
            *expected += 1;
            self.ledger.delivered(self.incarnation, source.1, parcel.sequence, &parcel.body);
        }
    }
}

impl Service for Destination {
    type Note = ();

    fn on_open(&mut self, link: LinkId, peer: &Peer, _: Origin, _: Time) {
        let source = (peer.intro().rank, peer.incarnation());
        self.latest.insert(source.0, source.1);
        self.senders.insert(link, Sender { source, owes_receipt: false });
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, _: Time) -> Disposition {
        // Now and then there is no room, and the frame has to wait.
        if self.random.u8(..) < 4 {
            return Disposition::Deferred;
        }
        let Some(sender) = self.senders.get_mut(&link).filter(|_| frame.head.kind == PARCEL) else {
            return Disposition::Taken;
        };
        let source = sender.source;
        if let Some(parcel) = Parcel::decode(&frame.payload.to_vec(), source.1, self.incarnation) {
            sender.owes_receipt = true;
            self.on_parcel(source, &parcel);
        }
        Disposition::Taken
    }

    fn send<L: Link + RemoteMemory>(&mut self, id: LinkId, link: &mut L, _: Time) -> Result<bool, LinkError> {
        let Some(sender) = self.senders.get_mut(&id).filter(|sender| sender.owes_receipt) else {
            return Ok(false);
        };
        let receipt = Receipt(self.expected.get(&sender.source).copied().unwrap_or(0));
        match link.send(receipt.head(), &receipt.encode(self.incarnation, sender.source.1)) {
            Ok(()) => sender.owes_receipt = false,
            Err(SendError::Lost(lost)) => return Err(lost),
            Err(_) => return Ok(false),
        }
        Ok(true)
    }

    /// A source is remembered until a later life of it is known and nothing can arrive from the former one.
    fn on_lost(&mut self, link: LinkId, _: &LinkError, _: Time) {
        let Some(Sender { source, .. }) = self.senders.remove(&link) else { return };
        let is_over = self.latest.get(&source.0) != Some(&source.1);
        if is_over && self.senders.values().all(|sender| sender.source != source) {
            self.expected.remove(&source);
        }
    }
}
