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
type Neighbour = u64;

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
        Some((best[rank as usize % best.len()], fewest + 1))
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
        let before = self.reachable(job);
        let routes = self.jobs.entry(job).or_default();
        if routes.here.contains_key(&rank.0) {
            return Err(RouteError::Taken { rank: rank.0 });
        }
        routes.here.insert(rank.0, link);
        self.tell(job, &before);
        let known: Vec<u32> = self.jobs[&job].ranks().filter(|known| *known != rank.0).collect();
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
        let before = self.reachable(job);
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
        self.tell(job, &before);
    }

    /// A rank or an agent is gone.
    pub fn on_lost(&mut self, link: Neighbour) {
        self.agents.remove(&link);
        let jobs: Vec<JobKey> = self.jobs.keys().copied().collect();
        for job in jobs {
            let before = self.reachable(job);
            let Some(routes) = self.jobs.get_mut(&job) else { continue };
            routes.here.retain(|_, held| *held != link);
            routes.told.retain(|_, ways| {
                ways.remove(&link);
                !ways.is_empty()
            });
            self.tell(job, &before);
        }
        self.actions.retain(|(to, _)| *to != link);
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

    fn reachable(&self, job: JobKey) -> Reachable {
        let Some(routes) = self.jobs.get(&job) else { return Reachable::default() };
        let to_agent = |link: &Neighbour| {
            let told = |rank| told_to(routes, rank, *link, self.relays).map(|hops| (rank, hops));
            (*link, routes.ranks().filter_map(told).collect())
        };
        Reachable {
            by_ranks: routes.ranks().filter_map(|rank| Some((rank, routes.next_hop(rank)?.0))).collect(),
            by_agents: self.agents.iter().map(to_agent).collect(),
        }
    }

    /// Tells everybody what has changed since `before`. A rank that is reached by another way is told that it was
    /// lost in between: what was given to the old way may be.
    fn tell(&mut self, job: JobKey, before: &Reachable) {
        let after = self.reachable(job);
        let Some(routes) = self.jobs.get(&job) else { return };
        let mut say = |to, rank, is_reachable, hops| {
            let announcement = Announcement { job, rank: Rank(rank), is_reachable, hops };
            self.actions.push_back((to, announcement));
        };
        for rank in changed(&before.by_ranks, &after.by_ranks) {
            for (_, link) in routes.here.iter().filter(|(own, _)| **own != rank) {
                if before.by_ranks.contains_key(&rank) {
                    say(*link, rank, false, 0);
                }
                if after.by_ranks.contains_key(&rank) {
                    say(*link, rank, true, 0);
                }
            }
        }
        for (agent, told) in &after.by_agents {
            let none = BTreeMap::new();
            let earlier = before.by_agents.get(agent).unwrap_or(&none);
            for rank in changed(earlier, told) {
                if earlier.contains_key(&rank) {
                    say(*agent, rank, false, 0);
                }
                if let Some(hops) = told.get(&rank) {
                    say(*agent, rank, true, *hops);
                }
            }
        }
        if routes.is_over() {
            self.jobs.remove(&job);
        }
    }
}

/// Who could be reached, by the eyes of the neighbours.
#[derive(Default)]
struct Reachable {
    by_ranks: BTreeMap<u32, Neighbour>,
    by_agents: BTreeMap<Neighbour, BTreeMap<u32, u8>>,
}

fn changed<V: PartialEq>(before: &BTreeMap<u32, V>, after: &BTreeMap<u32, V>) -> Vec<u32> {
    let ranks: BTreeSet<u32> = before.keys().chain(after.keys()).copied().collect();
    ranks.into_iter().filter(|rank| before.get(rank) != after.get(rank)).collect()
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
