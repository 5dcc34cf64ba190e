//! The terminal, or what stands in its place.

use std::fmt;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::OnceLock;

use anyhow::{Context, Result};
use comfy_table::{ContentArrangement, Table, presets};

/// The reader of the standard output has gone, having seen enough.
#[derive(Debug)]
pub(crate) struct ReaderGone;

impl fmt::Display for ReaderGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the standard output has no reader any more")
    }
}

impl std::error::Error for ReaderGone {}

/// Prints a text and ends its line. The tables in it are coloured where colours help.
pub(crate) fn print(text: &str) -> Result<()> {
    if has_colours() { write(&format!("{}\n", in_colours(text))) } else { write(&format!("{text}\n")) }
}

fn write(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(ReaderGone.into()),
        other => other.context("cannot write to the standard output"),
    }
}

/// Whether colours help: on a terminal that has them, unless `NO_COLOR` is set (<https://no-color.org>).
pub(crate) fn is_coloured(stream: &impl IsTerminal) -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    stream.is_terminal() && !is_set("NO_COLOR") && !is_dumb
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

/// The meaning of a text, and so its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    /// The subjects of lines.
    Head,
    /// All is well.
    Good,
    /// The reader should look here.
    Bad,
}

/// A text in its colour, if the standard output is a terminal that has colours and the user wants them.
pub(crate) fn paint(paint: Paint, text: &str) -> String {
    let code = match paint {
        Paint::Head => "1",
        Paint::Good => "32",
        Paint::Bad => "31",
    };
    if has_colours() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

fn has_colours() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| is_coloured(&io::stdout()))
}

/// The words by which a row of a table asks for attention, and their colours. They stand at the beginning of a cell.
const ALARMS: [(&str, &str); 5] =
    [("LIMITED", "33"), ("MISSING", "31"), ("UNKNOWN", "35"), ("FAILED", "31"), ("IMPOSSIBLE", "31")];

/// A text whose tables have their headings in bold and their [`ALARMS`] in colour.
fn in_colours(text: &str) -> String {
    let mut is_head = false;
    let lines = text.lines().map(|line| match line.chars().next() {
        Some('┌') => {
            is_head = true;
            line.to_owned()
        }
        Some('╞') => {
            is_head = false;
            line.to_owned()
        }
        Some('│') if is_head => format!("\x1b[1m{line}\x1b[0m"),
        Some('│') => ALARMS.iter().fold(line.to_owned(), |line, (word, colour)| {
            line.replacen(&format!("  {word}"), &format!("  \x1b[1;{colour}m{word}\x1b[0m"), 1)
        }),
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Prints a text over what was there before, without the flicker of an empty screen in between. What does not fit the
/// screen is cut, so that its beginning stays in view.
pub(crate) fn redraw(text: &str) -> Result<()> {
    const TO_TOP: &str = "\x1b[H";
    const CLEAR_LINE: &str = "\x1b[K";
    const CLEAR_BELOW: &str = "\x1b[J";
    let (columns, rows) = screen();
    let lines: String =
        fitted(text, columns, rows).iter().map(|line| format!("{line}{CLEAR_LINE}\n")).collect();
    write(&format!("{TO_TOP}{lines}{CLEAR_BELOW}"))
}

/// Columns and rows of the terminal.
fn screen() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
    let or = |count: u16, other: usize| if count > 0 { usize::from(count) } else { other };
    size.map_or((80, 24), |size| (or(size.ws_col, 80), or(size.ws_row, 24)))
}

/// The lines of a text that a screen has room for, above its last row, each as much of it as a row has room for.
fn fitted(text: &str, columns: usize, rows: usize) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let room = rows.saturating_sub(1).max(1);
    let mut fitted: Vec<String> = lines.iter().take(room).map(|line| cut(line, columns)).collect();
    if let Some(last) = fitted.last_mut().filter(|_| lines.len() > room) {
        *last = cut(&format!("… {} more lines", lines.len() - room + 1), columns);
    }
    fitted
}

/// A line without what is beyond the last column; the codes of colours take none.
fn cut(line: &str, columns: usize) -> String {
    const RESET: &str = "\x1b[0m";
    let (mut used, mut is_code, mut has_code) = (0, false, false);
    for (at, letter) in line.char_indices() {
        match (is_code, letter) {
            (true, 'm') => is_code = false,
            (true, _) => {}
            (false, '\x1b') => (is_code, has_code) = (true, true),
            (false, _)
                if used + 1 == columns && line[at..].chars().nth(1).is_some_and(|next| next != '\x1b') =>
            {
                return format!("{}…{}", &line[..at], if has_code { RESET } else { "" });
            }
            (false, _) => used += 1,
        }
    }
    line.to_owned()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_the_screen_is_cut_at_its_end() {
        assert_eq!(fitted("one\ntwo\nthree", 80, 24), ["one", "two", "three"]);
        assert_eq!(fitted("1\n2\n3\n4\n5", 80, 4), ["1", "2", "… 3 more lines"]);
        assert_eq!(fitted("abcdef\nabcde", 5, 24), ["abcd…", "abcde"]);
    }

    #[test]
    fn headings_and_alarms_of_tables_are_coloured_and_nothing_else() {
        let table =
            "FAILED: it was\n┌───┐\n│ what   state │\n╞═══╡\n│ counters   LIMITED   UNLIMITED? none │\n└───┘";
        let marked = in_colours(table);
        assert!(marked.contains("\x1b[1m│ what   state │\x1b[0m"), "{marked:?}");
        assert!(marked.contains("  \x1b[1;33mLIMITED\x1b[0m   UNLIMITED?"), "{marked:?}");
        let codes = ["\x1b[1m", "\x1b[1;33m", "\x1b[0m"];
        assert_eq!(codes.iter().fold(marked, |text, code| text.replace(code, "")), table);
    }

    #[test]
    fn colours_take_no_columns_and_end_where_a_line_is_cut() {
        let line = "\x1b[31mabcdef\x1b[0m";
        assert_eq!(cut(line, 6), line);
        assert_eq!(cut(line, 4), "\x1b[31mabc…\x1b[0m");
    }
}
