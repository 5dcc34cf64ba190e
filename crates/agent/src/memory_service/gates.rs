//! The gates that one worker has used.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use outboard_wire::RegionId;

use super::SharedStore;
use crate::store::Gate;

/// The gates that one worker has used, so that it need not wait for the store again. It keeps no region alive, and a
/// region's id is never given to another.
#[derive(Default)]
pub(super) struct Gates {
    known: HashMap<RegionId, Weak<Gate>>,
}

impl Gates {
    pub(super) fn find(&mut self, region: RegionId, store: &SharedStore) -> Option<Arc<Gate>> {
        if let Some(gate) = self.known.get(&region).and_then(Weak::upgrade) {
            return Some(gate);
        }
        let gate = store.with(|store| store.gate(region).cloned())?;
        self.known.retain(|_, known| known.strong_count() > 0);
        self.known.insert(region, Arc::downgrade(&gate));
        Some(gate)
    }
}
