//! What daemons share, count and configure of the calls that they run.

use std::sync::Arc;

use outboard_calling::{Ambient, DeskCounts, ExecutorConfig, SharedCalls, TableLimits};
use outboard_settings::CallingSettings;

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
    fn new(page: &StatusPage) -> Self {
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

/// The functions and callers of a daemon, and what is counted of calls, by all workers together.
pub(crate) struct SharedCalling {
    pub(crate) calls: Arc<SharedCalls>,
    pub(crate) config: ExecutorConfig,
    pub(crate) counts: CallingCounts,
}

impl SharedCalling {
    pub(crate) fn new(page: &StatusPage, settings: &CallingSettings) -> Self {
        let (functions, (config, limits)) = (page.gauge("functions"), quotas(settings));
        let count = move |count| functions.set(count as u64);
        let calls = SharedCalls::new(limits, count, outboard_driver::calling::find_thread);
        Self { calls, config, counts: CallingCounts::new(page) }
    }
}

/// What functions find at a daemon.
pub(crate) fn ambient() -> Ambient {
    outboard_driver::calling::ambient(|message| {
        tracing::debug!("a function says: {}", String::from_utf8_lossy(message));
    })
}

/// What a site gives to each client and function.
fn quotas(settings: &CallingSettings) -> (ExecutorConfig, TableLimits) {
    let CallingSettings { fuel, calls_per_client, calls_per_function, functions_per_client, code } =
        *settings;
    let executor =
        ExecutorConfig { fuel_max: fuel, calls_per_client, calls_per_function, ..ExecutorConfig::default() };
    // The check of `code` leaves nothing that does not fit.
    let image_bytes = usize::try_from(code.0).unwrap_or(usize::MAX);
    (executor, TableLimits { functions_per_client, image_bytes, ..TableLimits::default() })
}
