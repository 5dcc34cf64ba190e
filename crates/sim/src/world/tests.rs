use std::cell::RefCell;
use std::rc::Rc;

use outboard_link::{Disposition, Frame, LinkError, Peer, RemoteMemory};
use outboard_wire::{FrameHead, FrameKind, Role, Room};

use super::*;
use crate::LossKind;

const TICK: FrameKind = FrameKind::new(Room::Trial, 9);

/// Says a number to everyone it is linked to, a thousand times a second, and notes what it hears.
struct Crier {
    links: Vec<(LinkId, bool)>,
    next: Time,
    heard: Rc<RefCell<u64>>,
}

impl Service for Crier {
    type Note = ();

    fn on_open(&mut self, link: LinkId, _: &Peer, _: LinkOrigin, _: Time) {
        self.links.push((link, false));
    }

    fn on_frame(&mut self, _: LinkId, frame: Frame<'_>, _: Time) -> Disposition {
        *self.heard.borrow_mut() += u64::from(frame.head.kind == TICK);
        Disposition::Taken
    }

    fn send<L: Link + RemoteMemory>(&mut self, id: LinkId, link: &mut L, _: Time) -> Result<bool, LinkError> {
        let due = self.links.iter_mut().find(|(known, due)| *known == id && *due);
        let Some((_, due)) = due else { return Ok(false) };
        *due = link.send(FrameHead::new(TICK), &[]).is_err();
        Ok(!*due)
    }

    fn on_lost(&mut self, link: LinkId, _: &LinkError, _: Time) {
        self.links.retain(|(known, _)| *known != link);
    }

    fn next_deadline(&self) -> Option<Time> {
        Some(self.next)
    }

    fn on_time(&mut self, now: Time) {
        self.next = now + Duration::from_millis(1);
        self.links.iter_mut().for_each(|(_, due)| *due = true);
    }
}

/// A ring of criers.
fn ring(seed: u64, nodes: usize, weather: Weather, recorder: &Recorder) -> (World<Crier>, Rc<RefCell<u64>>) {
    let heard = Rc::<RefCell<u64>>::default();
    let mut world = World::new(seed, weather, recorder.clone());
    for number in 0..nodes {
        let heard = Rc::clone(&heard);
        world.add(NodeSpec::mortal(format!("crier {number}"), Role::Application), move |boot| Crier {
            links: Vec::new(),
            next: boot.now,
            heard: Rc::clone(&heard),
        });
    }
    for number in 0..nodes {
        world.connect(NodeId(number), NodeId((number + 1) % nodes));
    }
    (world, heard)
}

#[test]
fn time_jumps_and_nothing_is_lost_in_fair_weather() {
    let recorder = Recorder::new(8);
    let (mut world, heard) = ring(1, 3, Weather::fair(), &recorder);
    world.run_until(Time::ZERO + Duration::from_millis(100), |_| false);
    let heard = *heard.borrow();
    // Three nodes with two links each.
    assert!((560..=606).contains(&heard), "{heard}");
    assert_eq!(world.hardships(), Hardships::default());
    assert_eq!(recorder.broken(), None);
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_another() {
    let digest = |seed| {
        let recorder = Recorder::new(8);
        let weather = Weather::draw(&mut chances(seed, "test"), LossKind::Anything);
        let (mut world, _) = ring(seed, 4, weather, &recorder);
        world.run_until(Time::ZERO + Duration::from_millis(500), |_| false);
        (recorder.digest(), recorder.events(), world.hardships())
    };
    for seed in 0..20 {
        assert_eq!(digest(seed), digest(seed), "seed {seed}");
        assert_ne!(digest(seed).0, digest(seed + 1).0);
    }
}

#[test]
fn crashed_and_paused_nodes_come_back_when_the_weather_calms() {
    let weather = Weather {
        crash_every: Some(Duration::from_millis(30)),
        pause_every: Some(Duration::from_millis(50)),
        down: Duration::from_millis(40),
        pause_max: Duration::from_millis(300),
        ..Weather::fair()
    };
    let recorder = Recorder::new(8);
    let (mut world, heard) = ring(3, 5, weather, &recorder);
    world.run_until(Time::ZERO + Duration::from_secs(2), |_| false);
    let hardships = world.hardships();
    assert!(hardships.crashes > 50 && hardships.pauses > 20, "{hardships:?}");
    world.calm();
    world.run_until(Time::ZERO + Duration::from_secs(3), |_| false);
    let before = *heard.borrow();
    world.run_until(Time::ZERO + Duration::from_secs(4), |_| false);
    let heard = *heard.borrow() - before;
    assert!((9_900..=10_100).contains(&heard), "{heard}");
    assert_eq!(world.hardships(), hardships);
}

#[test]
fn hundreds_of_nodes_share_a_world() {
    let recorder = Recorder::new(8);
    let (mut world, heard) = ring(4, 300, Weather::fair(), &recorder);
    world.run_until(Time::ZERO + Duration::from_millis(30), |_| false);
    assert!(*heard.borrow() > 300 * 2 * 20);
}
