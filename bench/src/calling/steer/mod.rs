//! Do calls leave a site whose core somebody else takes, how soon, and does that pay?

mod load;
pub(super) mod rival;
mod timeline;

use std::time::{Duration, Instant};

use outboard::{CallPlacement, CallSite, Caller, FarRegion};

use self::load::SteeredLoad;
use self::rival::Rival;
use self::timeline::Sample;
use super::stage::{Stage, pin_process};
use crate::daemons::{Forwards, Host, HostSpec};
use crate::harness::{Effort, Figure, Progress, Unit, percentile};
use crate::pair::now_ns;
use crate::{BenchError, Options};

/// How many questions there are.
pub(super) const COUNT: usize = 3;

const REACTION_LIMIT_MS: f64 = 10.0;
/// How long a shift is waited for.
const LONGEST: Duration = Duration::from_secs(2);
/// The memory that functions read, in bytes.
const REGION: u64 = 64 << 10;
/// All slots.
const SLOTS: usize = 256;

/// How long things take.
struct Plan {
    onsets: usize,
    steady: Duration,
    phase: Duration,
    sample: Duration,
}

impl Plan {
    fn of(effort: Effort) -> Self {
        let ms = Duration::from_millis;
        match effort {
            Effort::Tiny => Self { onsets: 1, steady: ms(5), phase: ms(5), sample: ms(1) },
            Effort::Quick => Self { onsets: 5, steady: ms(2000), phase: ms(500), sample: ms(10) },
            Effort::Full => Self { onsets: 20, steady: ms(60_000), phase: ms(10_000), sample: ms(50) },
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

/// A memory server and an agent, each on a core of its own if there are enough, and somebody who takes cores.
struct Scene<'a> {
    stage: &'a Stage,
    agent: Host,
    region: &'a FarRegion,
    rival: Rival,
    /// The cores of the agent and of the server.
    cores: [usize; 2],
    plan: Plan,
}

/// What became of one play of all phases.
struct Played {
    done: [u64; PHASES.len()],
    samples: Vec<Sample>,
    began: [Duration; PHASES.len()],
}

impl Scene<'_> {
    fn load(&self, placement: CallPlacement) -> Result<SteeredLoad, BenchError> {
        SteeredLoad::start(&self.stage.host.local, &self.agent.local, placement, self.region)
    }

    fn core(&self, site: CallSite) -> usize {
        self.cores[usize::from(site == CallSite::Server)]
    }

    /// From the moment at which the core of the site with most slots is taken until most of its slots have left it, in
    /// milliseconds; the longest, where slots are at neither.
    fn reaction_ms(&self, load: &mut SteeredLoad) -> Result<f64, BenchError> {
        let slots = |caller: &Caller, site: CallSite| caller.slots()[site as usize];
        let sites = [CallSite::Server, CallSite::Agent];
        let crowded = |caller: &Caller| sites.into_iter().find(|site| slots(caller, *site) > SLOTS * 3 / 4);
        load.call(LONGEST, |caller| crowded(caller).is_some())?;
        let Some(site) = crowded(&load.caller) else { return Ok(LONGEST.as_secs_f64() * 1e3) };
        self.rival.spin(self.core(site))?;
        let mut shifted_ns = None;
        load.call(LONGEST, |caller| {
            if slots(caller, site) < SLOTS / 2 {
                shifted_ns = Some(now_ns());
            }
            shifted_ns.is_some()
        })?;
        let onset_ns = self.rival.onset_ns()?;
        self.rival.rest()?;
        // Slots that moved before the onset did not react to it.
        let reacted_ns = shifted_ns.and_then(|shifted_ns: u64| shifted_ns.checked_sub(onset_ns));
        Ok(reacted_ns.unwrap_or(LONGEST.as_nanos() as u64) as f64 / 1e6)
    }

    /// How often slots move while nothing changes.
    fn shifts_while_steady(&self, load: &mut SteeredLoad) -> Result<u64, BenchError> {
        // What went before has settled.
        load.call(self.plan.steady / 4, |_| false)?;
        let (mut shifts, mut slots) = (0, load.caller.slots());
        load.call(self.plan.steady, |caller| {
            shifts += u64::from(caller.slots() != slots);
            slots = caller.slots();
            false
        })?;
        Ok(shifts)
    }

    /// All phases, with calls placed so.
    fn play(&self, placement: CallPlacement) -> Result<Played, BenchError> {
        let mut load = self.load(placement)?;
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
    options: &Options,
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
    let mut figures = reaction(&scene, progress)?;
    figures.extend(phases(&scene, options, progress, notes)?);
    drop(scene);
    stage.memory.free(region)?;
    Ok(figures)
}

fn reaction(scene: &Scene<'_>, progress: &mut Progress) -> Result<Vec<Figure>, BenchError> {
    progress.begin("calling.steer.reaction_ms");
    let mut load = scene.load(CallPlacement::Steered)?;
    let onsets = scene.plan.onsets;
    let mut times = (0..onsets).map(|_| scene.reaction_ms(&mut load)).collect::<Result<Vec<f64>, _>>()?;
    let shifts = scene.shifts_while_steady(&mut load)?;
    load.finish()?;
    progress.end();
    let limit = "a limit: 10 ms from the moment at which others take the core of the site that has most slots until most have left it";
    let figure = |name: &str, value| Figure::new(name, Unit::Milliseconds, value, REACTION_LIMIT_MS, limit);
    let seconds = scene.plan.steady.as_secs_f64();
    let steady = format!("none: moves of slots in {seconds} s of a load that does not change");
    Ok(vec![
        figure("calling.steer.reaction_ms", percentile(&mut times, 0.5)),
        figure("calling.steer.reaction_ms.p90", percentile(&mut times, 0.9)),
        Figure {
            ratio: shifts as f64,
            ..Figure::new("calling.steer.steady_shifts", Unit::Shifts, shifts as f64, 0.0, &steady)
        },
    ])
}

fn phases(
    scene: &Scene<'_>,
    options: &Options,
    progress: &mut Progress,
    notes: &mut Vec<String>,
) -> Result<Vec<Figure>, BenchError> {
    progress.begin("calling.steer.versus_best_fixed");
    let at_server = scene.play(CallPlacement::Fixed(CallSite::Server))?;
    let at_agent = scene.play(CallPlacement::Fixed(CallSite::Agent))?;
    let steered = scene.play(CallPlacement::Steered)?;
    progress.end();
    if let Some(file) = &options.plot {
        let named: Vec<(Duration, &str)> =
            steered.began.iter().zip(PHASES).map(|(began, (name, _))| (*began, name)).collect();
        std::fs::write(file, timeline::picture(&steered.samples, &named))
            .map_err(|source| BenchError::Plot { file: file.display().to_string(), source })?;
    }
    let per_second = |calls: u64| calls as f64 / scene.plan.phase.as_secs_f64() / 1e3;
    for (number, (name, _)) in PHASES.iter().enumerate() {
        let [server, agent, steered] = [&at_server, &at_agent, &steered].map(|played| per_second(played.done[number]));
        notes.push(format!(
            "{name}: {server:.0} k calls a second at the server, {agent:.0} k at the agent, {steered:.0} k steered"
        ));
    }
    let total = |played: &Played| played.done.iter().sum::<u64>().max(1) as f64;
    let best = total(&at_server).max(total(&at_agent));
    let of_phase = |number: usize| {
        let best = at_server.done[number].max(at_agent.done[number]).max(1);
        steered.done[number] as f64 / best as f64
    };
    let worst = (0..PHASES.len()).map(of_phase).fold(f64::INFINITY, f64::min);
    let seconds = scene.plan.phase.as_secs_f64();
    let whole = format!(
        "the better of all calls at the server and all at the agent, over four phases of {seconds} s: idle, server overloaded, agent overloaded, recovery"
    );
    let single = "the better of server and agent in the phase in which steering does worst";
    let idle = "the better of server and agent alone, while nobody takes their cores: as many calls as one caller has answers for, which need not be more than one site can do";
    let ratio = |name: &str, value, versus: &str| Figure::new(name, Unit::Ratio, value, 1.0, versus);
    Ok(vec![
        ratio("calling.steer.versus_best_fixed", total(&steered) / best, &whole),
        ratio("calling.steer.versus_best_fixed.worst_phase", worst, single),
        ratio("calling.steer.sum_over_best_site", of_phase(0), idle),
    ])
}
