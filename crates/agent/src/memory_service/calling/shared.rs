//! What the workers of a memory server share of functions and callers.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outboard_calling::{CallWindow, FunctionTable, TableLimits};
use outboard_wire::calling::CallerId;

use crate::status::{Gauge, StatusPage};

/// How many callers a server knows. Of those that have no link any more, the one that left first is forgotten first.
const CALLERS_MAX: usize = 4096;

/// The functions and callers of a memory server, and what is counted of calls.
pub(crate) struct SharedCalling {
    functions: Mutex<FunctionTable>,
    callers: Mutex<Callers>,
    pub(super) counts: CallingCounts,
}

/// What is counted.
pub(super) struct CallingCounts {
    pub(super) calls_total: Gauge,
    pub(super) calls_failed_total: Gauge,
    pub(super) call_fuel_total: Gauge,
    pub(super) functions: Gauge,
    pub(super) registrations_refused_total: Gauge,
}

#[derive(Default)]
struct Callers {
    windows: HashMap<CallerId, Arc<Mutex<CallWindow>>>,
    /// Those that have no link, longest ago first.
    gone: VecDeque<CallerId>,
}

impl SharedCalling {
    pub(crate) fn new(page: &StatusPage) -> Self {
        Self {
            functions: Mutex::new(FunctionTable::new(TableLimits::default())),
            callers: Mutex::default(),
            counts: CallingCounts {
                calls_total: page.gauge("calls_total"),
                calls_failed_total: page.gauge("calls_failed_total"),
                call_fuel_total: page.gauge("call_fuel_total"),
                functions: page.gauge("functions"),
                registrations_refused_total: page.gauge("registrations_refused_total"),
            },
        }
    }

    pub(super) fn functions(&self) -> MutexGuard<'_, FunctionTable> {
        self.functions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn callers(&self) -> MutexGuard<'_, Callers> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of a caller's calls, if there is room for one more caller.
    pub(super) fn window(&self, caller: CallerId) -> Option<Arc<Mutex<CallWindow>>> {
        let mut callers = self.callers();
        if let Some(window) = callers.windows.get(&caller) {
            let window = Arc::clone(window);
            callers.gone.retain(|other| *other != caller);
            return Some(window);
        }
        if callers.windows.len() >= CALLERS_MAX {
            let oldest = callers.gone.pop_front()?;
            callers.windows.remove(&oldest);
        }
        let window = Arc::new(Mutex::default());
        callers.windows.insert(caller, Arc::clone(&window));
        Some(window)
    }

    /// A link of a caller is gone, and with it one holder of its window. It may come by another.
    pub(super) fn link_lost(&self, caller: CallerId) {
        let mut callers = self.callers();
        let is_alone = callers.windows.get(&caller).is_some_and(|window| Arc::strong_count(window) == 1);
        if is_alone && !callers.gone.contains(&caller) {
            callers.gone.push_back(caller);
        }
    }

    /// Looks at functions until there are none that nobody has looked at, in a thread of its own.
    pub(super) fn prepare(&self) {
        loop {
            let Some(job) = self.functions().next_job() else { break };
            let result = job.prepare();
            let mut functions = self.functions();
            functions.prepared(job.name(), result);
            self.counts.functions.set(functions.len() as u64);
        }
    }
}
