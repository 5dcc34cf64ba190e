//! `outboard btree`: a B-tree at a memory server, and what can be asked of one.

mod bench;

use anyhow::{Context, Result, bail};
use outboard::{CallSite, Caller, CallerOptions};
use outboard_agent::Daemon;
use outboard_btree::{BTree, Inserter, Tree, TreeOptions};
use outboard_driver::raise_descriptor_limit;
use outboard_link::Address;

use super::functions::Server;
use crate::config_flags::{About, ConfigFlags, Tool};
use crate::serve::serve;
use crate::{numbers, terminal};

/// Numbers in order at a memory server, by functions that run there
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard btree serve --keys 1000000                  a memory server with an empty tree
  outboard btree insert 17 4                           a key and its value
  outboard btree get 17
  outboard btree scan 10 --count 5                     the first keys from 10 on, with their values
  outboard btree bench                                 how many look-ups in a second")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    Serve(Serve),
    Get(Get),
    Insert(Insert),
    Scan(Scan),
    Bench(bench::Bench),
}

/// Run a memory server in the foreground with a tree in it
///
/// The tree is a region with a name. SIGTERM or Ctrl-C ends the server, and the tree with it.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard btree serve                                 for this user, at the usual socket
  outboard btree serve --keys 10000000 --filled 5000000 --listen tcp:127.0.0.1:7000")]
struct Serve {
    /// The tree's name
    #[arg(long, default_value = TREE)]
    tree: String,
    /// How many keys it has room for
    #[arg(long, default_value_t = TreeOptions::default().keys)]
    keys: u64,
    /// How many keys it has from the beginning: 0, 2, 4 and so on, each with a value that `bench` knows
    #[arg(long, value_name = "N", default_value_t = 0)]
    filled: u64,
    #[command(flatten)]
    config: ConfigFlags<AboutServe>,
}

/// Show the value of a key
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard btree get 17
  outboard btree get 17 --server tcp:192.0.2.7:7000 --json")]
struct Get {
    #[command(flatten)]
    at: At,
    /// The key
    key: u64,
    /// Print one JSON object: key and value, which is null if there is none
    #[arg(long)]
    json: bool,
}

/// Give a key a value
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard btree insert 17 4")]
struct Insert {
    #[command(flatten)]
    at: At,
    /// The key
    key: u64,
    /// The value
    value: u64,
}

/// Show keys in order, with their values
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard btree scan                                  the first ten
  outboard btree scan 1000 --count 100 --json")]
struct Scan {
    #[command(flatten)]
    at: At,
    /// The least key
    #[arg(default_value_t = 0)]
    from: u64,
    /// How many at most, up to 1000
    #[arg(long, value_name = "N", default_value_t = 10)]
    count: usize,
    /// Print one JSON array of pairs
    #[arg(long)]
    json: bool,
}

/// Which tree.
#[derive(clap::Args)]
struct At {
    /// The tree's name
    #[arg(long, default_value = TREE)]
    tree: String,
    /// The memory server; without it, the one of the settings (job.memory) or at this user's usual socket
    #[arg(long, value_name = "ADDRESS")]
    server: Option<Address>,
    /// Say on standard error where calls run, and why
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

/// The tree that is meant when none is named.
const TREE: &str = "btree";
const COMMAND: &str = "outboard btree";

/// The value of a key that `serve --filled` makes.
fn value_of(key: u64) -> u64 {
    key.rotate_left(17) ^ 0x5eed
}

/// Serves a tree, or uses one.
pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.what {
        What::Serve(args) => args.run(),
        What::Get(Get { at, key, json }) => {
            let Some((tree, caller)) = at.open(CallerOptions::default())? else { return Ok(()) };
            let mut user = BTree::new(caller, &tree)?;
            let found = user.lookup(*key)?;
            at.explain(user.caller());
            match found {
                found if *json => {
                    terminal::print(&serde_json::json!({ "key": key, "value": found }).to_string())
                }
                Some(value) => terminal::print(&value.to_string()),
                None => bail!("there is no key {key} in “{}”", at.tree),
            }
        }
        What::Insert(Insert { at, key, value }) => {
            // Inserts lock, and belong to the server.
            let options = CallerOptions::default().at(CallSite::Server);
            let Some((tree, caller)) = at.open(options)? else { return Ok(()) };
            Ok(Inserter::new(caller, &tree)?.insert(*key, *value)?)
        }
        What::Scan(Scan { at, from, count, json }) => {
            let Some((tree, caller)) = at.open(CallerOptions::default())? else { return Ok(()) };
            let mut user = BTree::new(caller, &tree)?;
            let pairs = user.scan(*from, *count)?;
            at.explain(user.caller());
            let lines = || pairs.iter().map(|(key, value)| format!("{key} {value}")).collect::<Vec<_>>();
            match (*json, pairs.is_empty()) {
                (true, _) => terminal::print(&serde_json::to_string(&pairs)?),
                (false, true) => Ok(()),
                (false, false) => terminal::print(&lines().join("\n")),
            }
        }
        What::Bench(bench) => bench.run(),
    }
}

impl Serve {
    fn run(&self) -> Result<()> {
        let Some(configuration) = self.config.open(false)? else { return Ok(()) };
        let settings = &configuration.settings;
        if self.filled > self.keys {
            bail!("--filled {}: the tree has room for {} keys (--keys)", self.filled, self.keys);
        }
        raise_descriptor_limit();
        let daemon = Daemon::memory(settings)?;
        let address = daemon.listening().first().context("the server listens nowhere")?;
        let mut memory = Server::find(COMMAND, Some(address), settings)?.memory()?;
        let pairs = (0..self.filled).map(|number| (2 * number, value_of(2 * number)));
        let tree = Tree::create_with(&mut memory, &self.tree, &TreeOptions { keys: self.keys }, pairs)?;
        let size = numbers::bytes(tree.size());
        memory.close("the tree is made");
        let about = format!(", with a tree “{}” for {} keys, {size}", self.tree, self.keys);
        serve(&about, move || Ok(daemon))
    }
}

impl At {
    /// Says where calls run, if that was asked.
    fn explain(&self, caller: &Caller) {
        if self.explain {
            caller.explain().iter().for_each(|line| eprintln!("{line}"));
        }
    }

    /// The server; nothing, if the settings were only to be shown.
    fn find(&self) -> Result<Option<Server>> {
        let Some(configuration) = self.config.open(false)? else { return Ok(None) };
        Ok(Some(Server::find(COMMAND, self.server.as_ref(), &configuration.settings)?))
    }

    fn open(&self, options: CallerOptions) -> Result<Option<(Tree, Caller)>> {
        let Some(server) = self.find()? else { return Ok(None) };
        let tree = Tree::open(&mut server.memory()?, &self.tree)?;
        Ok(Some((tree, server.caller(options)?)))
    }
}
