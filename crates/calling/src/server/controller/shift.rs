//! What was moved, and why.

use outboard_steering::{Cost, Explanation, Reason, Review, Rival, Site};
use outboard_wire::Time;

use super::ControllerConfig;

/// Some slots that were moved at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// When.
    pub at: Time,
    /// The epoch of the table since then.
    pub epoch: u64,
    /// How many slots.
    pub slots: usize,
    /// Whence.
    pub from: Site,
    /// Where to.
    pub to: Site,
    /// Why.
    pub reason: Reason,
    /// What calls cost there, if that was known.
    pub former_cost: Option<Cost>,
    /// What they cost where the slots went, if that was known.
    pub cost: Option<Cost>,
}

impl Shift {
    /// One line for people.
    pub fn explain(&self, now: Time, config: &ControllerConfig) -> String {
        let explanation = Explanation {
            chosen: self.to,
            held: now - self.at,
            reason: self.reason,
            former: Some(self.from),
            cost: self.cost,
            rival: self.former_cost.map(|cost| Rival { option: self.from, cost }),
            margin_percent: config.margin_percent,
            review: Review::Cheapest,
        };
        format!("epoch {}, {} slots: {explanation}", self.epoch, self.slots)
    }
}
