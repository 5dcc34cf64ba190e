//! A process's place in its job, and the daemons it works with.

mod agent;
pub(crate) mod doors;
mod error;
mod options;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use outboard_driver::{FrontDeskConfig, Listener};
use outboard_link::{Address, ConnectError, Exports, Identity};
use outboard_rendezvous::{Expected, MeetingHost};
use outboard_settings::{AddressChoice, Settings};
use outboard_wire::control::{ControlAnswer, JobSecret, Member, Question};
use outboard_wire::{JobId, Rank, Role, Text};

pub use self::error::JobError;
pub use self::options::JobOptions;
use crate::caller::{Caller, CallerOptions};
use crate::client::{AskError, Client};
use crate::error::OpenError;
use crate::far::{FarError, FarMemory, FarOptions};
use crate::memory::Memory;
use crate::messenger::{Messenger, MessengerError, MessengerOptions};
use crate::outboard::{self, Outboard};
use crate::writer::{Writer, WriterOptions};

/// Where other ranks reach this one, and what they can reach.
type Doors = (Vec<Listener>, Arc<Exports>);

/// A process's place in its job. The services of an application with ranks begin here; one without ranks begins with
/// [`Outboard`].
///
/// ```
/// # let _server = outboard_nearby::start();
/// let job = outboard::Job::join()?; // from the environment that `outboard run` has set
/// let mut messenger = job.messenger()?; // connected with all other ranks
/// let mut memory = job.memory()?; // and as many of the other services as wanted, beside each other
/// println!("rank {} of {}", job.rank(), job.size());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Job {
    id: JobId,
    rank: Rank,
    members: Vec<Member>,
    /// The services without ranks.
    outboard: Outboard,
    /// Held as long as the job: an agent of ranks ends when the last of them is gone.
    agent: Option<Client>,
    explanation: Vec<String>,
    /// How long ranks wait for each other at the start.
    join_timeout: Duration,
    messages: MessengerOptions,
    /// Until a messenger takes them.
    doors: Mutex<Option<Doors>>,
    /// Keeps the link to the meeting open: by its end the others learn of ours.
    _meeting: Option<Client>,
    /// Held by rank 0 when no other process hosts.
    _host: Option<MeetingHost>,
}

impl Job {
    /// Takes this process's place, as configuration file and environment say. A process without a job is the only
    /// rank of its own.
    pub fn join() -> Result<Self, JobError> {
        Self::with_settings(&outboard::settings().map_err(|error| JobError::Settings(error.into()))?)
    }

    /// Takes the place that `options` say, whatever configuration file and environment say.
    pub fn with(options: JobOptions) -> Result<Self, JobError> {
        let mut job = Self::with_settings(&options.settings()?)?;
        if let Some(outboard) = options.outboard() {
            // Links between ranks have the secret of the job.
            let Outboard { identity, link, .. } = job.outboard;
            job.outboard = Outboard { identity, link, ..outboard.clone() };
        }
        Ok(job)
    }

