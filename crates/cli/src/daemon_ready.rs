//! How a daemon tells the process that started it that it is ready.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;

use outboard_launch::READY_FD_VARIABLE;
use outboard_link::Address;

/// Writes where the daemon listens to the descriptor that the starter has named, if it has.
pub(crate) fn announce(listening: &[Address]) {
    let Some(number) = env::var(READY_FD_VARIABLE).ok().and_then(|text| text.parse::<u32>().ok()) else {
        return;
    };
    let opened = OpenOptions::new().write(true).open(format!("/proc/self/fd/{number}"));
    let written = opened.and_then(|mut pipe| pipe.write_all(format!("{}\n", show(listening)).as_bytes()));
    if let Err(error) = written {
        tracing::warn!(
            "cannot say on descriptor {number} (${READY_FD_VARIABLE}) that this daemon is ready: {error}"
        );
    }
}

/// Addresses in a line.
pub(crate) fn show(listening: &[Address]) -> String {
    listening.iter().map(Address::to_string).collect::<Vec<_>>().join(" ")
}

/// The addresses of a line. What is none is left out.
pub(crate) fn read(line: &str) -> Vec<Address> {
    line.split_ascii_whitespace().filter_map(|part| part.parse().ok()).collect()
}
