//! The stage that the steps of a demo share: the daemons, the connections to them, and the user's wish to stop.

use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use outboard::{Client, Memory, Outboard};
use outboard_launch::{Interrupts, Piece, Sink};
use outboard_link::{Address, Identity};
use outboard_settings::{ByteSize, LogLevel, OrAuto, Settings, default_socket};
use outboard_wire::Role;
use rustix::process::{Pid, Signal, kill_process};

use crate::children::{Child, GRACE};
use crate::ranks::draw_number;
use crate::survey::Survey;

/// The most memory that the memory server gives out. It takes no more than is written to.
const CAPACITY: u64 = 256 << 20;
/// How long anything may take that takes a moment.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// How long to wait between two looks at a daemon.
pub(super) const PAUSE: Duration = Duration::from_millis(1);

/// The daemons and connections that the steps share.
pub(super) struct Stage {
    /// The settings that the daemons are started with. The user's own settings have no part in a demo.
    pub(super) settings: Settings,
    pub(super) interrupts: Interrupts,
    memory: Option<Child>,
    agent: Option<Child>,
    was_interrupted: Cell<bool>,
    identity: Identity,
    said: Arc<Mutex<Vec<String>>>,
}

impl Stage {
    /// A stage without daemons, at sockets that no other program uses.
    pub(super) fn new() -> Result<Self> {
        let number = draw_number().context("no random number for the sockets' names")? as u32;
        let place = |daemon: &str| {
            let socket = default_socket(&format!("demo-{}-{number:08x}-{daemon}", std::process::id()));
            vec![socket, Address::Tcp(([127, 0, 0, 1], 0).into())]
        };
        let mut settings = Settings::default();
        settings.log.level = LogLevel::Warn;
        (settings.memory.name, settings.agent.name) = ("demo-memory".to_owned(), "demo-agent".to_owned());
        settings.memory.listen = place("memory");
        settings.memory.capacity = ByteSize(CAPACITY).into();
        settings.agent.listen = place("agent");
        // One thread each: so a site that is loaded is loaded as a whole, and few processors are enough.
        (settings.memory.workers, settings.agent.workers) = (OrAuto::Given(1), OrAuto::Given(1));
        Ok(Self {
            settings,
            // Before anything is started, so that Ctrl-C leaves nothing behind.
            interrupts: Interrupts::catch()?,
            memory: None,
            agent: None,
            was_interrupted: Cell::new(false),
            identity: Identity::new(Role::Application, "demo"),
            said: Arc::default(),
        })
    }

    /// Starts the memory server.
    pub(super) fn start_memory(&mut self) -> Result<&Child> {
        let child = Child::memory(&self.settings, self.sink())?;
        // The agent is told where it is, and which port it was given.
        self.settings.agent.memory_servers = vec![child.local()?.clone()];
        Ok(self.memory.insert(child))
    }

    /// The memory server.
    pub(super) fn memory(&self) -> Result<&Child> {
        self.memory.as_ref().context("the memory server does not run")
    }

    /// The agent. If the last step has killed it, another one is started.
    pub(super) fn agent(&mut self) -> Result<&Child> {
        if self.agent.is_none() {
            let child = Child::agent(&self.settings, None, self.sink())?;
            self.await_connected(child.local()?)?;
            self.agent = Some(child);
        }
        self.agent.as_ref().context("the agent does not run")
    }

    /// Where processes of this machine reach the agent.
    pub(super) fn agent_address(&mut self) -> Result<Address> {
        Ok(self.agent()?.local()?.clone())
    }

