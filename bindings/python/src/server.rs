//! A memory server for this process, where the user has none.

use std::fmt::Write;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

use outboard::{Address, OpenError, Outboard};
use pyo3::prelude::*;
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::errors::{raise, raised, refuse};
use crate::process::Home;
use crate::wait::{locked, wait};

/// How long a server may take to listen.
const START: Duration = Duration::from_secs(20);
/// How often it is looked whether it does.
const PAUSE: Duration = Duration::from_millis(5);
/// How much of its last words is kept.
const WORDS: usize = 4 << 10;

/// The server that this process has started.
struct Private {
    address: Address,
    home: Home,
    end: Arc<Mutex<Option<String>>>,
}

static PRIVATE: Mutex<Option<Private>> = Mutex::new(None);

/// The address of the memory server that this process has started, if it has.
#[pyfunction]
pub(crate) fn private_server(py: Python<'_>) -> Option<String> {
    let private = locked(py, &PRIVATE);
    private.as_ref().filter(|private| private.home.is_here()).map(|private| private.address.to_string())
}

/// Where to work: at `server`, or at what the settings and `outboard up` say; where neither says anything, at a memory server that
/// `program` starts for this process.
pub(crate) fn find(
    py: Python<'_>,
    server: Option<&str>,
    agent: Option<&str>,
    program: Option<PathBuf>,
) -> PyResult<Outboard> {
    let parse =
        |text: &str| text.parse::<Address>().map_err(|error| crate::errors::bad_value(error.to_string()));
    let mut outboard = py.detach(Outboard::find).map_err(raise)?.with_name("python");
    if let Some(server) = server {
        // The agent of the settings may not know it.
        outboard = outboard.with_address(parse(server)?).without_agent();
    } else if let Some(program) = program {
        let there = outboard.clone();
        let is_missing = wait(py, move || matches!(there.memory(), Err(OpenError::NotRunning { .. })))?;
        if is_missing {
            outboard = outboard.with_address(wait(py, move || start(program))??).without_agent();
        }
    }
    Ok(match agent {
        Some("none") => outboard.without_agent(),
        Some(agent) => outboard.with_agent(parse(agent)?),
        None => outboard,
    })
}

/// Starts the server, unless it runs.
fn start(program: PathBuf) -> PyResult<Address> {
    let mut private = PRIVATE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(private) = private.as_ref().filter(|private| private.home.is_here())
        && private.end.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    {
        return Ok(private.address.clone());
    }
    // A name that others cannot take before.
    let mut secret = String::new();
    let mut random = [0; 16];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| refuse(format!("the kernel gives no random numbers: {error}")))?;
    for byte in random {
        let _ = write!(secret, "{byte:02x}");
    }
    let address = Address::Abstract(format!("outboard-python-{}-{secret}", std::process::id()));
    let end = Arc::new(Mutex::new(None));
    let keeper = Arc::clone(&end);
    let listen = address.to_string();
    // The kernel ends the server with the thread that has started it, so that thread stays as long as this process does.
    let thread = Builder::new().name("outboard-server".to_owned()).spawn(move || {
        let words = match spawn(&program, &listen) {
            Ok(child) => keep(child),
            Err(error) => format!("cannot start {}: {error}", program.display()),
        };
        *keeper.lock().unwrap_or_else(PoisonError::into_inner) = Some(words);
    });
    thread.map_err(|error| refuse(format!("cannot start a thread for a memory server: {error}")))?;
    let began = Instant::now();
    loop {
        if Outboard::at(address.clone()).memory().is_ok() {
            *private = Some(Private { address: address.clone(), home: Home::here(), end });
            return Ok(address);
        }
        if let Some(words) = end.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(raised(
                "OpenError",
                format!("the memory server of this process did not start: {words}"),
            ));
        }
        if began.elapsed() > START {
            let text = format!("the memory server of this process does not listen after {START:?}");
            return Err(raised("OpenError", text));
        }
        // tidy: allow(sleep) another process is waited for, which says nothing when it listens.
        thread::sleep(PAUSE);
    }
}

fn spawn(program: &PathBuf, listen: &str) -> io::Result<Child> {
    let mut command = Command::new(program);
    command.args(["memory", "--name", "of this process", "--listen", listen]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    // Ctrl-C is for the program, which may go on and use its memory.
    command.process_group(0);
    let parent = std::process::id();
    // SAFETY: system calls only, in the child before it becomes the program.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::TERM))?;
            let is_orphan = std::os::unix::process::parent_id() != parent;
            if is_orphan { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
        });
    }
    command.spawn()
}

/// Stays with the server until it ends, and returns its last words.
fn keep(mut child: Child) -> String {
    let mut words = Vec::new();
    if let Some(mut stderr) = child.stderr.take() {
        let mut more = [0; 1 << 10];
        while let Ok(len @ 1..) = stderr.read(&mut more) {
            words.extend_from_slice(&more[..len]);
            words.drain(..words.len().saturating_sub(WORDS));
        }
    }
    let status = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
    format!("{} ({status})", String::from_utf8_lossy(&words).trim())
}
