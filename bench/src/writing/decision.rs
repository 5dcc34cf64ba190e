//! What one decision costs.

use std::hint::black_box;
use std::time::{Duration, Instant};

use outboard_writing::{Hint, Policy, WritePath, WriteSpan};

use crate::harness::{Effort, Figure, Unit, percentile};

/// Decisions in one round.
const ROUND: usize = 512;
/// Rounds whose writes differ: more than any predictor of branches remembers.
const PARTS: usize = 512;

/// Pages of a hot set with a cold tail, as the policy meets them when it has most to think about.
fn spans() -> Vec<WriteSpan> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut page = || if random.bool() { random.u64(..1024) } else { random.u64(1024..1 << 20) };
    (0..PARTS * ROUND).map(|_| WriteSpan { slot: 0, offset: page() << 12, len: 64 }).collect()
}

/// The time of a decision, and of what is learnt when a write ends, beside those of an empty loop over the same writes.
pub(super) fn figures(effort: Effort) -> Vec<Figure> {
    let spans = spans();
    let mut policy = Policy::adaptive(outboard_wire::Time::ZERO);
    let mut now = outboard_wire::Time::ZERO;
    let rounds = if effort == Effort::Tiny { 4 } else { 12_000 };
    let (mut deciding, mut learning, mut walking) = (Vec::new(), Vec::new(), Vec::new());
    let mut lessons: Vec<_> = spans[..ROUND].iter().map(|span| policy.choose(span, Hint::None)).collect();
    for round in 0..rounds {
        let part = &spans[round % PARTS * ROUND..][..ROUND];
        let began = Instant::now();
        for (lesson, span) in lessons.iter_mut().zip(part) {
            *lesson = policy.choose(span, Hint::None);
        }
        let decided = Instant::now();
        for (span, (path, lesson)) in part.iter().zip(&lessons) {
            now += Duration::from_nanos(500);
            let is_hot = span.offset < 1024 << 12;
            let took = match path {
                WritePath::Unload => 1900,
                WritePath::Offload if is_hot => 1600,
                WritePath::Offload => 3200,
            };
            policy.learn(now, *lesson, Duration::from_nanos(took));
        }
        let learnt = Instant::now();
        for (lesson, span) in lessons.iter_mut().zip(part) {
            lesson.0 = if black_box(span).len == 0 { WritePath::Unload } else { WritePath::Offload };
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
