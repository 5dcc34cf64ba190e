//! The node whose memory the others use.

use std::sync::Arc;
use std::time::Duration;

use outboard_driver::{LinkId, LinkOrigin, Service};
use outboard_link::memory::Segment;
use outboard_link::{Disposition, Export, Exports, Frame, Link, LinkError, Peer, RemoteMemory};
use outboard_wire::{Incarnation, RegionId, Rights, Time};

use super::layout::{FULL, GENERATION, KEPT, READ_ONLY, SHED, SIZE, WITNESS};
use super::model::Model;
use crate::Boot;

/// Exports two regions, one of which it withdraws after a while, and looks when it is told to.
pub(super) struct Owner {
    incarnation: Incarnation,
    model: Model,
    exports: Arc<Exports>,
    pub(super) memory: Arc<Segment>,
    /// Whether frames come after the writes before them: not on links that lose some of both.
    is_orderly: bool,
    shed_at: Option<Time>,
}

impl Owner {
    pub(super) fn new(mut boot: Boot, model: Model, is_orderly: bool) -> Self {
        let memory = export(&boot.exports, KEPT);
        export(&boot.exports, SHED);
        model.own(boot.incarnation, Arc::clone(&memory));
        Self {
            incarnation: boot.incarnation,
            model,
            exports: boot.exports,
            memory,
            is_orderly,
            shed_at: Some(boot.now + Duration::from_millis(boot.random.u64(10..400))),
        }
    }
}

fn export(exports: &Exports, region: RegionId) -> Arc<Segment> {
    // Without a page of memory there is nothing to simulate.
    let memory = Arc::new(Segment::create(c"outboard-sim", SIZE).expect("a page of memory"));
    let keys = vec![(FULL, Rights::ALL), (READ_ONLY, Rights::READ)];
    exports.add(Export { region, generation: GENERATION, memory: Arc::clone(&memory), keys });
    memory
}

impl Service for Owner {
    type Note = ();

    fn on_open(&mut self, _: LinkId, _: &Peer, _: LinkOrigin, _: Time) {}

    fn on_frame(&mut self, _: LinkId, frame: Frame<'_>, _: Time) -> Disposition {
        if frame.head.kind == WITNESS && self.is_orderly {
            let (index, word) = (frame.payload.word(0) as usize, frame.payload.word(8) as usize);
            let value = self.memory.window(word * 8, 8).word(0);
            self.model.witness(self.incarnation, index, (word, value));
        }
        Disposition::Taken
    }

    fn send<L: Link + RemoteMemory>(&mut self, _: LinkId, _: &mut L, _: Time) -> Result<bool, LinkError> {
        Ok(false)
    }

    fn on_lost(&mut self, link: LinkId, _: &LinkError, _: Time) {
        self.model.cut(self.incarnation, link);
    }

    fn next_deadline(&self) -> Option<Time> {
        self.shed_at
    }

    fn on_time(&mut self, now: Time) {
        if self.shed_at.take_if(|at| *at <= now).is_some() {
            self.exports.remove(SHED);
            self.model.withdraw(self.incarnation);
        }
    }
}
