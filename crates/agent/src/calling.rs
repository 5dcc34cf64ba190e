//! What daemons count of the calls that they run.

use outboard_driver::calling::DeskCounts;

use crate::counts::Counts;
use crate::status::{Gauge, StatusPage};

/// What is counted of calls, by all workers together.
pub(crate) struct CallingCounts {
    calls_total: Gauge,
    calls_failed_total: Gauge,
    call_fuel_total: Gauge,
    registrations_refused_total: Gauge,
}

impl CallingCounts {
    pub(crate) fn new(page: &StatusPage) -> Self {
        Self {
            calls_total: page.gauge("calls_total"),
            calls_failed_total: page.gauge("calls_failed_total"),
            call_fuel_total: page.gauge("call_fuel_total"),
            registrations_refused_total: page.gauge("registrations_refused_total"),
        }
    }

    /// Adds what has happened at a desk.
    pub(crate) fn add(&self, counts: DeskCounts, asked: &Counts) {
        if counts == DeskCounts::default() {
            return;
        }
        self.calls_total.add(counts.replied);
        self.calls_failed_total.add(counts.failed);
        self.call_fuel_total.add(counts.fuel);
        self.registrations_refused_total.add(counts.refused);
        asked.questions_refused_total.add(counts.meaningless);
    }
}
