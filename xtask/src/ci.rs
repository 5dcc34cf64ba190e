//! `cargo xtask ci`: everything that has to hold before a change lands.

use std::time::{Duration, Instant};

use anyhow::Result;
use clap::ValueEnum;

use crate::step::Outcome;
use crate::tally::Tally;
use crate::test::BUILDS_OUTBOARD;
use crate::workspace::Workspace;
use crate::{
    attack, bpf, deb, fuzz, header, loom, miri, mutants, nodes, process, sanitize, setup, simulate, tidy, vm,
};

/// Run everything that has to hold before a change lands
///
/// The first step adds what a plain machine lacks: components of the toolchain, and, as root on Debian, packages. What cannot
/// be had is skipped by name.
///
/// All steps run even when one fails; the exit code is 1 if any did. The last line gives the totals, over all
/// test runs: a step that failed without a failed test counts as one failure, a step or a test that could not run
/// here as one skip.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask ci                              all steps
  cargo xtask ci --only fmt,tidy,clippy       some steps
  cargo xtask ci --full                       longer proofs too, some hours
  cargo xtask ci --fuzz-seconds 60            a longer look for inputs that break a decoder")]
pub(crate) struct Args {
    /// Only these steps, separated by commas
    #[arg(long, value_name = "STEP", value_delimiter = ',')]
    only: Vec<Step>,
    /// Also what takes too long for every change: Miri, mutants, sanitizers, tests in a release build, attacks from a seed that is drawn
    #[arg(long)]
    full: bool,
    /// How long to fuzz each target
    #[arg(long, value_name = "N", default_value_t = 3)]
    fuzz_seconds: u32,
    /// Which simulated runs: 0..96 by default, some minutes; 0..1024 with --full
    #[arg(long, value_name = "A..B")]
    seeds: Option<simulate::Seeds>,
}

/// Tests whose threads meet otherwise where the compiler has optimised.
const IN_RELEASE: &[&str] = &["calls_whose_slots_move"];

/// The steps, cheapest first, so that the common mistakes show early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Step {
    Setup,
    Fmt,
    Tidy,
    Bpf,
    Header,
    Clippy,
    Docs,
    Tests,
    Deb,
    Loom,
    Miri,
    Fuzz,
    Attack,
    Simulate,
    Mutants,
    Optimised,
    Nodes,
    Vm,
    Sanitize,
}

impl Step {
    /// Whether it runs only with `--full`, or when it is named.
    fn takes_long(self) -> bool {
        matches!(self, Self::Miri | Self::Mutants | Self::Optimised | Self::Sanitize)
    }

    fn title(self) -> &'static str {
        match self {
            Self::Setup => "setup",
            Self::Fmt => "fmt",
            Self::Tidy => "tidy",
            Self::Bpf => "bpf",
            Self::Header => "header",
            Self::Clippy => "clippy",
            Self::Docs => "docs",
            Self::Tests => "tests",
            Self::Deb => "deb",
            Self::Loom => "loom",
            Self::Miri => "miri",
            Self::Fuzz => "fuzz",
            Self::Attack => "attack",
            Self::Simulate => "simulate",
            Self::Mutants => "mutants",
            Self::Optimised => "optimised",
            Self::Nodes => "nodes",
            Self::Vm => "vm",
            Self::Sanitize => "sanitize",
        }
    }

    fn run(self, workspace: &Workspace, args: &Args) -> Result<(Outcome, Tally)> {
        let cargo = |args: &[&str]| process::cargo(workspace, args);
        let outcome = match self {
            Self::Setup => setup::run(workspace),
            Self::Fmt => process::run(cargo(&["fmt", "--all", "--", "--check"])),
            Self::Tidy => tidy::run(workspace),
            Self::Bpf => bpf::run(workspace, &bpf::Args::compare()),
            Self::Header => header::run(workspace, &header::Args::compare()),
            Self::Clippy => {
                process::run(cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
            }
            Self::Docs => {
                let mut doc = cargo(&["doc", "--workspace", "--no-deps"]);
                doc.env("RUSTDOCFLAGS", "-D warnings");
                process::run(doc)
            }
            Self::Tests => {
                let tests = ["test", "--workspace", "--no-fail-fast", "--", "--show-output"];
                return process::run_tests(cargo(&tests));
            }
            Self::Deb => deb::run(workspace, &deb::Args::trial()),
            Self::Loom => return loom::run(workspace),
            Self::Miri => return miri::run(workspace),
            Self::Fuzz => fuzz::run(workspace, &fuzz::Args::all_for(args.fuzz_seconds)),
            Self::Attack => {
                let (outcome, mut tally) = attack::run(workspace, &attack::Args::for_a_minute())?;
                if !args.full || matches!(outcome, Outcome::Failed(_)) {
                    return Ok((outcome, tally));
                }
                let (outcome, more) = attack::run(workspace, &attack::Args::anew())?;
                tally += more;
                return Ok((outcome, tally));
            }
            Self::Simulate => simulate::run(
                workspace,
                &simulate::Args::over(args.seeds.unwrap_or(simulate::Seeds::usual(args.full))),
            ),
            Self::Mutants => return mutants::run(workspace, &mutants::Args::all()),
            Self::Optimised => {
                let tests = ["test", "--release", "-p", "outboard-cli", "-p", "outboard-e2e"];
                let mut command = cargo(&tests);
                command.args(["--test", BUILDS_OUTBOARD, "--test", "calling", "--", "--show-output"]);
                command.args(IN_RELEASE);
                return process::run_tests(command);
            }
            Self::Nodes => return nodes::run(workspace, &nodes::Args::tests()),
            Self::Vm => return vm::run(workspace, &vm::Args::whole()),
            Self::Sanitize => return sanitize::run(workspace, &sanitize::Args::all()),
        };
        Ok((outcome?, Tally::default()))
    }
}

