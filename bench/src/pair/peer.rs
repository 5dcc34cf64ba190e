//! The second process.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Signal, set_parent_process_death_signal};

use super::{Answer, Control, Order};
use crate::BenchError;
use crate::error::Named;

/// How the second process is started: a program that calls [`serve`](crate::serve) with the question's name,
/// which is given as the last argument.
#[derive(Clone, Debug)]
pub struct PeerProgram {
    /// The program.
    pub path: PathBuf,
    /// What comes before the question's name.
    pub arguments: Vec<String>,
}

/// The second process, as the lead holds it. It is ended when this is dropped, and by the kernel if the lead dies.
pub(crate) struct Peer {
    child: Child,
    pub(crate) control: Control,
}

impl Peer {
    /// Starts the second process for `question`.
    pub(crate) fn start(program: &PeerProgram, question: &str) -> Result<Self, BenchError> {
        let (ours, theirs) = UnixStream::pair().named("socketpair")?;
        let child = Command::new(&program.path)
            .args(&program.arguments)
            .arg(question)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .spawn()
            .map_err(|source| BenchError::Spawn { program: program.path.display().to_string(), source })?;
        Ok(Self { child, control: Control::new(ours)? })
    }

    /// Its number.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets the second process end by itself.
    pub(crate) fn stop(self) -> Result<(), BenchError> {
        self.control.send(&Order::Stop)
    }
}

impl Peer {
    /// Kills it, and does not wait for its end.
    pub(crate) fn kill(&mut self) {
        // Fails only if it has ended already.
        let _ = self.child.kill();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Control {
    /// Plays the second process; the first is told if that fails.
    pub(crate) fn play(part: impl FnOnce(&Self) -> Result<(), BenchError>) -> Result<(), BenchError> {
        let control = Self::of_peer()?;
        let result = part(&control);
        if let Err(error) = &result {
            // If the lead is gone there is no process to tell.
            let _ = control.send(&Answer::Failed { why: crate::error::chain(error) });
        }
        result
    }

    /// The control socket of the second process, its standard input.
    fn of_peer() -> Result<Self, BenchError> {
        set_parent_process_death_signal(Some(Signal::KILL)).named("prctl")?;
        let stdin = std::io::stdin();
        if rustix::net::getpeername(stdin.as_fd()).is_err() {
            return Err(BenchError::NotAPeer);
        }
        let socket = stdin.as_fd().try_clone_to_owned().named("dup")?;
        Self::new(UnixStream::from(socket))
    }
}
