//! The process that holds the benchmark's swap: when the benchmark ends, in whatever way, it takes the swap back.
//!
//! A process of its own, in a group of its own: Ctrl-C, a panic and a kill end the benchmark alone, whose end of the socket is
//! closed by that.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use serde::{Deserialize, Serialize};

use super::swap::{Kind, Refusal, SwapFolder};
use crate::BenchError;
use crate::error::Named;
use crate::pair::{Control, PeerProgram};

/// What the second process is told to play.
pub(super) const PART: &str = "far.keeper";

#[derive(Debug, Serialize, Deserialize)]
enum Wish {
    On { kind: Kind, bytes: u64 },
    Off,
}

/// The keeper, as the benchmark holds it.
pub(super) struct Keeper {
    child: Child,
    control: Option<Control>,
}

impl Keeper {
    pub(super) fn start(program: &PeerProgram) -> Result<Self, BenchError> {
        let (ours, theirs) = UnixStream::pair().named("socketpair")?;
        let child = Command::new(&program.path)
            .args(&program.arguments)
            .arg(PART)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|source| BenchError::Spawn { program: program.path.display().to_string(), source })?;
        Ok(Self { child, control: Some(Control::new(ours)?) })
    }

    /// Turns swap on, or says why it cannot be had. It is on until the guard is dropped.
    pub(super) fn swap(&self, kind: Kind, bytes: u64) -> Result<Result<Swap<'_>, Refusal>, BenchError> {
        let answer: Result<(), Refusal> = self.ask(&Wish::On { kind, bytes })?;
        Ok(answer.map(|()| Swap { keeper: self }))
    }

    fn ask(&self, wish: &Wish) -> Result<Result<(), Refusal>, BenchError> {
        let awaited = "swap";
        let control = self.control.as_ref().ok_or(BenchError::PeerGone { awaited })?;
        control.send(wish)?;
        loop {
            match control.receive(awaited) {
                // Turning swap off reads all of it.
                Err(BenchError::Stalled { .. }) => {}
                answer => return answer,
            }
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.control = None;
        // It ends when it has taken everything back.
        let _ = self.child.wait();
    }
}

/// Swap that is on.
pub(super) struct Swap<'a> {
    keeper: &'a Keeper,
}

impl Drop for Swap<'_> {
    fn drop(&mut self) {
        // A keeper that is gone has left it to the next run.
        let _ = self.keeper.ask(&Wish::Off);
    }
}

/// The keeper's part: until the benchmark is gone.
pub(super) fn serve() -> Result<(), BenchError> {
    let stdin = std::io::stdin();
    if rustix::net::getpeername(stdin.as_fd()).is_err() {
        return Err(BenchError::NotAPeer);
    }
    let control = Control::new(UnixStream::from(stdin.as_fd().try_clone_to_owned().named("dup")?))?;
    let folder = SwapFolder::create();
    loop {
        let answer: Result<(), Refusal> = match control.receive("a wish for swap") {
            Ok(Wish::On { kind, bytes }) => {
                let turned = folder.as_ref().map_err(Clone::clone).and_then(|at| at.turn_on(kind, bytes));
                if turned.is_err() {
                    folder.iter().for_each(SwapFolder::turn_off);
                }
                turned
            }
            Ok(Wish::Off) => {
                folder.iter().for_each(SwapFolder::turn_off);
                Ok(())
            }
            Err(BenchError::Stalled { .. }) => continue,
            // The benchmark has ended.
            Err(_) => return Ok(()),
        };
        if control.send(&answer).is_err() {
            return Ok(());
        }
    }
}
