//! Clients reserve, open, release, free, list and join at a daemon, and die in the middle of it.
//!
//! A region has one writer or many readers, or those who share it with all who do; what is used is always what the living hold, and what has a name; every question is answered once; a rank that
//! joins a job is told all its members when the last has come, or who is missing when time is up.

mod books;
mod desk;
mod leases;
mod meetings;
mod tenant;
#[cfg(test)]
mod tests;

use std::time::Duration;

use outboard_driver::Service;
use outboard_wire::{Role, Time};

use crate::{
    Boot, Either, Hardships, LINK_DEADLINE, LossKind, NodeSpec, Recorder, Scenario, Weather, World, chances,
};
use books::Books;
use desk::{Desk, PATIENCE};
use tenant::Tenant;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "daemons",
    about: "regions and jobs of clients that die: nothing stays reserved, everyone is answered once",
    play,
};

/// How long things go wrong.
const STORM: Duration = Duration::from_millis(700);
/// How long clients go on after that.
const CALM: Duration = Duration::from_millis(100);
/// When the dead are noticed and the patient answered.
const AFTERMATH: Duration =
    Duration::from_millis(3 * LINK_DEADLINE.as_millis() as u64 + 2 * PATIENCE.as_millis() as u64);

fn play(seed: u64, recorder: &Recorder) -> Hardships {
    play_with(seed, recorder, Desk::new, |desk| desk)
}

/// Plays with a daemon that may be wrong on purpose; `look` finds it in whatever hides it.
fn play_with<D: Service + 'static>(
    seed: u64,
    recorder: &Recorder,
    mut desk: impl FnMut(Boot, Books, u32) -> D + 'static,
    look: impl Fn(&D) -> &Desk,
) -> Hardships {
    let mut random = chances(seed, "daemons");
    let until = Time::ZERO + STORM + CALM;
    let ranks = random.u32(2..=5);
    let mut world = World::new(seed, Weather::draw(&mut random, LossKind::Honest), recorder.clone());
    let book = recorder.clone();
    let daemon = world.add(NodeSpec::mortal("daemon", Role::MemoryServer), move |boot| {
        Either::One(desk(boot, Books::new(book.clone()), ranks))
    });
    let mut clients = Vec::new();
    for rank in 0..ranks {
        let book = recorder.clone();
        let spec = NodeSpec::mortal(format!("rank {rank}"), Role::Application);
        let client =
            world.add(spec, move |boot| Either::Other(Tenant::new(boot, (rank, ranks), book.clone(), until)));
        world.connect(client, daemon);
        clients.push(client);
    }
    world.run_until(Time::ZERO + STORM, |_| false);
    world.calm();
    world.run_until(until + AFTERMATH, |_| false);
    let Some(Either::One(desk)) = world.service(daemon) else { return world.hardships() };
    let tenants = clients.iter().filter_map(|client| match world.service(*client) {
        Some(Either::Other(tenant)) => Some(tenant),
        _ => None,
    });
    let desk = look(desk);
    let page = desk.books.page();
    let (held, settled) = tenants.fold((0, 0), |(held, settled), tenant| {
        (held + tenant.held_bytes(page), settled + u32::from(tenant.is_settled()))
    });
    recorder
        .expect(settled == ranks, || format!("everyone has all answers, but only {settled} of {ranks} do"));
    let (used, named) = (desk.store.used(), desk.books.named_bytes());
    recorder.expect(used == held + named, || {
        format!(
            "what is used is what the living hold and what has a name: {used}, not {held} + {named} bytes"
        )
    });
    world.hardships()
}
