//! Ranks send messages to each other, themselves and by agents, and every message is handled once.
//!
//! The machines of ranks and agents are those of the product. Ranks are connected with each other and each with an agent,
//! agents with each other, some of them only by others; some processes share a node and map each other's memory. Links
//! break, agents crash and forget everything, fall silent or are slow, ranks change their mind about who carries their
//! messages in the middle of it. What is sent again by another way meets what was sent before. Every message is handled once,
//! in its rank and space; a space is quiet only when all of it was handled; and in the end no rank has anything left.
//!
//! Ranks do not die: the death of one ends its job, which its launcher sees to, so that nothing is promised of messages to it.

mod agent;
mod application;
mod books;
mod layout;
mod near;
mod study;
#[cfg(test)]
mod tests;

use std::time::Duration;

use fastrand::Rng;
use outboard_driver::Service;
use outboard_routing::{Carrier, PackingConfig, RoutingConfig};
use outboard_wire::{Role, Time};

use crate::silence::{self, Silent};
use crate::{
    Boot, Either, Hardships, LINK_DEADLINE, LossKind, NodeId, NodeSpec, Recorder, Scenario, Weather, World,
    chances,
};
use agent::Agent;
use application::{Habits, Mood, RankNode};
use books::Books;
use layout::{Layout, Near, rank_name};
use near::Exported;
pub use study::{BundleStudy, bundle_study};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "routing",
    about: "messages between ranks are handled once, whichever processes carry them and whatever becomes of agents and links",
    play,
};

type Nodes<R, A> = Either<R, Silent<A>>;

/// How long things go wrong.
const STORM: Duration = Duration::from_millis(200);
/// How long the last messages may take.
const AFTERMATH: Duration = Duration::from_millis(20 * LINK_DEADLINE.as_millis() as u64);
/// How many frames may have to go one after the other until the last messages have arrived, long ones piece by piece.
const JOURNEYS: u32 = 1000;

fn play(seed: u64, recorder: &Recorder) -> Hardships {
    play_with(seed, recorder, (|agent| agent, |agent| agent), (|rank| rank, |rank| rank))
}

fn draw_agents(random: &mut Rng) -> RoutingConfig {
    RoutingConfig {
        workers: random.usize(1..=3),
        parcel_bytes: 1 << random.usize(10..=12),
        parcels: random.u32(8..20),
        packing: PackingConfig {
            hold: Duration::from_micros(random.u64(0..200)),
            under_way: random.u32(1..5),
        },
        relays: random.bool(),
    }
}

fn draw_habits(random: &mut Rng) -> Habits {
    let moods = [
        Mood::Steady(Carrier::Inline),
        Mood::Steady(Carrier::Agent),
        Mood::Steady(Carrier::Agent),
        Mood::Fickle,
        Mood::Chooses,
    ];
    Habits {
        phases: random.u32(1..=3),
        messages: random.u32(50..400),
        pause: Duration::from_micros(random.u64(1..2000)),
        spaces: random.u8(1..=3),
        mood: moods[random.usize(..moods.len())],
        long_one_in: random.u32(3..40),
        agent_patience: Duration::from_millis(random.u64(4..200)),
    }
}

/// The faults, and the processes that share a node where they may.
fn draw_weather(random: &mut Rng) -> (Weather, Near) {
    let mut weather = Weather::draw(random, LossKind::Honest);
    let near = [Near::None, Near::Agents, Near::Ranks][random.usize(..3)];
    match near {
        // No link repeats frames, but a source that sends again by another way does.
        Near::None => weather.plan.duplicate = if random.bool() { random.f64() / 10.0 } else { 0.0 },
        // Nothing but the end of a process cuts a link within a node, not even that it is stopped, and ranks do not end. What a
        // rank has not read yet would be overwritten otherwise.
        Near::Agents | Near::Ranks => {
            weather.plan.close = 0.0;
            weather.pause_max = weather.pause_max.min(LINK_DEADLINE / 2);
        }
    }
    (weather, near)
}

