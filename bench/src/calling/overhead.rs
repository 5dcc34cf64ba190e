//! What a call costs more than a frame that comes back empty.

use std::time::Instant;

use outboard::{Caller, FunctionHandle, FunctionImage, FunctionOptions, Settings};
use outboard_link::shm::{self, ShmLink};
use outboard_link::{Clock, Disposition, Exports, FrameSendError, Identity, Link, LinkError};
use outboard_wire::calling::Call;
use outboard_wire::trial::TAKE;
use outboard_wire::{FrameHead, Role};

use super::stage::{Stage, caller, register, wrong};
use crate::harness::{Duel, Figure, Progress, Round, Side, Unit};
use crate::{BenchError, BenchOptions};

/// How many questions there are.
pub(super) const COUNT: usize = 1;

const NAME: &str = "calling.overhead";
/// How many are under way at once.
const DEPTH: usize = 256;
/// How many make a round.
const ROUND: u64 = 400_000;
/// Bytes of arguments.
const ARGUMENTS: usize = 8;

/// Frames of the length of a call, each answered by an empty one.
struct Echo {
    link: ShmLink,
    clock: Clock,
}

impl Echo {
    fn run(&mut self, count: u64) -> Result<(), LinkError> {
        let payload = [0; Call::LEN + ARGUMENTS];
        let (mut sent, mut heard) = (0, 0);
        while heard < count {
            while sent < count && sent - heard < DEPTH as u64 {
                match self.link.send(FrameHead::new(TAKE), &payload) {
                    Ok(()) => sent += 1,
                    Err(FrameSendError::Lost(error)) => return Err(error),
                    Err(FrameSendError::Full | FrameSendError::TooLong { .. }) => break,
                }
            }
            self.link.flush()?;
            self.link.progress(self.clock.now())?;
            let taken = self.link.receive(DEPTH, |_| Disposition::Taken)? as u64;
            heard += taken;
            if taken == 0 {
                std::hint::spin_loop();
            }
        }
        Ok(())
    }
}

fn run_calls(caller: &mut Caller, function: FunctionHandle, count: u64) -> Result<(), BenchError> {
    let (mut begun, mut ended, mut failed) = (0, 0, None);
    while ended < count {
        while begun < count && begun - ended < DEPTH as u64 {
            caller.begin(function, &[0; ARGUMENTS]).map_err(wrong)?;
            begun += 1;
        }
        ended += caller.drain(|_, result| failed = failed.take().or(result.err())) as u64;
        if let Some(error) = failed.take() {
            return Err(wrong(error));
        }
    }
    Ok(())
}

/// The figure.
pub(super) fn figure(
    options: &BenchOptions,
    stage: &mut Stage,
    progress: &mut Progress,
) -> Result<Figure, BenchError> {
    progress.begin(NAME);
    let address = &stage.host.local;
    let image = FunctionImage::from_text("mov r0, 0\nexit", "main").map_err(wrong)?;
    let mut caller = caller(address, DEPTH)?;
    let nothing = register(&mut caller, &image, FunctionOptions::default())?;
    let settings = Settings::default().link;
    let identity = Identity::new(Role::Tool, "bench calling");
    let link = shm::connect(address, identity, Exports::new(), settings.shm())?;
    let mut echo = Echo { link, clock: Clock::start() };
    let count = options.effort.items(ROUND);
    let duel = Duel::run(options.effort, progress, |side| {
        let began = Instant::now();
        match side {
            Side::Ours => run_calls(&mut caller, nothing, count)?,
            Side::Yardstick => echo.run(count)?,
        }
        let score = began.elapsed().as_secs_f64() * 1e9 / count as f64;
        Ok(Round { score, samples_ns: Vec::new() })
    })?;
    let both = duel.figure(NAME, Unit::Nanoseconds, 1.0, "");
    let versus = "what a frame of the same length takes that the server answers with an empty one, 256 at once; the number is what a call of a function that does nothing adds to it";
    progress.end();
    Ok(Figure::new(NAME, Unit::Nanoseconds, both.value - both.yardstick, both.yardstick, versus))
}
