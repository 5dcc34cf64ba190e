//! Written chunks as they come home.

use outboard_driver::LinkId;
use outboard_link::{Disposition, Frame};
use outboard_paging::server::{self, Returned};
use outboard_wire::control::Question;

use super::MemoryService;
use crate::status::{Gauge, StatusPage};

/// What is counted of write-backs.
pub(super) struct WriteBackGauges {
    done_total: Gauge,
    bytes_total: Gauge,
    stale_total: Gauge,
}

impl WriteBackGauges {
    pub(super) fn new(page: &StatusPage) -> Self {
        Self {
            done_total: page.gauge("write_backs_total"),
            bytes_total: page.gauge("write_back_bytes_total"),
            stale_total: page.gauge("write_backs_stale_total"),
        }
    }

    fn add(&self, returned: Returned) {
        self.done_total.add(returned.done);
        self.bytes_total.add(returned.bytes);
        self.stale_total.add(returned.stale);
    }
}

impl MemoryService {
    /// Does what a frame about far memory asks.
    pub(super) fn page(&mut self, link: LinkId, frame: Frame<'_>) -> Disposition {
        let (store, gates) = (&self.store, &mut self.gates);
        // A peer that knows no sparse regions has no word for a server without room.
        let has_word = self.peers.get(&link).is_some_and(|peer| peer.knows(Question::RESERVE_SPARSE));
        let find = |region| gates.find(region, store).filter(|gate| has_word || !gate.is_sparse());
        let returned = server::on_frame(link, &frame, &mut self.outbox, find);
        if returned != Returned::default() {
            self.store.write_backs.add(returned);
        }
        self.store.show_used();
        Disposition::Taken
    }
}