/// How one step went.
struct Report {
    step: Step,
    outcome: Outcome,
    tally: Tally,
    took: Duration,
    /// How much processor time its programs have used, which another load on the machine changes little.
    used: Duration,
}

/// Runs the steps and prints the summary, whose last line test-result readers understand.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<Outcome> {
    let wanted = |step: &&Step| {
        if args.only.is_empty() { args.full || !step.takes_long() } else { args.only.contains(step) }
    };
    let steps: Vec<Step> = Step::value_variants().iter().filter(wanted).copied().collect();
    let mut reports = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        println!("\n=== {} ({} of {})", step.title(), index + 1, steps.len());
        let report = report(*step, || step.run(workspace, args));
        let (word, seconds) = (report.outcome.word(), report.took.as_secs_f64());
        let separator = if report.outcome.reason().is_empty() { "" } else { ": " };
        println!("=== {}: {word} in {seconds:.1} s{separator}{}", step.title(), report.outcome.reason());
        reports.push(report);
    }
    for report in reports.iter().filter(|report| !report.outcome.details().is_empty()) {
        println!("\n=== {} failed:\n{}", report.step.title(), report.outcome.details());
    }
    print!("\n{}", summary(&reports));
    let all_good = reports.iter().all(|report| !matches!(report.outcome, Outcome::Failed(_)));
    Ok(if all_good { Outcome::Passed } else { Outcome::Failed(String::new()) })
}

fn report(step: Step, run: impl FnOnce() -> Result<(Outcome, Tally)>) -> Report {
    let (start, used) = (Instant::now(), used_by_children());
    let (outcome, tally) =
        run().unwrap_or_else(|error| (Outcome::Failed(format!("{error:#}")), Tally::default()));
    Report { step, outcome, tally, took: start.elapsed(), used: used_by_children().saturating_sub(used) }
}

/// The processor time of all programs that this one has started and that have ended.
fn used_by_children() -> Duration {
    processor_time(&std::fs::read_to_string("/proc/self/stat").unwrap_or_default()).unwrap_or_default()
}

/// What a line of `/proc/PID/stat` says of ended children.
fn processor_time(stat: &str) -> Option<Duration> {
    /// Linux counts this in hundredths of a second, whatever its clock does.
    const TICK: Duration = Duration::from_millis(10);
    let (_, behind_name) = stat.rsplit_once(") ")?;
    let mut fields = behind_name.split_whitespace().skip(13);
    let ticks: u32 = [fields.next()?.parse::<u32>().ok()?, fields.next()?.parse().ok()?].iter().sum();
    Some(TICK * ticks)
}

fn summary(reports: &[Report]) -> String {
    let mut total = Tally::default();
    let mut text =
        format!("{:<10}{:<9}{:>9}{:>11}  {:>7}\n", "step", "result", "seconds", "processor", "tests");
    for Report { step, outcome, tally, took, used } in reports {
        let ran = tally.passed + tally.failed;
        let tests = if ran == 0 { "-".to_owned() } else { ran.to_string() };
        let (title, word, reason) = (step.title(), outcome.word(), outcome.reason());
        let (seconds, used) = (took.as_secs_f64(), used.as_secs_f64());
        let row = format!("{title:<10}{word:<9}{seconds:>9.1}{used:>11.1}  {tests:>7}  {reason}");
        text += row.trim_end();
        text += "\n";
        total += *tally;
        match outcome {
            Outcome::Failed(_) if tally.failed == 0 => total.failed += 1,
            Outcome::Skipped(_) => total.skipped += 1,
            _ => {}
        }
    }
    let Tally { passed, failed, skipped } = total;
    text + &format!("\n{passed} passed, {failed} failed, {skipped} skipped\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(step: Step, outcome: Outcome, tally: Tally) -> Report {
        Report { step, outcome, tally, took: Duration::from_millis(1500), used: Duration::from_secs(2) }
    }

    #[test]
    fn the_last_line_is_the_total_over_all_test_runs() {
        let reports = [
            done(Step::Tests, Outcome::Passed, Tally { passed: 40, failed: 0, skipped: 1 }),
            done(Step::Loom, Outcome::Passed, Tally { passed: 2, failed: 0, skipped: 0 }),
        ];
        let text = summary(&reports);
        assert_eq!(text.lines().last(), Some("42 passed, 0 failed, 1 skipped"));
        assert!(text.contains("tests     ok             1.5        2.0       40\n"), "{text}");
    }

    #[test]
    fn a_failed_step_is_never_hidden_by_its_tests() {
        let reports = [
            done(Step::Fmt, Outcome::Failed("exit 1".to_owned()), Tally::default()),
            done(Step::Tests, Outcome::Failed("3".to_owned()), Tally { passed: 4, failed: 3, skipped: 0 }),
            done(Step::Miri, Outcome::Skipped("no miri".to_owned()), Tally::default()),
        ];
        assert_eq!(summary(&reports).lines().last(), Some("4 passed, 4 failed, 1 skipped"));
    }

    #[test]
    fn the_processor_time_of_children_is_read_behind_a_name_of_any_form() {
        let stat = "12 (a) b) S 1 1 1 0 -1 4194560 1 2 3 4 500 60 250 150 20 0 1 0 99";
        assert_eq!(processor_time(stat), Some(Duration::from_secs(4)));
        assert_eq!(processor_time("12 (short) S 1"), None);
    }

    #[test]
    fn a_step_that_cannot_start_has_failed() {
        let report = report(Step::Docs, || anyhow::bail!("no cargo"));
        assert_eq!(report.outcome, Outcome::Failed("no cargo".to_owned()));
    }
}
