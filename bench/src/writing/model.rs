//! The model: the writer's own policy beside fixed paths and one that is clairvoyant.

use std::sync::atomic::{AtomicUsize, Ordering};

use outboard_sim::nic::{Outcome, Parameters, Plan, Steerer, Workload, play};
use outboard_writing::Path;

use crate::harness::{Effort, Figure, Unit};

/// Writes of one play. The first half is for learning and does not count: up to 0.7 seconds of virtual time. How soon a
/// shift is followed shows in the workload that has one every second.
fn writes(effort: Effort, workload: &Workload) -> u64 {
    let usual = match effort {
        Effort::Tiny => 3_000,
        Effort::Quick => 2_000_000,
        Effort::Full => 3_000_000,
    };
    match workload {
        // All four phases.
        Workload::Phases => 4 * usual,
        // A large write takes ten times as long, and there is nothing to learn of pages.
        Workload::Large => usual / 10,
        _ => usual,
    }
}

/// Writes by which it is found out how fast a play is.
const PROBE: u64 = 50_000;

/// Plays one workload under one policy.
pub(super) fn outcome(numbers: Parameters, workload: &Workload, steerer: Steerer, writes: u64) -> Outcome {
    play(&Plan { numbers, workload: workload.clone(), steerer, writes, warm_up: writes / 2, seed: 1 })
}

/// What writes take on average, in nanoseconds, by each policy.
struct Means {
    offload: f64,
    unload: f64,
    adaptive: f64,
}

impl Means {
    fn of(numbers: Parameters, workload: &Workload, writes: u64) -> Self {
        let mean = |steerer| outcome(numbers, workload, steerer, writes).mean_ns;
        Self {
            offload: mean(Steerer::Fixed(Path::Offload)),
            unload: mean(Steerer::Fixed(Path::Unload)),
            adaptive: mean(Steerer::Adaptive),
        }
    }

    fn best_fixed(&self) -> f64 {
        self.offload.min(self.unload)
    }
}

fn gain(name: String, value: f64, versus: &str) -> Figure {
    Figure::new(name, Unit::Ratio, value, 1.0, versus)
}

/// The figures of all workloads, with the model as it is.
pub(super) fn figures(effort: Effort) -> Vec<Figure> {
    side_by_side(|workload| figures_of(effort, workload))
}

/// Asks about every workload, on all cores: plays take virtual time and do not disturb each other.
fn side_by_side(ask: impl Fn(&Workload) -> Vec<Figure> + Sync) -> Vec<Figure> {
    let (ask, workloads, next) = (&ask, &Workload::ALL, &AtomicUsize::new(0));
    let answer = move || {
        let mine = std::iter::from_fn(|| {
            let index = next.fetch_add(1, Ordering::Relaxed);
            Some((index, ask(workloads.get(index)?)))
        });
        mine.collect::<Vec<_>>()
    };
    let mut answers = std::thread::scope(|scope| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(answer)).collect();
        // A play that panics ends the benchmark.
        threads.into_iter().flat_map(|thread| thread.join().expect("a play ends")).collect::<Vec<_>>()
    });
    answers.sort_by_key(|(index, _)| *index);
    answers.into_iter().flat_map(|(_, figures)| figures).collect()
}

fn figures_of(effort: Effort, workload: &Workload) -> Vec<Figure> {
    let mut figures = Vec::new();
    let (writes, name) = (writes(effort, workload), workload.name());
    let means = Means::of(Parameters::default(), workload, writes);
    figures.push(gain(
        format!("writing.model.{name}.adaptive_over_offload"),
        means.offload / means.adaptive,
        "mean latency of offloading everything",
    ));
    figures.push(gain(
        format!("writing.model.{name}.adaptive_over_best_fixed"),
        means.best_fixed() / means.adaptive,
        "mean latency of the better fixed path",
    ));
    if workload.is_mixed() {
        let clairvoyant = outcome(Parameters::default(), workload, Steerer::Clairvoyant, writes).mean_ns;
        figures.push(gain(
            format!("writing.model.{name}.of_clairvoyant_gain"),
            (means.best_fixed() - means.adaptive) / (means.best_fixed() - clairvoyant),
            "what a clairvoyant gains over the better fixed path",
        ));
    }
    figures
}

/// So many writes that the second half of them sees the workload shift, whoever steers. A phase lasts a second: a play
/// that lasts longer than one has a shift in its second half.
fn writes_across_a_shift(numbers: Parameters) -> u64 {
    let steerers = [Steerer::Fixed(Path::Offload), Steerer::Fixed(Path::Unload), Steerer::Adaptive];
    let rates = steerers.map(|steerer| outcome(numbers, &Workload::Phases, steerer, PROBE).rate);
    // Whoever learns becomes faster than at first.
    (1.3 * rates.into_iter().fold(0.0, f64::max)) as u64
}

/// For each workload the worst of all plays in which one number of the model is scaled.
pub(super) fn scaled_figures(effort: Effort) -> Vec<Figure> {
    side_by_side(|workload| vec![scaled_figure(effort, workload)])
}

fn scaled_figure(effort: Effort, workload: &Workload) -> Figure {
    let (factors, names): (&[f64], &[&str]) = match effort {
        Effort::Tiny => (&[4.0], &["fetch"]),
        Effort::Quick => (&[0.25, 4.0], &Parameters::NAMES),
        Effort::Full => (&[0.25, 0.5, 2.0, 4.0], &Parameters::NAMES),
    };
    let share = if effort == Effort::Tiny { 1 } else { 5 };
    let most = writes(effort, workload);
    let mut worst = (f64::INFINITY, String::new());
    for name in names {
        for factor in factors {
            let numbers = Parameters::default().scaled(name, *factor);
            let writes = match workload {
                Workload::Phases if effort != Effort::Tiny => writes_across_a_shift(numbers).min(most),
                _ => most / share,
            };
            let means = Means::of(numbers, workload, writes);
            let value = means.best_fixed() / means.adaptive;
            if value < worst.0 {
                worst = (value, format!("the better fixed path, at the worst: {name} times {factor}"));
            }
        }
    }
    let name = format!("writing.model.{}.scaled.adaptive_over_best_fixed", workload.name());
    gain(name, worst.0, &worst.1)
}
