//! What one decision costs.

use std::hint::black_box;
use std::time::{Duration, Instant};

use outboard_writing::{Hint, Path, Policy, Span};

use crate::harness::{Effort, Figure, Unit, percentile};

/// Decisions in one round.
const ROUND: usize = 4096;

/// Pages of a hot set with a cold tail, as the policy meets them when it has most to think about.
fn spans() -> Vec<Span> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut page = || if random.bool() { random.u64(..1024) } else { random.u64(1024..1 << 20) };
    (0..64 * ROUND).map(|_| Span { slot: 0, offset: page() << 12, len: 64 }).collect()
}

/// The time of a decision, and of what is learnt when a write ends, beside those of an empty loop over the same writes.
pub(super) fn figures(effort: Effort) -> Vec<Figure> {
    let spans = spans();
    let mut policy = Policy::adaptive(outboard_wire::Time::ZERO);
    let mut now = outboard_wire::Time::ZERO;
    let rounds = if effort == Effort::Tiny { 4 } else { 1500 };
    let (mut deciding, mut learning, mut walking) = (Vec::new(), Vec::new(), Vec::new());
    let mut lessons = Vec::with_capacity(ROUND);
    for round in 0..rounds {
        let part = &spans[round % 64 * ROUND..][..ROUND];
        lessons.clear();
        let began = Instant::now();
        for span in part {
            lessons.push(black_box(policy.choose(span, Hint::None)));
        }
        let decided = Instant::now();
        for (span, (path, lesson)) in part.iter().zip(&lessons) {
            now += Duration::from_nanos(500);
            let is_hot = span.offset < 1024 << 12;
            let took = match path {
                Path::Unload => 1900,
                Path::Offload if is_hot => 1600,
                Path::Offload => 3200,
            };
            policy.learn(now, *lesson, Duration::from_nanos(took));
        }
        let learnt = Instant::now();
        for span in part {
            lessons[0] = black_box((Path::Offload, lessons[0].1));
            black_box(span);
        }
        let walked = Instant::now();
        let each = |from: Instant, to: Instant| (to - from).as_nanos() as f64 / ROUND as f64;
        deciding.push(each(began, decided));
        learning.push(each(decided, learnt));
        walking.push(each(learnt, walked));
    }
    // The first rounds fill tables.
    let median = |times: &mut Vec<f64>| percentile(&mut times.split_off(rounds / 4), 0.5);
    let (deciding, learning, walking) = (median(&mut deciding), median(&mut learning), median(&mut walking));
    let versus = "a loop that decides nothing";
    vec![
        Figure::new("writing.decision_ns", Unit::Nanoseconds, deciding, walking, versus),
        Figure::new("writing.learning_ns", Unit::Nanoseconds, learning, walking, versus),
    ]
}
