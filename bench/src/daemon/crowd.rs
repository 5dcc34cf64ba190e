//! What do clients that ask nothing cost: in memory, and for one that does ask?

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use outboard::Client;
use outboard_link::{Address, Exports, Identity, Link, Waiter, shm, tcp};
use outboard_wire::Role;

use super::echo::connect;
use super::host::{Host, MESSAGE_LEN};
use crate::BenchError;
use crate::harness::{Effort, Figure, Progress, Unit, percentile};

/// How many clients ask nothing.
const CLIENTS: u64 = 2000;
/// How many questions the one that asks has.
const QUESTIONS: u64 = 2000;
/// How often those that ask nothing show that they live.
const SIGN_OF_LIFE: Duration = Duration::from_millis(50);

/// What a client that asks nothing may cost the daemon.
const LIMIT_BYTES: f64 = 65536.0;
const VERSUS_BYTES: &str = "a limit: 64 KiB of the daemon's memory";
const VERSUS_ALONE: &str = "the same client alone with the daemon, in the same run";

pub(super) fn ask(host: &Host, effort: Effort, progress: &Progress) -> Result<Vec<Figure>, BenchError> {
    let mut figures = by_shm(host, effort)?;
    progress.show(effort.budget() / 2);
    figures.extend(by_tcp(host, effort)?);
    Ok(figures)
}

fn identity() -> Identity {
    Identity::new(Role::Application, "idle client")
}

fn by_shm(host: &Host, effort: Effort) -> Result<Vec<Figure>, BenchError> {
    let connect = || shm::connect(&host.local, identity(), Exports::new(), shm::ShmConfig::default());
    measure(host, ("shm", &host.local), effort, || Ok(connect()?))
}

fn by_tcp(host: &Host, effort: Effort) -> Result<Vec<Figure>, BenchError> {
    let Address::Tcp(remote) = host.remote else { return Err(super::not_tcp()) };
    let connect = || tcp::connect(remote, identity(), Exports::new(), tcp::TcpConfig::default());
    measure(host, ("tcp", &host.remote), effort, || Ok(connect()?))
}

fn measure<L: Link + Send>(
    host: &Host,
    (name, at): (&str, &Address),
    effort: Effort,
    attach: impl Fn() -> Result<L, BenchError>,
) -> Result<Vec<Figure>, BenchError> {
    let mut client = connect(at)?;
    let (clients, questions) = (effort.items(CLIENTS), effort.items(QUESTIONS));
    // Once in vain, so that nothing is done for the first time.
    median(&mut client, questions)?;
    let alone = median(&mut client, questions)?;
    let before = host.resident_bytes()?;
    let mut crowd = (0..clients).map(|_| attach()).collect::<Result<Vec<L>, _>>()?;
    let taken = host.resident_bytes()?.saturating_sub(before) as f64 / clients as f64;
    let over = AtomicBool::new(false);
    let beside = thread::scope(|scope| {
        let keep = scope.spawn(|| keep_alive(&mut crowd, &over));
        let beside = median(&mut client, questions);
        over.store(true, Ordering::Relaxed);
        keep.thread().unpark();
        beside
    })?;
    crowd.iter_mut().for_each(|link| link.close("seen enough"));
    client.close("that was all");
    let figure = |what: &str, unit, value, yardstick, versus| {
        Figure::new(format!("daemon.crowd.{name}.{what}"), unit, value, yardstick, versus)
    };
    Ok(vec![
        figure("client", Unit::Bytes, taken, LIMIT_BYTES, VERSUS_BYTES),
        figure("echo.p50", Unit::Nanoseconds, beside, alone, VERSUS_ALONE),
    ])
}

/// Does for links what they need to live, and nothing else.
fn keep_alive<L: Link>(links: &mut [L], over: &AtomicBool) {
    let clock = Waiter::new().clock;
    while !over.load(Ordering::Relaxed) {
        for link in &mut *links {
            // One that is lost shows in the figures.
            let _ = link.progress(clock.now());
        }
        thread::park_timeout(SIGN_OF_LIFE);
    }
}

/// How long half of the answers take at most.
fn median(client: &mut Client, questions: u64) -> Result<f64, BenchError> {
    let ask = |_| client.echo(&[7; MESSAGE_LEN]).map(|took| took.as_nanos() as u32);
    let mut times = (0..questions).map(ask).collect::<Result<Vec<u32>, _>>()?;
    Ok(percentile(&mut times, 0.5))
}
