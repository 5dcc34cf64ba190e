use outboard_wire::JobId;

use super::*;

const JOB: JobKey = JobKey { job: JobId(1), roster: 5 };
const RANKS: u64 = 100_000;

/// Agents with ranks, and the links between them: `a * 100 + b` is the link from `a` to `b`, `RANKS + r` that to rank `r`.
struct Net {
    agents: Vec<Routes>,
    links: BTreeSet<(usize, usize)>,
}

impl Net {
    fn new(agents: usize, relays: bool, is_linked: impl Fn(usize, usize) -> bool) -> Self {
        let agents = (0..agents).map(|_| Routes::new(relays)).collect::<Vec<_>>();
        let mut net = Self { agents, links: BTreeSet::new() };
        for a in 0..net.agents.len() {
            for b in (0..a).filter(|b| is_linked(a, *b)) {
                net.connect(a, b);
            }
        }
        net
    }

    fn connect(&mut self, a: usize, b: usize) {
        for (from, to) in [(a, b), (b, a)] {
            self.links.insert((from, to));
            self.agents[from].on_agent((from * 100 + to) as u64);
        }
    }

    fn attach(&mut self, agent: usize, rank: u32) {
        self.agents[agent].on_attach(JOB, Rank(rank), 64, RANKS + u64::from(rank)).unwrap();
    }

    /// Carries announcements until there are none. Returns what ranks were told.
    fn settle(&mut self) -> Vec<(u64, u32, bool)> {
        let mut told = Vec::new();
        loop {
            let mut is_quiet = true;
            for agent in 0..self.agents.len() {
                while let Some((to, what)) = self.agents[agent].poll_action() {
                    is_quiet = false;
                    if to >= RANKS {
                        told.push((to, what.rank.0, what.is_reachable));
                        continue;
                    }
                    let other = to as usize % 100;
                    if self.links.contains(&(agent, other)) {
                        self.agents[other].on_announcement((other * 100 + agent) as u64, &what);
                    }
                }
            }
            if is_quiet {
                return told;
            }
        }
    }

    /// Over how many agents a rank is reached from an agent, if it is.
    fn walk(&self, mut agent: usize, rank: u32) -> Option<usize> {
        for hops in 0..4 {
            let next = self.agents[agent].next_hop(JOB, rank)?;
            if next >= RANKS {
                assert_eq!(next, RANKS + u64::from(rank));
                return Some(hops);
            }
            agent = next as usize % 100;
        }
        panic!("it goes round in circles");
    }
}

#[test]
fn ranks_of_connected_agents_are_one_hop_away() {
    let mut net = Net::new(3, false, |_, _| true);
    (0..6).for_each(|rank| net.attach(rank as usize % 3, rank));
    net.settle();
    for agent in 0..3 {
        for rank in 0..6 {
            assert_eq!(net.walk(agent, rank), Some(usize::from(rank as usize % 3 != agent)));
        }
    }
    assert_eq!((0..64).filter(|rank| net.agents[0].next_hop(JOB, *rank).is_some()).count(), 6);
}

#[test]
fn a_grid_of_agents_needs_two_hops() {
    let is_linked = |a: usize, b: usize| a / 4 == b / 4 || a % 4 == b % 4;
    let mut net = Net::new(16, true, is_linked);
    (0..32).for_each(|rank| net.attach(rank as usize % 16, rank));
    net.settle();
    let mut by_two = 0;
    for agent in 0..16 {
        for rank in 0..32 {
            let hops = net.walk(agent, rank).unwrap();
            assert!(hops <= 2);
            by_two += usize::from(hops == 2);
        }
    }
    assert_eq!(by_two, 16 * 2 * 9, "nine of sixteen are in neither row nor column");
}

#[test]
fn without_relays_no_agent_is_used_that_did_not_offer_it() {
    let mut net = Net::new(3, false, |a, b| a.abs_diff(b) == 1);
    (0..3).for_each(|rank| net.attach(rank as usize, rank));
    net.settle();
    assert_eq!(net.walk(0, 2), None);
    assert_eq!(net.walk(1, 2), Some(1));
}

#[test]
fn who_is_lost_is_lost_for_all_and_comes_back() {
    let mut net = Net::new(2, false, |_, _| true);
    (0..4).for_each(|rank| net.attach(rank as usize / 2, rank));
    net.settle();
    net.agents[1].on_lost(RANKS + 3);
    let told = net.settle();
    assert_eq!(told, [(RANKS + 2, 3, false), (RANKS, 3, false), (RANKS + 1, 3, false)]);
    assert_eq!(net.walk(0, 3), None);
    net.attach(1, 3);
    net.settle();
    assert_eq!(net.walk(0, 3), Some(1));
    net.links.clear();
    net.agents[0].on_lost(1);
    assert_eq!(net.settle().len(), 4, "two ranks lose two");
}

