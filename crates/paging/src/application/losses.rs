//! Regions that are lost for good with their memory server.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use outboard_contract::{LinkError, Peer};
use outboard_wire::mutant;

use super::OnLoss;
use super::chunks::ChunkKey;
use super::pages::Pages;
use super::region::PagedRegion;
use super::space::PageSpace;

/// Why what a memory server had cannot be had any more.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossReason {
    /// It was away for longer than the grace period.
    Away {
        /// How long that is.
        grace: Duration,
    },
    /// Another life of it, which knows nothing of the first, has taken its place.
    StartedAnew,
    /// It is there, but does not give the region any more, for example because another process has it.
    Refused {
        /// In its own words.
        why: String,
    },
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Away { grace } if grace.is_zero() => f.write_str("it is gone"),
            Self::Away { grace } => write!(f, "it has been away for {} s", grace.as_secs_f32()),
            Self::StartedAnew => f.write_str("it has been started anew and no longer has it"),
            Self::Refused { why } => f.write_str(why),
        }
    }
}

/// Regions that were lost together.
#[derive(Debug)]
pub struct ServerLoss {
    /// Which of the memory servers had them.
    pub at: usize,
    /// The server, if it was ever reached.
    pub server: Option<Peer>,
    /// The lost regions.
    pub regions: Vec<Arc<PagedRegion>>,
    /// Why.
    pub why: LossReason,
}

/// How many regions a line names.
const NAMED: usize = 8;

impl<S: PageSpace> Pages<S> {
    /// Regions of a server are lost for good: a process that touches what is not here gets SIGBUS, or ends.
    pub(super) fn lose(
        &self,
        at: usize,
        regions: &[Arc<PagedRegion>],
        server: Option<&Peer>,
        why: &LossReason,
    ) {
        let regions = self.mark_lost(regions, why);
        if regions.is_empty() {
            return;
        }
        self.departed.fetch_add(1, Ordering::AcqRel);
        let who = server.map_or_else(|| "the memory server".to_owned(), ToString::to_string);
        let then = match self.config.on_loss {
            OnLoss::Signal => "touching what is not here raises SIGBUS",
            OnLoss::Exit => "the process ends when it needs what is not here",
        };
        self.space.say(&format!("outboard: far memory {} is lost: {who}: {why}; {then}\n", names(&regions)));
        self.space.lost(ServerLoss { at, server: server.cloned(), regions, why: why.clone() });
        self.space.announce();
    }

    /// Marks regions as lost; returns those that were not. Each fault thread finds out about a loss by itself, so the
    /// first one marks all of them before another one looks, and one loss is told as one.
    fn mark_lost(&self, regions: &[Arc<PagedRegion>], why: &LossReason) -> Vec<Arc<PagedRegion>> {
        let _alone = self.losing.lock().unwrap_or_else(PoisonError::into_inner);
        regions.iter().filter(|region| region.lose(why)).cloned().collect()
    }

    /// The regions of a server that can still be lost.
    pub(super) fn regions_at(&self, server: usize) -> Vec<Arc<PagedRegion>> {
        let is_there = |region: &&Arc<PagedRegion>| {
            region.spec.at == server && !region.is_lost() && !region.is_closing()
        };
        self.regions().iter().filter(is_there).cloned().collect()
    }

    /// A link to a server is gone. Says so when it was the last, if anything is there.
    pub(super) fn link_lost(&self, server: usize, error: &LinkError) {
        let links = self.server_links[server].fetch_sub(1, Ordering::AcqRel);
        if links > 1
            || self.regions_at(server).is_empty()
            || self.is_away[server].swap(true, Ordering::AcqRel)
        {
            return;
        }
        let grace = self.config.grace;
        let then = match grace.is_zero() {
            true => String::new(),
            false => {
                format!("; threads that need what it has wait for it, {} s at most", grace.as_secs_f32())
            }
        };
        self.space.say(&format!("outboard: {error}{then}\n"));
    }

    /// A link to a server is open. Says so if it was missed, and is the one that was.
    pub(super) fn link_opened(&self, server: usize, peer: &Peer) {
        self.server_links[server].fetch_add(1, Ordering::AcqRel);
        let is_known = |region: &Arc<PagedRegion>| region.goes_on_at(peer);
        if self.is_away[server].swap(false, Ordering::AcqRel) && self.regions_at(server).iter().any(is_known)
        {
            self.space.say(&format!("outboard: {peer} is back\n"));
        }
        self.space.announce();
    }

    /// Makes a chunk or a page of a lost region raise SIGBUS where it is touched, unless the process is to end.
    pub(super) fn poison(&self, region: &PagedRegion, key: ChunkKey) {
        if self.config.on_loss == OnLoss::Exit {
            let name = &region.spec.name;
            self.space.end(&format!(
                "bytes of far memory “{name}” are needed that are lost with their memory server"
            ));
        }
        let lost = if mutant("paging.page-lost-with-its-chunk") { key.whole() } else { key };
        if !self.space.poison(region.span_of(lost)) {
            self.cannot_signal();
        }
    }

    /// Ends the process: without the means to tell the thread that waits, waiting for ever is the alternative.
    pub(super) fn cannot_signal(&self) -> ! {
        self.space.abort("this kernel cannot raise SIGBUS for far memory (Linux 6.6 can); the process ends");
    }
}

/// The names of regions for people, or the first of them.
fn names(regions: &[Arc<PagedRegion>]) -> String {
    let named: Vec<String> =
        regions.iter().take(NAMED).map(|region| format!("“{}”", region.spec.name)).collect();
    match regions.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}
