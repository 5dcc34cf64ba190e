//! The model: the writer's own policy beside fixed paths and one that is clairvoyant.

use outboard_sim::nic::{Parameters, Plan, Steerer, Workload};
use outboard_writing::WritePath;

use super::plays::Plays;
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

const FIXED_OR_ADAPTIVE: [Steerer; 3] =
    [Steerer::Fixed(WritePath::Offload), Steerer::Fixed(WritePath::Unload), Steerer::Adaptive];

/// A workload on the model, of which every policy is asked what it makes of it.
#[derive(Clone)]
struct Case {
    numbers: Parameters,
    workload: Workload,
    writes: u64,
    /// Which number of the model is scaled by how much, if one is.
    scaled: Option<(&'static str, f64)>,
}

impl Case {
    fn plan(&self, steerer: Steerer) -> Plan {
        plan(self.numbers, &self.workload, steerer, self.writes)
    }

    fn plans(&self) -> Vec<Plan> {
        let mut plans: Vec<Plan> = FIXED_OR_ADAPTIVE.map(|steerer| self.plan(steerer)).into();
        if self.scaled.is_none() && self.workload.is_mixed() {
            plans.push(self.plan(Steerer::Clairvoyant));
        }
        plans
    }
}

/// One workload under one policy.
pub(super) fn plan(numbers: Parameters, workload: &Workload, steerer: Steerer, writes: u64) -> Plan {
    Plan { numbers, workload: workload.clone(), steerer, writes, warm_up: writes / 2, seed: 1 }
}

/// What writes take on average, in nanoseconds, by each policy.
struct Means {
    offload: f64,
    unload: f64,
    adaptive: f64,
}

impl Means {
    fn of(plays: &Plays, case: &Case) -> Self {
        let [offload, unload, adaptive] =
            FIXED_OR_ADAPTIVE.map(|steerer| plays.outcome(case.plan(steerer)).mean_ns);
        Self { offload, unload, adaptive }
    }

    fn best_fixed(&self) -> f64 {
        self.offload.min(self.unload)
    }
}

fn gain(name: String, value: f64, versus: &str) -> Figure {
    Figure::new(name, Unit::Ratio, value, 1.0, versus)
}

/// The figures of all workloads, with the model as it is and with one number of it scaled.
pub(super) fn figures(effort: Effort) -> Vec<Figure> {
    let plain = Workload::ALL.map(|workload| Case {
        numbers: Parameters::default(),
        writes: writes(effort, &workload),
        workload,
        scaled: None,
    });
    let scaled = scaled_cases(effort);
    let plays = Plays::of(plain.iter().chain(scaled.iter().flatten()).flat_map(Case::plans));
    let mut figures: Vec<Figure> = plain.iter().flat_map(|case| plain_figures(&plays, case)).collect();
    figures.extend(scaled.iter().filter_map(|cases| scaled_figure(&plays, cases)));
    figures
}

fn plain_figures(plays: &Plays, case: &Case) -> Vec<Figure> {
    let mut figures = Vec::new();
    let (name, means) = (case.workload.name(), Means::of(plays, case));
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
    if case.workload.is_mixed() {
        let clairvoyant = plays.outcome(case.plan(Steerer::Clairvoyant)).mean_ns;
        figures.push(gain(
            format!("writing.model.{name}.of_clairvoyant_gain"),
            (means.best_fixed() - means.adaptive) / (means.best_fixed() - clairvoyant),
            "what a clairvoyant gains over the better fixed path",
        ));
    }
    figures
}

/// For each workload the cases in which one number of the model is scaled.
fn scaled_cases(effort: Effort) -> Vec<Vec<Case>> {
    let (factors, names): (&[f64], &[&'static str]) = match effort {
        Effort::Tiny => (&[4.0], &["fetch"]),
        Effort::Quick => (&[0.25, 4.0], &Parameters::NAMES),
        Effort::Full => (&[0.25, 0.5, 2.0, 4.0], &Parameters::NAMES),
    };
    let share = if effort == Effort::Tiny { 1 } else { 5 };
    let cases_of = |workload: Workload| -> Vec<Case> {
        let writes = writes(effort, &workload) / share;
        let pairs = names.iter().flat_map(|name| factors.iter().map(move |factor| (*name, *factor)));
        let cases = pairs.map(|(name, factor)| Case {
            numbers: Parameters::default().scaled(name, factor),
            workload: workload.clone(),
            writes,
            scaled: Some((name, factor)),
        });
        let cases = cases.collect();
        if workload == Workload::Phases && effort != Effort::Tiny {
            across_a_shift(cases, writes * share)
        } else {
            cases
        }
    };
    Workload::ALL.into_iter().map(cases_of).collect()
}

/// The plan with so many writes, but for `most`, that the second half of them sees the workload shift, whichever way paths are chosen. A
/// phase lasts a second: a play that lasts longer than one has a shift in its second half.
fn across_a_shift(cases: Vec<Case>, most: u64) -> Vec<Case> {
    let probes: Vec<Case> = cases.iter().map(|case| Case { writes: PROBE, ..case.clone() }).collect();
    let plays = Plays::of(probes.iter().flat_map(Case::plans));
    let lasting = |(case, probe): (Case, &Case)| {
        let rates = FIXED_OR_ADAPTIVE.map(|steerer| plays.outcome(probe.plan(steerer)).rate);
        // A writer that learns becomes faster than at first.
        let writes = (1.3 * rates.into_iter().fold(0.0, f64::max)) as u64;
        Case { writes: writes.min(most), ..case }
    };
    cases.into_iter().zip(&probes).map(lasting).collect()
}

/// The worst of all cases of one workload.
fn scaled_figure(plays: &Plays, cases: &[Case]) -> Option<Figure> {
    let values = cases.iter().map(|case| {
        let means = Means::of(plays, case);
        (means.best_fixed() / means.adaptive, case)
    });
    let (value, case) = values.min_by(|one, other| one.0.total_cmp(&other.0))?;
    let (number, factor) = case.scaled?;
    let name = format!("writing.model.{}.scaled.adaptive_over_best_fixed", case.workload.name());
    Some(gain(name, value, &format!("the better fixed path, at the worst: {number} times {factor}")))
}
