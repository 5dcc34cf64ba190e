//! Real processes that are killed, stopped and scribbled over at random moments.
//!
//! The test starts itself anew as two children that trade frames and one-sided operations, does away with one of
//! them, and waits for the other to report the loss by name.

#[cfg(test)]
mod child;
#[cfg(test)]
mod couple;
#[cfg(test)]
mod leftovers;
#[cfg(test)]
mod process;
#[cfg(test)]
mod spec;
#[cfg(test)]
mod trade;

use std::time::{Duration, Instant};

use couple::{Couple, LIMIT, seed};
use leftovers::Leftovers;
use spec::{Act, End, Spec, Transport, is_thorough};

/// How many times a process is killed on each transport.
const ROUNDS: u64 = 200;
/// How many times where it takes longer to meet.
const OFI_ROUNDS: u64 = 20;

outboard_child::instead_of_tests!(play);

/// What the children do.
fn play() {
    let spec = Spec::from_environment().expect("a child is told what to do");
    std::process::exit(child::run(&spec) as i32);
}

/// Kills one of two processes at a moment drawn from `seed`. Returns how the other ended.
fn one_kill(transport: Transport, seed: u64, leftovers: &Leftovers) -> End {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut couple = Couple::start(transport, [Act::Trade; 2], seed, leftovers);
    // Some die before they have met.
    let have_met = random.u8(0..5) > 0;
    if have_met {
        couple.wait_until_trading();
    }
    let kill_listening = random.bool();
    let (mut victim, mut survivor, name) = couple.split(kill_listening);
    let most = if have_met { 25_000 } else { 5_000 };
    survivor.idle(Duration::from_micros(random.u64(0..most)));
    victim.kill();
    let killed = Instant::now();
    victim.exit(LIMIT).expect("a killed process ends");
    survivor.close_stdin();
    let end = survivor.exit(LIMIT).unwrap_or_else(|| panic!("seed {seed}: the survivor hangs"));
    let report = survivor.line("lost: ", Duration::ZERO).unwrap_or_default();
    match End::of(end) {
        Some(End::Lost) => {
            assert!(report.contains(name), "seed {seed}: the report names no process: “{report}”");
            assert!(killed.elapsed() < LIMIT, "seed {seed}: reported after {:?}", killed.elapsed());
            End::Lost
        }
        Some(End::NeverMet) if !have_met => End::NeverMet,
        other => panic!("seed {seed}: the survivor ended with {end:?} ({other:?}): “{report}”"),
    }
}

fn many_kills(transport: Transport, rounds: u64) {
    if couple::is_missing(transport) {
        return;
    }
    let leftovers = Leftovers::before();
    let first = seed();
    let ends = (0..rounds).map(|round| one_kill(transport, first.wrapping_add(round), &leftovers));
    let mourned = ends.filter(|end| *end == End::Lost).count() as u64;
    assert!(mourned > rounds / 2, "most of them had met, but only {mourned} of {rounds} were mourned");
    leftovers.assert_none();
}

#[test]
fn the_survivor_of_a_kill_on_shm_reports_it() {
    many_kills(Transport::Shm, ROUNDS);
}

#[test]
fn the_survivor_of_a_kill_on_tcp_reports_it() {
    many_kills(Transport::Tcp, ROUNDS);
}

#[test]
fn the_survivor_of_a_kill_on_a_fabric_reports_it() {
    many_kills(Transport::Ofi, OFI_ROUNDS);
}

/// A process that is stopped is as good as dead once its link's deadline has passed, where the link has one.
#[test]
fn a_stopped_peer_is_lost_at_the_deadline() {
    let leftovers = Leftovers::before();
    let first = seed();
    for round in 0..4 {
        let seed = first.wrapping_add(round);
        let mut couple = Couple::start(Transport::Tcp, [Act::Trade; 2], seed, &leftovers);
        couple.wait_until_trading();
        let (mut victim, mut survivor, name) = couple.split(round % 2 == 0);
        let stopped = Instant::now();
        victim.stop();
        let end = survivor.exit(LIMIT).unwrap_or_else(|| panic!("seed {seed}: the survivor hangs"));
        assert!(stopped.elapsed() >= trade::DEADLINE / 2, "seed {seed}: {:?}", stopped.elapsed());
        let report = survivor.line("lost: ", Duration::ZERO).unwrap_or_default();
        assert_eq!(End::of(end), Some(End::Lost), "seed {seed}: {report}");
        assert!(report.contains(name) && report.contains("silent"), "seed {seed}: {report}");
        victim.kill();
        victim.exit(LIMIT).expect("a killed process ends");
    }
    leftovers.assert_none();
}

/// A process that scribbles over everything it shares brings down no process but itself, and is noticed if it does every kind
/// of damage.
#[test]
fn a_scribbling_peer_is_survived() {
    let leftovers = Leftovers::before();
    let first = seed();
    for round in 0..48 {
        let seed = first.wrapping_add(round);
        let acts = if round % 2 == 0 { [Act::Endure, Act::Scribble] } else { [Act::Scribble, Act::Endure] };
        let couple = Couple::start(Transport::Shm, acts, seed, &leftovers);
        let (mut vandal, mut victim, _) = couple.split(round % 2 != 0);
        let must_notice = is_thorough(seed);
        if !must_notice {
            vandal.line("scribbled", LIMIT).unwrap_or_else(|| panic!("seed {seed}: the vandal hangs"));
            victim.close_stdin();
        }
        let end = victim.exit(LIMIT).unwrap_or_else(|| panic!("seed {seed}: the victim hangs"));
        vandal.kill();
        vandal.exit(LIMIT).expect("a killed process ends");
        match End::of(end) {
            Some(End::Lost) => {}
            Some(End::CarriedOn) if !must_notice => {}
            other => panic!("seed {seed}: the victim ended with {end:?} ({other:?})"),
        }
    }
    leftovers.assert_none();
}
