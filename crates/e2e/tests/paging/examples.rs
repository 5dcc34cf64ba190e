//! The programs in the documents that go on when a daemon dies, run as they stand there.

use std::error::Error;
use std::process::Command;

use outboard_e2e::{Daemon, Place, Process};

use super::living_on::serve;

#[allow(unreachable_pub, reason = "it is a program of its own")]
#[path = "../../../outboard/examples/living_on.rs"]
mod living_on;
#[path = "../../../outboard/examples/survivor.rs"]
mod survivor;

const VARIABLE: &str = "PROOF_EXAMPLE";

/// One of these programs, for a process that plays it.
#[derive(Clone, Copy)]
pub(crate) enum Example {
    /// Goes on when its memory server is lost.
    LivingOn,
    /// Goes on when its agent dies.
    Survivor,
}

impl Example {
    fn name(self) -> &'static str {
        match self {
            Self::LivingOn => "living_on",
            Self::Survivor => "survivor",
        }
    }

    fn main(self) -> Result<(), Box<dyn Error>> {
        match self {
            Self::LivingOn => living_on::main(),
            Self::Survivor => survivor::main(),
        }
    }

    pub(crate) fn from_environment() -> Option<Self> {
        let name = std::env::var(VARIABLE).ok()?;
        [Self::LivingOn, Self::Survivor].into_iter().find(|example| example.name() == name)
    }

    /// Plays it; returns the exit code.
    pub(crate) fn run(self) -> i32 {
        match self.main() {
            Ok(()) => 0,
            Err(error) => panic!("{error}"),
        }
    }

    /// Starts a process that plays it, with more arguments or variables.
    fn start(self, place: &Place, more: impl FnOnce(&mut Command) -> &mut Command) -> Process {
        let mut command = outboard_child::again();
        more(command.env(VARIABLE, self.name()));
        place.mark(&mut command);
        Process::start_told(command)
    }
}

#[test]
fn the_program_in_the_documents_lives_on() {
    let place = Place::new();
    let at = place.socket();
    let first = serve(&place, &at);
    let mut program = Example::LivingOn.start(&place, |command| command.arg(&at));
    program.await_line(["counting"]);
    first.process.kill();
    // One that has been started anew need not be waited for.
    let second = serve(&place, &at);
    let told = program.await_line(["is lost", "with it"]);
    assert!(told.contains("proof-memory") && told.contains(&at), "{told}");
    let (status, said) = program.exit();
    assert_eq!(status.code(), Some(0), "{said:?}");
    let saved = said.iter().find_map(|line| line.strip_prefix("saved ")?.strip_suffix(" counters"));
    let saved: usize = saved.and_then(|count| count.parse().ok()).expect("it says what it has saved");
    assert!(saved > 0 && saved * size_of::<u64>() <= 16 << 20, "{saved}");
    second.end();
    place.assert_nothing_left();
}

#[test]
fn the_program_in_the_documents_survives_its_agent() {
    let place = Place::new();
    let memory = Daemon::memory(&place, &place.socket(), &[]);
    for by_tcp in [false, true] {
        let agent = Daemon::agent(&place, &place.socket(), &memory.local().to_string(), &[]);
        let at = if by_tcp { agent.remote() } else { agent.local() };
        let daemons = [("OUTBOARD_JOB_MEMORY", memory.local()), ("OUTBOARD_JOB_AGENT", at)];
        let daemons = daemons.map(|(variable, address)| (variable, address.to_string()));
        let mut program = Example::Survivor.start(&place, |command| command.envs(daemons));
        program.await_line("counting, by an agent");
        agent.process.kill();
        let (status, said) = program.exit();
        assert_eq!(status.code(), Some(0), "{said:?}");
        // Each fault thread had a link.
        let last =
            said.iter().find(|line| line.starts_with("every counter is 40; ")).expect("it counts to the end");
        assert!(!last.contains("; 0 links"), "{last}");
    }
    memory.end();
    place.assert_nothing_left();
}
