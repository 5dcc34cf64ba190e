//! What a control group is charged for far memory that is at a server on the same machine.

use std::io::Write;

use outboard::{Address, RegionOptions};
use outboard_e2e::{Daemon, Group, PATIENCE, Place, Process};

use super::{connect, options};

const VARIABLE: &str = "PROOF_CHARGED";
const CHUNK: usize = 64 << 10;
const BUFFER: usize = 4 << 20;
/// What the group may have: the buffer, two percent of that, and 64 MiB.
const LIMIT: usize = BUFFER + BUFFER / 50 + (64 << 20);
const FOOTPRINT: usize = 10 * LIMIT;
/// Words of a page.
const STEP: usize = 4096 / 8;

/// A process in a control group whose far memory is ten times as large as what that allows.
pub(crate) struct Charged(Address);

impl Charged {
    pub(crate) fn from_environment() -> Option<Self> {
        std::env::var(VARIABLE).ok()?.parse().ok().map(Self)
    }

    /// Plays it; returns the exit code.
    pub(crate) fn run(&self) -> i32 {
        let far = connect(&options(&self.0, CHUNK, BUFFER));
        let region = RegionOptions::default().with_chunk(CHUNK);
        let mut words = far.allocate_with::<u64>(FOOTPRINT / 8, &region).expect("the server has room");
        // All pages are written for the first time, then read and written again.
        for at in (0..words.len()).step_by(STEP) {
            words[at] = at as u64;
        }
        for at in (0..words.len()).step_by(STEP) {
            assert_eq!(words[at], at as u64);
            words[at] += 1;
        }
        println!("{} chunks written back", far.stats().saves);
        let _ = std::io::stdout().flush();
        let mut line = String::new();
        // Its memory is looked at meanwhile.
        let _ = std::io::stdin().read_line(&mut line);
        i32::from(words[STEP] != STEP as u64 + 1)
    }
}

#[test]
fn a_group_is_charged_for_the_buffer_and_not_for_what_is_at_the_server() {
    let Some(group) = Group::of_memory(LIMIT as u64) else { return };
    let place = Place::new();
    let (at, capacity) = (place.socket(), (2 * FOOTPRINT).to_string());
    let arguments = ["--listen", &at, "--capacity", &capacity];
    let daemon = Daemon::start(&place, "memory", "proof-memory", &arguments);
    let mut again = outboard_child::again();
    place.mark(again.env(VARIABLE, daemon.local().to_string()));
    let mut child = Process::start_told(group.around(&again));
    let said = child.line("chunks written back", 3 * PATIENCE);
    let used = group.memory_used();
    let line = said.unwrap_or_else(|| panic!("it is gone, or late: {:?}", child.said()));
    println!("{line} of {FOOTPRINT} bytes; the group uses {used} of {LIMIT} bytes");
    child.tell("go on");
    let (status, said) = child.exit();
    assert!(status.success(), "{status}: {said:?}");
    assert!(used <= LIMIT as u64);
    drop(group);
    daemon.end();
    place.assert_nothing_left();
}
