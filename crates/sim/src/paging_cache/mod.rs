//! Applications use far memory through an agent that caches it, and what they fetch is what they wrote last.
//!
//! Each has a region of its own at a memory server. It fetches and writes back through the agent while it can. When the
//! agent is lost or says no, the application fences it off at the server, sends what was not acknowledged itself,
//! and attaches its region at the agent anew. Links break, the agent crashes and forgets everything; nothing that was
//! acknowledged is lost, nothing older is ever fetched, and in the end nothing is left under way.

mod agent;
mod application;
mod layout;
mod server;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use outboard_driver::Service;
use outboard_wire::{Role, Time};

use crate::{
    Boot, Either, Hardships, LINK_DEADLINE, Loss, NodeSpec, Recorder, Scenario, Weather, World, chances,
};
use agent::Agent;
use application::Application;
use layout::APPLICATIONS_MAX;
use server::Server;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "paging",
    about: "far memory through an agent's cache is what was written last, whatever becomes of agent and links",
    play,
};

/// How long things go wrong.
const STORM: Duration = Duration::from_millis(300);
/// How long applications go on after that.
const CALM: Duration = Duration::from_millis(50);
/// How long the last requests may take.
const AFTERMATH: Duration = Duration::from_millis(12 * LINK_DEADLINE.as_millis() as u64);

fn play(seed: u64, recorder: &Recorder) -> Hardships {
    play_with(seed, recorder, |agent| agent, |agent| agent)
}

/// Plays with an agent that may be wrong on purpose; `look` finds it in whatever hides it.
fn play_with<A: Service + 'static>(
    seed: u64,
    recorder: &Recorder,
    hide: impl Fn(Agent) -> A + 'static,
    look: impl Fn(&A) -> &Agent,
) -> Hardships {
    let mut random = chances(seed, "paging");
    let weather = Weather::draw(&mut random, Loss::Honest);
    let until = Time::ZERO + STORM + CALM;
    let mut world = World::new(seed, weather, recorder.clone());
    let life = Rc::new(RefCell::new(None));
    let known = Rc::clone(&life);
    // If the server goes, so do the regions: that it does not come back is not what this is about.
    let server = world.add(NodeSpec::immortal("server", Role::MemoryServer), move |boot| {
        let server = Server::new(&boot);
        *known.borrow_mut() = Some(boot.incarnation);
        Either::One(Either::One(server))
    });
    let shape = agent::Shape::draw(&mut random);
    let agent = world.add(NodeSpec::mortal("agent", Role::Agent), move |boot: Boot| {
        Either::One(Either::Other(hide(Agent::new(&boot, shape))))
    });
    (0..agent::WORKERS).for_each(|_| world.connect(agent, server));
    let mut applications = Vec::new();
    for number in 0..random.usize(1..=APPLICATIONS_MAX) {
        let (known, life) = (recorder.clone(), Rc::clone(&life));
        let spec = NodeSpec::immortal(format!("application {number}"), Role::Application);
        let boot =
            move |boot| Either::Other(Application::new(boot, number, known.clone(), Rc::clone(&life), until));
        let application = world.add(spec, boot);
        world.connect(application, agent);
        world.connect(application, server);
        applications.push(application);
    }
    world.run_until(Time::ZERO + STORM, |_| false);
    world.calm();
    // The agent may still read ahead when nobody asks any more, and then it holds nothing.
    let pins = |world: &World<_>| match world.service(agent) {
        Some(Either::One(Either::Other(agent))) => look(agent).pins(),
        _ => u64::MAX,
    };
    let done = world.run_until(until + AFTERMATH, |world| {
        let mut nodes = applications.iter();
        let is_idle = nodes.all(|node| match world.service(*node) {
            Some(Either::Other(application)) => application.is_idle(world.now()),
            _ => false,
        });
        is_idle && pins(world) == 0
    });
    let held = pins(&world);
    recorder.expect(done, || format!("everything ends within {AFTERMATH:?}, but {held} pins are left"));
    for node in applications {
        if let (Some(Either::One(Either::One(server))), Some(Either::Other(application))) =
            (world.service(server), world.service(node))
        {
            application.compare(&server.memory);
        }
    }
    world.hardships()
}
