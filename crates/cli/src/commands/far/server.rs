//! The memory server of a run: one that was named, this user's, or one that lives as long as the run.

use std::io::Write;

use anyhow::{Context, Result};
use outboard::{Address, Client};
use outboard_launch::Piece;
use outboard_link::Identity;
use outboard_settings::{Configuration, default_socket};
use outboard_wire::Role;

use crate::children::{self, Child, GRACE};
use crate::ranks::draw_number;

/// The memory servers of a run.
pub(super) struct Server {
    addresses: Vec<Address>,
    child: Option<Child>,
}

impl Server {
    /// Finds those that are named, or that of this user, or starts one.
    pub(super) fn find_or_start(configuration: &Configuration) -> Result<Self> {
        let settings = &configuration.settings;
        if !settings.far.servers.is_empty() {
            return Ok(Self { addresses: settings.far.servers.clone(), child: None });
        }
        let is_named = !children::is_default(configuration, "job.memory");
        let usual = settings.job.memory.address("memory").unwrap_or_else(|| default_socket("memory"));
        let identity = Identity::new(Role::Application, "far");
        match Client::connect(&usual, identity, &settings.link) {
            Ok(client) => {
                client.close("only looked whether it is there");
                Ok(Self { addresses: vec![usual], child: None })
            }
            Err(error) if is_named => Err(error).context("no memory server"),
            Err(_) => Self::start(configuration),
        }
    }

    fn start(configuration: &Configuration) -> Result<Self> {
        let number = draw_number().context("no random number for the socket's name")? as u32;
        let mut settings = children::quiet(configuration);
        settings.metrics.listen = None;
        settings.memory.name = "far-memory".to_owned();
        settings.memory.listen = vec![default_socket(&format!("far-{}-{number:08x}", std::process::id()))];
        let child = Child::memory(&settings, tell)?;
        Ok(Self { addresses: vec![child.local()?.clone()], child: Some(child) })
    }

    /// Where they are, between commas.
    pub(super) fn addresses(&self) -> String {
        self.addresses.iter().map(Address::to_string).collect::<Vec<_>>().join(",")
    }

    /// Whether it was started for this run.
    pub(super) fn is_own(&self) -> bool {
        self.child.is_some()
    }

    /// Stops it if it was started for this run.
    pub(super) fn stop(self) {
        if let Some(child) = self.child {
            child.process.stop(GRACE);
        }
    }
}

/// Passes on what the memory server has to say, which is only what went wrong.
fn tell(piece: Piece<'_>) {
    let text = format!("[{}] {}\n", piece.from, String::from_utf8_lossy(piece.bytes));
    // A user who does not read the standard error misses it.
    let _ = std::io::stderr().write_all(text.as_bytes());
}
