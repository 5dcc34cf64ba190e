//! Which site runs which calls: what callers and agents say goes to the controller, and its table to them.
//!
//! A thread of its own looks at it about once a millisecond while calls are made, and sleeps otherwise.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outboard_calling::{CallerNumber, Controller, ControllerConfig, Meter, MeterReader, SlotTable};
use outboard_driver::LinkId;
use outboard_link::{Clock, Disposition, Frame};
use outboard_steering::Site;
use outboard_wire::calling::{ASK, Ask, LOAD, Load, OBSERVED, Observed, TABLE};
use outboard_wire::{FrameHead, Kind, Role, Time};

use super::{MemoryNote, MemoryService, SharedStore};
use crate::status::{Gauge, Lines, StatusPage};

/// How often it is shown what calls cost, while any are made.
const SHOW_EVERY: Duration = Duration::from_millis(250);

/// Whether a frame is about which site runs which calls.
pub(super) fn is_steering(kind: Kind) -> bool {
    [ASK, LOAD, OBSERVED].contains(&kind)
}

/// What the workers share with the thread that steers.
pub(super) struct Steering {
    state: Mutex<State>,
    /// Told when there is something to look at after a time without.
    heard: Condvar,
    meters: Mutex<Vec<Arc<Meter>>>,
    shown: Shown,
    /// How many callers there have been.
    callers: AtomicU64,
}

struct State {
    controller: Controller,
    is_stopped: bool,
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
        let controller = Controller::new(ControllerConfig::default(), Time::ZERO);
        let shown = Shown {
            slots: Site::ALL.map(|site| page.gauge(&format!("slots_{site}"))),
            slot_epoch: page.gauge("slot_epoch"),
            slot_shifts_total: page.gauge("slot_shifts_total"),
            lines: page.lines(),
        };
        shown.slots[Site::Server as usize].set(outboard_calling::SLOTS as u64);
        let state = Mutex::new(State { controller, is_stopped: false });
        Self { state, heard: Condvar::new(), meters: Mutex::default(), shown, callers: AtomicU64::new(0) }
    }

    /// One more worker runs calls.
    pub(super) fn add_worker(&self, meter: &Arc<Meter>) {
        lock(&self.meters).push(Arc::clone(meter));
    }

    fn table(&self) -> SlotTable {
        *lock(&self.state).controller.table()
    }

    /// Tells the controller something.
    fn tell(&self, tell: impl FnOnce(&mut Controller)) {
        let mut state = lock(&self.state);
        let was_quiet = state.controller.next_deadline().is_none();
        tell(&mut state.controller);
        if was_quiet && state.controller.next_deadline().is_some() {
            self.heard.notify_one();
        }
    }
}

impl SharedStore {
    /// Steers until told to stop.
    pub(crate) fn steer(&self, clock: Clock) {
        let Steering { state, heard, meters, shown, .. } = &self.steering;
        let mut reader = MeterReader::new(lock(meters).iter().cloned());
        let mut show_at = Time::ZERO;
        let mut state = lock(state);
        while !state.is_stopped {
            let now = clock.now();
            let Some(due) = state.controller.next_deadline() else {
                shown.update(&state.controller, now);
                state = heard.wait(state).unwrap_or_else(PoisonError::into_inner);
                reader.skip(clock.now());
                continue;
            };
            if now < due {
                let waited = heard.wait_timeout(state, due - now);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            state.controller.on_load(now, Site::Server, &reader.read(now));
            let has_changed = state.controller.on_time(now);
            if has_changed {
                let workers = self.workers.get().map_or(&[][..], Vec::as_slice);
                workers.iter().for_each(|worker| worker.tell(MemoryNote::Table));
            }
            if has_changed || now >= show_at {
                shown.update(&state.controller, now);
                show_at = now + SHOW_EVERY;
            }
        }
    }

    /// Ends the thread that steers.
    pub(crate) fn stop_steering(&self) {
        lock(&self.steering.state).is_stopped = true;
        self.steering.heard.notify_one();
    }
}

/// The links of one worker whose peers want to know where slots are, each with its number among those of all workers.
#[derive(Default)]
pub(super) struct Askers {
    links: Vec<(LinkId, CallerNumber)>,
}

impl MemoryService {
    /// A link is gone.
    pub(super) fn forget_asker(&mut self, link: LinkId) {
        let Some(place) = self.askers.links.iter().position(|(other, _)| *other == link) else { return };
        let (_, caller) = self.askers.links.swap_remove(place);
        self.store.steering.tell(|controller| controller.forget_caller(caller));
    }

    /// Hears what is said about sites.
    pub(super) fn on_steering(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        let payload = frame.payload.to_vec();
        let is_agent = self.peers.get(&link).is_some_and(|peer| peer.intro().role == Role::Agent);
        let asker = self.askers.links.iter().find(|(other, _)| *other == link).map(|(_, caller)| *caller);
        let steering = &self.store.steering;
        match (frame.head.kind, Load::decode(&payload), Observed::decode(&payload).ok().zip(asker)) {
            (ASK, ..) if Ask::decode(&payload).is_ok() => {
                if asker.is_none() {
                    let caller = CallerNumber(steering.callers.fetch_add(1, Ordering::Relaxed));
                    self.askers.links.push((link, caller));
                }
                let table = steering.table();
                self.calling.desk.set_label(table.label());
                self.outbox.push_copy(link, FrameHead::new(TABLE), &table.to_wire().encode());
            }
            (LOAD, Ok(load), _) if is_agent => {
                steering.tell(|controller| controller.on_load(now, Site::Agent, &load));
            }
            (OBSERVED, _, Some((observed, caller))) => {
                steering.tell(|controller| controller.on_observed(now, caller, &observed));
            }
            _ => self.counts.questions_refused_total.add(1),
        }
        Disposition::Taken
    }

    /// Tells everybody who asked where slots are now. Whoever takes nothing is not told every change: the frames of answers
    /// say which table there is, and it can ask.
    pub(super) fn tell_table(&mut self) {
        let table = self.store.steering.table();
        self.calling.desk.set_label(table.label());
        let bytes = table.to_wire().encode();
        for (link, _) in &self.askers.links {
            if self.outbox.has_room(*link) {
                self.outbox.push_copy(*link, FrameHead::new(TABLE), &bytes);
            }
        }
    }
}
