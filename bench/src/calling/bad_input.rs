//! What do clients that behave badly cost the others?

use std::time::{Duration, Instant};

use outboard::{CallError, Caller, FunctionHandle, FunctionImage, FunctionOptions, TrapReason};
use outboard_link::Address;

use super::mix::Crowd;
use super::stage::{Stage, caller, register, wrong};
use crate::harness::{Duel, Effort, Figure, Progress, Round, Side, Unit, percentile};
use crate::pair::{Control, Peer, PeerProgram};
use crate::{BenchError, BenchOptions};

/// How many questions there are.
pub(super) const COUNT: usize = 1;

const NAME: &str = "calling.bad_input.p99_during_over_before";
/// What the second process is told to play.
pub(super) const PART: &str = "calling.bad_client";
/// How many calls each bad client in this process has under way.
const DEPTH: usize = 4;
/// How many the one has that is killed.
const ABANDONED: usize = 256;
/// How much of what the server could do is asked for by the good client.
const LOAD: f64 = 0.2;

/// Functions that end badly, each in its own way.
const BAD: [(&str, TrapReason); 3] = [
    ("ldxdw r0, [r1+64]\nexit", TrapReason::Memory),
    (LOOPS, TrapReason::OutOfFuel),
    ("mov r1, r10\nadd r1, -64\nmov r2, 64\ncall reply\nexit", TrapReason::ReplyTooLong),
];
const LOOPS: &str = "again:\nja again";

/// A client whose calls all end in the same trap.
struct BadClient {
    caller: Caller,
    function: FunctionHandle,
    reason: TrapReason,
}

impl BadClient {
    fn new(address: &Address, (text, reason): (&str, TrapReason), depth: usize) -> Result<Self, BenchError> {
        let mut caller = caller(address, depth)?;
        let image = FunctionImage::from_text(text, "main").map_err(wrong)?;
        let function = register(&mut caller, &image, FunctionOptions::default().with_reply_max(8))?;
        Ok(Self { caller, function, reason })
    }

    /// Goes on calling. Whatever ends otherwise than it must is no figure.
    fn go_on(&mut self) -> Result<(), BenchError> {
        let (wanted, mut failed) = (self.reason, None);
        self.caller.drain(|_, result| match result {
            Err(CallError::Trapped { reason, .. }) if reason == wanted => {}
            Err(error) => failed = Some(wrong(error)),
            Ok(_) => failed = Some(BenchError::Calls { why: "a bad function ended well".to_owned() }),
        });
        while self.caller.under_way() < DEPTH {
            self.caller.begin(self.function, &[0; 8]).map_err(wrong)?;
        }
        failed.map_or(Ok(()), Err)
    }
}

/// The part of a client that is killed: makes calls and never asks for their ends.
pub(super) fn serve(control: &Control) -> Result<(), BenchError> {
    let address: String = control.receive("where to call")?;
    let address = address.parse().map_err(|_| BenchError::Calls { why: "no address".to_owned() })?;
    let mut client = BadClient::new(&address, (LOOPS, TrapReason::OutOfFuel), ABANDONED)?;
    for _ in 0..ABANDONED {
        client.caller.begin(client.function, &[0; 8]).map_err(wrong)?;
    }
    client.caller.flush();
    control.send(&true)?;
    // Nothing more is said: this waits for its end.
    control.receive::<bool>("its end").map(|_| ())
}

/// Starts the client that is killed, and waits until its calls are under way.
fn doomed(program: &PeerProgram, address: &Address) -> Result<Peer, BenchError> {
    let peer = Peer::start(program, PART)?;
    peer.control.send(&address.to_string())?;
    peer.control.receive::<bool>("a client to make calls")?;
    Ok(peer)
}

/// The time within which 99 of 100 good calls end while others call badly, in nanoseconds.
fn during(
    good: &mut Crowd,
    bad: &mut [BadClient],
    mut doomed: Peer,
    (rate, span): (f64, Duration),
) -> Result<f64, BenchError> {
    let (began, mut is_alive) = (Instant::now(), true);
    good.p99_while(rate, span, || {
        if is_alive && began.elapsed() >= span / 2 {
            // Its calls are still under way. A wait for its end here would keep good calls from being made meanwhile.
            doomed.kill();
            is_alive = false;
        }
        bad.iter_mut().try_for_each(BadClient::go_on)
    })
}

/// How long one look takes.
fn span(effort: Effort) -> Duration {
    match effort {
        Effort::Tiny => Duration::from_millis(4),
        Effort::Quick => Duration::from_millis(120),
        Effort::Full => Duration::from_millis(400),
    }
}

/// The figure.
pub(super) fn figure(
    options: &BenchOptions,
    stage: &mut Stage,
    progress: &mut Progress,
) -> Result<Figure, BenchError> {
    progress.begin(NAME);
    let (span, address) = (span(options.effort), stage.host.local.clone());
    let region = stage.memory.reserve_shared(super::mix::REGION, "bench-calling-bad-input")?;
    let mut good = Crowd::gather(stage, &region, 1)?;
    let mut rates = (0..3).map(|_| good.saturation(span / 3)).collect::<Result<Vec<f64>, _>>()?;
    let rate = percentile(&mut rates, 0.5) * LOAD;
    let mut bad = Vec::with_capacity(BAD.len());
    for kind in BAD {
        bad.push(BadClient::new(&address, kind, DEPTH)?);
    }
    let duel = Duel::run(options.effort, progress, |side| {
        let score = match side {
            Side::Ours => {
                let doomed = doomed(&options.peer, &address)?;
                during(&mut good, &mut bad, doomed, (rate, span))?
            }
            Side::Yardstick => good.p99(rate, span)?,
        };
        Ok(Round { score, samples_ns: Vec::new() })
    })?;
    let both = duel.figure("", Unit::Nanoseconds, 1.0, "");
    let versus = format!(
        "the time within which 99 of 100 good calls end, {:.0} ns, {rate:.0} a second due at random times; while other clients trap, loop until their fuel ends, reply too much and are killed with {ABANDONED} calls under way: {:.0} ns",
        both.yardstick, both.value
    );
    progress.end();
    drop(good);
    stage.memory.free(region)?;
    Ok(Figure::new(NAME, Unit::Slowdown, both.ratio, 1.0, &versus))
}
