//! Applications use far memory through an agent that caches it, and what they fetch is what was written last.
//!
//! The agent's workers, the server's store and its half of paging are those of the product. Applications lease regions, one to
//! write or many to read, fetch and write back through the agent while they can, and change how a region is cached in the
//! middle of that. When the agent is lost, slow or says no, an application fences it off at the server, sends what was not
//! acknowledged itself, and attaches its region at the agent anew. Links break, requests come twice, agent and server fall silent
//! while their links live, agent, server and applications crash and forget everything; nothing that was acknowledged is lost,
//! nothing older is ever fetched, and in the end the agent holds nothing of applications that are gone.
//!
//! Write-backs do not come twice: no link repeats a frame, and their senders send one again only after a fence.

pub(crate) mod agent;
mod application;
mod books;
#[cfg(test)]
mod copies;
mod layout;
mod server;
#[cfg(test)]
mod tests;

use std::time::Duration;

use outboard_driver::Service;
use outboard_wire::{Role, Time};

use crate::silence::{self, Silent};
use crate::{
    Boot, Either, Hardships, LINK_DEADLINE, LossKind, NodeId, NodeSpec, Recorder, Scenario, Weather, World,
    chances,
};
use agent::Agent;
use application::Application;
use books::Books;
use layout::{APPLICATIONS_MAX, REGIONS_MAX};
use server::Server;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "paging",
    about: "far memory through an agent's cache is what was written last, whatever becomes of agent, server and links",
    play,
};

/// The nodes of the scenario: the server, the agent, and the applications.
type Nodes<A> = Either<Either<Silent<Server>, Silent<A>>, Application>;

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
    let weather = Weather::draw(&mut random, LossKind::Honest);
    let until = Time::ZERO + STORM + CALM;
    let mut world: World<Nodes<A>> = World::new(seed, weather, recorder.clone());
    let books = Books::new(recorder.clone());
    // Where the server crashes, every region begins anew: most runs are about the others.
    let is_mortal = random.u8(..3) == 0;
    let (linger, known) = (Duration::from_millis(random.u64(10..300)), books.clone());
    let spec = NodeSpec { is_mortal, ..NodeSpec::mortal("server", Role::MemoryServer) };
    let silences = [silence::draw_short(&mut random), silence::draw_short(&mut random)];
    let server = world.add(spec, move |boot| {
        Either::One(Either::One(Silent::new(Server::new(&boot, known.clone(), linger), silences[0])))
    });
    let shape = agent::Shape::draw(&mut random);
    let agent = world.add(NodeSpec::mortal("agent", Role::Agent), move |boot: Boot| {
        Either::One(Either::Other(Silent::new(hide(Agent::new(&boot, shape)), silences[1])))
    });
    (0..agent::WORKERS).for_each(|_| world.connect(agent, server));
    let regions = random.usize(1..=REGIONS_MAX);
    let applications: Vec<NodeId> = (0..random.usize(1..=APPLICATIONS_MAX))
        .map(|number| {
            let books = books.clone();
            let spec = NodeSpec::mortal(format!("application {number}"), Role::Application);
            let boot = move |boot| Either::Other(Application::new(boot, regions, books.clone(), until));
            let application = world.add(spec, boot);
            world.connect(application, agent);
            world.connect(application, server);
            application
        })
        .collect();
    world.run_until(Time::ZERO + STORM, |_| false);
    world.calm();
    // The agent may still read ahead when no application asks any more, and then it holds nothing.
    let held = |world: &World<Nodes<A>>| match world.service(agent) {
        Some(Either::One(Either::Other(agent))) => look(agent.machine()).holds(world.now()),
        _ => Some("no agent".to_owned()),
    };
    let is_done = |world: &World<Nodes<A>>, node: &NodeId| match world.service(*node) {
        Some(Either::Other(application)) => application.is_done(world.now()),
        _ => false,
    };
    let done = world.run_until(until + AFTERMATH, |world| {
        applications.iter().all(|node| is_done(world, node)) && held(world).is_none()
    });
    let (held, left) = (held(&world), applications.iter().filter(|node| !is_done(&world, node)).count());
    recorder.expect(done, || {
        format!(
            "everything ends within {AFTERMATH:?}, but {left} applications are left, the agent holds {held:?}"
        )
    });
    recorder.note("done", &[("written", books.compare())]);
    world.hardships()
}
