//! How do applications get on with more nodes, if every node brings as much to do?
//!
//! A node is an agent and the ranks whose messages it carries, all of them processes. Ranks of one node exchange messages
//! through its agent, those of different nodes through both agents and TCP between them.

use outboard::{Client, Settings};
use outboard_agent::{STATUS_GRANT, StatusView};
use outboard_link::Identity;
use outboard_messages::{App, Histogram, Transport};
use outboard_wire::Role;

use crate::daemons::{Host, HostSpec};
use crate::harness::{Figure, Progress, Unit, percentile};
use crate::routing::Company;
use crate::{BenchError, BenchOptions, Effort};

/// How many nodes there are, by turns.
const NODES: [u32; 4] = [1, 2, 4, 8];
/// How many ranks a node has.
const RANKS: u32 = 2;
/// Words of each rank's table.
const TABLE: u64 = 1 << 19;

/// How long is measured at least, all rounds together.
const LEAST_MILLISECONDS: f64 = 1500.0;

const VERSUS_ONE: &str = "one node; each has an agent and two ranks, and every node brings as much to do";
const VERSUS_TWO: &str = "the average bundle that an agent sends to another, with two nodes";
const VERSUS_RANKS: &str = "the average bundle that an agent gives to a rank, with one node";

/// An application whose size grows with the number of ranks.
struct Subject {
    name: &'static str,
    app: fn(Effort, u32) -> App,
}

/// One whose ranks do little but send, and one in which they have more to do than that.
const SUBJECTS: [Subject; 2] = [
    Subject {
        name: "histogram",
        app: |effort, _| {
            let updates = effort.items(if effort == Effort::Full { 16_000_000 } else { 4_000_000 });
            App::Histogram(Histogram { table: TABLE, updates, seed: 1 })
        },
    },
    Subject {
        name: "transport",
        app: |effort, ranks| {
            let born = effort.items(if effort == Effort::Full { 80_000 } else { 20_000 });
            let particles = born * u64::from(ranks);
            App::Transport(Transport { mesh: [8 * ranks, 16, 16], particles, steps: 5, seed: 1 })
        },
    },
];

/// What was seen with some number of nodes.
struct Sight {
    nodes: u32,
    milliseconds: f64,
    /// The average bytes of what agents give to others at once; none between agents if there is only one.
    between_agents: Option<f64>,
    to_ranks: f64,
}

/// What a reader must know of all these figures.
pub(super) fn remark() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "weak scaling: all nodes share {cores} cores, so N nodes that cost nothing extra take N times as long as one"
    )
}

/// Times and sizes of bundles, for each number of nodes.
pub(super) fn figures(options: &BenchOptions) -> Result<Vec<Figure>, BenchError> {
    let mut progress = Progress::new(options.effort, NODES.len() * SUBJECTS.len());
    let mut sights: [Vec<Sight>; 2] = Default::default();
    // A test has no time for so many.
    let most = if options.effort == Effort::Tiny { 2 } else { u32::MAX };
    for nodes in NODES.into_iter().filter(|nodes| *nodes <= most) {
        let cluster = Cluster::start(options, nodes)?;
        for (subject, sights) in SUBJECTS.iter().zip(&mut sights) {
            progress.begin(&format!("cluster.{}.weak_scaling.{nodes}_over_1", subject.name));
            sights.push(cluster.watch(subject, options.effort)?);
            progress.end();
        }
        cluster.company.stop()?;
    }
    Ok(SUBJECTS.iter().zip(&sights).flat_map(|(subject, sights)| compare(subject.name, sights)).collect())
}

/// What was seen, beside the fewest nodes of which it can be seen.
fn compare(name: &str, sights: &[Sight]) -> Vec<Figure> {
    let Some(one) = sights.first() else { return Vec::new() };
    let two = sights.iter().find_map(|sight| sight.between_agents);
    let mut figures = Vec::new();
    for Sight { nodes, milliseconds, between_agents, to_ranks } in sights {
        let name = format!("cluster.{name}.weak_scaling.{nodes}");
        let time = (*milliseconds, one.milliseconds);
        figures.push(Figure::new(format!("{name}_over_1"), Unit::Milliseconds, time.0, time.1, VERSUS_ONE));
        let bundles = |what, value, yardstick, versus| {
            Figure::new(format!("{name}.{what}"), Unit::BytesPerBundle, value, yardstick, versus)
        };
        figures.extend(
            between_agents
                .zip(two)
                .map(|(ours, two)| bundles("bundle_between_agents", ours, two, VERSUS_TWO)),
        );
        figures.push(bundles("bundle_to_ranks", *to_ranks, one.to_ranks, VERSUS_RANKS));
    }
    figures
}

/// Agents that know each other, and the ranks whose messages they carry.
struct Cluster {
    agents: Vec<Host>,
    company: Company,
}

impl Cluster {
    fn start(options: &BenchOptions, nodes: u32) -> Result<Self, BenchError> {
        let mut agents: Vec<Host> = Vec::new();
        for _ in 0..nodes {
            let peers = agents.iter().map(|agent| agent.remote.to_string()).collect();
            agents.push(Host::start(&options.peer, &HostSpec::Router { workers: 1, peers })?);
        }
        let addresses: Vec<_> = agents.iter().map(|agent| agent.local.clone()).collect();
        let company = Company::carried(&options.peer, nodes * RANKS, &addresses)?;
        Ok(Self { agents, company })
    }

    /// Runs an application several times.
    fn watch(&self, subject: &Subject, effort: Effort) -> Result<Sight, BenchError> {
        let nodes = self.agents.len() as u32;
        let app = (subject.app)(effort, nodes * RANKS);
        // Its result is compared with that of one process, and its time does not count.
        self.company.run(&app, true)?;
        let before = self.count()?;
        let mut times: Vec<f64> = Vec::new();
        // What one node takes is what all others are compared with, and short: it is measured as long as theirs.
        let least = if effort == Effort::Tiny { 0.0 } else { LEAST_MILLISECONDS };
        while times.len() < effort.rounds_min() || (times.len() < 64 && times.iter().sum::<f64>() < least) {
            times.push(self.company.run(&app, false)?.score);
        }
        let after = self.count()?;
        let average = |at: usize| {
            let [parcels, bytes] = [at, at + 1].map(|at| (after[at] - before[at]) as f64);
            (parcels > 0.0).then(|| bytes / parcels)
        };
        let to_ranks = average(0).unwrap_or(0.0);
        let milliseconds = percentile(&mut times, 0.5);
        Ok(Sight { nodes, milliseconds, between_agents: average(2), to_ranks })
    }

    /// What all agents have counted so far: parcels to ranks and their bytes, parcels to agents and their bytes.
    fn count(&self) -> Result<[u64; 4], BenchError> {
        let mut sums = [0; 4];
        for agent in &self.agents {
            let identity = Identity::new(Role::Tool, "bench cluster");
            let mut client = Client::connect(&agent.local, identity, &Settings::default().link)?;
            let bytes = client.read_region(&STATUS_GRANT)?;
            let wrong = |error| BenchError::PeerFailed { why: crate::error::chain(&error) };
            let view = StatusView::read(&bytes).map_err(wrong)?;
            let names = [
                "parcels_to_ranks_total",
                "carried_to_ranks_bytes_total",
                "parcels_to_agents_total",
                "carried_to_agents_bytes_total",
            ];
            for (sum, name) in sums.iter_mut().zip(names) {
                *sum += view.get(name).unwrap_or(0);
            }
        }
        Ok(sums)
    }
}
