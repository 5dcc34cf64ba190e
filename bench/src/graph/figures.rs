//! Every application in every place, and what that comes to.

use indicatif::ProgressBar;
use outboard_graph::Application;

use super::gap;
use super::plot::Row;
use super::stage::{AgentCache, Stage, read_by};
use super::task::{Cache, Far, FarPath, Outcome, Place};
use crate::BenchError;
use crate::daemons::{Forwards, Host};
use crate::group::MemoryGroup;
use crate::harness::{Figure, Unit, percentile};

/// Ways to map a file, of which the best counts: told nothing or that there is no order; passes in one direction, which
/// the kernel reads ahead for, or back and forth.
const MAPPED: [(bool, bool); 3] = [(false, false), (false, true), (true, true)];

/// What an agent does in the paper's breakdown, one more thing at a time.
const BREAKDOWN: [(&str, Forwards, Cache); 5] = [
    ("base_proxy", Forwards::Serial, Cache::Off),
    ("aggregation", Forwards::Batched, Cache::Off),
    ("forwarding", Forwards::Pipelined, Cache::Off),
    ("static", Forwards::Pipelined, Cache::Static),
    ("dynamic", Forwards::Pipelined, Cache::Dynamic),
];

/// Steps of the progress bar in one round.
pub(super) const STEPS: u64 = 5 * 2;

/// A wire of a third of what an application gets by an agent.
fn third_of_intra(stage: &Stage) -> Result<String, BenchError> {
    let agent = stage.agent(Forwards::Pipelined, AgentCache::Default, None)?;
    let far = Far {
        server: stage.server.remote.to_string(),
        agent: Some(agent.local.to_string()),
        path: FarPath::Agent,
        cache: Cache::Dynamic,
        wire: None,
    };
    let mut task = stage.task("pagerank", Place::Far(far));
    task.iterations = 2;
    let outcome = stage.perform(&task)?;
    let bytes = outcome.by_agent.iter().chain(&outcome.direct).sum::<u64>() as f64;
    // Faults and computing included: what an application can use, not what a copy could move.
    let gigabits = (bytes * 8.0 / outcome.seconds / 3.0 / 1e9).max(0.5);
    Ok(format!("{gigabits:.1}gbit,5us"))
}

/// The times of one application in all places.
#[derive(Default)]
struct Times {
    mapped: [Vec<f64>; MAPPED.len()],
    confined: Vec<f64>,
    dram: Vec<f64>,
    /// With as many threads as cores, as often as GAP, which is beside it.
    dram_again: Vec<f64>,
    gap: Vec<f64>,
    direct: Vec<f64>,
    shm: Vec<f64>,
    auto: Vec<f64>,
    direct_shaped: Vec<f64>,
    auto_shaped: Vec<f64>,
    breakdown: [Vec<f64>; BREAKDOWN.len()],
    hit_rate: Vec<f64>,
    /// Of the vertices and of everything, with a static cache.
    saved: [Vec<f64>; 2],
    saved_of_sparse: Vec<f64>,
    saved_together: Vec<f64>,
}

impl Times {
    /// The times of the best way to map the files.
    fn best_mapped(&self) -> &[f64] {
        let best = self.mapped.iter().min_by(|a, b| median(a).total_cmp(&median(b)));
        best.map_or(&[], Vec::as_slice)
    }
}

/// Runs everything, round by round. Returns the figures, and what a picture shows of them.
pub(super) fn all(
    stage: &Stage,
    rounds: usize,
    bar: &ProgressBar,
) -> Result<(Vec<Figure>, Vec<Row>), BenchError> {
    let wire = third_of_intra(stage)?;
    let mut all: Vec<Times> = Application::ALL.iter().map(|_| Times::default()).collect();
    for _ in 0..rounds {
        for (application, times) in Application::ALL.into_iter().zip(&mut all) {
            bar.set_message(application.name());
            let checksums = places(stage, &wire, application, times)?;
            bar.inc(1);
            let more = by_agents(stage, application, times)?;
            bar.inc(1);
            for checksum in checksums.iter().chain(&more) {
                if *checksum != checksums[0] {
                    let (expected, found) = (checksums[0], *checksum);
                    return Err(BenchError::Changed { what: "a result", expected, found });
                }
            }
        }
    }
    let (mut figures, mut rows) = (Vec::new(), Vec::new());
    for (application, times) in Application::ALL.into_iter().zip(&all) {
        figures.extend(figures_of(application, times, &wire));
        let (mapped, far) = (median(times.best_mapped()), median(&times.confined));
        rows.push(Row { application: application.name(), mapped, far });
    }
    Ok((figures, rows))
}

