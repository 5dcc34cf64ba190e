//! Frames to the agent and back.

use std::time::{Duration, Instant};

use anyhow::Result;
use outboard::Client;

use super::{Finding, times};
use crate::commands::demo::stage::{By, Stage};
use crate::numbers;

const SMALL: usize = 64;
const LARGE: usize = 64 << 10;
const ECHOES: usize = 200;
const ATTACHES: usize = 9;

/// The measurements of one kind of link, medians.
struct Measured {
    attach: Duration,
    small: Duration,
    large: Duration,
}

/// Attaches and echoes over each kind of link.
pub(super) fn echo(stage: &mut Stage) -> Result<Finding> {
    let shm = measure(stage, By::Shm)?;
    let tcp = measure(stage, By::Tcp)?;
    let [small, large] = [|it: &Measured| it.small, |it: &Measured| it.large];
    let both = |of: fn(&Measured) -> Duration| {
        format!("{} and {}", numbers::time(of(&shm)), numbers::time(of(&tcp)))
    };
    let mut text = format!(
        "frames to the agent and back, through shared memory and over TCP: 64 B in {}, 64 KiB in {}",
        both(small),
        both(large)
    );
    if shm.small > tcp.small || shm.large > tcp.large {
        text += "; shared memory was slower this time, which happens when both processes, which wait by looking, get \
                 one processor between them";
    }
    let seconds = |time: Duration| time.as_secs_f64();
    let gain = format!(
        "shared memory: {} and {} the speed of TCP",
        times(seconds(tcp.small), seconds(shm.small)),
        times(seconds(tcp.large), seconds(shm.large))
    );
    let mut finding = Finding::text(text).gained(gain);
    for (by, measured) in [(By::Shm, shm), (By::Tcp, tcp)] {
        let Measured { attach, small, large } = measured;
        for (what, time) in [("attach", attach), ("echo_64B", small), ("echo_64KiB", large)] {
            finding = finding.with(format!("{what}_{}_p50_us", by.name()), seconds(time) * 1e6);
        }
    }
    Ok(finding)
}

fn measure(stage: &mut Stage, by: By) -> Result<Measured> {
    let address = by.address(stage.agent()?)?.clone();
    let mut attaching = Vec::with_capacity(ATTACHES);
    for _ in 0..ATTACHES {
        let began = Instant::now();
        let client = stage.connect(&address)?;
        attaching.push(began.elapsed());
        client.close("only tried");
    }
    stage.go_on()?;
    let mut client = stage.connect(&address)?;
    let measured = Measured {
        attach: median(attaching),
        small: echoes(&mut client, SMALL)?,
        large: echoes(&mut client, LARGE)?,
    };
    client.close("done");
    Ok(measured)
}

fn echoes(client: &mut Client, size: usize) -> Result<Duration> {
    let payload: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
    let times = (0..ECHOES).map(|_| client.echo(&payload)).collect::<Result<Vec<Duration>, _>>()?;
    Ok(median(times))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
