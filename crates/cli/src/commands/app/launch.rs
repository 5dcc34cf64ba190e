//! Starts the ranks of an application as processes and reads what they found.

use anyhow::{Context, Result, bail};
use outboard_launch::{Interrupts, OutputSource, Piece, StdinTo, Stream};
use outboard_link::Address;
use outboard_messages::{App, ApplicationReport};
use outboard_settings::Settings;

use crate::commands::app_rank;
use crate::ranks::Ranks;

/// Starts this program again for each of `count` ranks, and returns what rank 0 reports. The ranks have `agents` by turns.
pub(in crate::commands) fn play(
    app: &App,
    is_checked: bool,
    count: u32,
    (settings, agents): (&Settings, &[Address]),
    interrupts: &Interrupts,
) -> Result<ApplicationReport> {
    let program = std::env::current_exe().context("cannot find this program to start its ranks")?;
    let mut program = vec![program.into(), app_rank::NAME.into(), serde_json::to_string(app)?.into()];
    program.extend(is_checked.then(|| "--check".into()));
    let ranks = Ranks { program: &program, count, settings, agents, cpus: None, stdin: StdinTo::NoRank };
    let (mut printed, mut complaints) = (Vec::new(), Vec::new());
    let mut sink = |piece: Piece<'_>| match (piece.from, piece.stream) {
        (OutputSource::Rank(0), Stream::Out) => printed.extend(piece.bytes),
        (_, Stream::Out) => {}
        (from, Stream::Err) => complaints.push(format!("[{from}] {}", piece.bytes.escape_ascii())),
    };
    let outcome = ranks.run(&mut sink, Some(interrupts))?.outcome;
    if !outcome.is_success() {
        match complaints.is_empty() {
            true => bail!("{outcome}"),
            false => bail!("{outcome}; the ranks said:\n  {}", complaints.join("\n  ")),
        }
    }
    serde_json::from_slice(&printed).context("rank 0 did not say what came out")
}
