//! The helpers that programs find when they run from the command line.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use outboard_ebpf::{Answer, Argument, Helper, HelperMemory, Helpers, Host, Quantity, Returns};

use crate::failure::wrong_usage;

/// What `crates/ebpf/include/outboard.h` declares, with the numbers that texts and bytes may use.
const LOG: (u32, &str) = (1, "outboard_log");
const TIME: (u32, &str) = (2, "outboard_time");
const RANDOM: (u32, &str) = (3, "outboard_random");

/// What is shown of one logged message.
const LOG_LEN_MAX: usize = 1024;

/// Helpers that the command line declares.
#[derive(clap::Args)]
pub(super) struct Declared {
    /// Declare another helper by number and name; it answers VALUE, or 0
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
    /// The table of all helpers.
    pub(super) fn table(&self) -> Result<Helpers> {
        let mut table = vec![
            helper(LOG, vec![Argument::Reads(Quantity::Argument(1)), Argument::Scalar]),
            helper(TIME, Vec::new()),
            helper(RANDOM, Vec::new()),
        ];
        table.extend(self.helpers.iter().map(|declared| {
            let arguments = vec![Argument::Scalar; outboard_ebpf::helper::ARGUMENTS];
            helper((declared.id, &declared.name), arguments)
        }));
        Helpers::new(table).map_err(|error| wrong_usage(&format!("--helper: {error}")))
    }

    /// Who answers them.
    pub(super) fn site(&self) -> Site<'_> {
        Site { declared: &self.helpers }
    }
}

fn helper((id, name): (u32, &str), arguments: Vec<Argument>) -> Helper {
    Helper { id, name: name.to_owned(), arguments, returns: Returns::Scalar, may_suspend: false }
}

/// This process, for a program that calls helpers.
pub(super) struct Site<'a> {
    declared: &'a [Declaration],
}

impl Host for Site<'_> {
    fn call(&mut self, helper: &Helper, &arguments: &[u64; 5], memory: &mut HelperMemory<'_>) -> Answer {
        match helper.id {
            id if id == LOG.0 => log(arguments, memory),
            id if id == TIME.0 => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Answer::Value(since.as_nanos() as u64)
            }
            id if id == RANDOM.0 => Answer::Value(fastrand::u64(..)),
            id => {
                let declared = self.declared.iter().find(|declared| declared.id == id);
                declared.map_or(Answer::Trap(0), |declared| Answer::Value(declared.answer))
            }
        }
    }
}

/// Shows a message; one that the program does not have ends the run.
fn log([address, length, ..]: [u64; 5], memory: &HelperMemory<'_>) -> Answer {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let Ok(message) = memory.read(address, length) else { return Answer::Trap(LOG.0) };
    let shown = String::from_utf8_lossy(&message[..length.min(LOG_LEN_MAX)]);
    // A program that nobody trusts has no business with the terminal's escape sequences.
    let shown: String = shown.chars().flat_map(escaped).collect();
    eprintln!("log: {shown}");
    Answer::Value(0)
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
