//! What a worker knows of a rank or an agent at the other end of one of its links.

use std::collections::{BTreeMap, HashSet, VecDeque};

use outboard_contract::OpenRegion;
use outboard_wire::Grant;
use outboard_wire::routing::{Announcement, JobKey, RankAttachment, Run};

/// How many runs of one rank are queued at most: as many of the shortest bundles as its memory has by default.
const QUEUE_MAX: u64 = 1 << 16;

/// A parcel on its way to a next hop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parcel {
    pub(super) job: JobKey,
    /// Whose it is: the worker, and the packing that it came from.
    pub(super) worker: usize,
    pub(super) packing: u64,
    pub(super) buffer: u32,
    /// Where it begins in its buffer.
    pub(super) at: u32,
    pub(super) len: u32,
}

/// A parcel that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) parcel: Parcel,
    /// Whether the other end reads it from our memory, so that the buffer is in use until it is taken.
    pub(super) is_read: bool,
}

/// What is at the other end of a link.
pub(super) enum Kind {
    Agent {
        /// Whether it is told whom this agent reaches, and used.
        is_met: bool,
    },
    Rank(RankSide),
}

/// A rank whose messages are carried.
pub(super) struct RankSide {
    pub(super) attachment: RankAttachment,
    /// What opens its memory, until that has been presented.
    pub(super) grant: Option<Grant>,
    pub(super) region: Option<OpenRegion>,
    pub(super) has_welcome: bool,
    /// Runs whose bytes are to be fetched from its memory.
    pub(super) queue: VecDeque<Run>,
    /// How much had been freed when the queue was last looked through in vain.
    pub(super) stuck_at: Option<u64>,
}

impl RankSide {
    pub(super) fn new(attachment: RankAttachment) -> Self {
        Self {
            grant: Some(attachment.grant),
            attachment,
            region: None,
            has_welcome: false,
            queue: VecDeque::new(),
            stuck_at: None,
        }
    }

    /// Word of a run has come. Returns false if there are more of them than the rank has bundles.
    pub(super) fn queue(&mut self, run: Run) -> bool {
        // Seldom, so that looking through all of them costs each little.
        if self.queue.len() >= 2 * self.bundles_max() {
            self.drop_outdated();
            if self.queue.len() > self.bundles_max() {
                return false;
            }
        }
        self.queue.push_back(run);
        self.stuck_at = None;
        true
    }

    /// How many bundles an honest rank can have: no more runs of its have bytes.
    fn bundles_max(&self) -> usize {
        let RankAttachment { grant, bundle_bytes, .. } = &self.attachment;
        (grant.size / u64::from((*bundle_bytes).max(1))).min(QUEUE_MAX) as usize
    }

    /// Forgets runs whose bundle is another run's by now: they arrived by another way, or are sent again.
    fn drop_outdated(&mut self) {
        let mut known = HashSet::new();
        let mut latest: VecDeque<Run> =
            std::mem::take(&mut self.queue).into_iter().rev().filter(|run| known.insert(run.at)).collect();
        latest.make_contiguous().reverse();
        self.queue = latest;
    }
}

/// What a worker knows of a rank or an agent.
pub(super) struct Side {
    pub(super) kind: Kind,
    pub(super) announcements: VecDeque<Announcement>,
    pub(super) parcels: VecDeque<Parcel>,
    pub(super) under_way: BTreeMap<u32, Sent>,
    pub(super) next_tag: u32,
    /// It has asked whether this agent is here.
    pub(super) owes_pong: bool,
    /// Parcels of its that were taken, and it does not know.
    pub(super) taken: VecDeque<u32>,
    /// Those that it is told of when less waits of their jobs.
    pub(super) withheld: VecDeque<(u32, JobKey)>,
}

impl Side {
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            kind,
            announcements: VecDeque::new(),
            parcels: VecDeque::new(),
            under_way: BTreeMap::new(),
            next_tag: 0,
            owes_pong: false,
            taken: VecDeque::new(),
            withheld: VecDeque::new(),
        }
    }
}
