//! Callers use hash tables and mark cells by functions that run at memory servers, at agents and by themselves, wherever the table
//! of slots says at the moment; some calls go on from one server to another.
//!
//! Dispatchers, desks, executors, controllers and the agents' halves are those of the product. Servers move slots about, in half
//! of all runs at random, in the others as their controllers say. Servers, agents and callers crash, fall silent or are slow,
//! links break, frames come twice, and one-sided reads are torn. Each call runs at most once and ends once, with the right
//! answer or with an error that says whether it may have run; every history of a table is one that a single hash map could
//! have given.

mod agent;
mod books;
mod caller;
mod functions;
#[path = "../../../calling/tests/kv/history.rs"]
mod history;
mod port;
mod post;
mod server;
#[cfg(test)]
mod tests;

use std::time::Duration;

use outboard_driver::Service;
use outboard_link::loopback::FaultPlan;
use outboard_wire::{Role, Time};

use crate::{
    Boot, Either, Hardships, LINK_DEADLINE, LossKind, NodeId, NodeSpec, Recorder, Scenario, Weather, World,
    chances,
};
use agent::Agent;
use books::Books;
use caller::{Caller, Habits};
use server::Server;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "calling",
    about: "calls run at most once and are answered right, while slots move and servers, agents and callers die",
    play,
};

/// How long things go wrong.
const STORM: Duration = Duration::from_millis(300);
/// How long callers go on after that.
const CALM: Duration = Duration::from_millis(50);
/// How long the last calls may take.
const AFTERMATH: Duration = Duration::from_millis(20 * LINK_DEADLINE.as_millis() as u64);

fn play(seed: u64, recorder: &Recorder) -> Hardships {
    play_with(seed, recorder, |server| server, |agent| agent, (|caller| caller, |caller| caller))
}

/// Plays with machines that may be wrong on purpose; the last function finds the caller in whatever hides it.
fn play_with<S: Service + 'static, A: Service + 'static, C: Service + 'static>(
    seed: u64,
    recorder: &Recorder,
    hide_server: impl Fn(Server) -> S + Clone + 'static,
    hide_agent: impl Fn(Agent) -> A + Clone + 'static,
    (hide, look): (impl Fn(Caller) -> C + Clone + 'static, impl Fn(&C) -> &Caller),
) -> Hardships {
    let mut random = chances(seed, "calling");
    let is_fair = random.u8(..6) == 0;
    let weather = if is_fair {
        let plan = FaultPlan::delayed(Duration::from_nanos(500), Duration::from_micros(2));
        Weather { plan, ..Weather::fair() }
    } else {
        Weather::draw(&mut random, LossKind::Honest)
    };
    let repeats = !is_fair && random.bool();
    let until = Time::ZERO + STORM + CALM;
    let mut world: World<Either<Either<S, A>, C>> = World::new(seed, weather, recorder.clone());
    let books = Books::new(recorder.clone(), is_fair);
    let servers: Vec<NodeId> = (0..random.usize(1..=2))
        .map(|number| {
            let (known, books, hide) = (recorder.clone(), books.clone(), hide_server.clone());
            let spec = NodeSpec::mortal(format!("server {number}"), Role::MemoryServer);
            world.add(spec, move |boot: Boot| {
                Either::One(Either::One(hide(Server::new(boot, known.clone(), &books))))
            })
        })
        .collect();
    let agents: Vec<NodeId> = (0..random.usize(1..=2))
        .map(|number| {
            let hide = hide_agent.clone();
            let spec = NodeSpec::mortal(format!("agent {number}"), Role::Agent);
            let boot = move |boot: Boot| Either::One(Either::Other(hide(Agent::new(boot.random))));
            let agent = world.add(spec, boot);
            servers.iter().for_each(|server| world.connect(agent, *server));
            agent
        })
        .collect();
    let callers: Vec<NodeId> = (0..random.usize(1..=4))
        .map(|number| {
            let (known, count) = ((recorder.clone(), books.clone()), servers.len());
            let (habits, hide) = (Habits::draw(&mut random, until, repeats), hide.clone());
            let spec = NodeSpec::mortal(format!("caller {number}"), Role::Application);
            let boot = move |boot: Boot| Either::Other(hide(Caller::new(boot, count, known.clone(), habits)));
            let caller = world.add(spec, boot);
            // Some have no agent.
            let agent = (random.u8(..5) > 0).then(|| agents[number % agents.len()]);
            for server in &servers {
                world.connect(caller, *server);
                agent.into_iter().for_each(|agent| world.connect(caller, agent));
            }
            caller
        })
        .collect();
    world.run_until(Time::ZERO + STORM, |_| false);
    world.calm();
    let done = world.run_until(until + AFTERMATH, |world| {
        callers.iter().all(|caller| match world.service(*caller) {
            Some(Either::Other(machine)) => look(machine).is_done(world.now()),
            _ => false,
        })
    });
    recorder.expect(done, || format!("every call ends within {AFTERMATH:?} once nothing goes wrong"));
    if !recorder.is_broken() {
        books.close();
    }
    world.hardships()
}
