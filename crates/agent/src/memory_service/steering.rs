//! The thread that steers: it looks at the controller about once a millisecond while calls are made, and sleeps otherwise.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outboard_calling::{Controller, ControllerConfig, MeterReader, SharedController, SiteMeter};
use outboard_link::Clock;
use outboard_steering::Site;
use outboard_wire::Time;

use super::{MemoryNote, SharedStore};
use crate::status::{Gauge, Lines, StatusPage};

/// How often it is shown what calls cost, while any are made.
const SHOW_EVERY: Duration = Duration::from_millis(250);

/// What the workers share with the thread that steers.
pub(super) struct Steering {
    pub(super) controller: Arc<SharedController>,
    /// Told when there is something to look at after a time without.
    heard: Arc<Condvar>,
    /// Changes only under the controller's lock, so that the thread misses nothing between looking and sleeping.
    is_stopped: AtomicBool,
    meters: Mutex<Vec<Arc<SiteMeter>>>,
    shown: Shown,
}

/// What people see of it.
struct Shown {
    slots: [Gauge; 3],
    slot_epoch: Gauge,
    slot_shifts_total: Gauge,
    lines: Lines,
}

impl Shown {
    fn update(&self, controller: &Controller, now: Time) {
        for (gauge, count) in self.slots.iter().zip(controller.table().counts()) {
            gauge.set(count as u64);
        }
        self.slot_epoch.set(controller.table().epoch());
        self.slot_shifts_total.set(controller.shifts_total());
        self.lines.set(controller.explain(now));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Steering {
    pub(super) fn new(page: &StatusPage) -> Self {
        let heard = Arc::new(Condvar::new());
        let wake = Arc::clone(&heard);
        let controller = SharedController::new(ControllerConfig::default(), move || wake.notify_one());
        let shown = Shown {
            slots: Site::ALL.map(|site| page.gauge(&format!("slots_{site}"))),
            slot_epoch: page.gauge("slot_epoch"),
            slot_shifts_total: page.gauge("slot_shifts_total"),
            lines: page.lines(),
        };
        shown.slots[Site::Server as usize].set(outboard_calling::SLOTS as u64);
        Self { controller, heard, is_stopped: AtomicBool::new(false), meters: Mutex::default(), shown }
    }

    /// One more worker runs calls.
    pub(super) fn add_worker(&self, meter: &Arc<SiteMeter>) {
        lock(&self.meters).push(Arc::clone(meter));
    }
}

impl SharedStore {
    /// Steers until told to stop.
    pub(crate) fn steer(&self, clock: Clock) {
        let Steering { controller, heard, is_stopped, meters, shown } = &self.steering;
        let mut reader = MeterReader::new(lock(meters).iter().cloned());
        let mut show_at = Time::ZERO;
        let mut controller = controller.lock();
        while !is_stopped.load(Ordering::Relaxed) {
            let now = clock.now();
            let Some(due) = controller.next_deadline() else {
                shown.update(&controller, now);
                controller = heard.wait(controller).unwrap_or_else(PoisonError::into_inner);
                reader.skip(clock.now());
                continue;
            };
            if now < due {
                let waited = heard.wait_timeout(controller, due - now);
                controller = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            controller.on_load(now, Site::Server, &reader.read(now));
            let has_changed = controller.on_time(now);
            if has_changed {
                let workers = self.workers.get().map_or(&[][..], Vec::as_slice);
                workers.iter().for_each(|worker| worker.tell(MemoryNote::Table));
            }
            if has_changed || now >= show_at {
                shown.update(&controller, now);
                show_at = now + SHOW_EVERY;
            }
        }
    }

    /// Ends the thread that steers.
    pub(crate) fn stop_steering(&self) {
        let Steering { controller, heard, is_stopped, .. } = &self.steering;
        let held = controller.lock();
        is_stopped.store(true, Ordering::Relaxed);
        drop(held);
        heard.notify_one();
    }
}
