//! Pairs of links in virtual time, and links opposite a raw end.

mod access;
mod frames;
mod hostile;
mod liveness;
mod model;
mod script;
mod straight;

use std::sync::Arc;
use std::time::Duration;

use outboard_wire::{
    FrameHead, FrameHeader, FrameKind, Generation, Grant, HANDSHAKE_LEN, RegionId, RegionKey, Rights, Role,
    Room, Time,
};
use zerocopy::IntoBytes;

use crate::StreamConfig;
use crate::loopback::{FaultPlan, LoopbackConfig, LoopbackLink, Network, RawEnd};
use crate::memory::Segment;
use crate::ring::record_len;
use crate::{
    AccessError, AccessOutcome, Completion, Disposition, Export, Exports, Identity, Link, LinkError,
    OpenRegion, RemoteMemory, Token,
};

pub(super) const NOTE: FrameHead = FrameHead::new(FrameKind::new(Room::Trial, 1));
pub(super) const REGION: usize = 1 << 20;

/// Two links and the time they live in. The second exports one region.
pub(super) struct Pair {
    pub(super) network: Network,
    pub(super) first: LoopbackLink,
    pub(super) second: LoopbackLink,
    pub(super) memory: Arc<Segment>,
    pub(super) exports: Arc<Exports>,
    pub(super) grant: Grant,
    pub(super) now: Time,
}

/// An export table with one region that `READ+WRITE` opens.
pub(super) fn exports() -> (Arc<Exports>, Arc<Segment>, Grant) {
    let memory = Arc::new(Segment::create(c"test", REGION).unwrap());
    let export = Export {
        region: RegionId(7),
        generation: Generation(1),
        memory: Arc::clone(&memory),
        keys: vec![(RegionKey([5; 16]), Rights::READ.and(Rights::WRITE)), (RegionKey([6; 16]), Rights::READ)],
    };
    let grant = export.grant(0).unwrap();
    let exports = Exports::new();
    exports.add(export);
    (exports, memory, grant)
}

pub(super) fn small() -> LoopbackConfig {
    LoopbackConfig {
        stream: StreamConfig { buffer_bytes: 1 << 16, ..StreamConfig::default() },
        pipe_bytes: 1 << 14,
    }
}

impl Pair {
    pub(super) fn new(plan: FaultPlan) -> Self {
        Self::with_config(1, plan, small())
    }

    pub(super) fn with_config(seed: u64, plan: FaultPlan, config: LoopbackConfig) -> Self {
        let network = Network::with_config(seed, plan, config);
        let (exports, memory, grant) = exports();
        let first = Identity::new(Role::Application, "first");
        let second = Identity::new(Role::MemoryServer, "second");
        let (first, second) =
            network.connect(first, Arc::clone(&exports), second, Arc::clone(&exports)).unwrap();
        Self { network, first, second, memory, exports, grant, now: Time::ZERO }
    }

    /// Lets both sides work at this time until nothing moves.
    pub(super) fn settle(&mut self) -> Result<(), LinkError> {
        for _ in 0..100_000 {
            let first = self.first.progress(self.now)?;
            let second = self.second.progress(self.now)?;
            if !first && !second {
                return Ok(());
            }
        }
        panic!("two links never come to rest");
    }

    /// Lets `span` pass, stopping wherever something happens.
    pub(super) fn pass(&mut self, span: Duration) -> Result<(), LinkError> {
        let end = self.now + span;
        loop {
            self.settle()?;
            let events = [self.network.next_event(), self.first.next_deadline(), self.second.next_deadline()];
            // Everything due before has been done, or waits for a side to take a frame.
            let next = events.into_iter().flatten().filter(|event| *event > self.now).min();
            match next.filter(|next| *next < end) {
                Some(next) => self.now = next,
                None if self.now >= end => return Ok(()),
                None => self.now = end,
            }
        }
    }

    /// Opens the region from the first side.
    pub(super) fn open(&mut self, rights: Rights) -> Result<OpenRegion, AccessError> {
        let grant = self.grant;
        self.first.open(&grant, rights, Token(0))?;
        match self.complete()?.remove(0).result? {
            AccessOutcome::Opened(region) => Ok(region),
            other => panic!("opened into {other:?}"),
        }
    }

    /// Works until something that the first side began has ended.
    pub(super) fn complete(&mut self) -> Result<Vec<Completion>, LinkError> {
        let mut all = Vec::new();
        for _ in 0..1000 {
            self.settle()?;
            self.first.completions(|completion| all.push(completion));
            if !all.is_empty() {
                return Ok(all);
            }
            self.pass(Duration::from_millis(1))?;
        }
        panic!("an operation never ends");
    }
}

/// Takes everything that is there as bytes.
pub(super) fn take_all(link: &mut impl Link) -> Result<Vec<Vec<u8>>, LinkError> {
    let mut all = Vec::new();
    let sink = |frame: crate::Frame<'_>| {
        all.push(frame.payload.to_vec());
        Disposition::Taken
    };
    link.receive(usize::MAX, sink)?;
    Ok(all)
}

/// A record as it travels.
pub(super) fn record(head: FrameHead, payload: &[u8]) -> Vec<u8> {
    let mut bytes = FrameHeader::new(head, payload.len() as u32).as_bytes().to_vec();
    bytes.extend_from_slice(payload);
    bytes.resize(record_len(payload.len()), 0);
    bytes
}

/// A link that exports a region, opposite a raw end that has said hello.
pub(super) fn opposite_raw() -> (LoopbackLink, RawEnd) {
    let network = Network::with_config(1, FaultPlan::none(), small());
    let (exports, _, _) = exports();
    let identity = Identity::new(Role::MemoryServer, "server");
    let (mut accepting, mut raw) = network.accept_raw(identity, exports).unwrap();
    raw.write(&Identity::new(Role::Tool, "raw").hello(1 << 16).encode());
    let link = accepting.poll(Time::ZERO).unwrap().expect("the hello is there");
    assert_eq!(raw.read().len(), HANDSHAKE_LEN);
    (link, raw)
}
