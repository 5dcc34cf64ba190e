//! What a client process does: it uses the library as any application would, and says what befalls it.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use outboard::{Address, AskError, Client, FarRegion, Job, Memory, Settings};
use outboard_e2e::{PATIENCE, Place, Process, Random};
use outboard_link::Identity;
use outboard_settings::{AddressChoice, Secret};
use outboard_wire::{JobId, Rank, Role};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

const VARIABLE: &str = "PROOF_TENANT";

/// What a tenant does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Takes its place in a job, then uses far memory and the agent by turns.
    Work,
    /// Adds to one word of far memory, and speaks to nobody.
    Add,
    /// Has its region with a name to itself, and does nothing.
    Lease,
    /// Sends frames to the agent and back, as fast as it can.
    Echo,
}

/// All that a tenant needs to know.
#[derive(Clone, Debug)]
pub(crate) struct Tenant {
    pub(crate) act: Act,
    pub(crate) agent: Option<Address>,
    pub(crate) memory: Option<Address>,
    pub(crate) seed: u64,
    /// Rank, size and number of its job.
    pub(crate) job: (u32, u32, u64),
}

/// How a tenant ends, as its exit code.
pub(crate) const ENDED_WHEN_ASKED: i32 = 40;
pub(crate) const LOST_EVERYBODY: i32 = 42;
pub(crate) const NEVER_MET: i32 = 43;

/// Where in the named region it counts, and where it leaves its seed.
pub(crate) const COUNT_AT: u64 = 0;
pub(crate) const SEED_AT: u64 = 64;

impl Tenant {
    pub(crate) fn new(act: Act, agent: Option<&Address>, memory: Option<&Address>, seed: u64) -> Self {
        Self { act, agent: agent.cloned(), memory: memory.cloned(), seed, job: (0, 1, 0) }
    }

    /// Its region that outlives it.
    pub(crate) fn region_name(&self) -> String {
        format!("region-{:x}-{}", self.seed, self.job.0)
    }

    /// How large its regions are: the one that ends with it, and the one with a name.
    pub(crate) fn sizes(&self) -> [u64; 2] {
        let mut random = Random::new(self.seed);
        [1 + random.below(64), 1 + random.below(16)].map(|pages| pages * 4096)
    }

    /// Starts it as a process: the test's own program, anew.
    pub(crate) fn start(&self, place: &Place) -> Process {
        let mut command = outboard_child::again();
        command.env(VARIABLE, self.to_text());
        place.mark(&mut command);
        Process::start_told(command)
    }

    fn to_text(&self) -> String {
        let Self { act, agent, memory, seed, job: (rank, size, id) } = self;
        let at = |address: &Option<Address>| address.as_ref().map_or("none".to_owned(), Address::to_string);
        format!("{act:?} {} {} {seed} {rank} {size} {id}", at(agent), at(memory))
    }

    /// What this process was started as, if it is a tenant.
    pub(crate) fn from_environment() -> Option<Self> {
        let text = std::env::var(VARIABLE).ok()?;
        let mut words = text.split(' ');
        let act = match words.next()? {
            "Work" => Act::Work,
            "Add" => Act::Add,
            "Lease" => Act::Lease,
            _ => Act::Echo,
        };
        let (agent, memory) = (words.next()?.parse().ok(), words.next()?.parse().ok());
        let mut number = || words.next()?.parse::<u64>().ok();
        let (seed, rank, size, id) = (number()?, number()?, number()?, number()?);
        Some(Self { act, agent, memory, seed, job: (rank as u32, size as u32, id) })
    }

    /// Plays it; returns the exit code.
    pub(crate) fn run(&self) -> i32 {
        match self.act {
            Act::Work => match Job::with_settings(&self.settings()) {
                Ok(job) => self.work(job),
                Err(error) => {
                    say(&format!("never met: {error}"));
                    NEVER_MET
                }
            },
            Act::Add => self.add(),
            Act::Lease => self.lease(),
            Act::Echo => self.echo(),
        }
    }

    fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        let at = |address: &Option<Address>| match address {
            Some(address) => AddressChoice::At(address.clone()),
            None => AddressChoice::None,
        };
        let (rank, size, id) = self.job;
        (settings.job.agent, settings.job.memory) = (at(&self.agent), at(&self.memory));
        (settings.job.rank, settings.job.size) = (Some(Rank(rank)), Some(size));
        let secret = Secret::new(format!("the secret of job {id}")).expect("it is long enough");
        (settings.job.id, settings.job.secret) = (Some(JobId(id)), Some(secret));
        settings
    }

    /// Uses both daemons until both are lost or it is asked to end. The death of one costs the other nothing.
    fn work(&self, mut job: Job) -> i32 {
        let mut random = Random::new(self.seed);
        let mut regions = None;
        let mut has_told = false;
        let mut memory = job.memory().ok();
        let (mut has_agent, mut has_memory) = (job.agent().is_some(), memory.is_some());
        while has_agent || has_memory {
            if has_agent && let Some(agent) = job.agent() {
                let len = random.below(2000) as usize;
                if let Err(error) = agent.echo(&random.bytes(len)) {
                    has_agent = has_survived("agent", &error);
                }
            }
            if has_memory
                && let Some(memory) = &mut memory
                && let Err(error) = self.use_memory(memory, &mut regions, &mut random)
            {
                has_memory = has_survived("memory", &error);
            }
            if !has_told && (has_agent || has_memory) {
                has_told = true;
                say("working");
            }
            if is_asked_to_end() {
                return ENDED_WHEN_ASKED;
            }
        }
        LOST_EVERYBODY
    }

    fn use_memory(
        &self,
        memory: &mut Memory,
        regions: &mut Option<[FarRegion; 2]>,
        random: &mut Random,
    ) -> Result<(), AskError> {
        let Some([own, shared]) = regions else {
            let [own, shared] = self.sizes();
            let own = memory.reserve(own, None)?;
            let shared = memory.reserve_shared(shared, &self.region_name())?;
            memory.write(&shared, SEED_AT, &self.seed.to_le_bytes())?;
            *regions = Some([own, shared]);
            return Ok(());
        };
        let len = random.below(own.size() / 2) as usize;
        let at = random.below(own.size() - len as u64);
        let written = random.bytes(len.min(4096));
        memory.write(own, at, &written)?;
        let mut read = vec![0; written.len()];
        memory.read(own, at, &mut read)?;
        assert!(read == written, "far memory returned other bytes than were written");
        memory.fetch_add(shared, COUNT_AT, 1)?;
        Ok(())
    }

    fn add(&self) -> i32 {
        let mut memory = Memory::new(connect(self.memory.as_ref()));
        let region = memory.reserve(self.sizes()[0], None).expect("the server has room");
        say("working");
        loop {
            if let Err(error) = memory.fetch_add(&region, COUNT_AT, 1) {
                has_survived("memory", &error);
                return LOST_EVERYBODY;
            }
            if is_asked_to_end() {
                return ENDED_WHEN_ASKED;
            }
        }
    }

    fn lease(&self) -> i32 {
        let mut memory = Memory::new(connect(self.memory.as_ref()));
        memory.reserve(self.sizes()[1], Some(&self.region_name())).expect("the server has room");
        say("working");
        std::io::stdin().read_to_end(&mut Vec::new()).expect("the parent keeps it open");
        ENDED_WHEN_ASKED
    }

    fn echo(&self) -> i32 {
        let mut agent = connect(self.agent.as_ref());
        let mut first = true;
        loop {
            // Asked rarely, so that the agent never has a moment to itself.
            for _ in 0..1000 {
                if let Err(error) = agent.echo(b"busy") {
                    has_survived("agent", &error);
                    return LOST_EVERYBODY;
                }
            }
            if std::mem::take(&mut first) {
                say("working");
            }
            if is_asked_to_end() {
                agent.close("asked to end");
                return ENDED_WHEN_ASKED;
            }
        }
    }
}

fn connect(address: Option<&Address>) -> Client {
    let address = address.expect("the test gave an address");
    let identity = Identity::new(Role::Application, "proof-tenant");
    let mut link = Settings::default().link;
    link.handshake_timeout = PATIENCE / 3;
    Client::connect(address, identity, &link).expect("the daemon is there")
}

/// Reports the loss of a daemon; anything else is a failure of this test.
fn has_survived(daemon: &str, error: &AskError) -> bool {
    match error {
        AskError::Lost(_) => say(&format!("lost {daemon}: {error}")),
        other => panic!("{daemon}: {other}"),
    }
    false
}

/// Says a line to the parent, which may have gone.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = write!(out, "\n{line}\n").and_then(|()| out.flush());
}

/// Whether the parent has closed our standard input.
fn is_asked_to_end() -> bool {
    let stdin = std::io::stdin();
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut on = [PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)];
    poll(&mut on, Some(&at_once)).is_ok_and(|ready| ready > 0)
}

/// How long a loss may stay unnoticed: the deadline of a link.
pub(crate) fn deadline() -> Duration {
    Settings::default().link.deadline
}
