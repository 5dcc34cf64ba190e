//! A memory server's half besides running calls: which site runs which. What callers and agents say of sites goes to the
//! controller, and its table to them.

mod controller;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outboard_contract::{Frame, LinkId, Outbox};
use outboard_steering::Site;
use outboard_wire::calling::{ASK, LOAD, OBSERVED, Observed, SiteLoad, SlotQuestion, TABLE};
use outboard_wire::{FrameHead, FrameKind, Time};

use crate::{CallingDesk, SlotTable};

pub use controller::{CallerNumber, Controller, ControllerConfig, Shift};

/// The controller of a memory server. Its workers tell it what they hear; the owner of the server looks at it when it is due.
pub struct SharedController {
    controller: Mutex<Controller>,
    /// How many callers there have been.
    callers: AtomicU64,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl SharedController {
    /// `wake` is called when there is something to look at after a time without.
    pub fn new(config: ControllerConfig, wake: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        let controller = Mutex::new(Controller::new(config, Time::ZERO));
        Arc::new(Self { controller, callers: AtomicU64::new(0), wake: Box::new(wake) })
    }

    /// The controller itself.
    pub fn lock(&self) -> MutexGuard<'_, Controller> {
        self.controller.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn table(&self) -> SlotTable {
        *self.lock().table()
    }

    fn tell(&self, tell: impl FnOnce(&mut Controller)) {
        let mut controller = self.lock();
        let was_quiet = controller.next_deadline().is_none();
        tell(&mut controller);
        if was_quiet && controller.next_deadline().is_some() {
            (self.wake)();
        }
    }
}

/// Says where slots are, and passes on to the controller what callers and agents say of sites, beside the [`CallingDesk`] of one
/// worker.
pub struct SlotDesk {
    controller: Arc<SharedController>,
    /// The links whose peers want to know where slots are, each with its number among those of all workers.
    askers: Vec<(LinkId, CallerNumber)>,
}

impl SlotDesk {
    /// A desk without clients.
    pub fn new(controller: Arc<SharedController>) -> Self {
        Self { controller, askers: Vec::new() }
    }

    /// Whether a frame is about sites and slots, not about calls.
    #[inline]
    pub fn is_about_slots(kind: FrameKind) -> bool {
        matches!(kind, ASK | LOAD | OBSERVED)
    }

    /// Hears what is said about sites. What is to be said goes into `outbox`.
    pub fn on_frame<R>(
        &mut self,
        (link, frame, now): (LinkId, Frame<'_>, Time),
        is_agent: bool,
        desk: &mut CallingDesk<R>,
        outbox: &mut Outbox,
    ) {
        let payload = frame.payload.to_vec();
        let asker = self.askers.iter().find(|(other, _)| *other == link).map(|(_, caller)| *caller);
        match (frame.head.kind, SiteLoad::decode(&payload), Observed::decode(&payload).ok().zip(asker)) {
            (ASK, ..) if SlotQuestion::decode(&payload).is_ok() => {
                if asker.is_none() {
                    let caller = CallerNumber(self.controller.callers.fetch_add(1, Ordering::Relaxed));
                    self.askers.push((link, caller));
                }
                let table = self.controller.table();
                desk.set_label(table.label());
                outbox.push_copy(link, FrameHead::new(TABLE), &table.to_wire().encode());
            }
            (LOAD, Ok(load), _) if is_agent => {
                self.controller.tell(|controller| controller.on_load(now, Site::Agent, &load));
            }
            (OBSERVED, _, Some((observed, caller))) => {
                self.controller.tell(|controller| controller.on_observed(now, caller, &observed));
            }
            _ => desk.note_meaningless(),
        }
    }

    /// Tells every peer that asked where slots are now. A peer that takes nothing is not told every change: the frames of
    /// answers say which table there is, and it can ask.
    pub fn tell_table<R>(&mut self, desk: &mut CallingDesk<R>, outbox: &mut Outbox) {
        let table = self.controller.table();
        desk.set_label(table.label());
        let bytes = table.to_wire().encode();
        for (link, _) in &self.askers {
            if outbox.has_room(*link) {
                outbox.push_copy(*link, FrameHead::new(TABLE), &bytes);
            }
        }
    }

    /// A link is gone. Its caller may come by another.
    pub fn on_lost(&mut self, link: LinkId) {
        if let Some(place) = self.askers.iter().position(|(other, _)| *other == link) {
            let (_, caller) = self.askers.swap_remove(place);
            self.controller.tell(|controller| controller.forget_caller(caller));
        }
    }
}
