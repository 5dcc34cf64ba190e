//! Clients read, write and update the memory of an owner one-sidedly, and it always holds what it may.
//!
//! Aligned words do not tear, though reads do; counters lose no addition; what is out of bounds, misaligned or
//! without right is refused; a frame sent after a write arrives after it; when a link is lost, everything that was
//! under way on it ends, and what ended so may have happened or not.

mod accessor;
mod layout;
mod model;
mod owner;
#[cfg(test)]
mod tests;

use std::time::Duration;

use outboard_driver::Service;
use outboard_wire::{Role, Time};

use crate::{
    Boot, Either, Hardships, LINK_DEADLINE, LossKind, NodeSpec, Recorder, Scenario, Weather, World, chances,
};
use accessor::Accessor;
use layout::CLIENTS_MAX;
use model::Model;
use owner::Owner;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "memory",
    about: "one-sided reads, writes and atomics find and leave what they may, with reads torn on purpose",
    play,
};

/// How long things go wrong.
const STORM: Duration = Duration::from_millis(400);
/// How long clients go on after that.
const CALM: Duration = Duration::from_millis(50);
/// How long the last operations may take: a link gives a lost operation of a living peer several deadlines.
const AFTERMATH: Duration = Duration::from_millis(12 * LINK_DEADLINE.as_millis() as u64);

fn play(seed: u64, recorder: &Recorder) -> Hardships {
    play_with(seed, recorder, Owner::new, |accessor| accessor, |accessor| accessor)
}

/// Plays with machines that may be wrong on purpose; `look` finds the client in whatever hides it.
fn play_with<O: Service + 'static, A: Service + 'static>(
    seed: u64,
    recorder: &Recorder,
    mut owner: impl FnMut(Boot, Model, bool) -> O + 'static,
    hide: impl Fn(Accessor) -> A + Copy + 'static,
    look: impl Fn(&A) -> &Accessor,
) -> Hardships {
    let mut random = chances(seed, "memory");
    let loss = if random.bool() { LossKind::Honest } else { LossKind::Vanish };
    let mut weather = Weather::draw(&mut random, loss);
    weather.plan.tear = random.f64();
    let is_orderly = weather.plan.drop == 0.0;
    let until = Time::ZERO + STORM + CALM;
    let model = Model::new(recorder.clone());
    let mut world = World::new(seed, weather, recorder.clone());
    let known = model.clone();
    let target = world.add(NodeSpec::mortal("owner", Role::MemoryServer), move |boot| {
        Either::One(owner(boot, known.clone(), is_orderly))
    });
    let mut clients = Vec::new();
    for number in 0..random.usize(1..=CLIENTS_MAX) {
        let known = model.clone();
        let spec = NodeSpec::mortal(format!("client {number}"), Role::Application);
        let client = world
            .add(spec, move |boot| Either::Other(hide(Accessor::new(boot, number, known.clone(), until))));
        world.connect(client, target);
        clients.push(client);
    }
    world.run_until(Time::ZERO + STORM, |_| false);
    world.calm();
    let done = world.run_until(until + AFTERMATH, |world| {
        clients.iter().all(|client| match world.service(*client) {
            Some(Either::Other(accessor)) => look(accessor).is_idle(world.now()),
            _ => false,
        })
    });
    recorder.expect(done, || format!("everything ends within {AFTERMATH:?} once nothing goes wrong"));
    model.close();
    world.hardships()
}
