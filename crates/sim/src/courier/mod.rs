//! A source hands numbered messages to a destination, and nothing is lost or repeated, whatever happens between.
//!
//! The law that every service here obeys, in its smallest form: the source keeps a message until the destination
//! has acknowledged it; what it keeps is bounded, and that bound is the back-pressure; duplicates are recognised
//! at the destination by source, incarnation and sequence.
//!
//! Either node may crash. A source that crashes takes along what it was told; its next life starts anew. A
//! destination that crashes takes along what it had, so its next life goes on behind what was acknowledged: a
//! message that arrived and was not acknowledged arrives again there, and nowhere else.

mod destination;
mod ledger;
mod parcel;
mod source;
#[cfg(test)]
mod tests;

use std::time::Duration;

use outboard_driver::Service;
use outboard_wire::{Role, Time};

use crate::{Boot, Either, Hardships, Loss, NodeSpec, Recorder, Scenario, Weather, World, chances};
use destination::Destination;
use ledger::Ledger;
use source::Source;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "courier",
    about: "messages arrive once and in order across crashes, drops, duplicates and cut frames",
    play,
};

/// How long things go wrong.
const STORM: Duration = Duration::from_millis(1200);
/// How long everything may take once nothing goes wrong any more.
const AFTERMATH: Duration = Duration::from_secs(5);
/// How many messages each life of the source has.
const QUOTA: u64 = 600;

fn play(seed: u64, recorder: &Recorder) -> Hardships {
    play_with(seed, recorder, Source::new, Destination::new, |source| source)
}

/// Plays with machines that may be wrong on purpose; `look` finds the source in whatever hides it.
fn play_with<S: Service + 'static, D: Service + 'static>(
    seed: u64,
    recorder: &Recorder,
    mut source: impl FnMut(Boot, u64, Ledger) -> S + 'static,
    mut destination: impl FnMut(Boot, Ledger) -> D + 'static,
    look: impl Fn(&S) -> &Source,
) -> Hardships {
    let mut random = chances(seed, "courier");
    let ledger = Ledger::new(recorder.clone());
    let mut world = World::new(seed, Weather::draw(&mut random, Loss::Anything), recorder.clone());
    let pages = ledger.clone();
    let from = world.add(NodeSpec::mortal("source", Role::Application), move |boot| {
        Either::One(source(boot, QUOTA, pages.clone()))
    });
    let pages = ledger.clone();
    let to = world.add(NodeSpec::mortal("destination", Role::Agent), move |boot| {
        Either::Other(destination(boot, pages.clone()))
    });
    world.connect(from, to);
    world.run_until(Time::ZERO + STORM, |_| false);
    world.calm();
    let is_done = |world: &World<Either<S, D>>| match world.service(from) {
        Some(Either::One(source)) => look(source).is_done(),
        _ => false,
    };
    let end = world.now() + AFTERMATH;
    let done = world.run_until(end, is_done);
    recorder.expect(done, || format!("everything arrives within {AFTERMATH:?} once nothing goes wrong"));
    if let Some(Either::One(source)) = world.service(from) {
        ledger.close(look(source).incarnation());
    }
    world.hardships()
}
