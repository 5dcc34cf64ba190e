//! A process's place in its job, and the daemons it works with.

mod agent;
pub(crate) mod doors;

use std::sync::Arc;
use std::time::{Duration, Instant};

use outboard_driver::{FrontDeskConfig, Listener};
use outboard_link::{Address, ConnectError, Exports, Identity};
use outboard_rendezvous::{Expected, Host, HostError};
use outboard_settings::{LinkSettings, Settings, SettingsError, Whereabouts};
use outboard_wire::control::{ControlAnswer, JobSecret, Member, Question};
use outboard_wire::{JobId, Rank, Role, Text};
use thiserror::Error;

use crate::client::{AskError, Client};
use crate::find;
use crate::memory::Memory;

/// Why a process could not take its place.
#[derive(Error)]
#[non_exhaustive]
pub enum JobError {
    /// A setting is wrong.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A daemon that was asked for by address is not there.
    #[error("the {daemon} was asked for and is not there: {source}")]
    NotThere {
        /// Which daemon.
        daemon: &'static str,
        /// What happened.
        source: Box<ConnectError>,
    },
    /// A job needs all of its settings.
    #[error(
        "a job of {size} ranks needs {missing}; start it with `outboard run`, or set OUTBOARD_JOB_{variable}"
    )]
    Incomplete {
        /// How many ranks it has.
        size: u32,
        /// What is not set.
        missing: &'static str,
        /// The end of its variable's name.
        variable: &'static str,
    },
    /// A secret that does not fit.
    #[error("the job's secret is over {} bytes; choose a shorter one", JobSecret::LEN_MAX)]
    SecretTooLong,
    /// A rank beyond the size.
    #[error("rank {rank} does not exist in a job of {size}: ranks count from 0")]
    NoSuchRank {
        /// Which rank.
        rank: u32,
        /// How many there are.
        size: u32,
    },
    /// Nobody hosts the meeting.
    #[error(
        "nobody gathers {job} at {address} after {waited:?}: {source}; start rank 0, `outboard run` or an agent"
    )]
    NobodyGathers {
        /// Which job.
        job: JobId,
        /// Where.
        address: Address,
        /// How long was waited.
        waited: Duration,
        /// What the last attempt met.
        source: Box<ConnectError>,
    },
    /// The meeting could not be held here.
    #[error("the ranks cannot meet here: {0}")]
    Host(#[from] HostError),
    /// Other ranks could not reach this one.
    #[error("other ranks could not reach this one at {address}: {source}; set OUTBOARD_JOB_LISTEN")]
    Unreachable {
        /// Where it should have listened.
        address: Address,
        /// What happened.
        source: Box<ConnectError>,
    },
    /// An address that others cannot be told.
    #[error("{address} is too long an address; choose a shorter one with OUTBOARD_JOB_LISTEN")]
    AddressTooLong {
        /// Which address.
        address: String,
    },
    /// The meeting failed.
    #[error("the ranks did not meet: {0}")]
    Meeting(#[from] AskError),
}

outboard_wire::debug_with_causes!(JobError);

/// A process's place in its job.
pub struct Job {
    id: JobId,
    rank: Rank,
    members: Vec<Member>,
    identity: Identity,
    agent: Option<Client>,
    /// Where the agent is, if there is one.
    agent_address: Option<Address>,
    memory: Option<Memory>,
    explanation: Vec<String>,
    link: LinkSettings,
    patience: Duration,
    /// Where other ranks reach this one, and what they can reach, until a messenger takes them.
    doors: Option<(Vec<Listener>, Arc<Exports>)>,
    /// Keeps the link to the meeting open: by its end the others learn of ours.
    _meeting: Option<Client>,
    /// Held by rank 0 when nobody else hosts.
    _host: Option<Host>,
}

impl Job {
    /// Takes this process's place, as configuration file and environment say. A process without a job is the only
    /// rank of its own.
    pub fn join() -> Result<Self, JobError> {
        Self::with_settings(&find::settings()?)
    }

    /// The same with settings from elsewhere.
    pub fn with_settings(settings: &Settings) -> Result<Self, JobError> {
        let settings = &Settings { link: settings.link.of_job(&settings.job), ..settings.clone() };
        let job = &settings.job;
        let size = job.size.unwrap_or(1);
        let rank = match job.rank {
            Some(rank) => rank,
            None if size == 1 => Rank(0),
            None => return Err(JobError::Incomplete { size, missing: "a rank", variable: "RANK" }),
        };
        if rank.0 >= size {
            return Err(JobError::NoSuchRank { rank: rank.0, size });
        }
        let id = job.id.unwrap_or(JobId(0));
        let mut identity = Identity::new(Role::Application, format!("rank {}", rank.0));
        (identity.job, identity.rank) = (id, rank);
        let mut explanation = Vec::new();
        let agent = attach("agent", &job.agent, &identity, settings, &mut explanation)?;
        let memory = attach("memory", &job.memory, &identity, settings, &mut explanation)?.map(Memory::new);
        let exports = Exports::new();
        let doors = if size > 1 { listen(settings, &identity, &exports)? } else { Vec::new() };
        let addresses: Vec<Address> = doors.iter().map(Listener::address).collect();
        let mut joined = Self {
            id,
            rank,
            members: vec![member_of(&identity, &doors::to_text(&addresses))?],
            identity,
            agent_address: agent.as_ref().and_then(|_| job.agent.address("agent")),
            agent,
            memory,
            explanation,
            link: settings.link.clone(),
            patience: job.join_timeout,
            doors: Some((doors, exports)),
            _meeting: None,
            _host: None,
        };
        if size > 1 {
            joined.meet(settings, size)?;
            joined.find_own_agent(settings);
        }
        for line in &joined.explanation {
            tracing::info!("{line}");
        }
        Ok(joined)
    }

    /// Meets the other ranks: at the given place, at the agent, or at rank 0.
    fn meet(&mut self, settings: &Settings, size: u32) -> Result<(), JobError> {
        let job = &settings.job;
        let needs = |missing, variable| JobError::Incomplete { size, missing, variable };
        let id = job.id.ok_or_else(|| needs("an id", "ID"))?;
        let secret = job.secret.as_ref().ok_or_else(|| needs("a secret", "SECRET"))?;
        let secret = JobSecret::from_text(secret.expose()).ok_or(JobError::SecretTooLong)?;
        let patience = job.join_timeout;
        let question = Question::Join { job: id, secret, size, member: self.members[0] };
        let answer = match (&job.rendezvous, &mut self.agent) {
            (None, Some(agent)) => {
                self.explanation.push(format!("the ranks meet at {}", agent.peer()));
                ask_patiently(agent, &question, patience)?
            }
            (place, _) => {
                let place = place.clone();
                let hosts_here = (place.is_none() || job.rank0_hosts) && self.rank == Rank(0);
                let place = place.unwrap_or_else(|| Address::Abstract(format!("outboard-job-{:016x}", id.0)));
                if hosts_here {
                    let config = FrontDeskConfig {
                        shm: settings.link.shm(),
                        tcp: settings.link.tcp(),
                        ofi: settings.link.ofi(),
                        ..FrontDeskConfig::default()
                    };
                    let expected = Expected { job: id, secret, size };
                    self._host = Some(Host::start(&place, &self.identity, expected, patience, config)?);
                }
                self.explanation.push(format!("the ranks meet at {place}"));
                let mut meeting = dial_patiently(&place, &self.identity, settings, id)?;
                let answer = ask_patiently(&mut meeting, &question, patience)?;
                self._meeting = Some(meeting);
                answer
            }
        };
        self.members = answer;
        Ok(())
    }

    /// Has an agent if the ranks of a node may start one and nobody else has.
    fn find_own_agent(&mut self, settings: &Settings) {
        let Some(address) = settings.job.own_agent().filter(|_| self.agent.is_none()) else { return };
        let found = agent::find_or_start(&address, settings, &self.identity, &self.members);
        self.explanation.push(match found {
            Ok(client) => {
                let line = format!("agent of this node: {} over {}", client.peer(), client.link_name());
                (self.agent, self.agent_address) = (Some(client), Some(address));
                line
            }
            Err(error) => {
                // Whoever has no program for it wants none.
                if !matches!(error, agent::StartError::NoProgram { .. }) {
                    tracing::warn!("{error}: going direct");
                }
                format!("{error}: going direct")
            }
        });
    }

    /// Which job this is; zero is none.
    pub fn id(&self) -> JobId {
        self.id
    }

    /// This process's number in the job.
    pub fn rank(&self) -> u32 {
        self.rank.0
    }

    /// How many ranks the job has.
    pub fn size(&self) -> u32 {
        self.members.len() as u32
    }

    /// All ranks, in order.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The agent, if there is one.
    pub fn agent(&mut self) -> Option<&mut Client> {
        self.agent.as_mut()
    }

    /// The memory server, if there is one.
    pub fn memory(&mut self) -> Option<&mut Memory> {
        self.memory.as_mut()
    }

    /// One more memory server, beside the job's own.
    pub fn open_memory(&self, address: &Address) -> Result<Memory, ConnectError> {
        Ok(Memory::new(Client::connect(address, self.identity.clone(), &self.link)?))
    }

    /// Where other ranks reach this one; only the first who asks gets them.
    pub(crate) fn take_doors(&mut self) -> Option<(Vec<Listener>, Arc<Exports>)> {
        self.doors.take()
    }

    /// Where the agent is, if there is one.
    pub(crate) fn agent_address(&self) -> Option<&Address> {
        self.agent_address.as_ref()
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    pub(crate) fn link(&self) -> &LinkSettings {
        &self.link
    }

    /// How long ranks wait for each other at the start.
    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    /// What was chosen and why, a line each.
    pub fn explanation(&self) -> &[String] {
        &self.explanation
    }
}

fn member_of(identity: &Identity, address: &str) -> Result<Member, JobError> {
    let text = Text::new(address);
    if text.as_str() != address {
        return Err(JobError::AddressTooLong { address: address.to_owned() });
    }
    Ok(Member {
        rank: identity.rank,
        pid: std::process::id(),
        incarnation: identity.incarnation,
        address: text,
    })
}

/// Opens the doors for other ranks, before they are told where they are: one for this machine, and one for others if
/// there are any.
fn listen(
    settings: &Settings,
    identity: &Identity,
    exports: &Arc<Exports>,
) -> Result<Vec<Listener>, JobError> {
    let unique = identity.incarnation;
    let usual = Address::Abstract(format!("outboard-rank-{}-{unique}", identity.rank.0));
    let addresses = match settings.job.listen.clone() {
        None => vec![usual],
        Some(port @ (Address::Tcp(_) | Address::Ofi(_))) => vec![port, usual],
        Some(other) => vec![other],
    };
    let config = FrontDeskConfig {
        shm: settings.link.shm(),
        tcp: settings.link.tcp(),
        ofi: settings.link.ofi(),
        ..FrontDeskConfig::default()
    };
    let open = |address: Address| {
        Listener::bind(&address, identity, exports, &config)
            .map_err(|source| JobError::Unreachable { address, source: Box::new(source) })
    };
    addresses.into_iter().map(open).collect()
}

/// Connects to a daemon if it is wanted: one that was named must be there, the usual one may be absent.
fn attach(
    daemon: &'static str,
    whereabouts: &Whereabouts,
    identity: &Identity,
    settings: &Settings,
    explanation: &mut Vec<String>,
) -> Result<Option<Client>, JobError> {
    let Some(address) = whereabouts.address(daemon) else {
        explanation.push(format!("without {daemon}, as asked: going direct"));
        return Ok(None);
    };
    match (Client::connect(&address, identity.clone(), &settings.link), whereabouts) {
        (Ok(client), _) => {
            let mut line = format!("{daemon}: {} over {}", client.peer(), client.link_name());
            if let Address::Tcp(socket) = &address {
                line += &format!(", {}", settings.link.tcp().protection(*socket));
            }
            explanation.push(line);
            Ok(Some(client))
        }
        (Err(error), Whereabouts::Auto) => {
            explanation.push(format!("no {daemon} at {address} ({error}): going direct"));
            Ok(None)
        }
        (Err(error), _) => Err(JobError::NotThere { daemon, source: Box::new(error) }),
    }
}

/// The answer comes when the last rank does, which may be after the host's whole patience.
fn ask_patiently(
    client: &mut Client,
    question: &Question,
    patience: Duration,
) -> Result<Vec<Member>, AskError> {
    const GRACE: Duration = Duration::from_secs(2);
    let daemon = client.peer().clone();
    match client.ask_within(question, patience + GRACE)? {
        ControlAnswer::Members(members) => Ok(members),
        _ => Err(AskError::Unexpected { daemon }),
    }
}

/// Whoever hosts may be started after us.
fn dial_patiently(
    place: &Address,
    identity: &Identity,
    settings: &Settings,
    job: JobId,
) -> Result<Client, JobError> {
    const PAUSE: Duration = Duration::from_millis(5);
    let (began, patience) = (Instant::now(), settings.job.join_timeout);
    loop {
        match Client::connect(place, identity.clone(), &settings.link) {
            Ok(client) => return Ok(client),
            Err(ConnectError::Unreachable { .. } | ConnectError::HungUp { .. })
                if began.elapsed() < patience =>
            {
                std::thread::park_timeout(PAUSE);
            }
            Err(error) => {
                let (address, waited, source) = (place.clone(), began.elapsed(), Box::new(error));
                return Err(JobError::NobodyGathers { job, address, waited, source });
            }
        }
    }
}
