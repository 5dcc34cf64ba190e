//! Whom an agent can reach, and by whom.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use outboard_wire::routing::{Announcement, JobKey};
use outboard_wire::{Rank, mutant};
use thiserror::Error;

/// How many ranks a job may have, and how many jobs an agent carries messages for.
const RANKS_MAX: u32 = 1 << 16;
const JOBS_MAX: usize = 1024;
/// How many ranks one agent can tell of, in all jobs together: more are not listened to, and are reached without agents.
const TOLD_MAX: usize = RANKS_MAX as usize;

/// Why a rank cannot be taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RouteError {
    /// A number beyond what is possible.
    #[error("rank {rank} of a job of {ranks}: there can be up to {RANKS_MAX} ranks, counted from 0")]
    NoSuchRank {
        /// Which rank.
        rank: u32,
        /// Of how many.
        ranks: u32,
    },
    /// Another process has this number.
    #[error("rank {rank} is here already")]
    Taken {
        /// Which rank.
        rank: u32,
    },
    /// Too many jobs.
    #[error("messages of {JOBS_MAX} jobs are carried already")]
    TooManyJobs,
}

/// The neighbours of an agent, by the numbers of their links.
pub type Neighbour = u64;

/// Whom an agent can reach, and by whom: by its own ranks, by agents that have told of theirs, and, if those relay, by
/// agents that know others.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    relays: bool,
    jobs: BTreeMap<JobKey, JobRoutes>,
    /// The agents, and of how many ranks each has told.
    agents: BTreeMap<Neighbour, usize>,
    actions: VecDeque<(Neighbour, Announcement)>,
    /// The ranks whose next hop may have changed since the last question.
    changed: BTreeSet<(JobKey, u32)>,
}

#[derive(Clone, Debug, Default)]
struct JobRoutes {
    /// The ranks of this node.
    here: BTreeMap<u32, Neighbour>,
    /// Which agents have said that they reach a rank, and over how many others.
    told: BTreeMap<u32, BTreeMap<Neighbour, u8>>,
}

impl JobRoutes {
    fn next_hop(&self, rank: u32) -> Option<(Neighbour, u8)> {
        if let Some(link) = self.here.get(&rank) {
            return Some((*link, 0));
        }
        let ways = self.told.get(&rank)?;
        let fewest = *ways.values().min()?;
        let best = || ways.iter().filter(|(_, hops)| **hops == fewest);
        // Several equal ways share the ranks.
        let (link, _) = best().nth(rank as usize % best().count())?;
        Some((*link, fewest.saturating_add(1)))
    }

    /// Whether a neighbour had told of a rank, which is forgotten.
    fn forget_told(&mut self, rank: u32, link: Neighbour) -> bool {
        let Some(ways) = self.told.get_mut(&rank) else { return false };
        let was_told = ways.remove(&link).is_some();
        if ways.is_empty() {
            self.told.remove(&rank);
        }
        was_told
    }

    fn forget(&mut self, rank: u32, link: Neighbour) {
        if self.here.get(&rank) == Some(&link) {
            self.here.remove(&rank);
        }
        self.forget_told(rank, link);
    }

    fn is_over(&self) -> bool {
        self.here.is_empty() && self.told.is_empty()
    }

    fn ranks(&self) -> impl Iterator<Item = u32> {
        let ranks: BTreeSet<u32> = self.here.keys().chain(self.told.keys()).copied().collect();
        ranks.into_iter()
    }
}

impl Routes {
    /// No rank is known. One that `relays` also carries what agents that are not connected send to each other by it.
    pub fn new(relays: bool) -> Self {
        Self { relays, ..Self::default() }
    }

