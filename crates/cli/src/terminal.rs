//! The terminal, or what stands in its place.

use std::io::Write;

use anyhow::{Context, Result};
use comfy_table::{ContentArrangement, Table, presets};

/// Prints a text and ends its line.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).context("cannot write to the standard output")
}

/// A terminal's own width, or one that suits a file.
pub(crate) fn width() -> u16 {
    const WITHOUT_TERMINAL: u16 = 120;
    const LEAST: u16 = 60;
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    size.ok()
        .map(|size| size.ws_col)
        .filter(|columns| *columns > 0)
        .map_or(WITHOUT_TERMINAL, |n| n.max(LEAST))
}

/// An empty table of the kind that all commands print.
pub(crate) fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(width()).set_header(header);
    table
}

/// Prints a text over what was there before, without the flicker of an empty screen in between.
pub(crate) fn redraw(text: &str) -> Result<()> {
    const TO_TOP: &str = "\x1b[H";
    const CLEAR_LINE: &str = "\x1b[K";
    const CLEAR_BELOW: &str = "\x1b[J";
    let lines: String = text.lines().map(|line| format!("{line}{CLEAR_LINE}\n")).collect();
    let mut out = std::io::stdout().lock();
    let written = write!(out, "{TO_TOP}{lines}{CLEAR_BELOW}").and_then(|()| out.flush());
    written.context("cannot write to the standard output")
}

/// The terminal's second screen, for as long as it lives: what was on the first comes back afterwards.
pub(crate) struct Screen(());

impl Screen {
    /// Turns to it.
    pub(crate) fn enter() -> Result<Self> {
        let mut out = std::io::stdout().lock();
        let written = write!(out, "\x1b[?1049h\x1b[?25l").and_then(|()| out.flush());
        written.context("cannot write to the terminal").map(|()| Self(()))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let mut out = std::io::stdout().lock();
        // A terminal that is gone needs no turning back.
        let _ = write!(out, "\x1b[?25h\x1b[?1049l").and_then(|()| out.flush());
    }
}
