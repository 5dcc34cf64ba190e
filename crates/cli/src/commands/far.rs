//! `outboard far`: a program that was not changed, with most of its memory in far memory.

mod ledger;
mod library;
mod program;
mod server;
mod summary;

use std::ffi::OsString;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::ValueEnum;
use outboard::BufferSize;
use outboard_launch::Foreground;
use outboard_settings::{ByteSize, Configuration, Origin};

use self::ledger::Ledger;
use self::library::Library;
use self::program::Program;
use self::server::Server;
use crate::config_flags::{About, ConfigFlags};
use crate::failure::{Silent, wrong_usage};

const EXAMPLES_FIRST: &str = "Examples:
  outboard far -- sort -S 4G huge.txt            a third of its memory here, the rest far
  outboard far --buffer 2GiB -- python3 train.py
  outboard far --dry-run -- ./program            what would be far, and why

All flags and examples: outboard far --help";

const EXAMPLES: &str = "Examples:
  outboard far -- sort -S 4G huge.txt            a third of its memory here, the rest far
  outboard far --buffer 2GiB -- python3 train.py
  outboard far --dry-run -- ./program            what would be far, and why
  outboard far --far-servers tcp:192.0.2.7:7411 -- ./program
  outboard far --children bypass -- ./build.sh   only the program itself
  outboard far --json -- ./program 2> figures.json

The memory server is the one that is named, or this user's “outboard up”, or one that is started for the time of the run.
The exit code is the program's; if a signal ends it, this command ends by the same one.";

/// Run a program that was not changed with most of its memory in far memory
///
/// A library is loaded into the program that stands in front of the C library's calls for memory: anonymous mappings, and all blocks
/// of the allocator where the program has no other, lie in far memory, of which as much is here as --buffer says. What
/// far memory cannot serve stays in ordinary memory. Static programs and those of other C libraries are refused.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES_FIRST, after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// How much of its far memory may be here at once: bytes (256MiB), a fraction of what it uses (1/3), or auto, which
    /// follows the memory that is left
    #[arg(long, value_name = "AMOUNT", default_value = "1/3")]
    buffer: BufferText,
    /// From how many bytes on a mapping is far
    #[arg(long, value_name = "SIZE", default_value = "128KiB")]
    threshold: ByteSize,
    /// What is far
    #[arg(long, value_enum, default_value_t = Level::Auto)]
    level: Level,
    /// What programs have that this one starts
    #[arg(long, value_enum, default_value_t = Children::Inherit)]
    children: Children,
    /// Programs that have no far memory, by the names of their files, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = SHELLS)]
    bypass: Vec<String>,
    /// Say what would be far and why, and do not run the program
    #[arg(long)]
    dry_run: bool,
    /// Say nothing at the end
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
    /// Write the figures at the end as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigFlags<AboutFar>,
    /// The program, and its arguments
    #[arg(value_name = "PROGRAM", required_unless_present = "print-config", trailing_var_arg = true)]
    program: Vec<OsString>,
}

/// Shells and the like start programs, and have little memory themselves.
const SHELLS: &str = "sh,bash,dash,zsh,ksh,fish,busybox,env,sudo,nohup,nice,timeout,time";

struct AboutFar;

impl About for AboutFar {
    const SECTION: &'static str = "";
    const OTHERS: &'static [&'static str] = &["far", "memory", "link", "log"];
    const DECIDED: &'static [&'static str] = &[
        "far.buffer",
        "far.chunk",
        "far.path",
        "far.cache",
        "memory.name",
        "memory.listen",
        "memory.data_dir",
    ];
}

/// An amount that the library reads; here it is only looked at.
#[derive(Clone)]
struct BufferText(String);

impl std::str::FromStr for BufferText {
    type Err = outboard::BufferError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse::<BufferSize>().map(|_| Self(text.to_owned()))
    }
}

/// What is far.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Level {
    /// Mappings, and blocks of the C library's allocator if the program has no other
    Auto,
    /// Mappings
    Mmap,
    /// Both; a program with an allocator of its own is refused
    Malloc,
}

/// What programs have that the program starts.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Children {
    /// Far memory too, each with a buffer of its own
    Inherit,
    /// Ordinary memory
    Bypass,
}

/// Runs the program.
pub(crate) fn run(args: &Args) -> Result<()> {
    // While there is one thread.
    let foreground = Foreground::prepare().context("cannot pass signals on")?;
    let Some(configuration) = args.config.open(args.json)? else { return Ok(()) };
    let (file, arguments) = args.program.split_first().ok_or_else(|| wrong_usage("name a program"))?;
    let program = Program::find(file)?;
    let library = Library::find()?;
    let ledger = Ledger::make()?;
    let server = Server::find_or_start(&configuration)?;
    let mut command = Command::new(program.path());
    command.args(arguments).envs(passed_on(&configuration));
    use std::os::unix::process::CommandExt;
    command.arg0(file);
    command.env("OUTBOARD_PRELOAD", args.told(&server, &ledger)).env("LD_PRELOAD", library.before_others());
    let began = Instant::now();
    let ended = foreground.run(&mut command);
    let took = began.elapsed();
    let ended = ended.with_context(|| format!("cannot start {}", program.path().display()))?;
    if !args.dry_run && !args.quiet {
        summary::tell(&ledger.read(), took, args.json, &server);
    }
    server.stop();
    if ended.success() {
        return Ok(());
    }
    if let (true, Some(code)) = (args.dry_run, ended.code()) {
        return Err(Silent { code: u8::try_from(code).unwrap_or(1) }.into());
    }
    foreground.end_like(ended)
}

/// The settings that were given on the command line, as the library finds them.
fn passed_on(configuration: &Configuration) -> Vec<(String, String)> {
    let settings = &configuration.settings;
    let all = [settings.far.variables(), settings.link.variables()].concat();
    let is_given = |variable: &str| {
        let entry = configuration.entries().iter().find(|entry| entry.key.variable() == variable);
        entry.is_some_and(|entry| matches!(entry.origin, Origin::Flag(_)))
    };
    all.into_iter().filter(|(variable, _)| is_given(variable)).collect()
}

impl Args {
    /// What the library is told.
    fn told(&self, server: &Server, ledger: &Ledger) -> String {
        let level = self.level.to_possible_value().map(|value| value.get_name().to_owned());
        let children = self.children.to_possible_value().map(|value| value.get_name().to_owned());
        format!(
            "servers={};buffer={};threshold={};level={};children={};bypass={};ledger={};dry-run={}",
            server.addresses(),
            self.buffer.0,
            self.threshold.0,
            level.unwrap_or_default(),
            children.unwrap_or_default(),
            self.bypass.join(","),
            ledger.path(),
            if self.dry_run { "yes" } else { "no" }
        )
    }
}
