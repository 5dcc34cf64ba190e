//! A daemon in the foreground, from its start to the signal that ends it.

use std::time::Duration;
use std::{io, panic, process};

use anyhow::{Context, Result};
use outboard_agent::{Daemon, StartError};
use outboard_driver::{Signals, raise_descriptor_limit};
use outboard_settings::Reasons;

use crate::daemon_ready;

/// Starts a daemon, says that it is ready, and serves until SIGTERM or SIGINT. `about` is what else to say of it.
pub(crate) fn serve(about: &str, start: impl FnOnce() -> Result<Daemon, StartError>) -> Result<()> {
    serve_until(about, start, |signals, _| {
        signals.wait()?;
        Ok("as asked")
    })
}

/// Serves as a daemon in the background: when it is ready it writes no more to the process that reads its output, which
/// may wait until no process has anything to say.
pub(crate) fn serve_in_background(
    about: &str,
    start: impl FnOnce() -> Result<Daemon, StartError>,
) -> Result<()> {
    serve_until(about, start, |signals, _| {
        let nowhere = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
        rustix::stdio::dup2_stderr(&nowhere)?;
        signals.wait()?;
        Ok("as asked")
    })
}

/// When the kernel ends a daemon that was asked to end and has not. Its threads have five seconds before that.
const LAST_RESORT: Duration = Duration::from_secs(10);

/// How often the daemon looks whether a client is left.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Serves until it is asked to end, or no client is left.
pub(crate) fn serve_while_used(
    about: &str,
    start: impl FnOnce() -> Result<Daemon, StartError>,
) -> Result<()> {
    serve_until(about, start, |signals, daemon| {
        while !signals.wait_for(Some(LOOK_EVERY))? {
            if daemon.is_unused() {
                return Ok("as no client uses it");
            }
        }
        Ok("as asked")
    })
}

/// Serves until `wait` returns, which says why.
fn serve_until(
    about: &str,
    start: impl FnOnce() -> Result<Daemon, StartError>,
    wait: impl FnOnce(&mut Signals, &Daemon) -> io::Result<&'static str>,
) -> Result<()> {
    raise_descriptor_limit();
    end_as_a_whole();
    // Before the start, so that a process that knows of the daemon can end it cleanly.
    let mut signals = Signals::collect(LAST_RESORT).context("cannot receive signals")?;
    let daemon = start()?;
    let identity = daemon.identity();
    let (role, name, listening) = (identity.role, identity.name.clone(), daemon.listening());
    tracing::info!("{role} “{name}” listens at {}, {}{about}", daemon_ready::show(listening), daemon.about());
    let Reasons { chosen, warnings } = daemon.reasons();
    chosen.iter().filter(|chosen| !chosen.is_usual).for_each(|chosen| tracing::info!("{chosen}"));
    warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    if let Some(address) = daemon.metrics() {
        tracing::info!("metrics at http://{address}/metrics");
    }
    daemon_ready::announce(listening);
    let waited = wait(&mut signals, &daemon).context("cannot wait for signals");
    let stopped = daemon.stop("it was asked to end");
    tracing::info!("{role} “{name}” has ended, {}", waited.as_ref().unwrap_or(&"it cannot wait for signals"));
    waited?;
    stopped.context("it ended without them")
}

/// A daemon that has lost a thread would let its clients wait. When it ends, they know.
fn end_as_a_whole() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        report(info);
        process::abort();
    }));
}
