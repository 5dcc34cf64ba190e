//! Whatever happens in whatever order, every byte that is answered is the newest that was acknowledged.

use outboard_wire::paging::Urgency;
use proptest::prelude::*;

use super::miniature::{GRAINS, Miniature};
use crate::agent::cache::Forwarding;

#[derive(Clone, Copy, Debug)]
enum Step {
    Fetch(usize),
    FetchAhead(usize),
    Scan(usize),
    WriteBack(usize, usize),
    ReadAhead,
    Forward(u64),
    Look(usize),
    Arrive(usize),
    CopyOut(usize),
    Apply(usize),
    Acknowledge(usize),
    Refuse(usize),
    LoseServer,
    AttachAnew,
}

fn step() -> impl Strategy<Value = Step> {
    // Few grains, so that they meet.
    let grain = prop_oneof![3 => 0..6usize, 1 => 0..20usize, 1 => 0..GRAINS];
    prop_oneof![
        8 => grain.clone().prop_map(Step::Fetch),
        2 => grain.clone().prop_map(Step::FetchAhead),
        2 => (0..GRAINS - 6).prop_map(Step::Scan),
        6 => grain.clone().prop_map(|grain| Step::WriteBack(grain, 1)),
        2 => (0..3usize).prop_map(|piece| Step::WriteBack(4 * piece, 4)),
        1 => (grain, 1..7usize).prop_map(|(grain, count)| Step::WriteBack(grain, count)),
        6 => Just(Step::ReadAhead),
        8 => (500..9000u64).prop_map(Step::Forward),
        4 => (0..9usize).prop_map(Step::Look),
        8 => (0..9usize).prop_map(Step::Arrive),
        8 => (0..9usize).prop_map(Step::CopyOut),
        6 => (0..9usize).prop_map(Step::Apply),
        6 => (0..9usize).prop_map(Step::Acknowledge),
        1 => (0..9usize).prop_map(Step::Refuse),
        1 => Just(Step::LoseServer),
        1 => Just(Step::AttachAnew),
    ]
}

fn play(forwarding: Forwarding, depth_max: u32, steps: &[Step]) {
    let mut miniature = Miniature::new(forwarding, depth_max);
    for step in steps {
        match *step {
            Step::Fetch(grain) => miniature.fetch(grain, Urgency::Demand),
            Step::FetchAhead(grain) => miniature.fetch(grain, Urgency::Background),
            Step::Scan(from) => (from..from + 6).for_each(|grain| miniature.fetch(grain, Urgency::Demand)),
            Step::WriteBack(grain, count) => miniature.write_back(grain..grain + count),
            Step::ReadAhead => miniature.read_ahead(),
            Step::Forward(len_max) => miniature.forward(len_max),
            Step::Look(choice) => miniature.look(choice),
            Step::Arrive(choice) => miniature.arrive(choice),
            Step::CopyOut(choice) => miniature.copy_out(choice),
            Step::Apply(choice) => miniature.apply(choice),
            Step::Acknowledge(choice) => miniature.acknowledge(choice),
            Step::Refuse(choice) => miniature.refuse(choice),
            Step::LoseServer => miniature.lose_server(),
            Step::AttachAnew => miniature.attach_anew(),
        }
    }
    miniature.close();
}

proptest! {
    #[test]
    fn answers_are_the_newest_that_was_acknowledged(
        forwarding in 0..3usize,
        depth_max in 0..4u32,
        steps in proptest::collection::vec(step(), 1..250),
    ) {
        play(Forwarding::ALL[forwarding], depth_max, &steps);
    }
}
