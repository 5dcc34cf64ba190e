//! Writers write by both paths, and no reader at the server sees a difference but time.
//!
//! The initiators, the relay of the agent and the drainers of the server are those of the product. Links break, agents and
//! server crash and forget everything, fall silent or are slow; writers go on by the server itself, or connect anew. What a
//! writer was told to be visible is, nothing is torn, applied twice or out of order, and a fence holds everything back.

mod agent;
mod books;
mod layout;
mod server;
#[cfg(test)]
mod tests;
mod writer;

use std::time::Duration;

use outboard_driver::Service;
use outboard_wire::{Role, Time};

use crate::silence::{self, Silent};
use crate::{
    Boot, Either, Hardships, LINK_DEADLINE, LossKind, NodeId, NodeSpec, Recorder, Scenario, Weather, World,
    chances,
};
use agent::Agent;
use books::Books;
use layout::WRITERS_MAX;
use server::{Server, Shape};
use writer::{Habits, WriterNode};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "writing",
    about: "writes that ended are visible, whole and in order, whichever path they took and whichever node dies",
    play,
};

/// How long things go wrong.
const STORM: Duration = Duration::from_millis(300);
/// How long writers go on after that.
const CALM: Duration = Duration::from_millis(50);
/// How long the last writes may take.
const AFTERMATH: Duration = Duration::from_millis(20 * LINK_DEADLINE.as_millis() as u64);

fn play(seed: u64, recorder: &Recorder) -> Hardships {
    play_with(seed, recorder, |server| server, |agent| agent, (|writer| writer, |writer| writer))
}

/// A memory server, an agent that may fall silent, or a writer.
type Nodes<S, A, W> = Either<Either<S, Silent<A>>, W>;

/// Plays with machines that may be wrong on purpose; the last function finds the writer in whatever hides it.
fn play_with<S: Service + 'static, A: Service + 'static, W: Service + 'static>(
    seed: u64,
    recorder: &Recorder,
    hide_server: impl Fn(Server) -> S + 'static,
    hide_agent: impl Fn(Agent) -> A + Clone + 'static,
    (hide, look): (impl Fn(WriterNode) -> W + Clone + 'static, impl Fn(&W) -> &WriterNode),
) -> Hardships {
    let mut random = chances(seed, "writing");
    let mut weather = Weather::draw(&mut random, LossKind::Honest);
    // No link repeats frames, but writers that attach anew send again what has arrived before.
    weather.plan.duplicate = if random.bool() { random.f64() / 10.0 } else { 0.0 };
    let until = Time::ZERO + STORM + CALM;
    let mut world: World<Nodes<S, A, W>> = World::new(seed, weather, recorder.clone());
    let books = Books::new(recorder.clone());
    let (shape, known) =
        (Shape { workers: random.usize(1..=3), writers: random.usize(1..=6) }, books.clone());
    let server = world.add(NodeSpec::mortal("server", Role::MemoryServer), move |boot: Boot| {
        Either::One(Either::One(hide_server(Server::new(boot, known.clone(), shape))))
    });
    let agents: Vec<NodeId> = (0..random.usize(1..=2))
        .map(|number| {
            let (hide, silence) = (hide_agent.clone(), silence::draw(&mut random));
            let spec = NodeSpec::mortal(format!("agent {number}"), Role::Agent);
            let agent = world
                .add(spec, move |_| Either::One(Either::Other(Silent::new(hide(Agent::default()), silence))));
            world.connect(agent, server);
            agent
        })
        .collect();
    let writers: Vec<NodeId> = (0..random.usize(1..=WRITERS_MAX))
        .map(|number| {
            let (books, hide, habits) = (books.clone(), hide.clone(), Habits::draw(&mut random, until));
            let spec = NodeSpec::mortal(format!("writer {number}"), Role::Application);
            let boot =
                move |boot: Boot| Either::Other(hide(WriterNode::new(boot, number, habits, books.clone())));
            let writer = world.add(spec, boot);
            world.connect(writer, server);
            // Some have no relay.
            if random.u32(..4) > 0 {
                world.connect(writer, agents[number % agents.len()]);
            }
            writer
        })
        .collect();
    world.run_until(Time::ZERO + STORM, |_| false);
    world.calm();
    let writer_of = |world: &World<Nodes<S, A, W>>, node: &NodeId, use_it: &mut dyn FnMut(&WriterNode)| {
        if let Some(Either::Other(writer)) = world.service(*node) {
            use_it(look(writer));
        }
    };
    let done = world.run_until(until + AFTERMATH, |world| {
        let mut idle = 0;
        writers.iter().for_each(|node| {
            writer_of(world, node, &mut |writer| idle += usize::from(writer.is_done(world.now())));
        });
        idle == writers.len()
    });
    recorder.expect(done, || format!("every write ends within {AFTERMATH:?}"));
    let (mut compared, mut unloaded) = (0, 0);
    for node in &writers {
        writer_of(&world, node, &mut |writer| {
            compared += writer.compare() as u64;
            unloaded += writer.unloaded();
        });
    }
    recorder.note("done", &[("compared", compared), ("unloaded", unloaded)]);
    world.hardships()
}
