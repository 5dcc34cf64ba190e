//! What the workers of a site share of functions and callers.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outboard_calling::{CallWindow, FunctionImage, FunctionTable, Lane, TableLimits};
use outboard_wire::calling::{CallerId, FunctionName, RegisterRefusal};

use super::desk::Refused;

/// How many callers a site knows. Of those that have no link any more, the one that left first is forgotten first.
const CALLERS_MAX: usize = 4096;

/// The functions and callers of a site.
pub struct SharedCalls {
    functions: Mutex<FunctionTable>,
    callers: Mutex<Callers>,
    /// Told how many functions there are.
    count: Box<dyn Fn(usize) + Send + Sync>,
}

#[derive(Default)]
struct Callers {
    windows: HashMap<CallerId, Arc<Mutex<CallWindow>>>,
    /// Those that have no link, longest ago first.
    gone: VecDeque<CallerId>,
}

impl SharedCalls {
    /// Nothing is known yet; `count` is told how many functions there are.
    pub fn new(limits: TableLimits, count: impl Fn(usize) + Send + Sync + 'static) -> Arc<Self> {
        let functions = Mutex::new(FunctionTable::new(limits));
        Arc::new(Self { functions, callers: Mutex::default(), count: Box::new(count) })
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
        drop(callers);
        if is_alone {
            let mut functions = self.functions();
            functions.cancel(caller);
            (self.count)(functions.len());
        }
    }

    /// Takes a function's code, which is looked at in a thread of its own.
    pub(super) fn offer(
        self: &Arc<Self>,
        by: CallerId,
        name: FunctionName,
        image: FunctionImage,
    ) -> Result<(), Refused> {
        if image.name() != name {
            let detail = format!("the code that came is that of {}, not of {name}", image.name());
            return Err((RegisterRefusal::WrongName, detail));
        }
        let lane = self.functions().offer(by, image)?;
        self.find_thread(lane);
        Ok(())
    }

    /// A run has needed code that was left out.
    fn missed(self: &Arc<Self>, name: FunctionName) {
        let lane = self.functions().missed(name);
        self.find_thread(lane);
    }

    /// Starts the thread that a lane lacks.
    fn find_thread(self: &Arc<Self>, lane: Option<Lane>) {
        let Some(lane) = lane else { return };
        let shared = Arc::clone(self);
        let prepare = move || shared.prepare(lane);
        let spawned = std::thread::Builder::new().name("outboard-functions".to_owned()).spawn(prepare);
        if let Err(error) = spawned {
            let detail = format!("the operating system gave no thread to look at functions: {error}");
            self.functions().nobody_prepares(lane, &detail);
        }
    }

    /// Looks at functions of a lane until none waits.
    fn prepare(self: &Arc<Self>, lane: Lane) {
        loop {
            let Some(job) = self.functions().next_job(lane) else { break };
            let shared = Arc::downgrade(self);
            let miss = move |name| shared.upgrade().iter().for_each(|shared| shared.missed(name));
            // A compiler that fails on one function must not keep all others waiting.
            let done = catch_unwind(AssertUnwindSafe(|| job.run(miss)));
            let mut functions = self.functions();
            functions
                .done(done.unwrap_or_else(|_| job.not_done("the compiler failed on it; please report it")));
            (self.count)(functions.len());
        }
    }
}

#[cfg(test)]
mod tests;
