//! Written chunks as they come home, and fences against those that come late.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use outboard_driver::LinkId;
use outboard_link::memory::Window;
use outboard_link::{Disposition, Frame};
use outboard_wire::paging::{FIXED_LEN_MAX, Refusal, Reply, Request, Status, WriteBack};
use outboard_wire::{FrameHead, RegionId};

use super::{MemoryService, SharedStore};
use crate::status::{Gauge, StatusPage};
use crate::store::Gate;

/// What is counted of write-backs.
pub(super) struct WriteBackCounts {
    done_total: Gauge,
    bytes_total: Gauge,
    stale_total: Gauge,
}

impl WriteBackCounts {
    pub(super) fn new(page: &StatusPage) -> Self {
        Self {
            done_total: page.gauge("write_backs_total"),
            bytes_total: page.gauge("write_back_bytes_total"),
            stale_total: page.gauge("write_backs_stale_total"),
        }
    }

    fn count(&self, status: Status, bytes: usize) {
        match status {
            Status::Done => {
                self.done_total.add(1);
                self.bytes_total.add(bytes as u64);
            }
            Status::StaleEpoch => self.stale_total.add(1),
            _ => {}
        }
    }
}

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

impl MemoryService {
    /// Does what a frame about far memory asks.
    pub(super) fn page(&mut self, link: LinkId, frame: Frame<'_>) -> Disposition {
        let reply = match read(frame) {
            Some((request, data)) => self.serve(&request, data),
            None => Reply::to_malformed(frame.head.kind),
        };
        if let Some(reply) = reply {
            let head = FrameHead::new(reply.kind()).with_tag(frame.head.tag);
            self.outbox.push_copy(link, head, reply.encode().as_bytes());
        }
        Disposition::Taken
    }

    fn serve(&mut self, request: &Request, data: Window<'_>) -> Option<Reply> {
        match request {
            Request::WriteBack(back) => Some(self.write_back(back, data)),
            Request::Fence(fence) => {
                let gate = self.gates.find(fence.region, &self.store);
                let (status, epoch) = gate.map_or((Status::NotOpen, 0), |gate| gate.fence(fence));
                Some(Reply::Fenced { status, epoch })
            }
            // Whoever is here already reads one-sidedly.
            Request::Attach(_) => Some(Reply::refused(
                Refusal::BadRequest,
                "this is a memory server; attach regions at an agent",
            )),
            Request::Fetch(_) => Some(Reply::not_fetched(Status::NotOpen)),
            Request::Detach(_) => None,
        }
    }

    fn write_back(&mut self, back: &WriteBack, data: Window<'_>) -> Reply {
        let gate = self.gates.find(back.region, &self.store);
        let (status, epoch) = gate.map_or((Status::NotOpen, 0), |gate| gate.write_back(back, data));
        self.store.write_backs.count(status, data.len());
        Reply::Written { status, epoch }
    }
}

/// The request and the data behind it, which stay where they arrived; none if it cannot be read.
fn read(frame: Frame<'_>) -> Option<(Request, Window<'_>)> {
    let (kind, payload) = (frame.head.kind, frame.payload);
    let len = Request::fixed_len(kind)?;
    let data_len = payload.len().checked_sub(len)?;
    let mut fixed = [0; FIXED_LEN_MAX];
    let fixed = fixed.get_mut(..len)?;
    payload.read(0, fixed);
    let request = Request::decode(kind, fixed, data_len).ok()?;
    Some((request, payload.part(len, data_len)))
}
