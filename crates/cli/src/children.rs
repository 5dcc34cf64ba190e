//! Daemons as child processes of this program.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use outboard_launch::{DaemonConfig, DaemonError, DaemonProcess, Quota, Sink};
use outboard_link::Address;
use outboard_settings::{Configuration, LogLevel, Origin, Percent, Settings};

use crate::daemon_ready;

/// How long a daemon that is asked to end may take.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// A daemon that runs as a child of this process. Dropping it kills it.
pub(crate) struct Child {
    /// The process.
    pub(crate) process: DaemonProcess,
    /// Where it listens.
    pub(crate) listening: Vec<Address>,
}

impl Child {
    /// Starts a memory server with exactly these settings.
    pub(crate) fn memory(settings: &Settings, sink: impl Sink + Send + 'static) -> Result<Self> {
        let mut env = settings.memory.variables();
        env.extend(shared(settings));
        Self::start(config("memory", env)?, sink)
    }

    /// Starts an agent with exactly these settings, on these processors.
    pub(crate) fn agent(
        settings: &Settings,
        cpus: Option<Vec<usize>>,
        sink: impl Sink + Send + 'static,
    ) -> Result<Self> {
        // The quota is kept from here: the process that starts another can limit it before it begins.
        let mut agent = settings.agent.clone();
        let quota = agent.quota.take().and_then(quota);
        let mut env = agent.variables();
        env.extend(shared(settings));
        Self::start(DaemonConfig { cpus, quota, ..config("agent", env)? }, sink)
    }

    fn start(config: DaemonConfig, sink: impl Sink + Send + 'static) -> Result<Self> {
        let process = DaemonProcess::start(config, sink)?;
        let listening = daemon_ready::read(process.ready_line());
        Ok(Self { process, listening })
    }

    /// Where processes of this machine reach it through shared memory.
    pub(crate) fn local(&self) -> Result<&Address> {
        let address =
            self.listening.iter().find(|address| matches!(address, Address::Abstract(_) | Address::Path(_)));
        address.with_context(|| format!("{} listens at no Unix socket", self.process.name()))
    }

    /// Where it is reached over TCP.
    pub(crate) fn remote(&self) -> Result<&Address> {
        let address = self.listening.iter().find(|address| matches!(address, Address::Tcp(_)));
        address.with_context(|| format!("{} listens at no TCP port", self.process.name()))
    }
}

fn config(command: &str, env: Vec<(String, String)>) -> Result<DaemonConfig> {
    let program = std::env::current_exe().context("cannot find this program to start it again")?;
    let args = [command, "--config", "none"].map(Into::into).to_vec();
    Ok(DaemonConfig { args, env, ..DaemonConfig::new(command, program) })
}

/// The settings that every daemon needs.
fn shared(settings: &Settings) -> Vec<(String, String)> {
    let Settings { calling, link, log, metrics, .. } = settings;
    [calling.variables(), link.variables(), log.variables(), metrics.variables()].concat()
}

/// A quota in whole percents, at least one.
pub(crate) fn quota(percent: Percent) -> Option<Quota> {
    Quota::percent((percent.as_fraction() * 100.0).round().max(1.0) as u32)
}

/// Leaves out what a daemon printed before it failed to start: on a console it has been seen.
pub(crate) fn seen(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref() {
        Some(DaemonError::Died { name, end, last_lines }) if !last_lines.is_empty() => {
            anyhow!("{name} {end} before it was ready")
        }
        _ => error,
    }
}

/// The settings for children of a program that speaks for them: warnings only, unless the user wants to hear more.
pub(crate) fn quiet(configuration: &Configuration) -> Settings {
    let mut settings = configuration.settings.clone();
    if is_default(configuration, "log.level") {
        settings.log.level = LogLevel::Warn;
    }
    settings
}

/// Whether this key has its default.
pub(crate) fn is_default(configuration: &Configuration, key: &str) -> bool {
    let mut entries = configuration.entries().iter();
    entries.any(|entry| entry.key.name() == key && entry.origin == Origin::Default)
}
