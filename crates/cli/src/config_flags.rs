//! Settings on the command line: a flag for every key, without a line here for any of them.

use std::ffi::{OsStr, OsString};
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches, value_parser};
use outboard_limits::Allowance;
use outboard_settings::{Chosen, Configuration, Entry, Inputs, Key, Literal};
use serde_json::{Value, json};

use crate::{children, log, terminal};

/// Which keys a command has flags for.
pub(crate) trait About {
    /// The section whose keys go by their short names: `--capacity` where it is `memory`.
    const SECTION: &'static str;
    /// Further sections, whose keys go by their full names: `--link-ring`.
    const OTHERS: &'static [&'static str];
    /// Keys that the command sets itself.
    const DECIDED: &'static [&'static str] = &[];
    /// Whether it may be one of several ranks: all notices of all of them are too many for the person who has started them.
    const MAY_BE_A_RANK: bool = false;
}

/// The settings that a tool takes that speaks to daemons.
pub(crate) struct Tool;

impl About for Tool {
    const SECTION: &'static str = "";
    const OTHERS: &'static [&'static str] = &["link", "log"];
}

/// Short names that people expect, beside the ones that follow from the keys.
const ALIASES: [(&str, &str); 5] = [
    ("memory.capacity", "capacity"),
    ("memory.keep", "keep"),
    ("memory.keep_sync", "keep-sync"),
    ("metrics.listen", "metrics"),
    ("agent.wire", "wire"),
];

/// The settings that people change most: of all settings only these are in the short help of the commands that they are about.
const COMMON: [&str; 16] = [
    "memory.listen",
    "memory.capacity",
    "memory.data_dir",
    "memory.keep",
    "memory.workers",
    "agent.listen",
    "agent.memory_servers",
    "agent.peers",
    "agent.workers",
    "agent.cache",
    "agent.quota",
    "agent.wire",
    "far.servers",
    "far.buffer",
    "far.path",
    "far.cache",
];

const CONFIG: &str = "config";
const PRINT_CONFIG: &str = "print-config";
const HEADING: &str = "Settings";

/// Under which heading the flags of a section stand.
fn heading(section: &str) -> String {
    let about = match section {
        "memory" => "the memory server",
        "agent" => "the agent",
        "calling" => "functions",
        "far" => "far memory",
        "job" => "the job",
        "messages" => "messages",
        "link" => "links",
        "log" => "the log",
        "metrics" => "metrics",
        other => other,
    };
    format!("{HEADING} of {about} [{section}]")
}

/// The flags of all settings, `--config` and `--print-config`.
pub(crate) struct ConfigFlags<A> {
    inputs: Inputs,
    print: bool,
    about: PhantomData<A>,
}

impl<A: About> ConfigFlags<A> {
    /// Finds the configuration and starts the log. If only the configuration was asked for, prints it: then there
    /// is nothing more to do, and no configuration to do it with.
    pub(crate) fn open(&self, as_json: bool) -> Result<Option<Configuration>> {
        let configuration = Configuration::load(&self.inputs)?;
        if self.print {
            let chosen = configuration.settings.chosen(&Allowance::of_this_process());
            let text = match as_json {
                true => to_json(configuration.entries(), &chosen),
                false => configuration.to_toml(&chosen),
            };
            terminal::print(text.trim_end())?;
            return Ok(None);
        }
        let is_rank = A::MAY_BE_A_RANK && configuration.settings.job.size.is_some_and(|size| size > 1);
        log::start(
            &if is_rank { children::quiet(&configuration) } else { configuration.settings.clone() }.log,
        );
        WARNED.store(true, Ordering::Relaxed);
        for notice in configuration.notices() {
            tracing::warn!("{notice}");
        }
        Ok(Some(configuration))
    }
}

/// Whether what is probably a mistake in the settings was told.
static WARNED: AtomicBool = AtomicBool::new(false);

/// Tells it at the end of commands that have no settings and no log.
pub(crate) fn warn_unless_warned() {
    // A process that this program has started says nothing that its parent has said.
    if WARNED.load(Ordering::Relaxed) || std::env::args_os().nth(1).is_some_and(|command| is_inner(&command))
    {
        return;
    }
    let Ok(configuration) = Configuration::load(&Inputs::from_process()) else { return };
    for notice in configuration.notices() {
        eprintln!("outboard: warning: {notice}");
    }
}

/// Whether it is a command by which this program starts itself.
fn is_inner(command: &OsStr) -> bool {
    use clap::CommandFactory;
    let command = command.to_string_lossy();
    crate::CommandLine::command().find_subcommand(&*command).is_some_and(Command::is_hide_set)
}

fn to_json(entries: &[Entry], chosen: &[Chosen]) -> String {
    let value = |literal: &Literal| match literal {
        Literal::Text(text) => json!(text),
        Literal::Number(number) => {
            number.parse::<u64>().map_or_else(|_| json!(number), |number| json!(number))
        }
        Literal::Switch(on) => json!(on),
        Literal::List(parts) => json!(parts),
        Literal::Secret | Literal::Foreign(_) => Value::Null,
    };
    let entry = |entry: &Entry| {
        let mut shown = json!({
            "key": entry.key.name(), "value": value(&entry.value), "origin": entry.origin.to_string(),
        });
        if let Some(chosen) = chosen.iter().find(|chosen| chosen.key == entry.key.name()) {
            shown["here"] = json!({"value": chosen.value, "why": chosen.why});
        }
        shown
    };
    Value::Array(entries.iter().map(entry).collect()).to_string()
}

