//! Messages that agents carry.

use super::part::{STREAMED, Work};
use super::tables::SMALL;
use super::team::Team;
use super::updates::Seeds;
use super::{UPDATES, VERSUS_INLINE};
use crate::daemons::{Host, HostSpec};
use crate::error::Named;
use crate::harness::{Duel, Figure, Progress, Side, Unit};
use crate::pair::Waits;
use crate::{BenchError, BenchOptions, Effort};

/// How many questions there are in every run.
pub(super) const COUNT: usize = 2;
/// How many threads a router may have, in the sweep.
const THREADS: [usize; 4] = [1, 2, 4, 8];
/// How many questions the sweep adds.
pub(super) const SWEEP: usize = THREADS.len();

/// Messages of a kilobyte in a round.
const STREAM: u64 = 256 << 10;

const SOCKET: &str = "a bare socket on loopback, as many bytes in 64 KiB writes and reads of up to 256 KiB; spinning or \
                      asleep, the better counts";

fn router(options: &BenchOptions, workers: usize, peers: Vec<String>) -> Result<Host, BenchError> {
    Host::start(&options.peer, &HostSpec::Router { workers, peers })
}

/// What carrying costs.
pub(super) fn figures(options: &BenchOptions, progress: &mut Progress) -> Result<Vec<Figure>, BenchError> {
    let mut figures = histogram(options, progress)?;
    figures.push(stream(options, progress)?);
    Ok(figures)
}

/// The histogram of two ranks by one agent on the same two cores, beside the same without.
fn histogram(options: &BenchOptions, progress: &mut Progress) -> Result<Vec<Figure>, BenchError> {
    let (name, effort) = ("routing.histogram.agent.2ranks", options.effort);
    progress.begin(name);
    let agent = router(options, 1, Vec::new())?;
    let mut carried = Team::carried(&options.peer, 2, SMALL, std::slice::from_ref(&agent.local))?;
    let mut inline = Team::start(&options.peer, 2, SMALL)?;
    let (updates, mut seeds) = (effort.items(UPDATES), Seeds::default());
    let (mut least_ns, before) = (f64::INFINITY, cpu_ns(&agent)?);
    let mut used = before;
    let duel = Duel::run(effort, progress, |side| match side {
        Side::Ours => {
            let round = carried.round(Work::Histogram, updates, seeds.next())?;
            let now = cpu_ns(&agent)?;
            // Half of what two ranks send is for the other one.
            least_ns = least_ns.min((now - used) as f64 / updates as f64);
            used = now;
            Ok(round)
        }
        Side::Yardstick => inline.round(Work::Histogram, updates, seeds.next()),
    })?;
    carried.stop()?;
    inline.stop()?;
    progress.end();
    let histogram = duel.figure(name, Unit::MessagesPerSecond, 1.0, VERSUS_INLINE);
    let inline_ns = 2e9 / histogram.yardstick;
    let versus =
        "what a message costs inline on both cores together, sent and handled; the agent's part comes on top";
    let router = Figure::new("routing.router.per_message", Unit::Nanoseconds, least_ns, inline_ns, versus);
    Ok(vec![histogram, router])
}

/// From a rank to one of another agent, over TCP between the two agents.
fn stream(options: &BenchOptions, progress: &mut Progress) -> Result<Figure, BenchError> {
    let (name, effort) = ("routing.tcp.2agents.bandwidth", options.effort);
    progress.begin(name);
    let first = router(options, 1, Vec::new())?;
    let second = router(options, 1, vec![first.remote.to_string()])?;
    let mut team = Team::carried(&options.peer, 2, SMALL, &[first.local.clone(), second.local.clone()])?;
    let messages = effort.items(STREAM);
    let duel = Duel::run(effort, progress, |side| match side {
        Side::Ours => team.round(Work::Stream, messages, 0),
        Side::Yardstick => {
            let rounds = [Waits::Spinning, Waits::Asleep]
                .map(|waits| team.round(Work::BareStream(waits), messages, 0));
            let [spinning, asleep] = rounds;
            Ok(spinning?.better_rate(asleep?))
        }
    })?;
    team.stop()?;
    progress.end();
    Ok(duel.figure(name, Unit::BytesPerSecond, STREAMED as f64, SOCKET))
}

/// The histogram of four ranks by an agent with more or fewer threads, beside one.
pub(super) fn sweep(options: &BenchOptions, progress: &mut Progress) -> Result<Vec<Figure>, BenchError> {
    // There are many of them, and only their order matters.
    let effort = if options.effort == Effort::Full { Effort::Quick } else { options.effort };
    let usual_agent = router(options, 1, Vec::new())?;
    let mut usual = Team::carried(&options.peer, 4, SMALL, std::slice::from_ref(&usual_agent.local))?;
    let mut figures = Vec::new();
    for threads in THREADS {
        let name = format!("routing.sweep.router_threads.{threads}");
        progress.begin(&name);
        let agent = router(options, threads, Vec::new())?;
        let mut team = Team::carried(&options.peer, 4, SMALL, std::slice::from_ref(&agent.local))?;
        let mut seeds = Seeds::default();
        let duel = Duel::run(effort, progress, |side| {
            let team = if side == Side::Ours { &mut team } else { &mut usual };
            team.round(Work::Histogram, effort.items(UPDATES / 4), seeds.next())
        })?;
        team.stop()?;
        progress.end();
        figures.push(duel.figure(&name, Unit::MessagesPerSecond, 1.0, "one thread in the agent, four ranks"));
    }
    usual.stop()?;
    Ok(figures)
}

/// The processor time that all threads of an agent have used.
fn cpu_ns(agent: &Host) -> Result<u64, BenchError> {
    let threads = std::fs::read_dir(format!("/proc/{}/task", agent.pid())).named("the agent's threads")?;
    let used = threads.filter_map(|thread| {
        let text = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Ok(used.sum())
}
