//! `outboard kv`: a hash table at a memory server, and what can be asked of one.

mod bench;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use anyhow::{Result, anyhow};
use outboard::{CallerOptions, Memory};
use outboard_kv::{Kv, KvTable, TableOptions};
use serde_json::json;

use super::functions::{self, At, Create, Made, Serve, count, size};
use crate::{numbers, terminal};

/// Keys and values at a memory server, by functions that run there
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard kv create --keys 1M                         an empty table at the server that runs here
  outboard kv put greeting hello                       a key and its value
  outboard kv get greeting
  outboard kv delete greeting
  outboard kv bench                                    how many gets and puts in a second
  outboard memory free kv                              the table is gone
  outboard kv serve --keys 1M                          a server of its own, with an empty table")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Make an empty table at a memory server
    ///
    /// The table is a region with a name. It stays until it is freed (`outboard memory free NAME`) or the server ends.
    #[command(after_help = "Examples:
  outboard kv create
  outboard kv create --table users --keys 10M --value-max 1000 --server tcp:192.0.2.7:7000")]
    Create(Create<Shape>),
    /// Run a memory server in the foreground with an empty table in it
    ///
    /// The table is a region with a name. SIGTERM or Ctrl-C ends the server, and the table with it.
    #[command(after_help = "Examples:
  outboard kv serve                                    for this user, at the usual socket
  outboard kv serve --keys 10M --value-max 1000 --capacity 16GiB --listen tcp:127.0.0.1:7000")]
    Serve(Serve<Shape>),
    Get(Get),
    Put(Put),
    Delete(Delete),
    Bench(bench::Bench),
}

/// Which table to make.
#[derive(clap::Args)]
struct Shape {
    /// The table's name
    #[arg(long, default_value = TABLE)]
    table: String,
    /// How many keys it has room for
    #[arg(long, value_name = "COUNT", default_value = "100k", value_parser = count)]
    keys: u64,
    /// The longest key, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = TableOptions::default().key_max, value_parser = size)]
    key_max: u64,
    /// The longest value, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = TableOptions::default().value_max, value_parser = size)]
    value_max: u64,
}

/// Show the value of a key
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard kv get greeting
  outboard kv get greeting --server tcp:192.0.2.7:7000")]
struct Get {
    #[command(flatten)]
    user: User,
    /// The key, of any bytes
    key: OsString,
}

/// Give a key a value
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard kv put greeting hello")]
struct Put {
    #[command(flatten)]
    user: User,
    /// The key, of any bytes
    key: OsString,
    /// The value, of any bytes
    value: OsString,
}

/// Remove a key
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard kv delete greeting")]
struct Delete {
    #[command(flatten)]
    user: User,
    /// The key, of any bytes
    key: OsString,
}

/// Which table to use.
#[derive(clap::Args)]
struct User {
    /// The table's name
    #[arg(long, default_value = TABLE)]
    table: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    at: At,
}

/// The table that is meant when none is named.
const TABLE: &str = "kv";
const COMMAND: &str = "outboard kv";

/// Makes a table, serves one, or uses it.
pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.what {
        What::Create(create) => create.run(),
        What::Serve(serve) => serve.run(),
        What::Get(Get { user, key }) => {
            let Some(mut kv) = user.open()? else { return Ok(()) };
            let value = kv.get(key.as_bytes())?.map(shown);
            user.explain(&kv, key);
            if user.json {
                terminal::print(&json!({ "key": key.to_string_lossy(), "value": value }).to_string())?;
            }
            match value {
                Some(_) if user.json => Ok(()),
                Some(value) => terminal::print(&value),
                None => Err(user.absent(key)),
            }
        }
        What::Put(Put { user, key, value }) => {
            let Some(mut kv) = user.open()? else { return Ok(()) };
            kv.put(key.as_bytes(), value.as_bytes())?;
            user.explain(&kv, key);
            match user.json {
                true => {
                    let value = value.to_string_lossy();
                    terminal::print(&json!({ "key": key.to_string_lossy(), "value": value }).to_string())
                }
                false => Ok(()),
            }
        }
        What::Delete(Delete { user, key }) => {
            let Some(mut kv) = user.open()? else { return Ok(()) };
            let was_there = kv.delete(key.as_bytes())?;
            user.explain(&kv, key);
            if user.json {
                terminal::print(
                    &json!({ "key": key.to_string_lossy(), "was_there": was_there }).to_string(),
                )?;
            }
            if was_there { Ok(()) } else { Err(user.absent(key)) }
        }
        What::Bench(bench) => bench.run(),
    }
}

/// A value as text; what is no text is shown with escapes.
fn shown(value: Vec<u8>) -> String {
    String::from_utf8(value).unwrap_or_else(|error| error.as_bytes().escape_ascii().to_string())
}

impl functions::Shape for Shape {
    const COMMAND: &'static str = COMMAND;

    fn make(&self, memory: &mut Memory) -> Result<Made> {
        let Self { table: name, keys, key_max, value_max } = self;
        let options = TableOptions { keys: *keys, key_max: *key_max, value_max: *value_max };
        let table = KvTable::create(memory, name, &options)?;
        let bytes = table.layout().size();
        Ok(Made {
            text: format!("a table “{name}” for {keys} keys, {}", numbers::bytes(bytes)),
            json: json!({ "table": name, "keys": keys, "key_max": key_max, "value_max": value_max, "bytes": bytes }),
        })
    }
}

impl User {
    /// Says where the call ran, if that was asked.
    fn explain(&self, kv: &Kv, key: &OsStr) {
        if self.at.explain {
            kv.caller().explain_key(key.as_bytes()).iter().for_each(|line| eprintln!("{line}"));
        }
        self.at.explain(kv.caller());
    }

    fn absent(&self, key: &OsStr) -> anyhow::Error {
        anyhow!("there is no key “{}” in “{}”", key.display(), self.table)
    }

    fn open(&self) -> Result<Option<Kv>> {
        let Some(server) = self.at.place.find(COMMAND, self.json)? else { return Ok(None) };
        let table = KvTable::open(&mut server.memory()?, &self.table)?;
        Ok(Some(Kv::new(server.caller(CallerOptions::default(), None)?, &table)?))
    }
}
