//! The common part of `kv` and `btree`: something at a memory server that functions use, and that is made, served, used
//! and measured.

pub(super) mod bench;

use anyhow::{Context, Result};
use outboard::{CallPlacement, CallSite, Caller, Memory};
use outboard_agent::Daemon;
use outboard_driver::raise_descriptor_limit;
use outboard_settings::{ByteSize, parse_count};
use serde::Serialize;

use super::place::{Place, Server};
use crate::config_flags::{About, ConfigFlags};
use crate::terminal;

/// At which server, and how much to say of the calls.
#[derive(clap::Args)]
pub(super) struct At {
    #[command(flatten)]
    pub(super) place: Place,
    /// Say on standard error where calls run, and why
    #[arg(long)]
    pub(super) explain: bool,
}

/// The settings of a server that is started for one table or tree.
struct AboutServe;

impl About for AboutServe {
    const SECTION: &'static str = "memory";
    const OTHERS: &'static [&'static str] = &["calling", "link", "log", "metrics"];
}

/// A thing that is made at a memory server: a table or a tree.
pub(super) trait Shape: clap::Args {
    /// The command that is about it, as servers know it.
    const COMMAND: &'static str;

    /// Makes it, and says what it is.
    fn make(&self, memory: &mut Memory) -> Result<Made>;
}

/// The table or tree that was made.
pub(super) struct Made {
    /// For people.
    pub(super) text: String,
    /// For programs.
    pub(super) json: serde_json::Value,
}

/// Reads how many keys there is room for.
pub(super) fn count(text: &str) -> Result<u64, &'static str> {
    match parse_count(text)? {
        0 => Err("give room for at least 1 key, for example 100k"),
        count => Ok(count),
    }
}

/// Reads a size of at least one byte.
pub(super) fn size(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(ByteSize(0)) => Err("give at least 1 byte, for example 32".to_owned()),
        Ok(ByteSize(bytes)) => Ok(bytes),
        Err(error) => Err(error.to_string()),
    }
}

/// Makes something at a server that runs.
#[derive(clap::Args)]
pub(super) struct Create<S: Shape> {
    #[command(flatten)]
    shape: S,
    #[command(flatten)]
    place: Place,
    /// Print one JSON object that says what was made
    #[arg(long)]
    json: bool,
}

impl<S: Shape> Create<S> {
    /// Makes it, and says what it is.
    pub(super) fn run(&self) -> Result<()> {
        let Some(server) = self.place.find(S::COMMAND, self.json)? else { return Ok(()) };
        let mut memory = server.memory()?;
        let made = self.shape.make(&mut memory)?;
        memory.close("it is made");
        terminal::print(&if self.json { made.json.to_string() } else { format!("made {}", made.text) })
    }
}

/// Runs a memory server in the foreground, with something in it.
#[derive(clap::Args)]
pub(super) struct Serve<S: Shape> {
    #[command(flatten)]
    shape: S,
    #[command(flatten)]
    config: ConfigFlags<AboutServe>,
}

impl<S: Shape> Serve<S> {
    /// Starts the server, makes it there, and serves until asked to end.
    pub(super) fn run(&self) -> Result<()> {
        let Some(configuration) = self.config.open(false)? else { return Ok(()) };
        raise_descriptor_limit();
        let daemon = Daemon::memory(&configuration.settings)?;
        let address = daemon.listening().first().context("the server listens nowhere")?;
        let mut memory = Server::find(S::COMMAND, Some(address), &configuration.settings)?.memory()?;
        let made = self.shape.make(&mut memory)?;
        memory.close("it is made");
        crate::serve::serve(&format!(", with {}", made.text), move || Ok(daemon))
    }
}

impl At {
    /// Says where calls run, if that was asked.
    pub(super) fn explain(&self, caller: &Caller) {
        if self.explain {
            caller.explain().iter().for_each(|line| eprintln!("{line}"));
        }
    }
}

/// Where functions run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Where {
    /// Where the server's table of slots says
    Steered,
    /// At the memory server
    Server,
    /// At the agent
    Agent,
    /// In this process
    Application,
}

impl Where {
    pub(super) fn placement(self) -> CallPlacement {
        match self {
            Self::Steered => CallPlacement::Steered,
            Self::Server => CallPlacement::Fixed(CallSite::Server),
            Self::Agent => CallPlacement::Fixed(CallSite::Agent),
            Self::Application => CallPlacement::Fixed(CallSite::Application),
        }
    }
}
