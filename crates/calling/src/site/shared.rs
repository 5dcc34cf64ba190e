//! What the workers of a site share of functions and callers.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outboard_wire::calling::{CallerId, FunctionName, RegisterRefusal};

use crate::{CallWindow, FunctionImage, FunctionLength, FunctionTable, Refused, TableLimits};

/// How many callers a site knows. Of those that have no link any more, the one that left first is forgotten first.
const CALLERS_MAX: usize = 4096;

/// Functions of one lane that wait for a thread to look at them, which takes long: the owner of a site has a thread do it.
#[derive(Clone)]
pub struct LaneWork {
    shared: Arc<SharedCalls>,
    lane: FunctionLength,
}

impl LaneWork {
    /// Looks at functions until none waits. Each is looked at `within` the memory that this may take at once, or not at all if
    /// that says why not.
    pub fn run(self, within: impl Fn(u64, &mut dyn FnMut()) -> Result<(), String>) {
        let Self { shared, lane } = self;
        loop {
            let Some(job) = shared.functions().next_job(lane) else { break };
            let mut done = None;
            let looked = within(job.memory(), &mut || {
                let weak = Arc::downgrade(&shared);
                let miss = move |name| weak.upgrade().iter().for_each(|shared| shared.missed(name));
                // A compiler that fails on one function must not keep all others waiting.
                done = catch_unwind(AssertUnwindSafe(|| job.run(miss))).ok();
            });
            let why_not =
                looked.err().unwrap_or_else(|| "the compiler failed on it; please report it".to_owned());
            let mut functions = shared.functions();
            functions.done(done.unwrap_or_else(|| job.not_done(&why_not)));
            (shared.count)(functions.len());
        }
    }

    /// No thread can look at them, for this reason: those that wait are refused.
    pub fn refuse(&self, detail: &str) {
        self.shared.functions().no_thread_prepares(self.lane, detail);
    }
}

/// The functions and callers of a site.
pub struct SharedCalls {
    functions: Mutex<FunctionTable>,
    callers: Mutex<Callers>,
    /// Told how many functions there are.
    count: Box<dyn Fn(usize) + Send + Sync>,
    find_thread: fn(LaneWork),
}

#[derive(Default)]
struct Callers {
    windows: HashMap<CallerId, Arc<Mutex<CallWindow>>>,
    /// Those that have no link, longest ago first.
    gone: VecDeque<CallerId>,
}

impl SharedCalls {
    /// Nothing is known yet; `count` is told how many functions there are, and `find_thread` has work
    /// [run](LaneWork::run) that would keep a worker from its links.
    pub fn new(
        limits: TableLimits,
        count: impl Fn(usize) + Send + Sync + 'static,
        find_thread: fn(LaneWork),
    ) -> Arc<Self> {
        let functions = Mutex::new(FunctionTable::new(limits));
        Arc::new(Self { functions, callers: Mutex::default(), count: Box::new(count), find_thread })
    }

    pub(crate) fn functions(&self) -> MutexGuard<'_, FunctionTable> {
        self.functions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn callers(&self) -> MutexGuard<'_, Callers> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of a caller's calls, if there is room for one more caller.
    pub(crate) fn window(&self, caller: CallerId) -> Option<Arc<Mutex<CallWindow>>> {
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
    pub(crate) fn link_lost(&self, caller: CallerId) {
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
    pub(crate) fn offer(
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
        self.look_at(lane);
        Ok(())
    }

    /// A run has needed code that was left out.
    fn missed(self: &Arc<Self>, name: FunctionName) {
        let lane = self.functions().missed(name);
        self.look_at(lane);
    }

    /// Has a lane looked at that no thread looks at.
    fn look_at(self: &Arc<Self>, lane: Option<FunctionLength>) {
        if let Some(lane) = lane {
            (self.find_thread)(LaneWork { shared: Arc::clone(self), lane });
        }
    }
}

#[cfg(test)]
mod tests;
