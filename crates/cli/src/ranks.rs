//! The ranks of a job: what they are told, where they meet, what becomes of them.

use std::ffi::OsString;

use anyhow::{Context, Result};
use outboard_driver::FrontDeskConfig;
use outboard_launch::{Interrupts, JobOutcome, Launch, Sink, StdinTo};
use outboard_link::{Address, Identity};
use outboard_rendezvous::{Expected, MeetingHost};
use outboard_settings::{AddressChoice, JobSettings, Secret, Settings, default_socket};
use outboard_wire::control::JobSecret;
use outboard_wire::{JobId, Rank, Role};
use rustix::rand::{GetRandomFlags, getrandom};

/// A job to run.
pub(crate) struct Ranks<'a> {
    /// The program and its arguments.
    pub(crate) program: &'a [OsString],
    /// How many.
    pub(crate) count: u32,
    /// Their settings; which job it is, and where they meet, is filled in.
    pub(crate) settings: &'a Settings,
    /// The agents that they have by turns; empty leaves that to the settings.
    pub(crate) agents: &'a [Address],
    /// The processors they may use.
    pub(crate) cpus: Option<Vec<usize>>,
    /// Which of them reads the standard input.
    pub(crate) stdin: StdinTo,
}

/// A job that has ended.
pub(crate) struct Ended {
    /// Which job it was.
    pub(crate) id: JobId,
    /// The end of the job.
    pub(crate) outcome: JobOutcome,
}

impl Ranks<'_> {
    /// Starts all ranks, shows what they print, and waits until the last has ended.
    pub(crate) fn run(self, sink: &mut dyn Sink, interrupts: Option<&Interrupts>) -> Result<Ended> {
        let id = JobId(draw_number().context("no random number for the job")?);
        let secret = Secret::draw().context("no random bytes for the job's secret")?;
        let mut job = JobSettings {
            id: Some(id),
            size: Some(self.count),
            secret: Some(secret.clone()),
            rank0_hosts: false,
            start_agent: false,
            ..self.settings.job.clone()
        };
        // Ends with the job. Ranks that never come to the meeting do not matter to it.
        let host = (self.count > 1).then(|| self.host(id, &secret)).transpose()?;
        job.rendezvous = host.as_ref().map(|host| host.address().clone());
        let env = |rank| {
            let mut own = JobSettings { rank: Some(Rank(rank)), ..job.clone() };
            if !self.agents.is_empty() {
                own.agent = AddressChoice::At(self.agents[rank as usize % self.agents.len()].clone());
            }
            let mut env = own.variables();
            env.extend(self.settings.link.variables());
            env.extend(self.settings.messages.variables());
            env
        };
        let (program, args) = self.program.split_first().context("no program to run")?;
        let launch =
            Launch::new(program).args(args).ranks(self.count).stdin(self.stdin).cpus(self.cpus.clone());
        let outcome = launch.env(env).start()?.wait(sink, interrupts)?;
        Ok(Ended { id, outcome })
    }

    fn host(&self, id: JobId, secret: &Secret) -> Result<MeetingHost> {
        let place = default_socket(&format!("job-{:016x}", id.0));
        let secret = JobSecret::from_text(secret.expose()).context("the job's secret is too long")?;
        let expected = Expected { job: id, secret, size: self.count };
        let config = FrontDeskConfig { links: self.settings.link.configs(), ..FrontDeskConfig::default() };
        let identity = Identity::new(Role::Tool, "outboard run");
        MeetingHost::start(&place, &identity, expected, self.settings.job.join_timeout, config)
            .context("the ranks have no place to meet")
    }
}

/// A number from the kernel, never zero.
pub(crate) fn draw_number() -> rustix::io::Result<u64> {
    let mut bytes = [0; 8];
    getrandom(&mut bytes[..], GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes).max(1))
}