    /// Waits until the agent at this address reaches the memory server.
    fn await_connected(&self, agent: &Address) -> Result<()> {
        let mut survey = Survey::new(vec![agent.clone()], self.settings.link.clone());
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            self.go_on()?;
            if number(&mut survey, "memory_servers_connected") > 0 {
                return Ok(());
            }
            std::thread::park_timeout(PAUSE);
        }
        bail!("the agent found no memory server within {PATIENCE:?}")
    }

    /// The agent's process, for a step that kills it.
    pub(super) fn victim(&mut self) -> Result<Victim> {
        Ok(Victim { pid: self.agent()?.process.pid() })
    }

    /// Ends the agent, if one runs; the next step that needs one starts another.
    pub(super) fn stop_agent(&mut self) -> Result<()> {
        let Some(agent) = self.agent.take() else { return Ok(()) };
        let end = agent.process.stop(GRACE);
        ensure!(end.is_success(), "the agent {end} when it was asked to end");
        Ok(())
    }

    /// Collects an agent that a step has killed.
    pub(super) fn bury_agent(&mut self) -> Result<()> {
        let agent = self.agent.take().context("the agent does not run")?;
        let end = agent.process.stop(GRACE);
        ensure!(!end.is_success(), "the agent was not killed, it {end}");
        Ok(())
    }

    /// The daemons that still run, the agent first: so it does not miss its memory server.
    pub(super) fn take_daemons(&mut self) -> impl Iterator<Item = Child> + use<> {
        [self.agent.take(), self.memory.take()].into_iter().flatten()
    }

    /// Connects to a daemon.
    pub(super) fn connect(&self, address: &Address) -> Result<Client> {
        Ok(Client::connect(address, self.identity.clone(), &self.settings.link)?)
    }

    /// Connects to the memory server.
    pub(super) fn connect_memory(&self, by: By) -> Result<Memory> {
        Ok(self.outboard(by)?.memory()?)
    }

    /// The memory server.
    pub(super) fn outboard(&self, by: By) -> Result<Outboard> {
        let server = by.address(self.memory()?)?.clone();
        let link = self.settings.link.clone();
        Ok(Outboard::at(server).with_link(link).with_identity(self.identity.clone()))
    }

    /// An error once the user has interrupted the demo.
    pub(super) fn go_on(&self) -> Result<()> {
        if self.interrupts.take().is_some() {
            self.was_interrupted.set(true);
        }
        match self.was_interrupted.get() {
            true => bail!("interrupted"),
            false => Ok(()),
        }
    }

    /// Whether a step has ended because the user wanted that.
    pub(super) fn was_interrupted(&self) -> bool {
        self.was_interrupted.get()
    }

    /// Keeps what a process prints, for when something goes wrong.
    fn sink(&self) -> impl Sink + Send + use<> {
        let said = Arc::clone(&self.said);
        move |piece: Piece<'_>| {
            let line = format!("[{}] {}", piece.from, String::from_utf8_lossy(piece.bytes));
            said.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        }
    }

    /// All that the daemons have printed.
    pub(super) fn said(&self) -> Vec<String> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A number on the status pages of daemons, or 0 if there is none.
pub(super) fn number(survey: &mut Survey, name: &str) -> u64 {
    survey.look().seen.iter().filter_map(|sight| sight.view.get(name)).sum()
}

/// A process that a step kills while others use it.
#[derive(Clone, Copy)]
pub(super) struct Victim {
    pub(super) pid: u32,
}

impl Victim {
    /// Kills it without warning.
    pub(super) fn kill(self) -> Result<()> {
        let process = Pid::from_raw(self.pid.cast_signed()).context("the agent has no process number")?;
        kill_process(process, Signal::KILL).with_context(|| format!("cannot kill process {}", self.pid))
    }
}

/// By which kind of link.
#[derive(Clone, Copy)]
pub(super) enum By {
    /// Shared memory.
    Shm,
    /// TCP on the loopback interface.
    Tcp,
}

impl By {
    pub(super) const BOTH: [Self; 2] = [Self::Shm, Self::Tcp];

    /// Where a daemon is reached by it.
    pub(super) fn address(self, daemon: &Child) -> Result<&Address> {
        match self {
            Self::Shm => daemon.local(),
            Self::Tcp => daemon.remote(),
        }
    }

    /// In names of figures.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Shm => "shm",
            Self::Tcp => "tcp",
        }
    }

    /// In sentences.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Shm => "through shared memory",
            Self::Tcp => "over TCP",
        }
    }
}
