//! Regions: reserved, opened, freed, populated and left behind by somebody who means no good.

use outboard_e2e::Random;
use outboard_wire::control::{ControlAnswer, Question, RegionSharing};
use outboard_wire::{FrameHead, Generation, Grant, Incarnation, RegionDescriptor, RegionId, Role, Text};

use super::Episode;
use super::forge::{edge, key, mostly_below, perhaps, rights};
use super::raw::{Hung, Raw, hello};
use crate::scene::Scene;

/// How many regions of one page somebody leaves behind.
const PAGES: u32 = 1000;

pub(super) fn ask(link: &mut Raw, tag: u32, question: &Question) -> Result<(), Hung> {
    let mut payload = Vec::new();
    question.encode(&mut payload);
    link.frame_patiently(FrameHead::new(question.kind()).with_tag(tag), &payload)
}

/// A region of its own, to have keys that are right.
pub(super) fn own_region(link: &mut Raw, size: u64) -> Result<RegionDescriptor, Hung> {
    let question =
        Question::Reserve { size, chunk_log2: 16, name: Text::new(""), sharing: RegionSharing::Together };
    ask(link, 77, &question)?;
    let (head, payload) = link.await_frame(|head| head.tag == 77)?;
    match ControlAnswer::decode(head.kind, &payload) {
        Ok(ControlAnswer::Region(descriptor)) => Ok(descriptor),
        _ => Err(Hung),
    }
}

/// A link to the memory server that has a region there.
pub(super) fn tenant(scene: &Scene, random: &mut Random) -> Result<(Raw, RegionDescriptor), Hung> {
    let mut link = Raw::connect(scene.memory(random), Role::Application, random)?;
    let descriptor = own_region(&mut link, 1 << 16)?;
    Ok((link, descriptor))
}

fn sharing(random: &mut Random) -> RegionSharing {
    if random.once_in(2) { RegionSharing::Leased } else { RegionSharing::Together }
}

fn any_question(own: &Grant, random: &mut Random) -> Question {
    let names = ["", "honest", "attacked", "file:../x", "file:", "\u{1b}[2J", "a/b", "name"];
    let name = Text::new(names[random.below(names.len() as u64) as usize]);
    let region = if random.once_in(2) { own.region } else { RegionId(mostly_below(64, random)) };
    let generation =
        if random.once_in(2) { own.generation } else { Generation(mostly_below(4, random) as u32) };
    let key = if random.once_in(2) { own.key } else { key(random) };
    match random.below(9) {
        0 => Question::Reserve {
            // Never much: what others need is not to be used up.
            size: if random.once_in(2) { edge(random) | 1 << 40 } else { random.below(1 << 16) },
            chunk_log2: random.below(40) as u8,
            name,
            sharing: sharing(random),
        },
        1 => Question::OpenNamed { name, rights: rights(random), sharing: sharing(random) },
        2 => Question::Free { region, generation, key },
        3 => Question::Release { region, generation },
        4 => Question::Sync { region, generation, key },
        5 => Question::Populate { region, generation, key },
        6 => Question::NextWritten { region, generation, key, offset: edge(random) },
        7 => Question::List { after: RegionId(edge(random)) },
        _ => Question::Load { path: Text::new("a"), rights: rights(random), sharing: sharing(random) },
    }
}

/// Every question, with what makes no sense in it.
pub(super) fn questions(scene: &Scene, random: &mut Random) -> Episode {
    let (mut link, descriptor) = tenant(scene, random)?;
    for tag in 0..150 {
        let question = any_question(&descriptor.grant, random);
        let mut payload = Vec::new();
        question.encode(&mut payload);
        let payload = perhaps(payload, random);
        link.frame_patiently(FrameHead::new(question.kind()).with_tag(tag), &payload)?;
        link.take();
    }
    Ok(())
}

/// What belongs to somebody else, by its number.
pub(super) fn others(scene: &Scene, random: &mut Random) -> Episode {
    let (mut link, descriptor) = tenant(scene, random)?;
    let own = descriptor.grant;
    for region in 0..128 {
        let (region, generation) = (RegionId(region), own.generation);
        // Its own region is not meant, and whoever frees that has no key any more.
        if region == own.region {
            continue;
        }
        let key = if random.once_in(2) { own.key } else { key(random) };
        let question = match random.below(4) {
            0 => Question::Free { region, generation, key },
            1 => Question::Release { region, generation },
            2 => Question::Sync { region, generation, key },
            _ => Question::Populate { region, generation, key },
        };
        ask(&mut link, 1, &question)?;
        link.take();
    }
    Ok(())
}

/// Regions of one page: each is a descriptor, a mapping and a place in every table.
pub(super) fn pages(scene: &Scene, random: &mut Random) -> Episode {
    // By the socket, where the end of a process is certain: others need places too.
    let mut link = Raw::connect(&scene.memory[0], Role::Application, random)?;
    for tag in 0..PAGES {
        let question =
            Question::Reserve { size: 1, chunk_log2: 12, name: Text::new(""), sharing: sharing(random) };
        ask(&mut link, tag, &question)?;
        if random.once_in(32) {
            link.take();
        }
    }
    Ok(())
}

/// What takes threads, asked for faster than it is done.
pub(super) fn slow_work(scene: &Scene, random: &mut Random) -> Episode {
    const PATHS: [&str; 6] = ["../../etc/passwd", "/etc/passwd", "..", ".", "a/../../b", "no/such/file"];
    let (mut link, descriptor) = tenant(scene, random)?;
    let Grant { region, generation, key, .. } = descriptor.grant;
    for tag in 0..200 {
        let question = match random.below(3) {
            0 => Question::Populate { region, generation, key },
            1 => Question::Sync { region, generation, key },
            _ => {
                let path = PATHS[random.below(PATHS.len() as u64) as usize];
                let rights = rights(random);
                Question::Load { path: Text::new(path), rights, sharing: RegionSharing::Together }
            }
        };
        ask(&mut link, tag, &question)?;
        link.take();
    }
    Ok(())
}

/// One life that comes by many links, and ends on each in another way.
pub(super) fn lives(scene: &Scene, random: &mut Random) -> Episode {
    let mut said = hello(Role::Application, random);
    said.intro.incarnation = Incarnation(if random.once_in(4) { edge(random) } else { random.next() });
    let mut links = Vec::new();
    for _ in 0..8 {
        let mut link = Raw::connect_as(scene.memory(random), &said)?;
        own_region(&mut link, 4096)?;
        links.push(link);
        if random.once_in(3) {
            links.remove(random.below(links.len() as u64) as usize);
        }
    }
    Ok(())
}
