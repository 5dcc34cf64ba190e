//! A job on several machines: this program is started on each of them by a remote shell, and looks after its ranks there.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use outboard_launch::{AgentCores, Console, Interrupts, JobOutcome, Launch, Style};
use outboard_link::Address;
use outboard_settings::{JobSettings, Secret, Settings, default_socket};
use outboard_wire::JobId;
use serde_json::json;

use super::hosts::{self, Share};
use crate::commands::run_node::{self, NodeTask};
use crate::ranks::draw_number;
use crate::terminal;

/// How to reach the machines.
pub(super) struct Remote<'a> {
    /// The machines, as the user names them.
    pub(super) hosts: &'a str,
    /// The remote shell and its own arguments.
    pub(super) shell: &'a str,
    /// This program, as it is called there.
    pub(super) program: Option<&'a str>,
}

/// The program that is to run.
pub(super) struct Work<'a> {
    pub(super) program: &'a [OsString],
    pub(super) ranks: Option<u32>,
    pub(super) agent: AgentCores,
    pub(super) style: Style,
    pub(super) json: bool,
}

/// Ports that are neither assigned nor given out by kernels on their own.
const FIRST_PORT: u64 = 20_000;
const PORTS: u64 = 12_000;

/// Runs the job and says what became of it.
pub(super) fn run(remote: &Remote<'_>, work: &Work<'_>, settings: &Settings) -> Result<()> {
    let shares = hosts::share(&hosts::find(remote.hosts)?, work.ranks)?;
    let id = JobId(draw_number().context("no random number for the job")?);
    let tasks = tasks(&shares, work, settings, id)?;
    let mut shell = remote.shell.split_whitespace().map(OsString::from);
    let program = shell.next().context("--shell names no program")?;
    let here = match remote.program {
        Some(program) => program.into(),
        None => std::env::current_exe()
            .context("cannot find this program to start it elsewhere")?
            .into_os_string(),
    };
    let (began, interrupts) = (Instant::now(), Interrupts::catch()?);
    let mut console = Console::stdio(Style::Plain)?;
    let launch = Launch::new(program)
        .args(shell)
        .own_args(|node| vec![shares[node as usize].host.clone().into(), here.clone(), run_node::NAME.into()])
        .ranks(shares.len() as u32)
        .fed(|node| tasks[node as usize].clone());
    let outcome = launch.start()?.wait(&mut console, Some(&interrupts))?;
    if work.json {
        terminal::print(&summary(id, &shares, &outcome, began.elapsed().as_secs_f64()))?;
    }
    match outcome.first_failure {
        Some(failure) => bail!("{}: {}", shares[failure.rank as usize].host, failure.end),
        None if outcome.is_success() => Ok(()),
        None => bail!("{outcome}"),
    }
}

/// The instructions for each machine, as they are sent.
fn tasks(shares: &[Share], work: &Work<'_>, settings: &Settings, id: JobId) -> Result<Vec<Vec<u8>>> {
    let program: Vec<String> = work
        .program
        .iter()
        .map(|word| {
            word.to_str().map(str::to_owned).context("what is run on other machines must be UTF-8 text")
        })
        .collect::<Result<_>>()?;
    let size = shares.iter().map(|share| share.count).sum();
    let port = |which: u64| (FIRST_PORT + (id.0.rotate_right(16 * which as u32) + which) % PORTS) as u16;
    let (meeting, agents) = (port(0), port(1));
    let job = JobSettings {
        id: Some(id),
        size: Some(size),
        secret: Some(Secret::draw().context("no random bytes for the job's secret")?),
        rendezvous: Some(Address::Tcp(SocketAddr::new(shares[0].address, meeting))),
        rank0_hosts: true,
        start_agent: false,
        ..settings.job.clone()
    };
    let at = |share: &Share, port| Address::Tcp(SocketAddr::new(share.address, port));
    let folder = std::env::current_dir().context("there is no working directory")?;
    let task = |(index, share): (usize, &Share)| {
        let job = JobSettings { listen: Some(at(share, 0)), ..job.clone() };
        let mut agent = settings.agent.clone();
        agent.listen = vec![default_socket("agent"), at(share, agents)];
        agent.peers = shares[..index].iter().map(|share| at(share, agents)).collect();
        let sections = [job.variables(), agent.variables(), settings.link.variables()];
        let more = [settings.messages.variables(), settings.log.variables()];
        let task = NodeTask {
            program: program.clone(),
            first: share.first,
            count: share.count,
            agent: work.agent.name().to_owned(),
            is_plain: work.style != Style::Prefixed,
            folder: folder.display().to_string(),
            variables: [sections.concat(), more.concat()].concat(),
        };
        let mut line = serde_json::to_vec(&task)?;
        line.push(b'\n');
        Ok(line)
    };
    shares.iter().enumerate().map(task).collect()
}

/// One object in one line, for programs.
fn summary(id: JobId, shares: &[Share], outcome: &JobOutcome, seconds: f64) -> String {
    let node = |(share, end): (&Share, &outboard_launch::RankEnd)| {
        json!({
            "host": share.host, "address": share.address.to_string(), "first_rank": share.first,
            "ranks": share.count, "end": end.end.to_string(), "ended_with_the_job": end.asked,
        })
    };
    let failed = outcome.first_failure.map(|failure| shares[failure.rank as usize].host.clone());
    json!({
        "job": format!("{:016x}", id.0),
        "success": outcome.is_success(),
        "failed_host": failed,
        "interrupted_by": outcome.interrupted_by.map(outboard_launch::signal_name),
        "seconds": seconds,
        "nodes": shares.iter().zip(&outcome.ranks).map(node).collect::<Vec<_>>(),
    })
    .to_string()
}
