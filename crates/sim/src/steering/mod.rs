//! An application has work done at three sites whose load shifts, and the choice follows, neither late nor often.
//!
//! In half of all runs the sites stay and the promises of `outboard-steering` hold to the letter: a site that is
//! twice as dear is left in time, and nothing moves to what is dearer. In the others the sites come and go: work is
//! done all the same, each piece once, and moves stay within their budget.

mod caller;
mod station;
#[cfg(test)]
mod tests;
mod watch;

use std::rc::Rc;
use std::time::Duration;

use outboard_link::loopback::FaultPlan;
use outboard_steering::{Site, SteeringConfig};
use outboard_wire::{Role, Time};

use crate::{
    Either, Hardships, LINK_DEADLINE, LossKind, NodeSpec, Recorder, Scenario, Weather, World, chances,
};
use caller::Caller;
use station::Station;
use watch::Watch;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "steering",
    about: "work moves away from a site that becomes dear, in time, and no oftener than it pays",
    play,
};

/// How long each load lasts.
const PHASE: Duration = Duration::from_millis(60);
/// How many loads there are.
const PHASES: u32 = 4;
/// How long the last work may take.
const AFTERMATH: Duration = Duration::from_millis(4 * LINK_DEADLINE.as_millis() as u64);

fn play(seed: u64, recorder: &Recorder) -> Hardships {
    play_with(seed, recorder, SteeringConfig::default())
}

/// Plays with settings that may be wrong on purpose.
fn play_with(seed: u64, recorder: &Recorder, config: SteeringConfig) -> Hardships {
    let mut random = chances(seed, "steering");
    let is_stormy = random.bool();
    let weather = if is_stormy {
        Weather::draw(&mut random, LossKind::Honest)
    } else {
        let plan = FaultPlan::delayed(Duration::from_nanos(500), Duration::from_micros(2));
        Weather { plan, ..Weather::fair() }
    };
    let costs = [0; 3].map(|_| 2e5 * (1.0 + random.f64()));
    let watch = Rc::new(Watch::new(recorder.clone(), costs, is_stormy));
    let until = Time::ZERO + PHASE * PHASES;
    let mut world = World::new(seed, weather, recorder.clone());
    let known = Rc::clone(&watch);
    let caller = world.add(NodeSpec::immortal("application", Role::Application), move |boot| {
        Either::One(Caller::new(boot, Rc::clone(&known), config, until))
    });
    for (site, role) in [(Site::Agent, Role::Agent), (Site::Server, Role::MemoryServer)] {
        let known = Rc::clone(&watch);
        let station = world.add(NodeSpec::mortal(site.to_string(), role), move |boot| {
            Either::Other(Station::new(boot, site, Rc::clone(&known)))
        });
        world.connect(caller, station);
    }
    for phase in 1..PHASES {
        world.run_until(Time::ZERO + PHASE * phase, |_| false);
        if let Some(Either::One(machine)) = world.service(caller)
            && machine.knows_all()
        {
            watch.burden(world.now(), machine.chosen(), 2.2 + 3.0 * random.f64());
        }
    }
    world.run_until(until, |_| false);
    world.calm();
    let done = world.run_until(until + AFTERMATH, |world| match world.service(caller) {
        Some(Either::One(machine)) => machine.is_done(world.now()),
        _ => false,
    });
    recorder.expect(done, || format!("all work is done within {AFTERMATH:?} once nothing goes wrong"));
    world.hardships()
}
