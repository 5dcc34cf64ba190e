//! A process that takes a core away from others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::BenchError;
use crate::error::Named;
use crate::pair::{Control, Cores, Peer, PeerProgram, now_ns};

/// What the second process is told to play.
pub(in super::super) const PART: &str = "calling.rival";

/// Threads that want the core: any other that does gets a fourth.
const THREADS: usize = 3;
/// Whatever happens, no thread spins for longer.
const LONGEST: Duration = Duration::from_secs(60);

#[derive(Debug, Serialize, Deserialize)]
enum Order {
    /// Spin on this core.
    Spin(usize),
    /// Leave it.
    Rest,
    /// That was all.
    Stop,
}

/// The process. It ends when this is dropped.
pub(super) struct Rival {
    peer: Peer,
}

impl Rival {
    pub(super) fn start(program: &PeerProgram) -> Result<Self, BenchError> {
        Ok(Self { peer: Peer::start(program, PART)? })
    }

    /// Lets it spin on a core soon; [`onset_ns`](Self::onset_ns) tells since when.
    pub(super) fn spin(&self, core: usize) -> Result<(), BenchError> {
        self.peer.control.send(&Order::Spin(core))
    }

    /// When it began to spin, on the clock of [`now_ns`].
    pub(super) fn onset_ns(&self) -> Result<u64, BenchError> {
        self.peer.control.receive("the rival to take a core")
    }

    /// Lets it leave the core, and waits until it has.
    pub(super) fn rest(&self) -> Result<(), BenchError> {
        self.peer.control.send(&Order::Rest)?;
        self.peer.control.receive::<u64>("the rival to leave a core").map(|_| ())
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        // It ends with its socket as well.
        let _ = self.peer.control.send(&Order::Stop);
    }
}

/// The rival's part.
pub(in super::super) fn serve(control: &Control) -> Result<(), BenchError> {
    let mut spinning: Option<Spinning> = None;
    loop {
        match control.receive::<Order>("what to do next") {
            Ok(Order::Spin(core)) => {
                spinning = Some(Spinning::start(core)?);
                control.send(&now_ns())?;
            }
            Ok(Order::Rest) => {
                drop(spinning.take());
                control.send(&now_ns())?;
            }
            Err(BenchError::Stalled { .. }) => {}
            Ok(Order::Stop) | Err(_) => return Ok(()),
        }
    }
}

/// Threads that spin until this is dropped.
struct Spinning {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Spinning {
    fn start(core: usize) -> Result<Self, BenchError> {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut spinning = Self { is_over, threads: Vec::new() };
        for _ in 0..THREADS {
            let is_over = Arc::clone(&spinning.is_over);
            let spin = move || {
                // On another core it would disturb others than it should.
                if Cores::settle(Some(core)).is_err() {
                    return;
                }
                let until = Instant::now() + LONGEST;
                while !is_over.load(Ordering::Relaxed) && Instant::now() < until {
                    std::hint::spin_loop();
                }
            };
            let thread = std::thread::Builder::new().name("rival".to_owned()).spawn(spin).named("clone")?;
            spinning.threads.push(thread);
        }
        Ok(spinning)
    }
}

impl Drop for Spinning {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // One that panicked has said so.
        self.threads.drain(..).for_each(|thread| thread.join().unwrap_or_default());
    }
}