    /// Joins with settings from elsewhere.
    #[doc(hidden)]
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
        // Whether it is there; services make links of their own.
        drop(attach("memory", &job.memory, &identity, settings, &mut explanation)?);
        let mut outboard = Outboard::from_settings(settings);
        outboard.agent = agent.as_ref().and_then(|_| job.agent.address("agent"));
        let exports = Exports::new();
        let doors = if size > 1 { listen(settings, &identity, &exports)? } else { Vec::new() };
        let addresses: Vec<Address> = doors.iter().map(Listener::address).collect();
        let mut joined = Self {
            id,
            rank,
            members: vec![member_of(&identity, &doors::to_text(&addresses))?],
            outboard: outboard.with_identity(identity),
            agent,
            explanation,
            join_timeout: job.join_timeout,
            messages: MessengerOptions::from_settings(settings),
            doors: Mutex::new(Some((doors, exports))),
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
                    let config =
                        FrontDeskConfig { links: settings.link.configs(), ..FrontDeskConfig::default() };
                    let expected = Expected { job: id, secret, size };
                    let host =
                        MeetingHost::start(&place, &self.outboard.identity, expected, patience, config);
                    self._host = Some(host.map_err(|error| JobError::Host(error.into()))?);
                }
                self.explanation.push(format!("the ranks meet at {place}"));
                let mut meeting = dial_patiently(&place, &self.outboard.identity, settings, id)?;
                let answer = ask_patiently(&mut meeting, &question, patience)?;
                self._meeting = Some(meeting);
                answer
            }
        };
        self.members = answer;
        Ok(())
    }

    /// Has an agent if the ranks of a node may start one and no other process has.
    fn find_own_agent(&mut self, settings: &Settings) {
        let Some(address) = settings.job.own_agent().filter(|_| self.agent.is_none()) else { return };
        let found = agent::find_or_start(&address, settings, &self.outboard.identity, &self.members);
        self.explanation.push(match found {
            Ok(client) => {
                let line = format!("agent of this node: {} over {}", client.peer(), client.link_name());
                (self.agent, self.outboard.agent) = (Some(client), Some(address));
                line
            }
            Err(error) => {
                // A job without a program for it wants none.
                if !matches!(error, agent::StartError::NoProgram { .. }) {
                    tracing::warn!("{error}: going direct");
                }
                format!("{error}: going direct")
            }
        });
    }

    /// Which job this is; zero is none.
    pub fn id(&self) -> u64 {
        self.id.0
    }

    /// This process's number in the job.
    pub fn rank(&self) -> u32 {
        self.rank.0
    }

    /// How many ranks the job has.
    pub fn size(&self) -> u32 {
        self.members.len() as u32
    }

    /// The daemons of this job without its ranks, for instance to use another memory server:
    /// `job.outboard().clone().with_address(other)`.
    pub fn outboard(&self) -> &Outboard {
        &self.outboard
    }

    /// Connects this rank with all others. Every rank of the job has to do so. A job has one messenger at most; its
    /// [message spaces](MessengerOptions::spaces) keep apart what has to be.
    pub fn messenger(&self) -> Result<Messenger, MessengerError> {
        self.messenger_with(self.messenger_options())
    }

    /// As [`messenger`](Self::messenger), with these options, which are the same ones in every rank.
    pub fn messenger_with(&self, options: MessengerOptions) -> Result<Messenger, MessengerError> {
        Messenger::start(self, options)
    }

    /// The options of a messenger as the settings say, to be changed and given to [`messenger_with`](Self::messenger_with).
    pub fn messenger_options(&self) -> MessengerOptions {
        self.messages.clone()
    }

    /// As [`Outboard::memory`].
    pub fn memory(&self) -> Result<Memory, OpenError> {
        self.outboard.memory()
    }

    /// As [`Outboard::far`].
    pub fn far(&self) -> Result<FarMemory, FarError> {
        self.outboard.far()
    }

    /// As [`Outboard::far_with`].
    pub fn far_with(&self, options: FarOptions) -> Result<FarMemory, FarError> {
        self.outboard.far_with(options)
    }

    /// As [`Outboard::far_options`].
    pub fn far_options(&self) -> FarOptions {
        self.outboard.far_options()
    }

    /// As [`Outboard::caller`].
    pub fn caller(&self) -> Result<Caller, OpenError> {
        self.outboard.caller()
    }

    /// As [`Outboard::caller_with`].
    pub fn caller_with(&self, options: CallerOptions) -> Result<Caller, OpenError> {
        self.outboard.caller_with(options)
    }

    /// As [`Outboard::writer`].
    pub fn writer(&self) -> Result<Writer, OpenError> {
        self.outboard.writer()
    }

    /// As [`Outboard::writer_with`].
    pub fn writer_with(&self, options: WriterOptions) -> Result<Writer, OpenError> {
        self.outboard.writer_with(options)
    }

    /// All ranks, in order.
    #[doc(hidden)]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The link to the agent, if there is one.
    #[doc(hidden)]
    pub fn agent(&mut self) -> Option<&mut Client> {
        self.agent.as_mut()
    }

    /// Where other ranks reach this one; only the first who asks gets them.
    pub(crate) fn take_doors(&self) -> Option<Doors> {
        self.doors.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// How long ranks wait for each other at the start.
    pub(crate) fn join_timeout(&self) -> Duration {
        self.join_timeout
    }

    /// The choices and their reasons, a line each.
    pub fn explain(&self) -> Vec<String> {
        self.explanation.clone()
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
    let config = FrontDeskConfig { links: settings.link.configs(), ..FrontDeskConfig::default() };
    let open = |address: Address| {
        Listener::bind(&address, identity, exports, &config)
            .map_err(|source| JobError::Unreachable { address, source: source.into() })
    };
    addresses.into_iter().map(open).collect()
}

/// Connects to a daemon if it is wanted: one that was named must be there, the usual one may be absent.
fn attach(
    daemon: &'static str,
    whereabouts: &AddressChoice,
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
        (Err(error), AddressChoice::Auto) => {
            explanation.push(format!("no {daemon} at {address} ({error}): going direct"));
            Ok(None)
        }
        (Err(error), _) => Err(JobError::NotThere { daemon, source: error.into() }),
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

/// The host may be started after us.
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
                let (address, waited, source) = (place.clone(), began.elapsed(), error.into());
                return Err(JobError::NoMeeting { job: job.0, address, waited, source });
            }
        }
    }
}