    /// A rank of this node is there.
    pub fn on_attach(
        &mut self,
        job: JobKey,
        rank: Rank,
        ranks: u32,
        link: Neighbour,
    ) -> Result<(), RouteError> {
        if rank.0 >= ranks || ranks > RANKS_MAX {
            return Err(RouteError::NoSuchRank { rank: rank.0, ranks });
        }
        if self.jobs.len() >= JOBS_MAX && !self.jobs.contains_key(&job) && !self.forget_foreign_job() {
            return Err(RouteError::TooManyJobs);
        }
        let before = self.outlook(job, rank.0);
        let routes = self.jobs.entry(job).or_default();
        if routes.here.contains_key(&rank.0) {
            return Err(RouteError::Taken { rank: rank.0 });
        }
        routes.here.insert(rank.0, link);
        let known: Vec<u32> = routes.ranks().filter(|known| *known != rank.0).collect();
        self.tell(job, rank.0, before);
        for known in known {
            let announcement = Announcement { job, rank: Rank(known), is_reachable: true, hops: 0 };
            self.actions.push_back((link, announcement));
        }
        Ok(())
    }

    /// Forgets a job of which only agents have told, so that one that has ranks here finds a place. Returns whether there
    /// was any.
    fn forget_foreign_job(&mut self) -> bool {
        let foreign = self.jobs.iter().find(|(_, routes)| routes.here.is_empty()).map(|(job, _)| *job);
        let Some(job) = foreign else { return false };
        let ranks: Vec<u32> = self.jobs.get(&job).into_iter().flat_map(JobRoutes::ranks).collect();
        for rank in ranks {
            let before = self.outlook(job, rank);
            let ways = self.jobs.get_mut(&job).and_then(|routes| routes.told.remove(&rank));
            for link in ways.into_iter().flat_map(BTreeMap::into_keys) {
                self.count_told(link, false);
            }
            self.tell(job, rank, before);
        }
        true
    }

    /// An agent tells of one rank more, or of one less.
    fn count_told(&mut self, link: Neighbour, is_more: bool) {
        if let Some(told) = self.agents.get_mut(&link) {
            *told = if is_more { *told + 1 } else { told.saturating_sub(1) };
        }
    }

    /// Another agent is there; it is told everything that it may use.
    pub fn on_agent(&mut self, link: Neighbour) {
        self.agents.entry(link).or_default();
        for (job, routes) in &self.jobs {
            for rank in routes.ranks() {
                if let Some(hops) = told_to(routes, rank, link, self.relays) {
                    let announcement = Announcement { job: *job, rank: Rank(rank), is_reachable: true, hops };
                    self.actions.push_back((link, announcement));
                }
            }
        }
    }

    /// An agent has told whom it reaches.
    pub fn on_announcement(&mut self, link: Neighbour, announcement: &Announcement) {
        let Announcement { job, rank: Rank(rank), is_reachable, hops } = *announcement;
        let is_known = self.jobs.contains_key(&job);
        let Some(told) = self.agents.get(&link) else { return };
        if rank >= RANKS_MAX
            || (is_reachable && *told >= TOLD_MAX)
            || (!is_known && (!is_reachable || self.jobs.len() >= JOBS_MAX))
        {
            return;
        }
        let before = self.outlook(job, rank);
        let routes = self.jobs.entry(job).or_default();
        let has_changed = if is_reachable {
            routes.told.entry(rank).or_default().insert(link, hops).is_none()
        } else {
            routes.forget_told(rank, link)
        };
        if has_changed {
            self.count_told(link, is_reachable);
        }
        self.tell(job, rank, before);
    }

    /// A rank or an agent is gone.
    pub fn on_lost(&mut self, link: Neighbour) {
        self.agents.remove(&link);
        let jobs: Vec<JobKey> = self.jobs.keys().copied().collect();
        for job in jobs {
            for rank in self.ranks_behind(job, link) {
                let before = self.outlook(job, rank);
                if let Some(routes) = self.jobs.get_mut(&job) {
                    routes.forget(rank, link);
                }
                self.tell(job, rank, before);
            }
        }
        self.actions.retain(|(to, _)| *to != link);
    }

