//! `outboard kv`: a hash table at a memory server, and what can be asked of one.

mod bench;

use anyhow::{Context, Result, bail};
use outboard::CallerOptions;
use outboard_agent::Daemon;
use outboard_driver::raise_descriptor_limit;
use outboard_kv::{Kv, Table, TableOptions};
use outboard_link::Address;

use super::functions::Server;
use crate::config_flags::{About, ConfigFlags, Tool};
use crate::serve::serve;
use crate::{numbers, terminal};

/// Keys and values at a memory server, by functions that run there
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard kv serve --keys 1000000                     a memory server with an empty table
  outboard kv put greeting hello                       a key and its value
  outboard kv get greeting
  outboard kv delete greeting
  outboard kv bench                                    how many gets and puts in a second, as YCSB measures")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    Serve(Serve),
    Get(Get),
    Put(Put),
    Delete(Delete),
    Bench(bench::Bench),
}

/// Run a memory server in the foreground with an empty table in it
///
/// The table is a region with a name. SIGTERM or Ctrl-C ends the server, and the table with it.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard kv serve                                    for this user, at the usual socket
  outboard kv serve --keys 10000000 --value-max 1000 --capacity 16GiB --listen tcp:127.0.0.1:7000")]
struct Serve {
    /// The table's name
    #[arg(long, default_value = TABLE)]
    table: String,
    /// How many keys it has room for
    #[arg(long, default_value_t = TableOptions::default().keys)]
    keys: u64,
    /// The longest key, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = TableOptions::default().key_max)]
    key_max: u64,
    /// The longest value beside such a key, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = TableOptions::default().value_max)]
    value_max: u64,
    #[command(flatten)]
    config: ConfigFlags<AboutServe>,
}

/// Show the value of a key
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard kv get greeting
  outboard kv get greeting --server tcp:192.0.2.7:7000")]
struct Get {
    #[command(flatten)]
    at: At,
    /// The key
    key: String,
}

/// Give a key a value
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard kv put greeting hello")]
struct Put {
    #[command(flatten)]
    at: At,
    /// The key
    key: String,
    /// The value
    value: String,
}

/// Remove a key
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard kv delete greeting")]
struct Delete {
    #[command(flatten)]
    at: At,
    /// The key
    key: String,
}

/// Which table.
#[derive(clap::Args)]
struct At {
    /// The table's name
    #[arg(long, default_value = TABLE)]
    table: String,
    /// The memory server; without it, the one of the settings (job.memory) or at this user's usual socket
    #[arg(long, value_name = "ADDRESS")]
    server: Option<Address>,
    /// Say on standard error at which site the call ran, and why
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    config: ConfigFlags<Tool>,
}

struct AboutServe;

impl About for AboutServe {
    const SECTION: &'static str = "memory";
    const OTHERS: &'static [&'static str] = &["calling", "link", "log", "metrics"];
}

/// The table that is meant when none is named.
const TABLE: &str = "kv";
const COMMAND: &str = "outboard kv";

/// Serves a table, or uses one.
pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.what {
        What::Serve(args) => args.run(),
        What::Get(Get { at, key }) => {
            let Some(mut kv) = at.open()? else { return Ok(()) };
            let found = kv.get(key.as_bytes())?;
            at.explain(&kv, key);
            match found {
                Some(value) => terminal::print(&shown(value)),
                None => bail!("there is no key “{key}” in “{}”", at.table),
            }
        }
        What::Put(Put { at, key, value }) => {
            let Some(mut kv) = at.open()? else { return Ok(()) };
            kv.put(key.as_bytes(), value.as_bytes())?;
            at.explain(&kv, key);
            Ok(())
        }
        What::Delete(Delete { at, key }) => {
            let Some(mut kv) = at.open()? else { return Ok(()) };
            let was_there = kv.delete(key.as_bytes())?;
            at.explain(&kv, key);
            if !was_there {
                bail!("there is no key “{key}” in “{}”", at.table);
            }
            Ok(())
        }
        What::Bench(bench) => bench.run(),
    }
}

/// A value as text; what is no text is shown with escapes.
fn shown(value: Vec<u8>) -> String {
    String::from_utf8(value).unwrap_or_else(|error| error.as_bytes().escape_ascii().to_string())
}

impl Serve {
    fn run(&self) -> Result<()> {
        let Some(configuration) = self.config.open(false)? else { return Ok(()) };
        let settings = &configuration.settings;
        let options = TableOptions { keys: self.keys, key_max: self.key_max, value_max: self.value_max };
        raise_descriptor_limit();
        let daemon = Daemon::memory(settings)?;
        let address = daemon.listening().first().context("the server listens nowhere")?;
        let mut memory = Server::find(COMMAND, Some(address), settings)?.memory()?;
        let table = Table::create(&mut memory, &self.table, &options)?;
        let size = numbers::bytes(table.layout().size());
        memory.close("the table is made");
        let about = format!(", with a table “{}” for {} keys, {size}", self.table, self.keys);
        serve(&about, move || Ok(daemon))
    }
}

/// A table at a server.
fn open(server: &Server, table: &str, options: CallerOptions) -> Result<Kv> {
    let table = Table::open(&mut server.memory()?, table)?;
    Ok(Kv::new(server.caller(options)?, &table)?)
}

impl At {
    /// Says where the call ran, if that was asked.
    fn explain(&self, kv: &Kv, key: &str) {
        if self.explain {
            let caller = kv.caller();
            eprintln!("{}", caller.explain_key(key.as_bytes()));
            self.explain_sites(kv);
        }
    }

    /// Says where calls run, if that was asked.
    fn explain_sites(&self, kv: &Kv) {
        if self.explain {
            kv.caller().explain().iter().for_each(|line| eprintln!("{line}"));
        }
    }

    /// The server; nothing, if the settings were only to be shown.
    fn find(&self) -> Result<Option<Server>> {
        let Some(configuration) = self.config.open(false)? else { return Ok(None) };
        Ok(Some(Server::find(COMMAND, self.server.as_ref(), &configuration.settings)?))
    }

    fn open(&self) -> Result<Option<Kv>> {
        let Some(server) = self.find()? else { return Ok(None) };
        Ok(Some(open(&server, &self.table, CallerOptions::default())?))
    }
}
