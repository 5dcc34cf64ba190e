//! Links between ranks: one of two keeps no rule, and the other comes back from every call.

use std::time::Duration;

use outboard::{Address, Job, MessengerOptions, Settings};
use outboard_e2e::Random;
use outboard_wire::routing::{ACK, Ack, Form, GREETING, Greeting, PARCEL, RUN, Run};
use outboard_wire::{FrameHead, Generation, Grant, JobId, Rank, RegionId, RegionKey, Rights, Role};

use super::Episode;
use super::forge::{any_head, edge, mostly_below, perhaps, some_bytes};
use super::impostors::answer_openings;
use super::raw::{Hung, Raw, hello};
use super::victims::Victim;
use crate::scene::Scene;
use crate::team::{Team, Way, small};

/// How long ranks wait for each other, and for messages.
const PATIENCE: Duration = Duration::from_secs(3);
const DEADLINE: Duration = Duration::from_millis(300);
/// How many values the rank in order sends.
const VALUES: u64 = 2000;

/// What a rank in order does.
fn use_it(settings: &Settings, options: MessengerOptions) {
    let Ok(job) = Job::with_settings(settings) else { return };
    let Ok(mut messenger) = job.messenger_with(options) else { return };
    for value in 0..VALUES {
        if messenger.send_value(1, value).is_err() && messenger.receive(0, |_, _, _| ()).is_err() {
            return;
        }
    }
    let _ = messenger.quiesce(0, |_, _, _| ());
    let _ = messenger.barrier();
}

/// A link to the other rank, as the rank that dials.
fn dial(job: &Job, way: Way, random: &mut Random) -> Result<Raw, Hung> {
    let [other, me] = job.members() else { return Err(Hung) };
    let addresses = other.address.as_str().split(' ').filter_map(|text| text.parse::<Address>().ok());
    let is_way = |at: &Address| matches!(at, Address::Tcp(_)) == (way == Way::Tcp);
    let at = addresses.clone().find(is_way).or_else(|| addresses.clone().next()).ok_or(Hung)?;
    let mut said = hello(Role::Application, random);
    (said.intro.job, said.intro.rank) = (JobId(job.id()), Rank(1));
    said.intro.incarnation = me.incarnation;
    Raw::connect_as(&at, &said)
}

fn greeting(random: &mut Random) -> Greeting {
    let is_wrong = random.once_in(3);
    let size = if is_wrong { edge(random) } else { 1 << 20 };
    let (region, generation, key) = (RegionId(5), Generation(1), RegionKey([1; 16]));
    Greeting {
        grant: Grant { region, generation, key, rights: Rights::READ, size },
        ranks: if is_wrong { mostly_below(4, random) as u32 } else { 2 },
        bundle_bytes: if is_wrong { edge(random) as u32 } else { 1 << 10 },
    }
}

/// A run of messages, or of what only looks like it.
fn run(number: u64, random: &mut Random) -> Vec<u8> {
    let len = mostly_below(512, random) as u32;
    let at = random.once_in(3).then(|| mostly_below(1 << 20, random));
    let form = match random.below(4) {
        0 => Form::Fragment,
        1 => Form::Equal(edge(random) as u16 | 1),
        _ => Form::Messages,
    };
    let run = Run {
        source: Rank(if random.once_in(8) { edge(random) as u32 } else { 1 }),
        destination: Rank(if random.once_in(8) { edge(random) as u32 } else { 0 }),
        number: if random.once_in(4) { edge(random) } else { number },
        at,
        len,
        space: if random.once_in(3) { random.next() as u8 } else { 0 },
        form,
    };
    let follow = if at.is_some() { Vec::new() } else { random.bytes((len as usize).min(2000)) };
    [&run.encode()[..], &follow].concat()
}

/// Says anything that a rank can say, and much that none says.
fn misbehave(link: &mut Raw, random: &mut Random) -> Episode {
    link.frame(FrameHead::new(GREETING), &greeting(random).encode())?;
    for number in 0..300 {
        if let Raw::Shm(shm) = &*link {
            answer_openings(shm, random)?;
        }
        if !random.once_in(5) {
            link.take();
        }
        let (head, payload) = match random.below(10) {
            0 => (FrameHead::new(GREETING), greeting(random).encode().to_vec()),
            1 | 2 => {
                let missing = if random.once_in(2) { edge(random) } else { random.below(64) };
                let (source, destination) =
                    (Rank(mostly_below(2, random) as u32), Rank(mostly_below(2, random) as u32));
                let ack = Ack { source, destination, missing, space: random.below(3) as u8 };
                (FrameHead::new(ACK), ack.encode().to_vec())
            }
            3 => (FrameHead::new(PARCEL), some_bytes(2000, random)),
            4 => (any_head(random), some_bytes(500, random)),
            _ => (FrameHead::new(RUN), run(number, random)),
        };
        if head.kind.is_for_link() && !random.once_in(30) {
            continue;
        }
        link.frame(head, &perhaps(payload, random))?;
        std::thread::park_timeout(Duration::from_micros(random.below(500)));
    }
    Ok(())
}

/// Two ranks meet, and one of them is hostile.
pub(super) fn ranks(_: &Scene, random: &mut Random) -> Episode {
    let way = Way::ALL[random.below(2) as usize];
    let options = MessengerOptions { deadline: DEADLINE, ..small() };
    let patient = |_: u32, settings: &mut Settings, _: &mut MessengerOptions| {
        settings.job.join_timeout = PATIENCE;
    };
    let team = Team::new(2, way, options).adjusted(patient);
    let ((ours, _), (theirs, options)) = (team.told(1), team.told(0));
    let victim = Victim::start("a rank beside a hostile one", move || use_it(&theirs, options));
    let job = Job::with_settings(&ours);
    let ended = job.map_err(|_| Hung).and_then(|job| {
        let mut link = dial(&job, way, random)?;
        misbehave(&mut link, random)
    });
    victim.come_back();
    ended
}