/// Files, far memory and memory.
fn places(
    stage: &Stage,
    wire: &str,
    application: Application,
    times: &mut Times,
) -> Result<Vec<u64>, BenchError> {
    let name = application.name();
    let mut checksums = Vec::new();
    let mut note = |outcome: Outcome, into: &mut Vec<f64>| {
        into.push(outcome.seconds);
        checksums.push(outcome.checksum);
    };
    let far = |agent: Option<&Host>, path, wire: Option<&str>| {
        let (server, wire) = (stage.server.remote.to_string(), wire.map(str::to_owned));
        Place::Far(Far {
            server,
            agent: agent.map(|agent| agent.local.to_string()),
            path,
            cache: Cache::Auto,
            wire,
        })
    };
    // What far memory needs, a third of the arrays and all the rest of it, is what files may have too.
    let group = MemoryGroup::create(name)?;
    let confined = stage.task(name, far(None, FarPath::Direct, None));
    stage.perform_in(&group, &confined)?;
    // Two runs differ a little, and one that has no room left is killed.
    let peak = group.peak()?;
    group.limit((peak + (peak / 16).max(stage.spare_min)).next_multiple_of(1 << 20))?;
    note(stage.perform_in(&group, &confined)?, &mut times.confined);
    for ((random, back_and_forth), into) in MAPPED.into_iter().zip(&mut times.mapped) {
        stage.drop_caches()?;
        let task = stage.task(name, Place::Mapped { random, back_and_forth });
        note(stage.perform_in(&group, &task)?, into);
    }
    note(stage.perform(&stage.task(name, Place::Dram))?, &mut times.dram);
    if let Some(gap) = &stage.gap
        && let Some(seconds) = gap.run(application, stage.iterations)?
    {
        times.gap.push(seconds);
        let mut task = stage.task(name, Place::Dram);
        (task.threads, task.rounds) = (gap.threads, gap::TRIALS);
        note(stage.perform(&task)?, &mut times.dram_again);
    }
    let mut free = |place, into: &mut Vec<f64>| -> Result<(), BenchError> {
        note(stage.perform(&stage.task(name, place))?, into);
        Ok(())
    };
    let plain = stage.agent(Forwards::Pipelined, AgentCache::Default, None)?;
    free(far(None, FarPath::Direct, None), &mut times.direct)?;
    free(by_shm(stage), &mut times.shm)?;
    free(far(Some(&plain), FarPath::Auto, None), &mut times.auto)?;
    drop(plain);
    let shaped = stage.agent(Forwards::Pipelined, AgentCache::Default, Some(wire.to_owned()))?;
    free(far(None, FarPath::Direct, Some(wire)), &mut times.direct_shaped)?;
    free(far(Some(&shaped), FarPath::Auto, Some(wire)), &mut times.auto_shaped)?;
    Ok(checksums)
}

/// A memory server on this machine, reached by shared memory.
fn by_shm(stage: &Stage) -> Place {
    let server = stage.server.local.to_string();
    Place::Far(Far { server, agent: None, path: FarPath::Direct, cache: Cache::Auto, wire: None })
}

/// What agents do, one more thing at a time, and what their caches save.
fn by_agents(stage: &Stage, application: Application, times: &mut Times) -> Result<Vec<u64>, BenchError> {
    let name = application.name();
    let far = |agent: Option<&Host>, cache| {
        let (server, agent) = (stage.server.remote.to_string(), agent.map(|agent| agent.local.to_string()));
        let path = if agent.is_some() { FarPath::Agent } else { FarPath::Direct };
        Place::Far(Far { server, agent, path, cache, wire: None })
    };
    let alone = stage.perform(&stage.task(name, far(None, Cache::Off)))?;
    let [vertices, edges] = alone.direct;
    let mut checksums = vec![alone.checksum];
    for ((_, forwards, cache), into) in BREAKDOWN.into_iter().zip(&mut times.breakdown) {
        let agent = stage.agent(forwards, AgentCache::Half, None)?;
        let outcome = stage.perform(&stage.task(name, far(Some(&agent), cache)))?;
        let by_agent = read_by(&agent.local)?;
        into.push(outcome.seconds);
        checksums.push(outcome.checksum);
        match cache {
            Cache::Dynamic => {
                let asked = outcome.hits + outcome.late + outcome.misses;
                times.hit_rate.push(outcome.hits as f64 / asked.max(1) as f64);
            }
            Cache::Static => {
                // The vertices come from the agent's copy; whatever of them came from the server did so in vain.
                times.saved[0].push(1.0 - outcome.direct[0] as f64 / vertices.max(1) as f64);
                let all = (vertices + edges).max(1) as f64;
                times.saved[1].push(1.0 - (outcome.direct.iter().sum::<u64>() + by_agent) as f64 / all);
            }
            _ => {}
        }
    }
    if application == Application::Pagerank {
        times.saved_of_sparse.push(saved_of_sparse(stage)?);
    }
    times.saved_together.push(together(stage, application, vertices + edges)?);
    Ok(checksums)
}

