//! Every message is handled once, whoever carries it and whatever becomes of him.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once};
use std::time::Duration;

use outboard::{MessagesPlacement, MessengerOptions, SendError};
use outboard_settings::AddressChoice;

use crate::agents::Agents;
use crate::letters::{all_to_all, random_team, rounds, seed};
use crate::team::{Team, Way, small};

/// The team with an agent for each rank, by turns.
fn carried<'a>(team: Team<'a>, agents: &'a Agents) -> Team<'a> {
    team.adjusted(|rank, settings, _| {
        let address = agents.address(rank as usize % agents.count());
        settings.job.agent = AddressChoice::At(address);
        // Ranks of different agents have to meet somewhere.
        settings.job.rendezvous = Some(agents.address(0));
    })
}

fn by_agent(options: MessengerOptions) -> MessengerOptions {
    MessengerOptions { placement: MessagesPlacement::Agent, ..options }
}

#[test]
fn an_agent_carries_everything() {
    let agents = Agents::start(1, 1, false, |_, _| true);
    for (ranks, options) in [(2, small()), (5, MessengerOptions::default())] {
        let carried_bytes = AtomicU64::new(0);
        let team = carried(Team::new(ranks, Way::Shm, by_agent(options)), &agents);
        all_to_all(&team, 300, 3, |messenger, _| {
            carried_bytes.fetch_max(messenger.stats().agent_bytes, Ordering::Relaxed);
            assert_eq!(messenger.stats().direct_bytes, 0, "{:?}", messenger.explain());
        });
        assert!(carried_bytes.into_inner() > 0);
    }
}

#[test]
fn ranks_that_reach_their_agent_over_tcp_are_served_too() {
    let agents = Agents::start(1, 2, false, |_, _| true);
    let team = Team::new(3, Way::Tcp, by_agent(small())).adjusted(|_, settings, _| {
        settings.job.agent = AddressChoice::At(agents.port(0));
    });
    all_to_all(&team, 100, 4, |messenger, _| assert_eq!(messenger.stats().direct_bytes, 0));
}

#[test]
fn agents_hand_over_to_each_other() {
    for workers in [1, 3] {
        let agents = Agents::start(3, workers, false, |_, _| true);
        for way in Way::ALL {
            let team = carried(Team::new(7, way, by_agent(small())), &agents);
            all_to_all(&team, 60, 5, |messenger, _| {
                assert_eq!(messenger.stats().direct_bytes, 0, "{:?}", messenger.explain());
            });
        }
    }
}

#[test]
fn agents_in_a_row_relay() {
    let agents = Agents::start(3, 1, true, |a, b| a.abs_diff(b) == 1);
    let team = carried(Team::new(6, Way::Shm, by_agent(small())), &agents);
    all_to_all(&team, 60, 6, |messenger, _| {
        assert_eq!(messenger.stats().direct_bytes, 0, "{:?}", messenger.explain());
    });
}

#[test]
fn agents_whose_link_is_too_narrow_are_done_without() {
    let agents = Agents::start_with(2, (1, false), |_, _| true, &["--link-ring", "128KiB"]);
    let team = carried(Team::new(4, Way::Shm, by_agent(small())), &agents);
    all_to_all(&team, 100, 8, |messenger, _| {
        // Those of the same agent are still reached by it.
        assert!(messenger.explain()[0].contains("1 of 3 ranks"), "{:?}", messenger.explain());
    });
}

/// A team whose agent is found silent soon.
fn impatient<'a>(ranks: u32, agents: &'a Agents) -> Team<'a> {
    Team::new(ranks, Way::Shm, by_agent(small())).adjusted(|_, settings, _| {
        settings.job.agent = AddressChoice::At(agents.address(0));
        settings.link.deadline = Duration::from_millis(500);
    })
}

#[test]
fn an_agent_that_stops_without_dying_holds_nobody_up() {
    let agents = Agents::start(1, 1, false, |_, _| true);
    let frozen = Once::new();
    all_to_all(&impatient(3, &agents), 300, 7, |_, number| {
        if number == 150 {
            frozen.call_once(|| agents.freeze(0));
        }
    });
    assert!(frozen.is_completed());
}

#[test]
fn a_rank_that_only_receives_notices_too() {
    const MESSAGES: u64 = 20_000;
    let agents = Agents::start(1, 1, false, |_, _| true);
    let sums = impatient(2, &agents).run(|messenger| {
        let mut sum = 0;
        if messenger.rank() == 1 {
            for number in 0..MESSAGES {
                if number == MESSAGES / 2 {
                    agents.freeze(0);
                }
                while let Err(error) = messenger.send_value(0, number) {
                    assert_eq!(error, SendError::Full);
                    messenger.pause().unwrap();
                    messenger.progress().unwrap();
                }
            }
            assert!(messenger.explain()[0].contains("does not answer"), "{:?}", messenger.explain());
        }
        messenger.quiesce(0, |_, _, bytes| sum += u64::from_le_bytes(bytes.try_into().unwrap())).unwrap();
        sum
    });
    assert_eq!(sums, [(0..MESSAGES).sum(), 0]);
}

#[test]
fn placements_change_and_agents_die_and_nothing_is_lost_or_repeated() {
    let first = seed();
    for round in 0..rounds(6) {
        let seed = first.wrapping_add(round);
        let mut random = fastrand::Rng::with_seed(seed);
        let agents = Agents::start(random.usize(1..=4), random.usize(1..=3), false, |_, _| true);
        let mut team = random_team(seed);
        team.options.placement = [MessagesPlacement::Agent, MessagesPlacement::Auto][random.usize(..2)];
        let team = carried(team, &agents);
        println!("seed {seed}: {} agents", agents.count());
        let random = Mutex::new(random);
        all_to_all(&team, 800 / team.ranks, seed, |messenger, _| {
            let mut random = random.lock().unwrap();
            if random.u32(..20) == 0 {
                let placements =
                    [MessagesPlacement::Inline, MessagesPlacement::Agent, MessagesPlacement::Auto];
                messenger.set_placement(placements[random.usize(..3)]);
            }
            if random.u32(..100) == 0 {
                let agent = random.usize(..agents.count());
                drop(random);
                agents.kill_or_revive(agent);
            }
        });
    }
}
