//! What to start.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use thiserror::Error;

use super::guard::Guard;
use super::stdin::StdinPump;
use super::{Running, StdinTo};
use crate::interrupts::let_children_wait;
use crate::output::OutputSource;
use crate::process::{Crew, ProgramNotFound, Spawn, cpu_set, find_program};

/// Descriptors the launcher holds per rank: two outputs and the process itself.
const FDS_PER_RANK: u64 = 3;
/// What it needs besides.
const FDS_SPARE: u64 = 64;
/// What a pipe takes at once, less what it may need for itself.
const FED_MAX: usize = 60 << 10;

/// A job to start.
pub struct Launch<'a> {
    program: OsString,
    args: Vec<OsString>,
    own_args: Box<dyn Fn(u32) -> Vec<OsString> + 'a>,
    first: u32,
    ranks: u32,
    env: Box<dyn Fn(u32) -> Vec<(String, String)> + 'a>,
    stdin: StdinTo,
    fed: Option<Box<dyn Fn(u32) -> Vec<u8> + 'a>>,
    grace: Duration,
    cpus: Option<Vec<usize>>,
}

/// Why a job was not started. Nothing of it runs then.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// There is no such program.
    #[error(transparent)]
    Program(#[from] ProgramNotFound),
    /// A job of no ranks.
    #[error("a job needs at least one rank")]
    NoRanks,
    /// Standard input for a rank that the job does not have.
    #[error("standard input cannot go to rank {rank}: the ranks are 0 to {}", ranks - 1)]
    NoSuchRank {
        /// The rank asked for.
        rank: u32,
        /// How many there are.
        ranks: u32,
    },
    /// The limit on open files is too low for so many ranks.
    #[error(
        "{ranks} ranks need {needed} open files and the limit is {limit}; raise it with `ulimit -n {needed}`"
    )]
    TooManyFiles {
        /// How many ranks were asked for.
        ranks: u32,
        /// What they need.
        needed: u64,
        /// What is allowed.
        limit: u64,
    },
    /// The process that cleans up after a killed launcher could not be started.
    #[error("cannot start the process that guards the job")]
    Guard(#[source] io::Error),
    /// A rank could not be started; those before it were ended again.
    #[error("cannot start rank {rank} (`{}`)", program.display())]
    Rank {
        /// Which.
        rank: u32,
        /// The file it was to run.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl<'a> Launch<'a> {
    /// A job of one rank of `program`, which is a path or a name to be found in `PATH`.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            own_args: Box::new(|_| Vec::new()),
            first: 0,
            ranks: 1,
            env: Box::new(|_| Vec::new()),
            stdin: StdinTo::default(),
            fed: None,
            grace: Duration::from_secs(2),
            cpus: None,
        }
    }

    /// The program's arguments.
    pub fn args<T: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = T>) -> Self {
        self.args = args.into_iter().map(|arg| arg.as_ref().to_owned()).collect();
        self
    }

    /// What follows these for each rank.
    pub fn own_args(mut self, args: impl Fn(u32) -> Vec<OsString> + 'a) -> Self {
        self.own_args = Box::new(args);
        self
    }

    /// The number of the first rank, where others are started elsewhere; default 0.
    pub fn first(mut self, rank: u32) -> Self {
        self.first = rank;
        self
    }

    /// How many ranks; default 1.
    pub fn ranks(mut self, ranks: u32) -> Self {
        self.ranks = ranks;
        self
    }

    /// What a rank finds in its environment, besides all that the launcher has in its own.
    pub fn env(mut self, env: impl Fn(u32) -> Vec<(String, String)> + 'a) -> Self {
        self.env = Box::new(env);
        self
    }

    /// Which rank gets the launcher's standard input; none by default.
    pub fn stdin(mut self, stdin: StdinTo) -> Self {
        self.stdin = stdin;
        self
    }

    /// Every rank reads this from its standard input, which ends with the job. At most 60 KiB.
    pub fn fed(mut self, bytes: impl Fn(u32) -> Vec<u8> + 'a) -> Self {
        self.fed = Some(Box::new(bytes));
        self
    }

    /// How long a rank that was asked to end may take before it is killed; default 2 s.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// The processors that the ranks may use; default those of the launcher.
    pub fn cpus(mut self, cpus: Option<Vec<usize>>) -> Self {
        self.cpus = cpus;
        self
    }

    /// Starts every rank, or none.
    ///
    /// The ranks live at most as long as the calling thread: the kernel ties them to it.
    pub fn start(self) -> Result<Running, LaunchError> {
        let program = find_program(&self.program)?;
        self.check()?;
        let_children_wait();
        let guard = Guard::start(self.ranks as usize).map_err(LaunchError::Guard)?;
        let mut running = Running::new(Crew::new(self.grace), guard, self.first);
        for rank in self.first..self.first + self.ranks {
            let started = self.start_rank(rank, &program, &mut running);
            started.map_err(|source| LaunchError::Rank { rank, program: program.clone(), source })?;
        }
        Ok(running)
    }

    fn check(&self) -> Result<(), LaunchError> {
        let ranks = self.ranks;
        if ranks == 0 {
            return Err(LaunchError::NoRanks);
        }
        if let StdinTo::Rank(rank) = self.stdin
            && !(self.first..self.first + ranks).contains(&rank)
        {
            return Err(LaunchError::NoSuchRank { rank, ranks });
        }
        let needed = u64::from(ranks) * (FDS_PER_RANK + u64::from(self.fed.is_some())) + FDS_SPARE;
        match getrlimit(Resource::Nofile).current {
            Some(limit) if limit < needed => Err(LaunchError::TooManyFiles { ranks, needed, limit }),
            _ => Ok(()),
        }
    }

    fn start_rank(&self, rank: u32, program: &Path, running: &mut Running) -> io::Result<()> {
        let gets_stdin = self.fed.is_some() || self.stdin == StdinTo::Rank(rank);
        let args = [self.args.clone(), (self.own_args)(rank)].concat();
        let spawn = Spawn {
            program,
            called: &self.program,
            args: &args,
            env: (self.env)(rank),
            cpus: self.cpus.as_deref().map(cpu_set),
            stdin: if gets_stdin { Stdio::piped() } else { Stdio::null() },
            announce_to: running.guard_pipe(),
            pass: None,
        };
        let mut member = spawn.start(OutputSource::Rank(rank))?;
        let stdin = member.stdin.take();
        running.crew.members.push(member);
        let Some(output) = stdin else { return Ok(()) };
        if let Some(fed) = &self.fed {
            let bytes = fed(rank);
            if bytes.len() > FED_MAX {
                return Err(io::Error::from(io::ErrorKind::ArgumentListTooLong));
            }
            // A new pipe has room for it. A rank that has ended already says by its end what was wrong.
            match File::from(output.try_clone()?).write_all(&bytes) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                written => written?,
            }
            running.fed.push(output);
        } else {
            let input = io::stdin().as_fd().try_clone_to_owned()?;
            running.stdin = Some(StdinPump::new(input, output)?);
        }
        Ok(())
    }
}

impl fmt::Debug for Launch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = f.debug_struct("Launch");
        parts.field("program", &self.program).field("args", &self.args).field("ranks", &self.ranks);
        parts.field("stdin", &self.stdin).field("grace", &self.grace).field("cpus", &self.cpus);
        parts.finish_non_exhaustive()
    }
}
