//! `outboard btree`: a B-tree at a memory server, and what can be asked of one.

mod bench;

use anyhow::{Result, bail};
use outboard::{CallSite, Caller, CallerOptions, Memory};
use outboard_btree::{BTree, Inserter, Tree, TreeOptions};
use outboard_settings::parse_count;
use serde_json::json;

use super::functions::{self, At, Create, Made, Serve, count};
use crate::failure::wrong_usage;
use crate::{numbers, terminal};

/// Numbers in order at a memory server, by functions that run there
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard btree create --keys 1M                      an empty tree at the server that runs here
  outboard btree insert 17 4                           a key and its value
  outboard btree get 17
  outboard btree scan 10 --count 5                     the first keys from 10 on, with their values
  outboard btree bench                                 how many look-ups in a second
  outboard memory free btree                           the tree is gone
  outboard btree serve --keys 1M                       a server of its own, with an empty tree")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Make a tree at a memory server
    ///
    /// The tree is a region with a name. It stays until it is freed (`outboard memory free NAME`) or the server ends.
    #[command(after_help = "Examples:
  outboard btree create
  outboard btree create --tree index --keys 10M --server tcp:192.0.2.7:7000")]
    Create(Create<Shape>),
    /// Run a memory server in the foreground with a tree in it
    ///
    /// The tree is a region with a name. SIGTERM or Ctrl-C ends the server, and the tree with it.
    #[command(after_help = "Examples:
  outboard btree serve                                 for this user, at the usual socket
  outboard btree serve --keys 10M --filled 5M --listen tcp:127.0.0.1:7000")]
    Serve(Serve<Shape>),
    Get(Get),
    Insert(Insert),
    Scan(Scan),
    Bench(bench::Bench),
}

/// Which tree to make.
#[derive(clap::Args)]
struct Shape {
    /// The tree's name
    #[arg(long, default_value = TREE)]
    tree: String,
    /// How many keys it has room for
    #[arg(long, value_name = "COUNT", default_value = "100k", value_parser = count)]
    keys: u64,
    /// How many keys it has from the beginning: 0, 2, 4 and so on
    #[arg(long, value_name = "COUNT", default_value = "0", value_parser = parse_count)]
    filled: u64,
}

/// Show the value of a key
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard btree get 17
  outboard btree get 17 --server tcp:192.0.2.7:7000 --json")]
struct Get {
    #[command(flatten)]
    user: User,
    /// The key
    #[arg(value_parser = number)]
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
    user: User,
    /// The key
    #[arg(value_parser = number)]
    key: u64,
    /// The value
    #[arg(value_parser = number)]
    value: u64,
    /// Print one JSON object: key and value
    #[arg(long)]
    json: bool,
}

/// Show keys in order, with their values
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard btree scan                                  the first ten
  outboard btree scan 1000 --count 100 --json")]
struct Scan {
    #[command(flatten)]
    user: User,
    /// The least key
    #[arg(default_value_t = 0, value_parser = number)]
    from: u64,
    /// How many at most, up to 1000
    #[arg(long, value_name = "N", default_value_t = 10)]
    count: usize,
    /// Print one JSON array of pairs
    #[arg(long)]
    json: bool,
}

/// Which tree to use.
#[derive(clap::Args)]
struct User {
    /// The tree's name
    #[arg(long, default_value = TREE)]
    tree: String,
    #[command(flatten)]
    at: At,
}

/// The tree that is meant when none is named.
const TREE: &str = "btree";
const COMMAND: &str = "outboard btree";

/// Reads a key or a value.
fn number(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| "keys and values of a tree are whole numbers from 0 to 18446744073709551615")
}

/// The pairs of a tree that is filled with so many.
fn pairs(count: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..count).map(|number| (2 * number, value_of(2 * number)))
}

/// The value of a key in such a tree.
fn value_of(key: u64) -> u64 {
    key.rotate_left(17) ^ 0x5eed
}

/// Makes a tree, serves one, or uses it.
pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.what {
        What::Create(create) => create.run(),
        What::Serve(serve) => serve.run(),
        What::Get(Get { user, key, json }) => {
            let Some((tree, caller)) = user.open(CallerOptions::default())? else { return Ok(()) };
            let mut btree = BTree::new(caller, &tree)?;
            let found = btree.lookup(*key)?;
            user.at.explain(btree.caller());
            if *json {
                terminal::print(&json!({ "key": key, "value": found }).to_string())?;
            }
            match found {
                Some(_) if *json => Ok(()),
                Some(value) => terminal::print(&value.to_string()),
                None => bail!("there is no key {key} in “{}”", user.tree),
            }
        }
        What::Insert(Insert { user, key, value, json }) => {
            // Inserts lock, and belong to the server.
            let options = CallerOptions::default().with_placement(CallSite::Server);
            let Some((tree, caller)) = user.open(options)? else { return Ok(()) };
            Inserter::new(caller, &tree)?.insert(*key, *value)?;
            match json {
                true => terminal::print(&json!({ "key": key, "value": value }).to_string()),
                false => Ok(()),
            }
        }
        What::Scan(Scan { user, from, count, json }) => {
            let Some((tree, caller)) = user.open(CallerOptions::default())? else { return Ok(()) };
            let mut btree = BTree::new(caller, &tree)?;
            let pairs = btree.scan(*from, *count)?;
            user.at.explain(btree.caller());
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

impl functions::Shape for Shape {
    const COMMAND: &'static str = COMMAND;

    fn make(&self, memory: &mut Memory) -> Result<Made> {
        let Self { tree: name, keys, filled } = self;
        if filled > keys {
            return Err(wrong_usage(&format!(
                "--filled {filled}: the tree has room for {keys} keys (--keys)"
            )));
        }
        let tree = Tree::create_with(memory, name, &TreeOptions { keys: *keys }, pairs(*filled))?;
        Ok(Made {
            text: format!("a tree “{name}” for {keys} keys, {}", numbers::bytes(tree.size())),
            json: json!({ "tree": name, "keys": keys, "filled": filled, "bytes": tree.size() }),
        })
    }
}

impl User {
    fn open(&self, options: CallerOptions) -> Result<Option<(Tree, Caller)>> {
        let Some(server) = self.at.place.find(COMMAND, false)? else { return Ok(None) };
        let tree = Tree::open(&mut server.memory()?, &self.tree)?;
        Ok(Some((tree, server.caller(options, None)?)))
    }
}
