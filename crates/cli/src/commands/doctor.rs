//! `outboard doctor`: what can this machine do, and what would mend the rest?

use anyhow::{Result, bail};
use comfy_table::Table;
use outboard_limits::Allowance;
use outboard_probe::{Address, FindingCounts, FindingState, ProbeOptions, ProbeReport};
use outboard_settings::{Configuration, Inputs};

use crate::terminal;

/// Find out what this machine can do for Outboard, and how to mend what is missing
///
/// Every feature that can be tried is tried, on memory of this process only. Nothing on the machine is changed, and
/// no peer is spoken to. Fails if something is missing that nothing else can take the place of.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard doctor                              a table for people, and what to do
  outboard doctor --peer tcp:192.0.2.7:7000    also which link leads there, and why
  outboard doctor --json                       one JSON object for programs")]
pub(crate) struct Args {
    /// Also say which link leads to this peer: unix:@name, unix:/path or tcp:ip:port
    #[arg(long = "peer", value_name = "ADDRESS")]
    peers: Vec<Address>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// Looks around and prints what was found.
pub(crate) fn run(args: &Args) -> Result<()> {
    let settings = Configuration::load(&Inputs::from_process())?.settings;
    let link = &settings.link;
    let chosen = settings.chosen(&Allowance::of_this_process());
    let defaults = chosen.into_iter().map(|it| (it.key.to_owned(), format!("{}, {}", it.value, it.why)));
    let options = ProbeOptions {
        peers: args.peers.clone(),
        tcp: link.tcp(),
        ofi: link.ofi(),
        defaults: defaults.collect(),
    };
    let report = ProbeReport::gather(&options);
    let text = if args.json { report.to_json() } else { for_people(&report, terminal::width()) };
    terminal::print(&text)?;
    let missing: Vec<_> = report.missing().map(|finding| finding.name.as_str()).collect();
    if !missing.is_empty() {
        bail!("this machine lacks what Outboard needs: {}", missing.join(", "));
    }
    Ok(())
}

fn for_people(report: &ProbeReport, width: u16) -> String {
    let mut text = format!("{}\n{}", table(report, width), verdict(&report.summary));
    let fixes = report.findings.iter().filter_map(|finding| Some((&finding.name, finding.fix.as_ref()?)));
    for (index, (name, fix)) in fixes.enumerate() {
        text += if index == 0 { "\n\nto fix:" } else { "" };
        text += &format!("\n  {name}: {fix}");
    }
    text
}

/// One row for each finding, the area named where it begins.
fn table(report: &ProbeReport, width: u16) -> Table {
    let mut table = terminal::table(["area", "what", "state", "detail"]);
    table.set_width(width);
    let mut area = None;
    for finding in &report.findings {
        let name = if area == Some(finding.area) { String::new() } else { finding.area.to_string() };
        area = Some(finding.area);
        let state = match finding.state {
            FindingState::Good => finding.state.to_string(),
            other => other.to_string().to_uppercase(),
        };
        table.add_row([name, finding.name.clone(), state, finding.detail.clone()]);
    }
    table
}

fn verdict(summary: &FindingCounts) -> String {
    let FindingCounts { good, limited, missing, unknown } = summary;
    let counts = format!("{good} good, {limited} limited, {missing} missing, {unknown} unknown");
    let meaning = match (missing, limited) {
        (1.., _) => "something that is needed is missing",
        (0, 1..) => "everything needed is here or has something to take its place",
        (0, 0) => "everything is here",
    };
    format!("{counts}: {meaning}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_see_every_finding_and_every_fix_within_their_width() {
        let report = ProbeReport::gather(&ProbeOptions {
            peers: vec!["tcp:127.0.0.1:7000".parse().unwrap()],
            ..ProbeOptions::default()
        });
        for width in [60, 80, 120] {
            let table = table(&report, width).to_string();
            assert!(table.lines().all(|line| line.chars().count() <= usize::from(width)), "{table}");
        }
        let text = for_people(&report, 200);
        for finding in &report.findings {
            assert!(text.contains(finding.name.as_str()), "{}: {text}", finding.name);
            assert!(finding.fix.as_ref().is_none_or(|fix| text.contains(fix)), "{}: {text}", finding.name);
        }
        assert!(text.contains(&format!("{} good", report.summary.good)), "{text}");
    }

    #[test]
    fn the_verdict_is_the_worst_that_was_found() {
        let good = FindingCounts { good: 9, ..FindingCounts::default() };
        assert!(verdict(&good).ends_with("everything is here"));
        let limited = FindingCounts { limited: 1, ..good };
        assert!(verdict(&limited).contains("take its place"));
        assert!(verdict(&FindingCounts { missing: 1, ..limited }).contains("needed is missing"));
    }
}
