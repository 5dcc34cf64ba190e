//! The helpers that programs find when they run from the command line.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use outboard_ebpf::{Argument, Helper, HelperAnswer, HelperHost, HelperMemory, Helpers, Returns};

use crate::failure::wrong_usage;

/// The helpers that the command line itself answers: what `crates/ebpf/include/outboard.h` declares.
const LOG: u32 = 1;
const TIME: u32 = 2;
const RANDOM: u32 = 3;

/// The part of a logged message that is shown.
const LOG_LEN_MAX: usize = 1024;

/// Helpers that the command line declares.
#[derive(clap::Args)]
pub(super) struct Declared {
    /// Declare another helper by number and name; it answers VALUE, or 0. A helper that needs a region gets an answer so
    #[arg(long = "helper", value_name = "ID:NAME[=VALUE]", value_parser = declaration)]
    helpers: Vec<Declaration>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Declaration {
    id: u32,
    name: String,
    answer: u64,
}

impl Declared {
    /// The table of all helpers: those of every site, and those that were declared. A declared helper takes the place of
    /// a site's helper that the command line cannot answer.
    pub(super) fn table(&self) -> Result<Helpers> {
        let replaced = |helper: &Helper| {
            let is_same = |declared: &Declaration| declared.id == helper.id || declared.name == helper.name;
            !is_answered(helper.id) && self.helpers.iter().any(is_same)
        };
        let sites = outboard_calling::helpers();
        let mut table: Vec<Helper> = sites.all().iter().filter(|helper| !replaced(helper)).cloned().collect();
        table.extend(self.helpers.iter().map(|declared| Helper {
            id: declared.id,
            name: declared.name.clone(),
            arguments: vec![Argument::Scalar; outboard_ebpf::helper::ARGUMENTS],
            returns: Returns::Scalar,
            may_suspend: false,
        }));
        Helpers::new(table).map_err(|error| wrong_usage(&format!("--helper: {error}")))
    }

    /// The site that answers them.
    pub(super) fn site(&self) -> Site<'_> {
        Site { declared: &self.helpers }
    }
}

/// Whether the command line answers a site's helper itself.
fn is_answered(id: u32) -> bool {
    matches!(id, LOG | TIME | RANDOM)
}

/// Advice about a helper that ended a run because the command line cannot answer it.
pub(super) fn advice(helper: &Helper) -> Option<String> {
    let sites = outboard_calling::helpers();
    let is_unanswered = sites.get(helper.id) == Some(helper) && !is_answered(helper.id);
    is_unanswered.then(|| {
        let Helper { id, name, .. } = helper;
        format!("`{name}` needs a call at a site; to go on here, give it an answer with --helper {id}:{name}=VALUE")
    })
}

/// This process, for a program that calls helpers.
pub(super) struct Site<'a> {
    declared: &'a [Declaration],
}

impl HelperHost for Site<'_> {
    fn call(
        &mut self,
        helper: &Helper,
        &arguments: &[u64; 5],
        memory: &mut HelperMemory<'_>,
    ) -> HelperAnswer {
        match helper.id {
            LOG => log(arguments, memory),
            TIME => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                HelperAnswer::Value(since.as_nanos() as u64)
            }
            RANDOM => HelperAnswer::Value(fastrand::u64(..)),
            id => {
                let declared = self.declared.iter().find(|declared| declared.id == id);
                declared.map_or(HelperAnswer::Trap(id), |declared| HelperAnswer::Value(declared.answer))
            }
        }
    }
}

/// Shows a message; one that the program does not have ends the run.
fn log([address, length, ..]: [u64; 5], memory: &HelperMemory<'_>) -> HelperAnswer {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let Ok(message) = memory.read(address, length) else { return HelperAnswer::Trap(LOG) };
    let shown = String::from_utf8_lossy(&message[..length.min(LOG_LEN_MAX)]);
    // A program that is not trusted has no business with the terminal's escape sequences.
    let shown: String = shown.chars().flat_map(escaped).collect();
    eprintln!("log: {shown}");
    HelperAnswer::Value(0)
}

fn escaped(letter: char) -> Vec<char> {
    if letter.is_control() { letter.escape_default().collect() } else { vec![letter] }
}

fn declaration(text: &str) -> Result<Declaration, String> {
    let wrong = || "expected ID:NAME or ID:NAME=VALUE, such as 77:ask=5".to_owned();
    let (id, rest) = text.split_once(':').ok_or_else(wrong)?;
    let (name, answer) = rest.split_once('=').unwrap_or((rest, "0"));
    let answer = match answer.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => answer.parse(),
    };
    Ok(Declaration {
        id: id.parse().map_err(|_| wrong())?,
        name: name.to_owned(),
        answer: answer.map_err(|_| wrong())?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helpers_are_declared_with_number_name_and_answer() {
        let ask = |answer| Ok(Declaration { id: 77, name: "ask".to_owned(), answer });
        assert_eq!(declaration("77:ask"), ask(0));
        assert_eq!(declaration("77:ask=5"), ask(5));
        assert_eq!(declaration("77:ask=0xff"), ask(255));
        for wrong in ["ask", "x:ask", "77:ask=", "77:ask=-1"] {
            assert!(declaration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn messages_cannot_command_the_terminal() {
        assert_eq!("a\x1b[2J".chars().flat_map(escaped).collect::<String>(), "a\\u{1b}[2J");
    }
}