/// The share of all bytes that an agent's static copy of the offsets saves, where vertices have few edges: the paper's condition,
/// under which what is read of vertices is a large part of what is read.
fn saved_of_sparse(stage: &Stage) -> Result<f64, BenchError> {
    let server = stage.server.remote.to_string();
    let task = |agent: Option<&Host>, path, cache| {
        let (agent, server) = (agent.map(|agent| agent.local.to_string()), server.clone());
        stage.task_on_sparse("pagerank", Place::Far(Far { server, agent, path, cache, wire: None }))
    };
    let alone = stage.perform(&task(None, FarPath::Direct, Cache::Off))?;
    let agent = stage.agent(Forwards::Pipelined, AgentCache::Half, None)?;
    let cached = stage.perform(&task(Some(&agent), FarPath::Agent, Cache::Static))?;
    if cached.checksum != alone.checksum {
        let (expected, found) = (alone.checksum, cached.checksum);
        return Err(BenchError::Changed { what: "a result", expected, found });
    }
    let bytes = cached.direct.iter().sum::<u64>() + read_by(&agent.local)?;
    Ok(1.0 - bytes as f64 / alone.direct.iter().sum::<u64>().max(1) as f64)
}

/// The application beside a breadth-first search on the same graph, both with the same agent: the share of bytes from the
/// server that its cache saves them.
fn together(stage: &Stage, application: Application, alone: u64) -> Result<f64, BenchError> {
    let server = stage.server.remote.to_string();
    let place = |agent: Option<&Host>| {
        let (agent, server) = (agent.map(|agent| agent.local.to_string()), server.clone());
        let path = if agent.is_some() { FarPath::Agent } else { FarPath::Direct };
        Place::Far(Far { server, agent, path, cache: Cache::Dynamic, wire: None })
    };
    let background = stage.perform(&stage.task("bfs", place(None)))?;
    let agent = stage.agent(Forwards::Pipelined, AgentCache::Default, None)?;
    let other = stage.begin(&stage.task("bfs", place(Some(&agent))), None)?;
    let ours = stage.perform(&stage.task(application.name(), place(Some(&agent))))?;
    let others = Stage::end(other)?;
    let straight: u64 = ours.direct.iter().chain(&others.direct).sum();
    let from_server = read_by(&agent.local)? + straight;
    let would_be = alone + background.direct.iter().sum::<u64>();
    Ok(1.0 - from_server as f64 / would_be.max(1) as f64)
}

fn figures_of(application: Application, times: &Times, wire: &str) -> Vec<Figure> {
    let name = |what: &str| format!("graph.{}.{what}", application.name());
    let mapped = times.best_mapped();
    let mut figures = vec![
        speed(
            name("far_over_mmap"),
            &times.confined,
            mapped,
            "the same files mapped into memory, in the same memory cgroup, the best of three ways",
        ),
        speed(name("far_over_dram"), &times.direct, &times.dram, "the same with all arrays in memory"),
        speed(name("far_over_dram.shm"), &times.shm, &times.dram, "the same with all arrays in memory"),
        speed(name("agent_over_direct"), &times.auto, &times.direct, "the direct path over plain TCP"),
        speed(
            name("agent_over_direct.shaped"),
            &times.auto_shaped,
            &times.direct_shaped,
            &format!("the direct path over a wire of {wire}, a third of what the agent gives"),
        ),
        share(
            name("dynamic_cache.hit_rate"),
            &times.hit_rate,
            "all fetches; late prefetches are misses; the cache is half of the graph",
        ),
    ];
    if !times.gap.is_empty() {
        let versus =
            "GAP's program on the same graph with as many threads, the last of several runs in a process";
        figures.push(speed(name("dram_over_gap"), &times.dram_again, &times.gap, versus));
    }
    for ((step, _, _), took) in BREAKDOWN.into_iter().zip(&times.breakdown) {
        let base = "the agent as a base proxy: one request at a time, no cache";
        figures.push(speed(name(&format!("breakdown.{step}")), took, &times.breakdown[0], base));
    }
    if application == Application::Pagerank {
        let [vertices, all] = &times.saved;
        let beyond =
            "the vertices' bytes without an agent, beyond the first load; offsets and neighbours are far";
        figures.push(share("graph.pagerank.static_cache.traffic_saved".to_owned(), vertices, beyond));
        let of_all = "graph.pagerank.static_cache.traffic_saved.of_all";
        let paper = "all bytes without an agent; the paper's is 0.42";
        figures.push(share(of_all.to_owned(), all, paper));
        let paper = "the same on a graph with two edges for each vertex, as a road network has";
        figures.push(share(format!("{of_all}.sparse"), &times.saved_of_sparse, paper));
    }
    let beside =
        "both without an agent, beside a breadth-first search on the same graph; the cache is as by default";
    let together = if application == Application::Pagerank {
        "paging.agent.multiprocess.traffic_saved".to_owned()
    } else {
        format!("paging.agent.multiprocess.traffic_saved.{}", application.name())
    };
    figures.push(share(together, &times.saved_together, beside));
    figures
}

fn median(values: &[f64]) -> f64 {
    percentile(&mut values.to_vec(), 0.5)
}

fn shortest(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}

/// How many times as fast ours is: the other's time over ours.
fn speed(name: String, ours: &[f64], other: &[f64], versus: &str) -> Figure {
    let ratio = median(other) / median(ours);
    Figure::new(name, Unit::Ratio, ratio, 1.0, versus).with_best(shortest(other) / shortest(ours), 1.0)
}

fn share(name: String, values: &[f64], versus: &str) -> Figure {
    let best = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Figure::new(name, Unit::Ratio, median(values), 1.0, versus).with_best(best, 1.0)
}
