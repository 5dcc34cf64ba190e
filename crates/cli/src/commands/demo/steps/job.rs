//! A job whose ranks find each other and count together in far memory.

use anyhow::{Context, Result, bail};
use outboard_launch::{Piece, Source, StdinTo};
use outboard_settings::Whereabouts;

use super::Finding;
use crate::commands::demo::stage::{By, Stage};
use crate::commands::demo_rank;
use crate::ranks::Ranks;

const RANKS: u32 = 4;
/// The region where they count.
const COUNTERS: &str = "demo-counters";

pub(super) fn four_ranks(stage: &mut Stage) -> Result<Finding> {
    let mut settings = stage.settings.clone();
    settings.job.memory = Whereabouts::At(stage.memory()?.local()?.clone());
    settings.job.agent = Whereabouts::At(stage.agent()?.local()?.clone());
    let mut memory = stage.connect_memory(By::Shm)?;
    let region = memory.reserve_shared(demo_rank::REGION_BYTES, COUNTERS)?;
    let program = std::env::current_exe().context("cannot find this program to start its ranks")?;
    let program = [program.into(), demo_rank::NAME.into(), COUNTERS.into()];
    let ranks = Ranks {
        program: &program,
        count: RANKS,
        settings: &settings,
        agents: &[],
        cpus: None,
        stdin: StdinTo::Nobody,
    };
    let mut lines = Vec::new();
    let mut sink = |piece: Piece<'_>| {
        lines.push((piece.from.clone(), String::from_utf8_lossy(piece.bytes).into_owned()))
    };
    let ended = ranks.run(&mut sink, None)?;
    memory.free(region)?;
    memory.close("done");
    if !ended.outcome.is_success() {
        let lines: Vec<String> = lines.iter().map(|(from, line)| format!("[{from}] {line}")).collect();
        bail!("{}; the ranks printed: {}", ended.outcome, lines.join(" / "));
    }
    let verdict = lines.into_iter().rev().find(|(from, _)| *from == Source::Rank(0));
    let (_, text) = verdict.context("rank 0 did not say what it found")?;
    Ok(Finding::text(text))
}
