//! Where a cluster's numbers are shown: a screen that is drawn again, or lines about what has changed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use outboard_launch::{Piece, Sink};

use crate::survey::{Sights, changes, to_brief, to_json};
use crate::terminal::{self, Screen};

/// How many of the daemons' last lines are shown.
const LINES_MAX: usize = 8;

/// Where a cluster's numbers are shown.
pub(super) struct Board {
    form: Form,
    lines: Arc<Mutex<VecDeque<String>>>,
    known: BTreeMap<String, u64>,
}

enum Form {
    Json,
    Live(Option<Screen>),
    Lines,
}

impl Board {
    /// A board on the standard output.
    pub(super) fn new(as_json: bool, is_live: bool) -> Self {
        let form = match (as_json, is_live) {
            (true, _) => Form::Json,
            (false, true) => Form::Live(None),
            (false, false) => Form::Lines,
        };
        Self { form, lines: Arc::default(), known: BTreeMap::new() }
    }

    /// Takes what the daemons print, to be shown below their numbers.
    pub(super) fn sink(&self) -> impl Sink + Send + use<> {
        let lines = Arc::clone(&self.lines);
        move |piece: Piece<'_>| {
            let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
            lines.push_back(format!("[{}] {}", piece.from, String::from_utf8_lossy(piece.bytes)));
            let surplus = lines.len().saturating_sub(LINES_MAX);
            lines.drain(..surplus);
        }
    }

    /// Says what runs, if that is not shown all the time.
    pub(super) fn begin(&mut self, introduction: &str) -> Result<()> {
        match &mut self.form {
            Form::Json => Ok(()),
            Form::Live(screen) => {
                *screen = Some(Screen::enter()?);
                Ok(())
            }
            Form::Lines => terminal::print(introduction),
        }
    }

    /// Shows the numbers, or what has changed of them.
    pub(super) fn show(&mut self, sights: &Sights) -> Result<()> {
        match &self.form {
            Form::Json => terminal::print(&to_json(sights)),
            Form::Live(_) => {
                let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
                let lines: Vec<String> = lines.iter().cloned().collect();
                // The addresses come first, and stay in view on the smallest screen.
                let (numbers, lines) = (to_brief(sights), lines.join("\n"));
                terminal::redraw(&format!("{numbers}\n\nCtrl-C stops them\n{lines}"))
            }
            Form::Lines => changes(sights, &mut self.known).iter().try_for_each(|line| terminal::print(line)),
        }
    }

    /// Gives the terminal back.
    pub(super) fn end(&mut self) {
        if let Form::Live(screen) = &mut self.form {
            *screen = None;
        }
    }
}
