//! What is counted of unloaded writes that an agent passes on.

use std::sync::Arc;

use outboard_writing::RelayCounts;

use crate::status::{Gauge, StatusPage};

/// The numbers of all workers together.
pub(crate) struct RelayGauges {
    frames_total: Gauge,
    refused_total: Gauge,
}

impl RelayGauges {
    pub(crate) fn new(page: &StatusPage) -> Arc<Self> {
        Arc::new(Self {
            frames_total: page.gauge("unloaded_frames_passed_on_total"),
            refused_total: page.gauge("unloading_writers_refused_total"),
        })
    }

    pub(crate) fn add(&self, counts: RelayCounts) {
        self.frames_total.add(counts.frames);
        self.refused_total.add(counts.refused);
    }
}
