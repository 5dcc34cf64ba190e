//! The terminal, or what stands in its place.

use std::fmt;
use std::io::{self, ErrorKind, Write};

use anyhow::{Context, Result};
use comfy_table::{ContentArrangement, Table, presets};

/// Whoever read the standard output has gone, having seen enough.
#[derive(Debug)]
pub(crate) struct ReaderGone;

impl fmt::Display for ReaderGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nobody reads the standard output any more")
    }
}

impl std::error::Error for ReaderGone {}

/// Prints a text and ends its line.
pub(crate) fn print(text: &str) -> Result<()> {
    write(&format!("{text}\n"))
}

fn write(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(ReaderGone.into()),
        other => other.context("cannot write to the standard output"),
    }
}

/// A terminal's own width, or one that suits a file.
pub(crate) fn width() -> u16 {
    const WITHOUT_TERMINAL: u16 = 120;
    const LEAST: u16 = 60;
    let size = rustix::termios::tcgetwinsize(io::stdout());
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
    write(&format!("{TO_TOP}{lines}{CLEAR_BELOW}"))
}

/// The terminal's second screen, for as long as it lives: what was on the first comes back afterwards.
pub(crate) struct Screen(());

impl Screen {
    /// Turns to it.
    pub(crate) fn enter() -> Result<Self> {
        write("\x1b[?1049h\x1b[?25l").map(|()| Self(()))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs no turning back.
        let _ = write("\x1b[?25h\x1b[?1049l");
    }
}
