//! `outboard demo`: a cluster on this machine, shown at work and taken down again.

mod stage;
mod steps;

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use comfy_table::{ColumnConstraint, Width};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value, json};

use crate::numbers;
use crate::terminal::{self, Paint, paint};
use stage::Stage;
use steps::{Finding, STEPS, Step};

/// Show a whole cluster at work on this machine, in a few seconds
///
/// Starts a memory server and an agent as processes of their own, at sockets that no other program uses, shows links, far
/// memory, messages, functions and remote writes, each once with the agent and once with the agent killed in the middle,
/// checks every result, and stops everything again. Nothing is installed, changed or left behind, and no privilege is
/// needed. Ctrl-C ends it.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard demo                a table of what happened
  outboard demo --json         the same as one JSON object")]
pub(crate) struct Args {
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// The outcome of one step.
struct Done {
    name: &'static str,
    result: Result<Finding>,
    took: Duration,
}

/// Goes through all steps and prints what happened.
pub(crate) fn run(args: &Args) -> Result<()> {
    let began = Instant::now();
    let mut stage = Stage::new()?;
    let done = go_through(&mut stage);
    let (said, was_interrupted) = (stage.said(), stage.was_interrupted());
    drop(stage);
    let failed = done.iter().find(|done| done.result.is_err()).map(|done| done.name);
    let took = began.elapsed();
    let is_clean = done.last().is_some_and(|done| done.result.is_ok());
    if was_interrupted && is_clean {
        bail!("interrupted; everything is stopped, and nothing is left behind");
    }
    terminal::print(&if args.json { to_json(&done, took) } else { to_text(&done, &said, took) })?;
    match failed {
        None => Ok(()),
        Some(step) => bail!("the demo failed at “{step}”; `outboard doctor` says what this machine lacks"),
    }
}

/// Takes one step after the other, and after one that went wrong only the last, which cleans up.
fn go_through(stage: &mut Stage) -> Vec<Done> {
    let bar = ProgressBar::new(STEPS.len() as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}") {
        bar.set_style(style);
    }
    let mut all: Vec<Done> = Vec::new();
    for (number, step) in STEPS.iter().enumerate() {
        let is_last = number + 1 == STEPS.len();
        let went_wrong = stage.go_on().is_err() || all.iter().any(|done| done.result.is_err());
        if went_wrong && !is_last {
            continue;
        }
        bar.set_message(step.name);
        all.push(take(step, stage));
        bar.inc(1);
    }
    bar.finish_and_clear();
    all
}

fn take(step: &Step, stage: &mut Stage) -> Done {
    let began = Instant::now();
    let result = (step.run)(stage);
    Done { name: step.name, result, took: began.elapsed() }
}

fn to_text(done: &[Done], said: &[String], took: Duration) -> String {
    let mut table = terminal::table(["step", "what happened", "what it gained", "took"]);
    for Done { name, result, took } in done {
        let (text, gain) = match result {
            Ok(finding) => (finding.text.clone(), finding.gain.clone()),
            Err(error) => (format!("FAILED: {error:#}"), String::new()),
        };
        // Below the step that it repeats.
        let name = name.split_once(", ").map_or_else(|| (*name).to_owned(), |(_, what)| format!("  {what}"));
        table.add_row([name, text, gain, numbers::time(*took)]);
    }
    if let Some(gain) = table.column_mut(2) {
        gain.set_constraint(ColumnConstraint::UpperBoundary(Width::Percentage(27)));
    }
    let verdict = match done.iter().all(|done| done.result.is_ok()) {
        true => {
            let worked = paint(Paint::Good, "everything worked");
            format!("{worked}, in {}; nothing is left behind", numbers::time(took))
        }
        false if said.is_empty() => paint(Paint::Bad, "not everything worked"),
        false => {
            let failed = paint(Paint::Bad, "not everything worked");
            format!("{failed}; the daemons said:\n  {}", said.join("\n  "))
        }
    };
    format!("{table}\n{verdict}")
}

fn to_json(done: &[Done], took: Duration) -> String {
    let step = |done: &Done| {
        let (text, gain, figures) = match &done.result {
            Ok(finding) => (finding.text.clone(), finding.gain.as_str(), finding.figures.as_slice()),
            Err(error) => (format!("{error:#}"), "", [].as_slice()),
        };
        let figures: Map<String, Value> =
            figures.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        json!({
            "step": done.name, "ok": done.result.is_ok(), "result": text, "gain": gain,
            "figures": figures,
            "seconds": done.took.as_secs_f64(),
        })
    };
    json!({
        "success": done.iter().all(|done| done.result.is_ok()),
        "seconds": took.as_secs_f64(),
        "steps": done.iter().map(step).collect::<Vec<_>>(),
    })
    .to_string()
}
