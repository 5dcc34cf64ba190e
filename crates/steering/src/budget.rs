//! Limits how often a choice may change.

use outboard_wire::time::Time;

use crate::SteeringConfig;

/// A leaky bucket kept as the point at which everything spent will have been forgiven.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Budget {
    forgiven_at: Time,
}

impl Budget {
    /// Spends one move if any is left.
    pub(crate) fn spend(&mut self, now: Time, config: &SteeringConfig) -> bool {
        let Some(others) = config.switch_burst.checked_sub(1) else { return false };
        if self.forgiven_at - now > config.switch_period.saturating_mul(others) {
            return false;
        }
        self.forgiven_at = self.forgiven_at.max(now) + config.switch_period;
        true
    }
}
