//! Ranks send messages to each other, themselves and by agents, and every message arrives once.
//!
//! Ranks are connected with each other and each with an agent, agents with each other, some of them only by others. Links
//! break, agents crash and forget everything, ranks change their mind about who carries their messages in the middle of it.
//! What is sent again by another way meets what was sent before; nothing is handled twice, nothing is left under way, and
//! no rank takes another one for dead.

mod agent;
mod ledger;
mod rank;
mod study;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use outboard_agent::RoutingConfig;
use outboard_driver::Service;
use outboard_driver::routing::RankConfig;
use outboard_routing::{Carriage, PackingConfig};
use outboard_wire::{Incarnation, JobId, Role, Time};

use crate::{
    Boot, Either, Hardships, LINK_DEADLINE, Loss, NodeId, NodeSpec, Recorder, Scenario, Weather, World,
    chances,
};
use agent::Agent;
use ledger::Ledger;
use rank::{Habits, RankNode};
pub use study::{BundleStudy, bundle_study};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "routing",
    about: "messages between ranks arrive once, whoever carries them and whatever becomes of agents and links",
    play,
};

/// How long things go wrong.
const STORM: Duration = Duration::from_millis(200);
/// How long the last messages may take.
const AFTERMATH: Duration = Duration::from_millis(20 * LINK_DEADLINE.as_millis() as u64);

fn play(seed: u64, recorder: &Recorder) -> Hardships {
    play_with(seed, recorder, |rank| rank, |rank| rank)
}

/// The incarnation that a node which never crashes will have.
fn incarnation_of(seed: u64, name: &str) -> Incarnation {
    Incarnation(chances(seed, &format!("{name}/1")).u64(1..))
}

fn rank_name(rank: u32) -> String {
    format!("rank {rank}")
}

/// How ranks know each other.
fn rank_config(seed: u64, rank: u32, ranks: u32, spaces: u8) -> RankConfig {
    RankConfig {
        job: JobId(0),
        rank,
        spaces,
        members: (0..ranks).map(|rank| incarnation_of(seed, &rank_name(rank))).collect(),
        // Links come back sooner or later.
        deadline: Duration::from_secs(3600),
    }
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

/// Plays with ranks that may be wrong on purpose; `look` finds them in whatever hides them.
fn play_with<R: Service + 'static>(
    seed: u64,
    recorder: &Recorder,
    hide: impl Fn(RankNode) -> R + Clone + 'static,
    look: impl Fn(&R) -> &RankNode,
) -> Hardships {
    let mut random = chances(seed, "routing");
    let mut weather = Weather::draw(&mut random, Loss::Honest);
    // No link repeats frames, but whoever sends again by another way does.
    weather.plan.duplicate = if random.bool() { random.f64() / 10.0 } else { 0.0 };
    let mut world: World<Either<R, Agent>> = World::new(seed, weather, recorder.clone());
    let (ranks, agents) = (random.u32(2..=6), random.usize(1..=3));
    let habits = Habits {
        messages: random.u64(100..800),
        pause: Duration::from_micros(random.u64(1..2000)),
        spaces: random.u8(1..=3),
        is_fickle: random.bool(),
        carriage: Carriage::Agent,
    };
    let ledger = Rc::new(RefCell::new(Ledger::default()));
    let nodes: Vec<NodeId> = (0..ranks)
        .map(|rank| {
            let (known, ledger, hide) = (recorder.clone(), Rc::clone(&ledger), hide.clone());
            let spec = NodeSpec::immortal(rank_name(rank), Role::Application);
            world.add(spec, move |boot: Boot| {
                let config = rank_config(seed, rank, ranks, habits.spaces);
                Either::One(hide(RankNode::new(boot, config, habits, known.clone(), Rc::clone(&ledger))))
            })
        })
        .collect();
    let config = draw_agents(&mut random);
    let agents: Vec<NodeId> = (0..agents)
        .map(|number| {
            let spec = NodeSpec::mortal(format!("agent {number}"), Role::Agent);
            world.add(spec, move |mut boot: Boot| Either::Other(Agent::new(&mut boot, config)))
        })
        .collect();
    for (index, node) in nodes.iter().enumerate() {
        nodes[..index].iter().for_each(|lower| world.connect(*node, *lower));
        world.connect(*node, agents[index % agents.len()]);
    }
    for (index, agent) in agents.iter().enumerate() {
        // With relays a row of them is enough.
        let first = if config.relays { index.saturating_sub(1) } else { 0 };
        agents[first..index].iter().for_each(|other| world.connect(*agent, *other));
    }
    world.run_until(Time::ZERO + STORM, |_| false);
    world.calm();
    let until = world.now() + habits.pause * (4 * habits.messages as u32) + AFTERMATH;
    let done = world.run_until(until, |world| {
        nodes.iter().all(|node| match world.service(*node) {
            Some(Either::One(rank)) => look(rank).is_done(),
            _ => false,
        })
    });
    let rank_of = |node: &NodeId| match world.service(*node) {
        Some(Either::One(rank)) => Some(look(rank)),
        _ => None,
    };
    let carried = nodes.iter().filter_map(rank_of).map(RankNode::carried).sum();
    recorder.note("done", &[("carried", carried)]);
    let left = ledger.borrow().under_way();
    recorder.expect(done && left == 0, || format!("everything arrives, but {left} messages have not"));
    let expected = u64::from(ranks) * habits.messages;
    let arrived = ledger.borrow().has_arrived() as u64;
    recorder.expect(arrived == expected, || format!("{expected} messages were sent, {arrived} arrived"));
    world.hardships()
}
