//! `outboard memory`: a memory server in the foreground, and what its clients can ask of one.

mod client;
mod dump;

use anyhow::Result;
use outboard_agent::Daemon;

use crate::config_flags::{About, ConfigFlags};
use crate::serve::serve;

/// Run a memory server in the foreground, or ask one for regions
///
/// It gives out memory of this machine as regions. A region without a name ends with the client that reserved it; one
/// with a name stays until it is freed or the server ends; with --keep it is there again when the server comes back, also
/// after a crash. SIGTERM or Ctrl-C ends it.
#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  outboard memory                                      for this user, at the usual socket
  outboard memory --capacity 8GiB --listen tcp:127.0.0.1:7000
  outboard memory --keep /var/lib/outboard             named regions outlive the server
  outboard memory list                                 the regions of a running server
  outboard memory reserve table --size 1GiB            a region that stays
  outboard memory free table                           and goes
  outboard memory --print-config                       every setting, and where it came from"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    ask: Option<client::Ask>,
    #[command(flatten)]
    config: ConfigFlags<AboutMemory>,
    /// With --print-config, print a JSON array instead of TOML
    #[arg(long, requires = "print-config")]
    json: bool,
}

struct AboutMemory;

impl About for AboutMemory {
    const SECTION: &'static str = "memory";
    const OTHERS: &'static [&'static str] = &["calling", "link", "log", "metrics"];
}

/// Asks a server, or serves until it is asked to end.
pub(crate) fn run(args: &Args) -> Result<()> {
    if let Some(ask) = &args.ask {
        return ask.run();
    }
    let Some(configuration) = args.config.open(args.json)? else { return Ok(()) };
    let settings = &configuration.settings;
    serve("", || Daemon::memory(settings))
}
