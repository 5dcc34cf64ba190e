//! `outboard agent`: an agent in the foreground.

mod background;

use anyhow::Result;
use outboard_agent::Daemon;
use outboard_settings::AgentSettings;

use crate::children::quota;
use crate::config_flags::{About, ConfigFlags};
use crate::daemon_ready;
use crate::serve::{serve, serve_in_background, serve_while_used};

/// Run an agent in the foreground: it communicates on behalf of the applications of this machine
///
/// Applications of this machine reach it through shared memory, others over TCP. It connects to memory servers and to
/// the agents of other machines, and connects again when they are restarted. SIGTERM or Ctrl-C ends it.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("shown").args(["print-config", "background"]).multiple(true))]
#[command(after_help = "Examples:
  outboard agent                                       for this user, at the usual socket
  outboard agent --listen tcp:127.0.0.1:7001           over tcp, on this machine
  outboard agent --memory-servers tcp:192.0.2.7:7000 --peers tcp:192.0.2.8:7001
  outboard agent --quota 30% --wire 10gbit,5us         a stand-in for a slower processor and wire
  outboard agent --background --while-used             until the last program that uses it has ended
  outboard agent --background --json                   where it listens, for programs
  outboard agent --print-config                        every setting, and where it came from")]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigFlags<AboutAgent>,
    /// Start it as a process of its own, and return when it is ready. Where it listens is printed
    #[arg(long)]
    background: bool,
    /// For the process that --background starts: be silent when ready
    #[arg(long, hide = true)]
    in_background: bool,
    /// Use all processors that this machine allows, not only those that the starting process is bound to
    #[arg(long)]
    all_cores: bool,
    /// With --print-config, print a JSON array instead of TOML; with --background, a JSON object
    #[arg(long, requires = "shown")]
    json: bool,
}

struct AboutAgent;

impl About for AboutAgent {
    const SECTION: &'static str = "agent";
    const OTHERS: &'static [&'static str] = &["calling", "job", "link", "log", "metrics"];
    const DECIDED: &'static [&'static str] = &[
        "job.agent",
        "job.start_agent",
        "job.agent_program",
        "job.memory",
        "job.rendezvous",
        "job.id",
        "job.rank",
        "job.size",
    ];
}

/// Serves until it is asked to end.
pub(crate) fn run(args: &Args) -> Result<()> {
    let Some(configuration) = args.config.open(args.json)? else { return Ok(()) };
    if args.background {
        return background::start(args.json, configuration.settings.agent.while_used);
    }
    let settings = &configuration.settings;
    if args.all_cores {
        background::use_all_cores();
    }
    // Held as long as the agent runs.
    let limit =
        settings.agent.quota.and_then(quota).map(|quota| quota.apply(std::process::id())).transpose()?;
    if let Some(limit) = &limit {
        tracing::info!("limited to {limit}");
        limit.warning().into_iter().for_each(|warning| tracing::warn!("{warning}"));
    }
    let (about, start) = (about(&settings.agent), || Daemon::agent(settings));
    match settings.agent.while_used {
        true => serve_while_used(&about, start),
        false if args.in_background => serve_in_background(&about, start),
        false => serve(&about, start),
    }
}

fn about(agent: &AgentSettings) -> String {
    let servers = match agent.memory_servers.as_slice() {
        [] => "no memory server".to_owned(),
        servers => format!("memory at {}", daemon_ready::show(servers)),
    };
    let wire = agent.wire.map(|wire| format!(", links slowed down to {wire}")).unwrap_or_default();
    format!(", {servers}{wire}")
}
