//! Plays scenarios under seeds and says which promise was broken. It decides nothing itself: the library does.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use clap::Parser;
use outboard_sim::{RecordedEvent, Recorder, RunReport, SCENARIOS, Scenario};
use serde::Serialize;

/// Run the state machines on simulated links and time
///
/// A seed decides everything about a run: the same seed always gives the same run, with the same digest.
#[derive(Parser)]
#[command(name = "outboard-sim", version, after_help = after_help())]
struct Args {
    /// Play one seed
    #[arg(long, value_name = "N", required_unless_present = "seeds")]
    seed: Option<u64>,
    /// Play all seeds from A up to, but without, B
    #[arg(long, value_name = "A..B", conflicts_with = "seed")]
    seeds: Option<Seeds>,
    /// Only this scenario
    #[arg(long, value_name = "NAME")]
    scenario: Option<Name>,
    /// Show every event as it happens
    #[arg(long, requires = "seed", conflicts_with = "json")]
    trace: bool,
    /// One JSON object per run
    #[arg(long)]
    json: bool,
}

fn after_help() -> String {
    let mut text = "Scenarios:\n".to_owned();
    for scenario in SCENARIOS {
        text += &format!("  {:<10} {}\n", scenario.name, scenario.about);
    }
    text + "
Examples:
  outboard-sim --seed 7                                   play all scenarios once
  outboard-sim --seed 7 --scenario routing --trace        see what happens in one
  outboard-sim --seeds 0..10000                           look for a run that breaks a promise

Exit codes: 0 all promises kept, 1 one was broken, 2 wrong usage"
}

#[derive(Clone, Copy)]
struct Seeds {
    first: u64,
    end: u64,
}

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = |number: &str| number.parse::<u64>().map_err(|error| format!("`{number}`: {error}"));
        let (first, end) = text.split_once("..").ok_or("write a range of seeds as A..B, such as 0..100")?;
        let (first, end) = (parse(first)?, parse(end)?);
        if first < end { Ok(Self { first, end }) } else { Err(format!("{first}..{end} has no seed in it")) }
    }
}

#[derive(Clone)]
struct Name(&'static Scenario);

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || SCENARIOS.iter().map(|scenario| scenario.name).collect::<Vec<_>>().join(", ");
        let found = SCENARIOS.iter().find(|scenario| scenario.name == text);
        found.map(Self).ok_or_else(|| format!("there are {}", names()))
    }
}

/// How many events before a broken promise are shown.
const LATEST: usize = 64;
/// How many runs with broken promises are shown in full.
const SHOWN_MAX: u64 = 3;

fn main() -> ExitCode {
    let args = Args::parse();
    // A reader that closes the pipe has seen enough.
    play(&args, &mut io::stdout().lock()).unwrap_or(ExitCode::SUCCESS)
}

fn play(args: &Args, out: &mut impl Write) -> io::Result<ExitCode> {
    let began = Instant::now();
    let seeds = match (args.seed, args.seeds) {
        (Some(seed), _) => seed..seed.saturating_add(1),
        (None, Some(Seeds { first, end })) => first..end,
        (None, None) => 0..0,
    };
    let scenarios = args.scenario.as_ref().map_or(SCENARIOS, |Name(one)| std::slice::from_ref(*one));
    let mut totals = Totals::default();
    for seed in seeds {
        for scenario in scenarios {
            let recorder = Recorder::new(LATEST);
            if args.trace {
                recorder.show(print_event);
            }
            let report = scenario.run(seed, &recorder);
            totals.add(&report);
            if args.json {
                let line = serde_json::to_string(&Line::from(&report)).map_err(io::Error::other)?;
                writeln!(out, "{line}")?;
            } else if args.seed.is_some() || (report.broken.is_some() && totals.broken <= SHOWN_MAX) {
                show(&report, args.trace, out)?;
            }
        }
    }
    if !args.json && args.seeds.is_some() {
        totals.show(began.elapsed(), out)?;
    }
    Ok(if totals.broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print_event(event: &RecordedEvent) {
    // As above: the reader has seen enough.
    let _ = writeln!(io::stdout(), "{event}");
}

fn show(report: &RunReport, has_trace: bool, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{report}")?;
    let Some(broken) = &report.broken else { return Ok(()) };
    if !has_trace {
        writeln!(out, "  the last of {} events:", report.events)?;
        report.latest.iter().try_for_each(|event| writeln!(out, "    {event}"))?;
    }
    writeln!(out, "  broken: {broken}")?;
    writeln!(out, "  replay: cargo xtask simulate --seed {}", report.seed)
}

#[derive(Default)]
struct Totals {
    runs: u64,
    broken: u64,
    events: u64,
    span: Duration,
    faults: BTreeMap<&'static str, u64>,
}

impl Totals {
    fn add(&mut self, report: &RunReport) {
        self.runs += 1;
        self.broken += u64::from(report.broken.is_some());
        self.events += report.events;
        self.span += report.span;
        for (name, count) in report.hardships.named() {
            *self.faults.entry(name).or_default() += count;
        }
    }

    fn show(&self, took: Duration, out: &mut impl Write) -> io::Result<()> {
        let Self { runs, broken, events, .. } = self;
        let faults: Vec<String> = self.faults.iter().map(|(name, count)| format!("{count} {name}")).collect();
        let (virtually, really) = (self.span.as_secs_f64(), took.as_secs_f64());
        writeln!(
            out,
            "{runs} runs, {broken} broken, {events} events, {virtually:.0} s virtual in {really:.1} s"
        )?;
        writeln!(out, "faults: {}", faults.join(", "))
    }
}

/// A run as programs read it.
#[derive(Serialize)]
struct Line<'a> {
    scenario: &'a str,
    seed: u64,
    ok: bool,
    events: u64,
    virtual_ns: u64,
    digest: String,
    faults: BTreeMap<&'a str, u64>,
    broken: Option<String>,
}

impl<'a> From<&'a RunReport> for Line<'a> {
    fn from(report: &'a RunReport) -> Self {
        Self {
            scenario: report.scenario,
            seed: report.seed,
            ok: report.broken.is_none(),
            events: report.events,
            virtual_ns: report.span.as_nanos() as u64,
            digest: report.digest.to_string(),
            faults: report.hardships.named().into_iter().collect(),
            broken: report.broken.as_ref().map(ToString::to_string),
        }
    }
}
