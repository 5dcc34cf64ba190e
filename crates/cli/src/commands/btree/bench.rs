//! `outboard btree bench`: look-ups in a tree of its own.

use std::collections::HashMap;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use outboard_btree::{BTree, Tree, TreeOptions};
use outboard_settings::parse_count;
use serde::Serialize;

use super::{pairs, value_of};
use crate::commands::functions::bench::{BenchFlags, check_range};
use crate::commands::functions::{At, Where};

/// Measure look-ups at a memory server, in random order
///
/// Makes a tree that no other process sees and that goes with this process, and looks its keys up for some seconds; every value
/// that comes is checked.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard btree bench --keys 1M
  outboard btree bench --keys 1M --site application --batch 1 --clients 2
  outboard btree bench --keys 1M --json                one JSON object for programs")]
pub(super) struct Bench {
    #[command(flatten)]
    at: At,
    /// How many keys the tree has
    #[arg(long, value_name = "COUNT", default_value = "100k", value_parser = parse_count)]
    keys: u64,
    #[command(flatten)]
    flags: BenchFlags,
}

/// The measurements.
#[derive(Debug, Serialize)]
struct Found {
    site: Where,
    clients: usize,
    batch: usize,
    keys: u64,
    lookups: u64,
    seconds: f64,
    lookups_per_second: f64,
    wrong: u64,
}

impl Bench {
    /// Measures, and prints what was found.
    pub(super) fn run(&self) -> Result<()> {
        check_range("--keys", self.keys, 1, 1 << 40)?;
        self.flags.check()?;
        let Some(server) = self.at.place.find(super::COMMAND, false)? else { return Ok(()) };
        // The tree is there for as long as this link.
        let mut memory = server.memory()?;
        let options = TreeOptions { keys: self.keys };
        let tree = Tree::create_unnamed_with(&mut memory, &options, pairs(self.keys));
        let tree = tree.context("no tree to measure")?;
        let mut users = Vec::with_capacity(self.flags.clients);
        for _ in 0..self.flags.clients {
            users.push(BTree::new(
                server.caller(self.flags.caller_options(), self.flags.agent.as_ref())?,
                &tree,
            )?);
        }
        let (counts, seconds) =
            self.flags.play(users, |user, number, until| self.play(user, number + 1, until))?;
        let (lookups, wrong) = counts.iter().fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
        let BenchFlags { site, clients, batch, .. } = self.flags;
        let (keys, lookups_per_second) = (self.keys, lookups as f64 / seconds);
        let found = Found { site, clients, batch, keys, lookups, seconds, lookups_per_second, wrong };
        self.flags.print(&found, found.row())?;
        if wrong > 0 {
            bail!("{wrong} of {lookups} values were wrong");
        }
        Ok(())
    }

    /// The work of one thread. Returns how many look-ups it made, and how many gave something wrong.
    fn play(&self, mut user: BTree, seed: u64, until: Instant) -> Result<(u64, u64)> {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut done, mut wrong, mut failed) = (0, 0, None);
        // The keys of calls, by their numbers.
        let mut wanted = HashMap::with_capacity(self.flags.batch);
        while Instant::now() < until || !wanted.is_empty() {
            while wanted.len() < self.flags.batch && Instant::now() < until {
                let key = 2 * random.u64(..self.keys);
                wanted.insert(user.begin_lookup(key)?, key);
            }
            user.drain(|id, answer| {
                let key = wanted.remove(&id);
                match answer {
                    Ok(answer) => wrong += u64::from(answer.value() != key.map(value_of)),
                    Err(error) => failed = Some(error),
                }
                done += 1;
            });
            if let Some(error) = failed.take() {
                return Err(error.into());
            }
        }
        if seed == 1 {
            self.at.explain(user.caller());
        }
        Ok((done, wrong))
    }
}

impl Found {
    fn row(&self) -> [(&'static str, String); 5] {
        [
            ("keys", self.keys.to_string()),
            ("clients", self.clients.to_string()),
            ("under way", self.batch.to_string()),
            ("look-ups", self.lookups.to_string()),
            ("in a second", format!("{:.0}", self.lookups_per_second)),
        ]
    }
}
