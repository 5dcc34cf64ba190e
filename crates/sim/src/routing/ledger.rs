//! What was sent and what has arrived.

use std::collections::{BTreeMap, BTreeSet};

use outboard_wire::Time;

/// A message: from whom, for whom, and which one it is.
pub(super) type Letter = (u32, u32, u64);

/// What was sent and what has arrived, of all ranks.
#[derive(Default)]
pub(super) struct Ledger {
    under_way: BTreeMap<Letter, Time>,
    arrived: BTreeSet<Letter>,
}

impl Ledger {
    pub(super) fn sent(&mut self, letter: Letter, now: Time) {
        self.under_way.insert(letter, now);
    }

    /// A message has arrived: when it was sent, or what is wrong with it.
    pub(super) fn arrived(&mut self, letter: Letter) -> Result<Time, String> {
        if self.arrived.contains(&letter) {
            return Err(format!("every message arrives once, but {letter:?} came again"));
        }
        let sent = self.under_way.remove(&letter);
        let sent = sent.ok_or_else(|| format!("what arrives was sent, but {letter:?} was not"))?;
        self.arrived.insert(letter);
        Ok(sent)
    }

    pub(super) fn under_way(&self) -> usize {
        self.under_way.len()
    }

    pub(super) fn has_arrived(&self) -> usize {
        self.arrived.len()
    }
}