#[test]
fn a_rank_that_is_reached_by_another_route_was_lost_in_between() {
    // 0 reaches the ranks of 3 by 1 and by 2.
    let mut net = Net::new(4, true, |a, b| (a, b) != (3, 0));
    net.attach(0, 0);
    net.attach(3, 3);
    net.settle();
    assert_eq!(net.walk(0, 3), Some(2));
    let used = net.agents[0].next_hop(JOB, 3).unwrap();
    net.links.remove(&(0, used as usize));
    net.agents[0].on_lost(used);
    assert_eq!(net.settle(), [(RANKS, 3, false), (RANKS, 3, true)]);
    assert_eq!(net.walk(0, 3), Some(2));
}

#[test]
fn nonsense_is_refused() {
    let mut routes = Routes::new(false);
    assert_eq!(routes.on_attach(JOB, Rank(4), 4, 1), Err(RouteError::NoSuchRank { rank: 4, ranks: 4 }));
    routes.on_attach(JOB, Rank(3), 4, 1).unwrap();
    assert_eq!(routes.on_attach(JOB, Rank(3), 4, 2), Err(RouteError::Taken { rank: 3 }));
    let far = Announcement { job: JOB, rank: Rank(u32::MAX), is_reachable: true, hops: 0 };
    routes.on_agent(9);
    routes.on_announcement(9, &far);
    routes.on_announcement(8, &Announcement { rank: Rank(1), ..far });
    assert_eq!(routes.jobs[&JOB].ranks().last(), Some(3), "neither too far nor from a stranger");
    routes.on_lost(1);
    assert_eq!(routes.jobs.len(), 0);
}

fn announcement(job: u64, rank: u32, is_reachable: bool) -> Announcement {
    let job = JobKey { job: JobId(job), roster: 5 };
    Announcement { job, rank: Rank(rank), is_reachable, hops: 0 }
}

#[test]
fn what_has_changed_is_what_was_told_whatever_the_numbers_of_ranks_are() {
    let mut routes = Routes::new(false);
    routes.on_agent(1);
    for job in 0..100 {
        routes.on_announcement(1, &announcement(job, RANKS_MAX - 1, true));
    }
    assert_eq!(routes.take_changed().len(), 100);
    routes.on_announcement(1, &announcement(7, RANKS_MAX - 1, false));
    assert_eq!(routes.take_changed().into_iter().map(|(job, _)| job.job).collect::<Vec<_>>(), [JobId(7)]);
    assert!(routes.take_changed().is_empty());
    routes.on_announcement(1, &announcement(500, 0, false));
    assert_eq!(routes.jobs.len(), 99, "no agent hears of a job by not reaching it");
}

#[test]
fn an_agent_tells_of_so_many_ranks_and_no_more() {
    let mut routes = Routes::new(false);
    [1, 2].into_iter().for_each(|link| routes.on_agent(link));
    // Told twice it is still one rank.
    for number in (0..10).chain(0..TOLD_MAX as u32 + 10) {
        routes.on_announcement(1, &announcement(u64::from(number % 4), number / 4, true));
    }
    assert_eq!((routes.agents[&1], routes.jobs.len()), (TOLD_MAX, 4));
    routes.on_announcement(2, &announcement(9, 0, true));
    assert_eq!((routes.agents[&2], routes.jobs.len()), (1, 5), "another is heard as before");
    (0..2).for_each(|_| routes.on_announcement(1, &announcement(0, 1, false)));
    (10..12).for_each(|job| routes.on_announcement(1, &announcement(job, 0, true)));
    assert_eq!((routes.agents[&1], routes.jobs.len()), (TOLD_MAX, 6), "for one that it forgot there is room");
}

#[test]
fn jobs_of_which_agents_have_told_make_room_for_those_that_are_here() {
    let mut routes = Routes::new(false);
    routes.on_agent(1);
    for job in 0..JOBS_MAX as u64 {
        routes.on_announcement(1, &announcement(1000 + job, 3, true));
    }
    assert_eq!(routes.agents[&1], JOBS_MAX);
    routes.on_attach(JOB, Rank(0), 2, 7).unwrap();
    assert_eq!((routes.jobs.len(), routes.agents[&1]), (JOBS_MAX, JOBS_MAX - 1));
    for job in 1..JOBS_MAX as u64 {
        routes.on_attach(JobKey { job: JobId(1 << 20 | job), roster: 0 }, Rank(0), 2, 7 + job).unwrap();
    }
    let one_more = routes.on_attach(JobKey { job: JobId(1), roster: 0 }, Rank(0), 2, 5000);
    assert_eq!((one_more, routes.agents[&1]), (Err(RouteError::TooManyJobs), 0));
}
