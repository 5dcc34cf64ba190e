//! The log of the program, on the standard error.

use std::io::Write;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use outboard_settings::{LogFormat, LogSettings};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::terminal;

/// How many lines wait for a standard error that does not take them; later ones are dropped and counted.
const LINES_MAX: usize = 1024;

/// How long the end of the program waits for the last lines.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The lines that are on their way, once the log is set up.
static TALLY: OnceLock<Arc<Tally>> = OnceLock::new();

/// From now on lines are written as the settings say. The first call counts.
pub(crate) fn start(settings: &LogSettings) {
    let level = settings.level.as_str().parse().unwrap_or(LevelFilter::INFO);
    let lines = Lines::start();
    // Failures to write would be told on the standard error, where telling fails too and then panics.
    let log = tracing_subscriber::fmt().log_internal_errors(false).with_writer(lines);
    let log = log.with_max_level(level).with_target(false);
    // A log that is set up already stays as it is.
    let _ = match settings.format {
        LogFormat::Json => log.json().flatten_event(true).try_init().is_ok(),
        LogFormat::Human => log.with_ansi(terminal::is_coloured(&std::io::stderr())).try_init().is_ok(),
    };
}

/// Waits for the last lines to be written, but not for long: lines that no reader takes are not worth it.
pub(crate) fn finish() {
    let Some(tally) = TALLY.get() else { return };
    let waiting = tally.waiting.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = tally.written.wait_timeout_while(waiting, LAST_WORDS, |waiting| waiting.0 > 0);
}

/// How many lines are on their way, and how many found no room.
#[derive(Default)]
struct Tally {
    waiting: Mutex<(usize, u64)>,
    written: Condvar,
}

/// Hands lines to a thread that writes them: a reader that stops reading must not stop those who log.
#[derive(Clone)]
struct Lines {
    lines: SyncSender<Vec<u8>>,
    tally: Arc<Tally>,
}

impl Lines {
    fn start() -> Self {
        let (lines, arrivals) = sync_channel::<Vec<u8>>(LINES_MAX);
        let tally = Arc::new(Tally::default());
        let ours = Arc::clone(&tally);
        let write = move || {
            for line in arrivals {
                let dropped = {
                    let mut waiting = ours.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                    std::mem::take(&mut waiting.1)
                };
                let mut error = std::io::stderr();
                // A user who does not read the standard error still gets everything else.
                if dropped > 0 {
                    let _ = writeln!(error, "({dropped} lines of the log were dropped: no reader took them)");
                }
                let _ = error.write_all(&line);
                ours.waiting.lock().unwrap_or_else(PoisonError::into_inner).0 -= 1;
                ours.written.notify_all();
            }
        };
        // Without the thread every line is dropped and counted, and the program works.
        let _ = std::thread::Builder::new().name("log".to_owned()).spawn(write);
        // The first log is the one that lines go to.
        let _ = TALLY.set(Arc::clone(&tally));
        Self { lines, tally }
    }
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let mut waiting = self.tally.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match self.lines.try_send(line.to_vec()) {
            Ok(()) => waiting.0 += 1,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => waiting.1 += 1,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