/// Plays with machines that may be wrong on purpose; the second function of each pair finds the machine in whatever hides it.
fn play_with<A: Service + 'static, R: Service + 'static>(
    seed: u64,
    recorder: &Recorder,
    (hide_agent, look_at_agent): (impl Fn(Agent) -> A + Clone + 'static, impl Fn(&A) -> &Agent),
    (hide_rank, look_at_rank): (impl Fn(RankNode) -> R + Clone + 'static, impl Fn(&R) -> &RankNode),
) -> Hardships {
    let mut random = chances(seed, "routing");
    let (weather, near) = draw_weather(&mut random);
    let journeys = weather.plan.delay_max * JOURNEYS;
    let mut world: World<Nodes<R, A>> = World::new(seed, weather, recorder.clone());
    let layout = Layout { seed, ranks: random.u32(2..=6), agents: random.u32(1..=3), near };
    let (habits, config) = (draw_habits(&mut random), draw_agents(&mut random));
    let (books, exported) = (Books::new(recorder.clone(), layout.ranks), Exported::default());
    let ranks: Vec<NodeId> = (0..layout.ranks)
        .map(|rank| {
            let (known, hide) = ((books.clone(), exported.clone()), hide_rank.clone());
            world.add(NodeSpec::immortal(rank_name(rank), Role::Application), move |boot: Boot| {
                Either::One(hide(RankNode::new(boot, rank, layout, habits, known.clone())))
            })
        })
        .collect();
    let agents: Vec<NodeId> = (layout.ranks..layout.ranks + layout.agents)
        .map(|node| {
            let (known, hide) = ((books.clone(), exported.clone()), hide_agent.clone());
            // One that never answers again is a matter of patience, which ranks have. It keeps what it was given.
            let silence = silence::draw_short(&mut random);
            world.add(NodeSpec::mortal(format!("agent {node}"), Role::Agent), move |boot: Boot| {
                let agent = hide(Agent::new(boot, node, layout, config, known.clone()));
                Either::Other(Silent::new(agent, silence))
            })
        })
        .collect();
    connect(&mut world, layout, config.relays);
    world.run_until(Time::ZERO + STORM, |_| false);
    world.calm();
    let until = world.now() + habits.pause * (4 * habits.messages * habits.phases) + journeys + AFTERMATH;
    let is_done = |world: &World<Nodes<R, A>>| {
        let mut nodes = ranks.iter().map(|node| world.service(*node));
        nodes.all(|node| matches!(node, Some(Either::One(rank)) if look_at_rank(rank).is_done()))
    };
    let done = world.run_until(until, is_done);
    let handled = books.close();
    recorder
        .expect(done, || format!("all ranks come to the end, within {AFTERMATH:?} after the last message"));
    let leftovers = |world: &World<Nodes<R, A>>| {
        ranks.iter().chain(&agents).find_map(|node| match world.service(*node)? {
            Either::One(rank) => look_at_rank(rank).leftovers(),
            Either::Other(agent) => look_at_agent(agent.machine()).leftovers(),
        })
    };
    let is_clean = world.run_until(until + AFTERMATH, |world| leftovers(world).is_none());
    recorder.expect(is_clean, || {
        format!("in the end nothing is kept and agents reach all, but {:?}", leftovers(&world))
    });
    let carried = ranks.iter().filter_map(|node| match world.service(*node)? {
        Either::One(rank) => Some(look_at_rank(rank).carried()),
        Either::Other(_) => None,
    });
    recorder.note("done", &[("handled", handled), ("carried", carried.sum())]);
    world.hardships()
}

/// Connects ranks with each other and with their agents, and agents with each other.
fn connect<S: Service>(world: &mut World<S>, layout: Layout, has_relays: bool) {
    let node = |number: u32| NodeId(number as usize);
    for rank in 0..layout.ranks {
        (0..rank).for_each(|lower| world.connect(node(rank), node(lower)));
        world.connect(node(rank), node(layout.agent_of(rank)));
    }
    for agent in 0..layout.agents {
        // With relays a row of them is enough.
        let first = if has_relays { agent.saturating_sub(1) } else { 0 };
        (first..agent)
            .for_each(|other| world.connect(node(layout.ranks + agent), node(layout.ranks + other)));
    }
}
