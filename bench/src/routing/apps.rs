//! How long the applications take, and how much faster several ranks are than one.

use outboard_link::Address;
use outboard_messages::{
    App, ApplicationReport, Histogram, IndexGather, RunWatch, Shape, ShortestPaths, Transport, Transpose,
    Triangles, messenger_options,
};
use serde::{Deserialize, Serialize};

use super::seat::{Bundling, Seat, failed};
use crate::harness::{Duel, Figure, Progress, Round, Side, Unit};
use crate::pair::{Answer, Control, Peer, PeerProgram};
use crate::{BenchError, BenchOptions, Effort};

/// What the processes are told to play.
pub(super) const PART: &str = "routing.app";
/// How many there are.
pub(super) const COUNT: usize = 6;

/// A run of an application.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Task {
    app: App,
    is_checked: bool,
}

/// A process that is a rank.
pub(super) fn serve(control: &Control) -> Result<(), BenchError> {
    let seat: Seat = control.receive("who I am")?;
    seat.settle()?;
    let mut messenger = seat.join(messenger_options)?;
    control.send(&Answer::Ready)?;
    while let Some(Task { app, is_checked }) = control.receive("an application")? {
        let report =
            app.play(&mut messenger, &RunWatch { is_checked, ..RunWatch::default() }).map_err(failed)?;
        control.send(&report)?;
    }
    Ok(())
}

/// Ranks in processes of their own, which run applications.
pub(crate) struct Company(Vec<Peer>);

impl Company {
    fn start(program: &PeerProgram, ranks: u32) -> Result<Self, BenchError> {
        Self::carried(program, ranks, &[])
    }

    /// The same for ranks whose messages are carried by agents, by turns.
    pub(crate) fn carried(program: &PeerProgram, ranks: u32, agents: &[Address]) -> Result<Self, BenchError> {
        let peers = Seat::fill(program, PART, ranks, Bundling::default(), agents)?;
        peers.iter().try_for_each(|peer| peer.control.ready())?;
        Ok(Self(peers))
    }

    /// Runs an application once, and returns how many milliseconds it took.
    pub(crate) fn run(&self, app: &App, is_checked: bool) -> Result<Round, BenchError> {
        for peer in &self.0 {
            peer.control.send(&Some(Task { app: app.clone(), is_checked }))?;
        }
        let mut reports = self
            .0
            .iter()
            .map(|peer| peer.control.receive::<Option<ApplicationReport>>("an application's result"));
        let report = reports.try_fold(None, |found: Option<ApplicationReport>, report| {
            Ok::<_, BenchError>(found.or(report?))
        })?;
        let Some(report) = report else {
            return Err(BenchError::PeerFailed { why: "no rank has a result".to_owned() });
        };
        if let Some(what) = report.wrong() {
            return Err(BenchError::PeerFailed { why: format!("{}: {what}", report.app) });
        }
        Ok(Round { score: report.seconds * 1e3, samples_ns: Vec::new() })
    }

    /// Ends them.
    pub(crate) fn stop(self) -> Result<(), BenchError> {
        // They leave together: a rank that waits for the others finds them.
        self.0.iter().try_for_each(|peer| peer.control.send(&None::<Task>))
    }
}

/// All applications, each with as much to do in all however many ranks share it.
fn apps(effort: Effort, ranks: u32) -> [App; COUNT] {
    let (share, seed) = (|total: u64| effort.items(total) / u64::from(ranks), 1);
    let graph = |scale| {
        let scale = if effort == Effort::Tiny { 8 } else { scale };
        Shape { is_uniform: false, scale, degree: 16, seed }
    };
    let table = (1 << 20) / u64::from(ranks);
    [
        App::Histogram(Histogram { table, updates: share(16_000_000), seed }),
        App::IndexGather(IndexGather { table, requests: share(8_000_000), seed }),
        App::Transpose(Transpose { matrix: graph(16) }),
        App::Triangles(Triangles { graph: graph(14) }),
        App::ShortestPaths(ShortestPaths { graph: graph(16), delta: 32, source: None }),
        App::Transport(Transport { mesh: [32, 16, 16], particles: effort.items(80_000), steps: 5, seed }),
    ]
}

/// Two figures for each application: its time, and how many times one process takes as long.
pub(super) fn figures(options: &BenchOptions, progress: &mut Progress) -> Result<Vec<Figure>, BenchError> {
    let effort = options.effort;
    let ranks = std::thread::available_parallelism().map_or(2, |cores| (cores.get() as u32).clamp(2, 8));
    let (several, one) = (Company::start(&options.peer, ranks)?, Company::start(&options.peer, 1)?);
    let mut figures = Vec::new();
    for (shared, alone) in apps(effort, ranks).iter().zip(&apps(effort, 1)) {
        let name = format!("routing.apps.{}", shared.name().replace('-', "_"));
        progress.begin(&name);
        // One run of each is compared with the serial result.
        let mut unchecked = [true; 2];
        let duel = Duel::run(effort, progress, |side| {
            let is_checked = std::mem::take(&mut unchecked[side as usize]);
            match side {
                Side::Ours => several.run(shared, is_checked),
                Side::Yardstick => one.run(alone, is_checked),
            }
        })?;
        progress.end();
        let time = duel.figure(&name, Unit::Milliseconds, 1.0, "one rank that does all of it");
        let versus = format!("one rank; {ranks} ranks share the work");
        figures.push(Figure::new(format!("{name}.speedup"), Unit::Ratio, 1.0 / time.ratio, 1.0, &versus));
        figures.push(time);
    }
    several.stop()?;
    one.stop()?;
    Ok(figures)
}
