//! A histogram made of messages between ranks: moved by the ranks themselves, and by an agent.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result, bail, ensure};
use outboard_limits::ProcessorLimits;
use outboard_link::Address;
use outboard_messages::{App, ApplicationReport, Histogram};
use outboard_settings::{MessagesPlacement, Settings};

use super::{Finding, per_second, times};
use crate::commands::app::launch;
use crate::commands::demo::stage::{PAUSE, Stage, Victim, number};
use crate::survey::Survey;

const RANKS: u32 = 2;
/// Counters of each rank.
const TABLE: u64 = 1 << 16;
/// Updates of each rank at first; as many as a fast machine needs are found by trying.
const UPDATES: u64 = 250_000;
/// A run that is shorter says little.
const SECONDS_LEAST: f64 = 0.1;
/// The most that are tried.
const UPDATES_MAX: u64 = UPDATES << 8;

/// The name under which an agent counts bundles that ranks have given it.
const CARRIED: &str = "routed_runs_total";

/// The updates inline and by the agent.
pub(super) fn inline_and_by_agent(stage: &mut Stage) -> Result<Finding> {
    let agent = stage.agent_address()?;
    let mut updates = UPDATES;
    let inline = loop {
        let report = play(stage, &agent, MessagesPlacement::Inline, updates)?;
        if report.seconds >= SECONDS_LEAST || updates >= UPDATES_MAX {
            break report;
        }
        updates *= 4;
    };
    let by_agent = play(stage, &agent, MessagesPlacement::Agent, updates)?;
    let text = format!(
        "{RANKS} ranks count {} updates of 8 bytes in each other's tables: {} inline, {} by the agent; the counts are \
         those of a serial run",
        inline.work,
        per_second(inline.rate()),
        per_second(by_agent.rate()),
    );
    let processors = ProcessorLimits::of_this_process().threads();
    let gain = match by_agent.rate() >= inline.rate() {
        true => format!("by the agent {} as fast", times(by_agent.rate(), inline.rate())),
        false => {
            format!("inline {} as fast, and steering would choose it", times(inline.rate(), by_agent.rate()))
        }
    };
    let gain = format!("{gain}: {RANKS} ranks and the agent have {processors} processors here");
    Ok(Finding::text(text)
        .gained(gain)
        .with("updates_inline_per_s", inline.rate())
        .with("updates_by_agent_per_s", by_agent.rate()))
}

/// By an agent that is killed while it carries them.
pub(super) fn without_agent(stage: &mut Stage) -> Result<Finding> {
    let mut updates = UPDATES * 4;
    loop {
        // Whatever a new one carries is from these ranks.
        stage.stop_agent()?;
        let agent = stage.agent_address()?;
        let victim = stage.victim()?;
        let is_over = AtomicBool::new(false);
        let link = stage.settings.link.clone();
        let mut survey = Survey::new(vec![agent.clone()], link);
        let (report, killed) = thread::scope(|scope| {
            let killer = scope.spawn(|| kill_while_carrying(&mut survey, victim, &is_over));
            let report = play(stage, &agent, MessagesPlacement::Agent, updates);
            is_over.store(true, Ordering::Release);
            (report, killer.join())
        });
        let killed = killed.ok().context("the thread that kills the agent has panicked")?;
        let (report, killed) = (report?, killed?);
        if let Some(carried) = killed {
            stage.bury_agent()?;
            ensure!(report.work == u64::from(RANKS) * updates, "{} updates were made", report.work);
            let text = format!(
                "killed after it had carried {carried} bundles; the ranks sent what it held again, themselves"
            );
            let gain = format!("{} updates, each counted once", report.work);
            return Ok(Finding::text(text).gained(gain).with("bundles_before_kill", carried as f64));
        }
        if updates >= UPDATES_MAX {
            bail!("{updates} updates of each rank were too few to kill the agent meanwhile");
        }
        updates *= 4;
    }
}

/// Kills the agent as soon as it carries these ranks' bundles. Returns how many it had, or nothing if the ranks were faster.
fn kill_while_carrying(survey: &mut Survey, victim: Victim, is_over: &AtomicBool) -> Result<Option<u64>> {
    while !is_over.load(Ordering::Acquire) {
        let carried = number(survey, CARRIED);
        if carried > 0 && !is_over.load(Ordering::Acquire) {
            victim.kill()?;
            return Ok(Some(carried));
        }
        thread::park_timeout(PAUSE);
    }
    Ok(None)
}

/// Plays a histogram, and compares it with a serial run.
fn play(
    stage: &Stage,
    agent: &Address,
    placement: MessagesPlacement,
    updates: u64,
) -> Result<ApplicationReport> {
    stage.go_on()?;
    let mut settings: Settings = stage.settings.clone();
    settings.messages.placement = placement;
    let app = App::Histogram(Histogram { table: TABLE, updates, seed: 1 });
    let agents = std::slice::from_ref(agent);
    let played = launch::play(&app, true, RANKS, (&settings, agents), &stage.interrupts);
    // Ranks that were interrupted have failed, which is not their fault.
    stage.go_on()?;
    let report = played?;
    match report.wrong() {
        Some(what) => bail!("the result is wrong: {what}"),
        None => Ok(report),
    }
}
