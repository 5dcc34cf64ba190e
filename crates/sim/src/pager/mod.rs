//! An application pages far memory in and out over links that break, and every load sees the newest store.
//!
//! Its threads load and store words of objects that are larger than the memory it has for them. The [pagers] of its fault
//! threads, the same that run in a process, fetch chunks from memory servers and by an agent and send changed ones home; what
//! is simulated is the memory, in which threads wait for absent pages, and the servers. Objects are mapped anew, with another way and
//! another cache. Links break, frames come twice, the agent
//! crashes or falls silent, servers are late, and one may die for good. Frames are conserved, no store is lost, a flush has
//! brought home all that was stored before it, no walker waits for ever, and only bytes that a server has taken along are told to be lost.
//!
//! [pagers]: outboard_paging::application::Pager

mod application;
mod audit;
mod chores;
mod forks;
mod layout;
mod model;
mod server;
mod space;
#[cfg(test)]
mod tests;
mod walkers;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use outboard_driver::Service;
use outboard_wire::{Role, Time};

use crate::paging_cache::agent;
use crate::silence::Silent;
use crate::{
    Boot, Either, Hardships, LINK_DEADLINE, LossKind, NodeSpec, Recorder, Scenario, Weather, World, chances,
};
use application::Application;
use layout::Shape;
use model::Memories;
use server::Server;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "pager",
    about: "threads in far memory see what they stored last, however chunks, links, agent and servers come and go",
    play,
};

/// How long things go wrong.
const STORM: Duration = Duration::from_millis(120);
/// How long threads go on after that.
const CALM: Duration = Duration::from_millis(20);
/// How long the last faults and the last flush may take: an agent that is silent is given up after less than a second.
const AFTERMATH: Duration = Duration::from_millis(30 * LINK_DEADLINE.as_millis() as u64);
/// How long what was sent before a link was lost may still be on its way.
const ECHO: Duration = Duration::from_millis(20);

fn play(seed: u64, recorder: &Recorder) -> Hardships {
    let setting = Setting::draw(&mut chances(seed, "pager"));
    play_with(
        seed,
        recorder,
        setting,
        |server| server,
        (|application| application, |application| application),
    )
}

/// The choices that differ from one run to the next.
struct Setting {
    weather: Weather,
    shape: Shape,
    cache: agent::Shape,
    /// How long the servers' threads are late at most.
    late_max: Duration,
}

impl Setting {
    fn draw(random: &mut Rng) -> Self {
        let mut weather = Weather::draw(random, LossKind::Honest);
        if random.bool() {
            // Slow links that break often: what is on its way then meets what is sent on others.
            weather.plan.delay_max = weather.plan.delay_min + Duration::from_micros(random.u64(50..8000));
            weather.plan.close = 0.002 + 0.05 * random.f64().powi(2);
        }
        weather.plan.duplicate = if random.bool() { random.f64() / 10.0 } else { 0.0 };
        let late_max = Duration::from_millis([0, 0, 2, 10, 20][random.usize(..5)]);
        let (shape, cache) = (Shape::draw(random), agent::Shape::draw(random));
        if shape.loses_a_server {
            weather.crash_every = Some(Duration::from_millis(random.u64(20..100)));
            // It comes back and has nothing, or never comes back.
            weather.down = if random.bool() { weather.down } else { AFTERMATH * 4 };
        }
        Self { weather, shape, cache, late_max }
    }
}

/// Plays with a server and an application that may be wrong on purpose; `look` finds the application in whatever hides it.
fn play_with<S: Service + 'static, A: Service + 'static>(
    seed: u64,
    recorder: &Recorder,
    setting: Setting,
    hide_server: fn(Server) -> S,
    (hide, look): (impl Fn(Application) -> A + 'static, impl Fn(&A) -> &Application),
) -> Hardships {
    let Setting { weather, shape, cache, late_max } = setting;
    let until = Time::ZERO + STORM + CALM;
    let mut world = World::new(seed, weather, recorder.clone());
    let memories: Memories = Rc::new(RefCell::new((0..shape.servers).map(|_| None).collect()));
    let mut servers = Vec::new();
    for number in 0..shape.servers {
        let memories = Rc::clone(&memories);
        let (name, is_mortal) = (format!("server {number}"), shape.loses_a_server && number == 0);
        let spec = if is_mortal { NodeSpec::mortal } else { NodeSpec::immortal };
        servers.push(world.add(spec(name, Role::MemoryServer), move |boot| {
            let server = Server::new(boot, number, &shape, Rc::clone(&memories), late_max);
            Either::One(Either::One(hide_server(server)))
        }));
    }
    // Objects are mapped at servers that are there.
    world.run_until(Time::ZERO + Duration::from_micros(1), |_| memories.borrow().iter().all(Option::is_some));
    let book = recorder.clone();
    let application = world.add(NodeSpec::immortal("application", Role::Application), move |boot| {
        let memories = Rc::clone(&memories);
        Either::Other(hide(Application::new(boot, book.clone(), memories, shape, until)))
    });
    for _ in 0..shape.lanes {
        servers.iter().for_each(|server| world.connect(application, *server));
    }
    if shape.has_agent {
        let agent = world.add(NodeSpec::mortal("agent", Role::Agent), move |boot: Boot| {
            Either::One(Either::Other(Silent::new(agent::Agent::new(&boot, cache), shape.silence)))
        });
        (0..shape.lanes).for_each(|_| world.connect(application, agent));
        for server in &servers {
            (0..agent::WORKERS).for_each(|_| world.connect(agent, *server));
        }
    }
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
