//! Processes that fork.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use outboard::{Address, Children, FarMapping, FarMemory, FaultAnswer, Mover, Path, RegionOptions};
use outboard_e2e::{Place, Process};

use super::super::{connect, options};
use super::acts;

const VARIABLE: &str = "PROOF_FORKER";
pub(super) const CHUNK: usize = 16 << 10;
/// How many chunks the buffer has room for.
pub(super) const SEATS: usize = 16;
/// How a process ends that has done all, as its exit code.
pub(super) const DONE: i32 = 52;

/// What such a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scene {
    /// Its threads write and discard; it forks, and each child compares all bytes.
    Churn,
    /// Its threads count words up without a pause; it forks, and each child looks at the words twice.
    Count,
    /// Its child reads much more than there is room for.
    ReadAll,
    /// It starts other programs, in every way that there is.
    Exec,
    /// Its child calls the library, and forks.
    Refused,
    /// Its child moves and unmaps what it sees.
    Remap,
    /// It frees what its child reads.
    Free,
    /// It writes more than the server has room for, with what its child needs.
    Fill,
    /// Its child waits to be told, or for the end of its parent, and touches what is not here.
    Wait,
}

impl Scene {
    const ALL: [Self; 9] = [
        Self::Churn,
        Self::Count,
        Self::ReadAll,
        Self::Exec,
        Self::Refused,
        Self::Remap,
        Self::Free,
        Self::Fill,
        Self::Wait,
    ];
}

/// A process that forks.
#[derive(Clone, Debug)]
pub(crate) struct Forker {
    pub(super) scene: Scene,
    pub(super) server: Address,
    pub(super) agent: Option<Address>,
    pub(super) faults: FaultAnswer,
    pub(super) copies: bool,
    pub(super) grace: Duration,
}

impl Forker {
    pub(super) fn new(scene: Scene, server: &Address) -> Self {
        let (server, grace) = (server.clone(), Duration::from_millis(200));
        Self { scene, server, agent: None, faults: FaultAnswer::Threads, copies: false, grace }
    }

    pub(super) fn start(&self, place: &Place) -> Process {
        let mut command = outboard_child::again();
        let agent = self.agent.as_ref().map_or_else(|| "none".to_owned(), Address::to_string);
        let in_place = self.faults == FaultAnswer::Signal;
        let Self { scene, server, copies, grace, .. } = self;
        command
            .env(VARIABLE, format!("{scene:?} {server} {in_place} {copies} {} {agent}", grace.as_millis()));
        place.mark(&mut command);
        Process::start_told(command)
    }

    /// What this process was started as, if it is one of these.
    pub(crate) fn from_environment() -> Option<Self> {
        let text = std::env::var(VARIABLE).ok()?;
        let mut words = text.split(' ');
        let scene = words.next()?;
        let scene = Scene::ALL.into_iter().find(|other| format!("{other:?}") == scene)?;
        let server = words.next()?.parse().ok()?;
        let faults = if words.next()? == "true" { FaultAnswer::Signal } else { FaultAnswer::Threads };
        let copies = words.next()? == "true";
        let grace = Duration::from_millis(words.next()?.parse().ok()?);
        Some(Self { scene, server, agent: words.next()?.parse().ok(), faults, copies, grace })
    }

    /// Plays it; returns the exit code.
    pub(crate) fn run(&self) -> i32 {
        let mut options = options(&self.server, CHUNK, SEATS * CHUNK).with_agent(self.agent.clone());
        (options.threads, options.faults) = (Some(2), self.faults);
        (options.grace, options.children) = (self.grace, Children::Snapshot);
        // As processes without privilege have it, whose faults the library answers so by itself.
        options.is_unprivileged = self.faults == FaultAnswer::Signal;
        if self.copies {
            options.mover = Some(Mover::Copy);
        }
        let memory = connect(&options);
        match self.scene {
            Scene::Churn => acts::churn(&memory, self.agent.is_some()),
            Scene::Count => acts::count(&memory),
            Scene::ReadAll => acts::read_all(&memory),
            Scene::Exec => acts::exec(&memory),
            Scene::Refused => acts::refused(&memory),
            Scene::Remap => acts::remap(&memory),
            Scene::Free => acts::free(&memory),
            Scene::Fill => acts::fill(&memory),
            Scene::Wait => acts::wait(&memory),
        }
        DONE
    }
}

pub(super) fn reserve(memory: &FarMemory, chunks: usize) -> FarMapping {
    let region = RegionOptions { chunk: CHUNK, path: Path::Direct, ..Default::default() };
    memory.reserve((chunks * CHUNK) as u64, &region).expect("the server has room")
}

/// A child that was forked.
#[must_use]
pub(super) struct ForkedChild(libc::pid_t);

impl ForkedChild {
    /// Forks, and has the child do this. It ends with the exit code 0 if that does not panic.
    pub(super) fn of(work: impl FnOnce()) -> Self {
        // SAFETY: the child calls what is sound in the child of a process with threads, and ends without a word to any.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let done = catch_unwind(AssertUnwindSafe(work));
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(if done.is_ok() { 0 } else { 1 }) };
        }
        assert!(child > 0, "no more processes");
        Self(child)
    }

    /// Waits for its end, and returns its status.
    pub(super) fn status(self) -> libc::c_int {
        let mut status = 0;
        // SAFETY: waits for a child of this process.
        assert_eq!(unsafe { libc::waitpid(self.0, &raw mut status, 0) }, self.0);
        status
    }

    #[track_caller]
    pub(super) fn succeeded(self) {
        let status = self.status();
        assert_eq!(status, 0, "the child has ended with {status:#x}");
    }

    /// Asserts that a signal has ended it.
    #[track_caller]
    pub(super) fn killed_by(self, signal: libc::c_int) {
        let status = self.status();
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == signal, "{status:#x}");
    }
}
