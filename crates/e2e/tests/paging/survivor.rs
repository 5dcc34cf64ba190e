//! The program in the documents that goes on when its agent dies.

use outboard_e2e::{Daemon, Place, Process};

/// The program, which is run as it stands there.
#[path = "../../../outboard/examples/survivor.rs"]
mod example;

const VARIABLE: &str = "PROOF_SURVIVOR";

/// A process that runs it.
pub(crate) struct Survivor;

impl Survivor {
    pub(crate) fn from_environment() -> Option<Self> {
        std::env::var_os(VARIABLE).map(|_| Self)
    }

    /// Plays it; returns the exit code.
    pub(crate) fn run(&self) -> i32 {
        match example::main() {
            Ok(()) => 0,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn the_program_in_the_documents_survives_its_agent() {
    let place = Place::new();
    let memory = Daemon::memory(&place, &place.socket(), &[]);
    for by_tcp in [false, true] {
        let agent = Daemon::agent(&place, &place.socket(), &memory.local().to_string(), &[]);
        let at = if by_tcp { agent.remote() } else { agent.local() };
        let mut command = outboard_child::again();
        command.env(VARIABLE, "");
        command
            .env("OUTBOARD_JOB_MEMORY", memory.local().to_string())
            .env("OUTBOARD_JOB_AGENT", at.to_string());
        place.mark(&mut command);
        let mut program = Process::start_told(command);
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