    /// The link of a rank of this node.
    pub fn link_of(&self, job: JobKey, rank: Rank) -> Option<Neighbour> {
        self.jobs.get(&job)?.here.get(&rank.0).copied()
    }

    /// Whom to give runs for a rank to.
    pub fn next_hop(&self, job: JobKey, rank: u32) -> Option<Neighbour> {
        self.jobs.get(&job)?.next_hop(rank).map(|(link, _)| link)
    }

    /// The ranks whose next hop may have changed since this was last asked.
    pub fn take_changed(&mut self) -> BTreeSet<(JobKey, u32)> {
        std::mem::take(&mut self.changed)
    }

    /// Whom to tell what.
    pub fn poll_action(&mut self) -> Option<(Neighbour, Announcement)> {
        self.actions.pop_front()
    }

    /// The ranks of a job that this neighbour is, or has told of.
    fn ranks_behind(&self, job: JobKey, link: Neighbour) -> Vec<u32> {
        let Some(routes) = self.jobs.get(&job) else { return Vec::new() };
        let here = routes.here.iter().filter(|(_, held)| **held == link).map(|(rank, _)| *rank);
        let told = routes.told.iter().filter(|(_, ways)| ways.contains_key(&link)).map(|(rank, _)| *rank);
        here.chain(told).collect()
    }

    fn outlook(&self, job: JobKey, rank: u32) -> Outlook {
        let Some(routes) = self.jobs.get(&job) else { return Outlook::default() };
        let told = |agent: &Neighbour| Some((*agent, told_to(routes, rank, *agent, self.relays)?));
        Outlook {
            next_hop: routes.next_hop(rank).map(|(link, _)| link),
            told: self.agents.keys().filter_map(told).collect(),
        }
    }

    /// Tells everybody what has changed about a rank. One that is reached by another way is told to have been lost in
    /// between: what was given to the old way may be.
    fn tell(&mut self, job: JobKey, rank: u32, before: Outlook) {
        let after = self.outlook(job, rank);
        self.changed.insert((job, rank));
        let Some(routes) = self.jobs.get(&job) else { return };
        let mut say = |to, is_reachable, hops| {
            let announcement = Announcement { job, rank: Rank(rank), is_reachable, hops };
            self.actions.push_back((to, announcement));
        };
        if before.next_hop != after.next_hop {
            for (_, link) in routes.here.iter().filter(|(own, _)| **own != rank) {
                if before.next_hop.is_some() && !mutant("routing.changed-way-not-told") {
                    say(*link, false, 0);
                }
                if after.next_hop.is_some() {
                    say(*link, true, 0);
                }
            }
        }
        for agent in self.agents.keys() {
            let (earlier, now) = (before.told.get(agent), after.told.get(agent));
            if earlier != now {
                if earlier.is_some() {
                    say(*agent, false, 0);
                }
                if let Some(hops) = now {
                    say(*agent, true, *hops);
                }
            }
        }
        if routes.is_over() {
            self.jobs.remove(&job);
        }
    }
}

/// How a rank could be reached, by the eyes of the neighbours.
#[derive(Default)]
struct Outlook {
    next_hop: Option<Neighbour>,
    /// By agents over this one, and over how many others.
    told: BTreeMap<Neighbour, u8>,
}

/// Over how many others an agent could reach a rank by this one, if it is told at all.
fn told_to(routes: &JobRoutes, rank: u32, agent: Neighbour, relays: bool) -> Option<u8> {
    if routes.here.contains_key(&rank) {
        return Some(0);
    }
    let ways = routes.told.get(&rank).filter(|ways| relays && ways.get(&agent) != Some(&0))?;
    // Two hops reach everybody on a grid, and more would need protection against circles.
    ways.values().any(|hops| *hops == 0).then_some(1)
}

#[cfg(test)]
mod tests;
