//! An agent as a process that outlives its starter.

use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use outboard_launch::READY_FD_VARIABLE;
use rustix::fs::{FileType, fstat};
use rustix::io::FdFlags;
use rustix::thread::{CpuSet, sched_setaffinity};
use serde_json::json;

use crate::daemon_ready;
use crate::terminal;

/// The flags that only this process understands.
const OWN_FLAGS: [&str; 2] = ["--background", "--json"];

/// Whether a process reads what this one says of errors, as `ssh` and `$(…)` do, until none has it open any more.
fn is_read() -> bool {
    let kind = fstat(std::io::stderr()).map(|stat| FileType::from_raw_mode(stat.st_mode));
    matches!(kind, Ok(FileType::Fifo | FileType::Socket))
}

/// Starts this program again with the same flags, waits until it is ready, and says where it listens. One that is there for
/// programs that use it speaks to whom they speak to, as long as they do.
pub(super) fn start(as_json: bool, is_while_used: bool) -> Result<()> {
    let program = std::env::current_exe().context("cannot find this program to start it again")?;
    let args = std::env::args_os().skip(1).filter(|arg| OWN_FLAGS.iter().all(|own| arg != own));
    let (reader, writer) = std::io::pipe().context("no pipe to hear of its start")?;
    rustix::io::fcntl_setfd(&writer, FdFlags::empty()).context("no pipe to hear of its start")?;
    let mut child = Command::new(program)
        .args(args)
        .args((is_read() && !is_while_used).then_some("--in-background"))
        .env(READY_FD_VARIABLE, writer.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        // A signal to the group of its starter, such as Ctrl-C, is not meant for it.
        .process_group(0)
        .spawn()
        .context("cannot start the agent")?;
    drop(writer);
    let mut line = String::new();
    BufReader::new(reader).read_line(&mut line).context("cannot hear of its start")?;
    if line.is_empty() {
        let status = child.wait().context("cannot wait for the agent")?;
        bail!("the agent ended before it was ready ({status})");
    }
    let listening = daemon_ready::read(&line);
    let addresses: Vec<String> = listening.iter().map(ToString::to_string).collect();
    match as_json {
        true => terminal::print(&json!({"pid": child.id(), "listening": addresses}).to_string()),
        false => {
            let at = daemon_ready::show(&listening);
            terminal::print(&format!("agent (process {}) listens at {at}", child.id()))
        }
    }
}

/// Lifts what this process is bound to; the kernel keeps it to what its control group allows.
pub(super) fn use_all_cores() {
    let mut all = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|cpu| all.set(cpu));
    if let Err(error) = sched_setaffinity(None, &all) {
        tracing::warn!("stays on the processors of its starter: {error}");
    }
}
