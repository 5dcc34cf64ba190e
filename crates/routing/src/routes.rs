//! Whom an agent can reach, and by whom.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use outboard_wire::Rank;
use outboard_wire::routing::{Announcement, JobKey};
use thiserror::Error;

/// How many ranks a job may have, and how many jobs an agent carries messages for.
const RANKS_MAX: u32 = 1 << 16;
const JOBS_MAX: usize = 1024;

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
    /// Somebody else has this number.
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
    agents: BTreeSet<Neighbour>,
    actions: VecDeque<(Neighbour, Announcement)>,
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
        let best: Vec<Neighbour> =
            ways.iter().filter(|(_, hops)| **hops == fewest).map(|(link, _)| *link).collect();
        // Several equal ways share the ranks.
        Some((best[rank as usize % best.len()], fewest.saturating_add(1)))
    }

    fn forget(&mut self, rank: u32, link: Neighbour) {
        if self.here.get(&rank) == Some(&link) {
            self.here.remove(&rank);
        }
        if let Some(ways) = self.told.get_mut(&rank) {
            ways.remove(&link);
            if ways.is_empty() {
                self.told.remove(&rank);
            }
        }
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
    /// Nobody is known. One that `relays` also carries what agents that are not connected send to each other by it.
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
        if self.jobs.len() >= JOBS_MAX && !self.jobs.contains_key(&job) {
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

    /// Another agent is there; it is told everything that it may use.
    pub fn on_agent(&mut self, link: Neighbour) {
        self.agents.insert(link);
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
        if rank >= RANKS_MAX || !self.agents.contains(&link) || (!is_known && self.jobs.len() >= JOBS_MAX) {
            return;
        }
        let before = self.outlook(job, rank);
        let routes = self.jobs.entry(job).or_default();
        let ways = routes.told.entry(rank).or_default();
        if is_reachable {
            ways.insert(link, hops);
        } else {
            ways.remove(&link);
        }
        if ways.is_empty() {
            routes.told.remove(&rank);
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

    /// The next hops of all ranks of a job, as a table.
    pub fn table(&self, job: JobKey) -> Vec<Option<Neighbour>> {
        let Some(routes) = self.jobs.get(&job) else { return Vec::new() };
        let ranks = routes.ranks().last().map_or(0, |last| last + 1);
        (0..ranks).map(|rank| routes.next_hop(rank).map(|(link, _)| link)).collect()
    }

    /// The jobs that are known.
    pub fn jobs(&self) -> impl Iterator<Item = JobKey> {
        self.jobs.keys().copied()
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
            told: self.agents.iter().filter_map(told).collect(),
        }
    }

    /// Tells everybody what has changed about a rank. One that is reached by another way is told to have been lost in
    /// between: what was given to the old way may be.
    fn tell(&mut self, job: JobKey, rank: u32, before: Outlook) {
        let after = self.outlook(job, rank);
        let Some(routes) = self.jobs.get(&job) else { return };
        let mut say = |to, is_reachable, hops| {
            let announcement = Announcement { job, rank: Rank(rank), is_reachable, hops };
            self.actions.push_back((to, announcement));
        };
        if before.next_hop != after.next_hop {
            for (_, link) in routes.here.iter().filter(|(own, _)| **own != rank) {
                if before.next_hop.is_some() {
                    say(*link, false, 0);
                }
                if after.next_hop.is_some() {
                    say(*link, true, 0);
                }
            }
        }
        for agent in &self.agents {
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
