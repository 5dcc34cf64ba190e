//! How long does it take until a new client is served?

use std::time::Instant;

use outboard::{Client, Settings};
use outboard_link::{Address, Identity};
use outboard_wire::Role;

use super::host::Host;
use crate::BenchError;
use crate::harness::{Effort, Figure, Progress, Unit, percentile};

/// What it may take.
const LIMIT_MS: f64 = 5.0;
const VERSUS: &str = "a limit: 5 ms from connecting to the first answer";

/// How many clients come, one after the other.
const CLIENTS: u64 = 1000;

pub(super) fn ask(host: &Host, effort: Effort, progress: &Progress) -> Result<Vec<Figure>, BenchError> {
    let mut figures = Vec::new();
    let began = Instant::now();
    for (name, at) in [("daemon.attach", &host.local), ("daemon.attach.tcp", &host.remote)] {
        let clients = effort.items(CLIENTS);
        let mut times_ms = (0..clients).map(|_| attach(at)).collect::<Result<Vec<f64>, _>>()?;
        for (rank, fraction) in [("p50", 0.5), ("p99", 0.99)] {
            let value = percentile(&mut times_ms, fraction);
            figures.push(Figure::new(format!("{name}.{rank}"), Unit::Milliseconds, value, LIMIT_MS, VERSUS));
        }
        progress.show(began.elapsed());
    }
    Ok(figures)
}

/// From nothing to the first answer, in milliseconds.
fn attach(at: &Address) -> Result<f64, BenchError> {
    let identity = Identity::new(Role::Application, "new client");
    let link = Settings::default().link;
    let began = Instant::now();
    let mut client = Client::connect(at, identity, &link)?;
    client.echo(b"here")?;
    let took = began.elapsed();
    client.close("that was all");
    Ok(took.as_secs_f64() * 1e3)
}
