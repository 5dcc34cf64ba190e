//! Do calls leave a site whose core another program takes, how soon, and does that pay?

mod load;
mod reaction;
pub(super) mod rival;
mod sum;
mod timeline;

use std::time::{Duration, Instant};

use outboard::{CallPlacement, CallSite, FarRegion};

use self::load::SteeredLoad;
use self::rival::Rival;
use self::timeline::Sample;
use super::stage::{Stage, pin_process};
use crate::daemons::{Forwards, Host, HostSpec};
use crate::harness::{Effort, Figure, Progress, Unit};
use crate::{BenchError, BenchOptions};

/// How many questions there are.
pub(super) const COUNT: usize = 3;

/// How many calls are under way at once.
const DEPTH: usize = 64;
/// The memory that functions read, in bytes.
const REGION: u64 = 64 << 10;

/// How long things take.
struct Plan {
    onsets: usize,
    steady: Duration,
    phase: Duration,
    sample: Duration,
    /// How often the phases are played; the best of each counts.
    rounds: usize,
    /// How long more calls are made than one site can answer.
    flood: Duration,
}

impl Plan {
    fn of(effort: Effort) -> Self {
        let ms = Duration::from_millis;
        match effort {
            Effort::Tiny => {
                Self { onsets: 1, steady: ms(5), phase: ms(5), sample: ms(1), rounds: 1, flood: ms(5) }
            }
            Effort::Quick => Self {
                onsets: 20,
                steady: ms(2000),
                phase: ms(500),
                sample: ms(10),
                rounds: 2,
                flood: ms(400),
            },
            Effort::Full => {
                let (steady, phase, flood) = (ms(60_000), ms(10_000), ms(5000));
                Self { onsets: 20, steady, phase, sample: ms(50), rounds: 1, flood }
            }
        }
    }
}

/// The phases: their names, and whose core is taken.
const PHASES: [(&str, Option<CallSite>); 4] = [
    ("idle", None),
    ("server overloaded", Some(CallSite::Server)),
    ("agent overloaded", Some(CallSite::Agent)),
    ("recovery", None),
];

/// A memory server and an agent, each on a core of its own if there are enough, and a rival that takes cores.
struct Scene<'a> {
    stage: &'a Stage,
    agent: Host,
    region: &'a FarRegion,
    rival: Rival,
    /// The cores of the agent and of the server.
    cores: [usize; 2],
    plan: Plan,
}

/// What became of all phases.
#[derive(Default)]
struct Played {
    done: [u64; PHASES.len()],
    samples: Vec<Sample>,
    began: [Duration; PHASES.len()],
}

impl Played {
    /// Of every phase the better one counts, and the latest is what is drawn.
    fn improve(&mut self, next: Self) {
        let done = std::array::from_fn(|number| self.done[number].max(next.done[number]));
        *self = Self { done, ..next };
    }
}

impl Scene<'_> {
    fn load(&self, placement: CallPlacement, depth: usize) -> Result<SteeredLoad, BenchError> {
        SteeredLoad::start(&self.stage.host.local, &self.agent.local, (placement, depth), self.region)
    }

    fn core(&self, site: CallSite) -> usize {
        self.cores[usize::from(site == CallSite::Server)]
    }

    /// All phases, with calls placed so.
    fn play(&self, placement: CallPlacement) -> Result<Played, BenchError> {
        let mut load = self.load(placement, DEPTH)?;
        load.call(self.plan.phase / 10, |_| false)?;
        let began = Instant::now();
        let mut played = Played { done: [0; 4], samples: Vec::new(), began: [Duration::ZERO; PHASES.len()] };
        for (number, (_, site)) in PHASES.iter().enumerate() {
            played.began[number] = began.elapsed();
            if let Some(site) = site {
                self.rival.spin(self.core(*site))?;
            }
            let samples = &mut played.samples;
            let mut next = began.elapsed();
            played.done[number] = load.call(self.plan.phase, |caller| {
                if began.elapsed() >= next {
                    let answered = caller.sites().map(|site| site.answered);
                    samples.push(Sample { at: began.elapsed(), answered });
                    next += self.plan.sample;
                }
                false
            })?;
            if site.is_some() {
                self.rival.onset_ns()?;
                self.rival.rest()?;
            }
        }
        load.finish()?;
        Ok(played)
    }
}

