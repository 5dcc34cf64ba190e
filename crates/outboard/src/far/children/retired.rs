//! Regions that the process has given back while children see them.

use std::sync::{Arc, Mutex, PoisonError};

use outboard_driver::paging::SnapshotId;

use super::super::control::Control;
use super::super::parts::Part;

/// Regions that stay at their servers until no child needs them.
pub(in super::super) struct Retired {
    controls: Arc<Vec<Control>>,
    /// With the youngest child that may need each, and whether its bytes are given up too.
    parts: Mutex<Vec<(SnapshotId, Part, bool)>>,
}

impl Retired {
    pub(in super::super) fn new(controls: &Arc<Vec<Control>>) -> Self {
        Self { controls: Arc::clone(controls), parts: Mutex::default() }
    }

    /// Keeps the regions of an object for children.
    pub(in super::super) fn keep(&self, youngest: SnapshotId, parts: Vec<Part>, is_freed: bool) {
        let mut all = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend(parts.into_iter().map(|part| (youngest, part, is_freed)));
    }

    /// Gives those back that no child needs any more. A server that is gone has nothing to give back.
    pub(super) fn release(&self, is_over: impl Fn(SnapshotId) -> bool) {
        let over: Vec<_> = {
            let mut all = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
            all.extract_if(.., |(id, ..)| is_over(*id)).collect()
        };
        for (_, Part { at, far, .. }, is_freed) in over {
            let _ = self.controls[at].server().map(|mut server| match is_freed {
                true => server.free(far),
                false => server.release(far),
            });
        }
    }
}
