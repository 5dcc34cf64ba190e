//! Callers use one hash table by functions that run at the server, at agents and by themselves, whichever the table of slots
//! says at the moment, and every history is one that a single hash map could have given.
//!
//! The server moves slots about, in half of all runs at random, in the others as its controller says by what callers tell it,
//! which keeps within its budget of moves. Agents and callers crash, links break, and one-sided reads are torn. A put that
//! was acknowledged is not lost, and nothing is found that nobody has put.

mod agent;
mod caller;
mod desk;
#[path = "../../../calling/tests/kv/history.rs"]
mod history;
mod server;
mod table;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use outboard_wire::{Role, Time};

use crate::{Either, Hardships, LINK_DEADLINE, Loss, NodeSpec, Recorder, Scenario, Weather, World, chances};
use agent::Agent;
use caller::{Caller, Habits, History};
use history::check;
use server::Server;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "calling",
    about: "a hash table by functions at all sites at once is one table, while slots move, agents and callers die",
    play,
};

/// How long things go wrong.
const STORM: Duration = Duration::from_millis(300);
/// How long the last calls may take.
const AFTERMATH: Duration = Duration::from_millis(40 * LINK_DEADLINE.as_millis() as u64);

fn play(seed: u64, recorder: &Recorder) -> Hardships {
    play_with(seed, recorder, false)
}

/// Plays with callers that may be rash on purpose.
fn play_with(seed: u64, recorder: &Recorder, is_rash: bool) -> Hardships {
    let mut random = chances(seed, "calling");
    let mut weather = Weather::draw(&mut random, Loss::Honest);
    weather.plan.tear = random.f64();
    let habits = Habits { keys: random.u8(1..=4), calls: random.u32(20..60), is_rash };
    let mut world = World::new(seed, weather, recorder.clone());
    let known = recorder.clone();
    let server = world.add(NodeSpec::immortal("server", Role::MemoryServer), move |boot| {
        Either::One(Server::new(boot, known.clone()))
    });
    let agents: Vec<_> = (0..random.usize(1..=2))
        .map(|number| {
            let spec = NodeSpec::mortal(format!("agent {number}"), Role::Agent);
            let agent = world.add(spec, |boot| Either::Other(Either::One(Agent::new(boot.random))));
            world.connect(agent, server);
            agent
        })
        .collect();
    let history = Rc::new(RefCell::new(History::default()));
    let mut lefts = Vec::new();
    for number in 0..random.usize(2..=4) {
        let left = Rc::new(RefCell::new(habits.calls));
        lefts.push(Rc::clone(&left));
        let (known, history) = (recorder.clone(), Rc::clone(&history));
        let spec = NodeSpec::mortal(format!("caller {number}"), Role::Application);
        let caller = world.add(spec, move |boot| {
            let books = (Rc::clone(&history), Rc::clone(&left));
            Either::Other(Either::Other(Caller::new(boot, known.clone(), books, habits)))
        });
        world.connect(caller, server);
        world.connect(caller, agents[number % agents.len()]);
    }
    world.run_until(Time::ZERO + STORM, |_| false);
    world.calm();
    let done =
        world.run_until(Time::ZERO + STORM + AFTERMATH, |_| lefts.iter().all(|left| *left.borrow() == 0));
    recorder.expect(done, || format!("all calls are made within {AFTERMATH:?} once nothing goes wrong"));
    let history = history.borrow();
    let [here, agent, server] = history.answered;
    recorder.note("answered", &[("application", here), ("agent", agent), ("server", server)]);
    if let Err(key) = check(&history.events) {
        let of_key: Vec<_> = history.events.iter().filter(|event| event.key == key).collect();
        recorder.fail(format!("a single hash map could have given what was seen of key {key}: {of_key:?}"));
    }
    world.hardships()
}