/// The figures, and the picture. Where there are none, a note says why.
pub(super) fn figures(
    options: &BenchOptions,
    stage: &mut Stage,
    progress: &mut Progress,
    notes: &mut Vec<String>,
) -> Result<Vec<Figure>, BenchError> {
    let [client_core, server_core] = stage.cores.chosen() else {
        notes.push("nothing about steering: one core cannot be taken from one site only".to_owned());
        return Ok(Vec::new());
    };
    let third = stage.allowed.iter().copied().find(|core| core != client_core && core != server_core);
    if third.is_none() {
        notes.push("the agent had no core of its own: it shares the caller's".to_owned());
    }
    let cores = [third.unwrap_or(*client_core), *server_core];
    let server = stage.host.local.to_string();
    let spec = HostSpec::Agent { server, forwards: Forwards::Pipelined, wire: None, cache: None };
    let agent = Host::start(&options.peer, &spec)?;
    pin_process(agent.pid(), cores[0])?;
    let region = stage.memory.reserve_shared(REGION, "bench-calling-steer")?;
    let rival = Rival::start(&options.peer)?;
    let scene = Scene { stage, agent, region: &region, rival, cores, plan: Plan::of(options.effort) };
    let mut figures = reaction::figures(&scene, progress, notes)?;
    figures.extend(phases(&scene, options, progress, notes)?);
    figures.push(sum::figure(&scene, progress)?);
    drop(scene);
    stage.memory.free(region)?;
    Ok(figures)
}

fn phases(
    scene: &Scene<'_>,
    options: &BenchOptions,
    progress: &mut Progress,
    notes: &mut Vec<String>,
) -> Result<Vec<Figure>, BenchError> {
    progress.begin("calling.steer.versus_best_fixed");
    let placements = [
        CallPlacement::Fixed(CallSite::Server),
        CallPlacement::Fixed(CallSite::Agent),
        CallPlacement::Steered,
    ];
    let mut played = placements.map(|_| Played::default());
    for round in 0..scene.plan.rounds {
        let mut turns: Vec<_> = played.iter_mut().zip(placements).collect();
        // Whatever it means to be the first or the last, everybody is.
        if round % 2 == 1 {
            turns.reverse();
        }
        for (best, placement) in turns {
            best.improve(scene.play(placement)?);
        }
    }
    let [at_server, at_agent, steered] = played;
    progress.end();
    if let Some(file) = &options.plot {
        let named: Vec<(Duration, &str)> =
            steered.began.iter().zip(PHASES).map(|(began, (name, _))| (*began, name)).collect();
        std::fs::write(file, timeline::picture(&steered.samples, &named))
            .map_err(|source| BenchError::Plot { file: file.display().to_string(), source })?;
    }
    let per_second = |calls: u64| calls as f64 / scene.plan.phase.as_secs_f64() / 1e3;
    for (number, (name, _)) in PHASES.iter().enumerate() {
        let [server, agent, steered] =
            [&at_server, &at_agent, &steered].map(|played| per_second(played.done[number]));
        notes.push(format!(
            "{name}: {server:.0} k calls a second at the server, {agent:.0} k at the agent, {steered:.0} k steered"
        ));
    }
    let total = |played: &Played| played.done.iter().sum::<u64>().max(1) as f64;
    let best = total(&at_server).max(total(&at_agent));
    let better = |number: usize| at_server.done[number].max(at_agent.done[number]).max(1) as f64;
    let of_phase = |number: usize| steered.done[number] as f64 / better(number);
    let clairvoyant = (0..PHASES.len()).map(better).sum::<f64>();
    let worst = (0..PHASES.len()).map(of_phase).fold(f64::INFINITY, f64::min);
    let seconds = scene.plan.phase.as_secs_f64();
    let whole = format!(
        "the better of all calls at the server and all at the agent, over four phases of {seconds} s: idle, server overloaded, agent overloaded, recovery"
    );
    let single = "the better of server and agent in the phase in which steering does worst";
    let known = "the same for a caller that knows the phases and takes the better site in each: what steering between the two could reach here";
    let ratio = |name: &str, value, versus: &str| Figure::new(name, Unit::Ratio, value, 1.0, versus);
    Ok(vec![
        ratio("calling.steer.versus_best_fixed", total(&steered) / best, &whole),
        ratio("calling.steer.versus_best_fixed.clairvoyant", clairvoyant / best, known),
        ratio("calling.steer.versus_best_fixed.worst_phase", worst, single),
    ])
}
