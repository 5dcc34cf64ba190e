//! Chunks that were moved out to see whether they are used.

use super::*;

/// A shard that is full, no chunk of which leaves before a fault needs its seat, and one of whose chunks is a sample.
fn with_sample() -> (Prompt, SeatId) {
    let mut prompt = Prompt::new(32);
    let come = |prompt: &mut Prompt, index| {
        let seat = loop {
            match prompt.shard.fault(key(index), CLASS, Access::Read) {
                Answer::Fetch(seat) => break seat,
                Answer::MakeRoom => {
                    let oldest = prompt.shard.oldest().unwrap();
                    prompt.shard.left(oldest, false);
                }
                answer => panic!("{answer:?}"),
            }
        };
        assert_eq!(prompt.shard.filled(seat, false), ArrivalStep::MoveIn);
        prompt.shard.arrived(seat);
    };
    for index in 0.. {
        come(&mut prompt, index);
        if let Some(sample) = prompt.shard.next_sample() {
            prompt.shard.left(sample, false);
            return (prompt, sample);
        }
    }
    unreachable!("one of many is a sample");
}

#[test]
fn a_sample_stays_while_others_can_leave() {
    let (mut prompt, sample) = with_sample();
    let sampled = prompt.shard.key(sample);
    for index in 1000..1008 {
        assert_eq!(prompt.shard.fault(key(index), CLASS, Access::Read), Answer::MakeRoom);
        let oldest = prompt.shard.oldest().unwrap();
        prompt.shard.left(oldest, false);
        let Answer::Fetch(seat) = prompt.shard.fault(key(index), CLASS, Access::Read) else {
            panic!("there is a seat");
        };
        assert_eq!(prompt.shard.filled(seat, false), ArrivalStep::MoveIn);
        prompt.shard.arrived(seat);
        assert_eq!(prompt.shard.state(sampled), State::Aside);
    }
}

#[test]
fn a_sample_gives_its_seat_where_others_cannot_leave() {
    let (mut prompt, sample) = with_sample();
    let sampled = prompt.shard.key(sample);
    assert_eq!(prompt.shard.fault(key(1000), CLASS, Access::Read), Answer::MakeRoom);
    let held = prompt.shard.oldest().unwrap();
    prompt.shard.stuck(held);
    assert!(matches!(prompt.shard.fault(key(1000), CLASS, Access::Read), Answer::Fetch(_)));
    assert_eq!(prompt.shard.state(sampled), State::Absent);
    // So it is where what leaves has to be saved first.
    let (mut prompt, sample) = with_sample();
    let sampled = prompt.shard.key(sample);
    let changed = prompt.shard.oldest().unwrap();
    prompt.shard.left(changed, true);
    assert!(matches!(prompt.shard.fault(key(1000), CLASS, Access::Read), Answer::Fetch(_)));
    assert_eq!(prompt.shard.state(sampled), State::Absent);
}
