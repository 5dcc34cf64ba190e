//! How much of a core does an agent use while its one client asks nothing?

use std::time::Duration;

use outboard_link::{Exports, Identity, Link, LinkError, Loss, Waiter, shm, tcp};
use outboard_wire::Role;

use super::host::Host;
use crate::BenchError;
use crate::harness::{Effort, Figure, Progress, Unit};
use crate::pair::now_ns;

/// What an idle daemon may use.
const LIMIT_CORES: f64 = 0.01;
const VERSUS: &str = "a limit: a hundredth of a core";

/// Long enough for many heartbeats.
fn span(effort: Effort) -> Duration {
    match effort {
        Effort::Tiny => Duration::from_millis(50),
        Effort::Quick => Duration::from_secs(5),
        Effort::Full => Duration::from_secs(15),
    }
}

pub(super) fn ask(host: &Host, effort: Effort, progress: &Progress) -> Result<Vec<Figure>, BenchError> {
    let identity = || Identity::new(Role::Application, "idle client");
    let span = span(effort);
    let mut link = shm::connect(&host.local, identity(), Exports::new(), shm::ShmConfig::default())?;
    let by_shm = share(host, &mut link, span)?;
    progress.show(span / 2);
    link.close("seen enough");
    let outboard_link::Address::Tcp(remote) = host.remote else { return Err(super::not_tcp()) };
    let mut link = tcp::connect(remote, identity(), Exports::new(), tcp::TcpConfig::default())?;
    let by_tcp = share(host, &mut link, span)?;
    link.close("seen enough");
    let figure = |name, value| Figure::new(name, Unit::Cores, value, LIMIT_CORES, VERSUS);
    Ok(vec![figure("daemon.idle.cpu", by_shm), figure("daemon.idle.tcp.cpu", by_tcp)])
}

/// Which share of one core the host uses while `link` is only kept alive.
fn share(host: &Host, link: &mut impl Link, span: Duration) -> Result<f64, BenchError> {
    let (began, before) = (now_ns(), host.cpu_ns()?);
    rest(link, span)?;
    let (used, took) = (host.cpu_ns()? - before, now_ns() - began);
    Ok(used as f64 / took as f64)
}

/// Does for a link what it needs to live, and nothing else.
fn rest(link: &mut impl Link, span: Duration) -> Result<(), LinkError> {
    let waiter = Waiter::new().with_spin(Duration::ZERO);
    let nothing: Result<(), LinkError> = waiter.until(link, span, "nothing", |_| Ok(None));
    match nothing {
        Err(LinkError { loss: Loss::Stalled { awaited: "nothing", .. }, .. }) | Ok(()) => Ok(()),
        Err(lost) => Err(lost),
    }
}
