//! An application pages far memory in and out over links that break, and every load sees the newest store.
//!
//! Its threads load and store words of regions that are larger than the memory it has for them. Fault threads with
//! links of their own fetch chunks one-sidedly from a memory server and send changed ones home, as the pager's
//! machines say: what is moved, compared, saved, rescued, pinned, flushed and unmapped here is what the driver does
//! with pages of the kernel. Frames are conserved, no chunk is saved twice at a time, a flush has brought home all
//! that was stored before it, and nobody waits for ever once links last.

mod application;
mod audit;
mod chores;
mod errands;
mod jobs;
mod lane;
mod layout;
mod model;
mod pages;
mod server;
mod space;
#[cfg(test)]
mod tests;
mod walkers;

use std::time::Duration;

use fastrand::Rng;
use outboard_driver::Service;
use outboard_wire::{Role, Time};

use crate::{Either, Hardships, LINK_DEADLINE, Loss, NodeSpec, Recorder, Scenario, Weather, World, chances};
use application::Application;
use layout::Shape;
use server::Server;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "pager",
    about: "threads in far memory see what they stored last, however chunks and links come and go",
    play,
};

/// How long things go wrong.
const STORM: Duration = Duration::from_millis(120);
/// How long threads go on after that.
const CALM: Duration = Duration::from_millis(20);
/// How long the last faults and the last flush may take.
const AFTERMATH: Duration = Duration::from_millis(12 * LINK_DEADLINE.as_millis() as u64);
/// How long what was sent before a link was lost may still be on its way.
const ECHO: Duration = Duration::from_millis(20);

fn play(seed: u64, recorder: &Recorder) -> Hardships {
    let setting = Setting::draw(&mut chances(seed, "pager"));
    play_with(seed, recorder, setting, |application| application, |application| application)
}

/// What differs from one run to the next.
struct Setting {
    weather: Weather,
    shape: Shape,
    /// How long the server's threads are late at most.
    late_max: Duration,
}

impl Setting {
    fn draw(random: &mut Rng) -> Self {
        let mut weather = Weather::draw(random, Loss::Honest);
        if random.bool() {
            // Slow links that break often: what is on its way then meets what is sent on others.
            weather.plan.delay_max = weather.plan.delay_min + Duration::from_micros(random.u64(50..8000));
            weather.plan.close = 0.002 + 0.05 * random.f64().powi(2);
        }
        let late_max = Duration::from_millis([0, 0, 2, 10, 20][random.usize(..5)]);
        Self { weather, shape: Shape::draw(random), late_max }
    }
}

/// Plays with an application that may be wrong on purpose; `look` finds it in whatever hides it.
fn play_with<A: Service + 'static>(
    seed: u64,
    recorder: &Recorder,
    setting: Setting,
    hide: impl Fn(Application) -> A + 'static,
    look: impl Fn(&A) -> &Application,
) -> Hardships {
    let Setting { weather, shape, late_max } = setting;
    let until = Time::ZERO + STORM + CALM;
    let mut world = World::new(seed, weather, recorder.clone());
    let regions = model::regions();
    let (own, book) = (regions.clone(), recorder.clone());
    // With either of them the bytes would be gone, which is not what this is about.
    let server = world.add(NodeSpec::immortal("server", Role::MemoryServer), move |boot| {
        Either::One(Server::new(boot, own.clone(), late_max))
    });
    let application = world.add(NodeSpec::immortal("application", Role::Application), move |boot| {
        Either::Other(hide(Application::new(boot, book.clone(), regions.clone(), shape, until)))
    });
    (0..shape.lanes).for_each(|_| world.connect(application, server));
    world.run_until(Time::ZERO + STORM, |_| false);
    world.calm();
    let done = world.run_until(until + AFTERMATH, |world| match world.service(application) {
        Some(Either::Other(application)) => look(application).is_idle(),
        _ => false,
    });
    let end = world.now() + ECHO;
    world.run_until(end, |_| false);
    let Some(Either::Other(application)) = world.service(application) else { return world.hardships() };
    recorder.expect(done, || {
        let why = look(application).explain();
        format!("everything ends within {AFTERMATH:?} once nothing goes wrong, but {why}")
    });
    look(application).compare();
    world.hardships()
}
