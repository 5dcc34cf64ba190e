//! The rendezvous of ranks: jobs of one, and of nobody.

use outboard_e2e::Random;
use outboard_wire::control::{JobSecret, Member, Question};
use outboard_wire::{Incarnation, JobId, Rank, Role, Text};

use super::Episode;
use super::control::ask;
use super::forge::edge;
use super::raw::Raw;
use crate::scene::Scene;

/// How many ranks one client says to be.
const RANKS: u32 = 3000;

fn join(job: JobId, rank: u32, size: u32, random: &mut Random) -> Question {
    let member = Member {
        rank: Rank(rank),
        pid: 1,
        incarnation: Incarnation(random.next()),
        address: Text::new("unix:@nobody"),
    };
    let secret = JobSecret([random.below(2) as u8; 64]);
    Question::Join { job, secret, size, member }
}

/// All ranks of a job come by one link, and each of them would be told of all.
pub(super) fn alone(scene: &Scene, random: &mut Random) -> Episode {
    let mut link = Raw::connect(scene.agent(random), Role::Application, random)?;
    let job = JobId(random.next());
    let secret = JobSecret([7; 64]);
    for rank in 0..RANKS {
        let mut question = join(job, rank, RANKS, random);
        if let Question::Join { secret: said, .. } = &mut question {
            *said = secret;
        }
        ask(&mut link, rank, &question)?;
        if random.once_in(64) {
            link.take();
        }
    }
    std::thread::park_timeout(std::time::Duration::from_millis(50));
    Ok(())
}

/// Jobs that never get together, sizes that are none, secrets of others.
pub(super) fn jobs(scene: &Scene, random: &mut Random) -> Episode {
    let mut link = Raw::connect(scene.agent(random), Role::Application, random)?;
    for tag in 0..200 {
        let size = if random.once_in(3) { edge(random) as u32 } else { 2 + random.below(1 << 16) as u32 };
        let rank = if random.once_in(3) { edge(random) as u32 } else { random.below(4) as u32 };
        let job = JobId(random.below(300));
        ask(&mut link, tag, &join(job, rank, size, random))?;
        link.take();
    }
    Ok(())
}