/// The keys that a command has flags for, with the flags' names.
fn flags<A: About>() -> impl Iterator<Item = (Key, String)> {
    let wanted = |key: &Key| A::SECTION == key.section || A::OTHERS.contains(&key.section);
    let keys = outboard_settings::keys().into_iter().filter(move |key| wanted(key));
    keys.filter(|key| !A::DECIDED.contains(&key.name().as_str())).filter_map(|key| {
        let flag = key.flag(A::SECTION)?;
        Some((key, flag))
    })
}

/// How its values are written on a command line.
fn form(key: &Key) -> String {
    match (key.is_list, key.kind) {
        (true, _) => "several: repeat the flag, or separate them by commas".to_owned(),
        (false, "text") => "a text".to_owned(),
        (false, _) => key.takes(),
    }
}

fn flag(key: &Key, name: &str, is_main: bool) -> Arg {
    let doc = key.doc.trim_end_matches('.');
    let mut arg = Arg::new(key.name())
        .long(name.to_owned())
        .value_name(key.kind.to_uppercase())
        .help(format!("{doc} [default: {}]", key.default))
        .long_help(format!("{doc}\n\n[{}] [default: {}] [env: {}]", form(key), key.default, key.variable()))
        .help_heading(heading(key.section))
        .hide_short_help(!is_main || !COMMON.contains(&key.name().as_str()))
        .value_parser(value_parser!(OsString))
        .action(if key.is_list { ArgAction::Append } else { ArgAction::Set });
    if let Literal::Switch(_) = key.default {
        arg = arg.num_args(0..=1).default_missing_value("on").require_equals(true);
    }
    // The full name is understood wherever the short one is.
    if let Some(full) = key.flag("").filter(|full| full != name) {
        arg = arg.alias(full);
    }
    let alias = ALIASES.iter().find(|(known, alias)| *known == key.name() && *alias != name);
    match alias {
        Some((_, alias)) => arg.visible_alias(*alias),
        None => arg,
    }
}

impl<A: About> clap::Args for ConfigFlags<A> {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new(CONFIG)
            .long(CONFIG)
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help("Read settings from this TOML file, `-` for standard input; none reads no file")
            .help_heading(HEADING);
        let print = Arg::new(PRINT_CONFIG)
            .long(PRINT_CONFIG)
            .action(ArgAction::SetTrue)
            .help("Print all settings and where each came from, and do nothing else")
            .help_heading(HEADING);
        let flags = flags::<A>().map(|(key, name)| flag(&key, &name, key.section == A::SECTION));
        command.arg(config).arg(print).args(flags)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<A: About> FromArgMatches for ConfigFlags<A> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut inputs = Inputs::from_process();
        if let Some(path) = matches.get_one::<PathBuf>(CONFIG) {
            inputs = inputs.config(path);
        }
        for (key, name) in flags::<A>() {
            for value in matches.get_many::<OsString>(&key.name()).into_iter().flatten() {
                let flag = format!("--{name}");
                let text = value.to_str().ok_or_else(|| not_text(&flag, value))?;
                inputs = inputs.flag(&key.name(), &flag, text);
            }
        }
        Ok(Self { inputs, print: matches.get_flag(PRINT_CONFIG), about: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn not_text(flag: &str, value: &OsStr) -> clap::Error {
    let message = format!(
        "{flag}: “{}” is not UTF-8 text, as settings are; give a path another name, or lead to it by a symbolic link\n",
        value.to_string_lossy()
    );
    clap::Error::raw(ErrorKind::InvalidUtf8, message)
}

#[cfg(test)]
mod tests {
    use outboard_settings::ByteSize;

    use super::*;

    struct Everything;

    impl About for Everything {
        const SECTION: &'static str = "memory";
        const OTHERS: &'static [&'static str] =
            &["agent", "calling", "far", "job", "link", "log", "messages", "metrics"];
    }

    #[test]
    fn every_key_has_a_flag_except_secrets() {
        let command = <ConfigFlags<Everything> as clap::Args>::augment_args(Command::new("test"));
        command.clone().debug_assert();
        for key in outboard_settings::keys() {
            let found = command.get_arguments().any(|arg| arg.get_id() == key.name().as_str());
            assert_eq!(found, !key.is_secret, "{key}");
        }
    }

    #[test]
    fn a_flag_reaches_the_settings_under_its_own_name_and_its_alias() {
        let command = <ConfigFlags<Everything> as clap::Args>::augment_args(Command::new("test"));
        let line = [
            "test",
            "--config",
            "none",
            "--capacity",
            "1GiB",
            "--metrics",
            "127.0.0.1:9",
            "--link-allow-remote",
        ];
        let flags = ConfigFlags::<Everything>::from_arg_matches(&command.get_matches_from(line)).unwrap();
        let settings = Configuration::load(&flags.inputs).unwrap().settings;
        assert_eq!(settings.memory.capacity, ByteSize(1 << 30).into());
        assert_eq!(settings.metrics.listen, Some("127.0.0.1:9".parse().unwrap()));
        assert!(settings.link.allow_remote);
    }
}
