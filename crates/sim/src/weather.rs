//! How much goes wrong in a run, and when.

use std::time::Duration;

use fastrand::Rng;
use outboard_link::loopback::FaultPlan;

/// The faults until the weather calms.
#[derive(Clone, Debug)]
pub struct Weather {
    /// The faults that strike frames on their way.
    pub plan: FaultPlan,
    /// The mean time between two crashes of a node that can crash; none if none does.
    pub crash_every: Option<Duration>,
    /// The mean time a crashed node stays down.
    pub down: Duration,
    /// The mean time between two pauses of a node, in which it neither runs nor answers; none if there are none.
    pub pause_every: Option<Duration>,
    /// The longest pause.
    pub pause_max: Duration,
    /// How much later than it could a node may run.
    pub lateness_max: Duration,
}

/// Which faults of frames a scenario can bear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossKind {
    /// Only those that real links have: delay and connections that break.
    Honest,
    /// Frames that vanish too.
    Vanish,
    /// Everything: frames vanish, arrive twice or without their end.
    Anything,
}

impl Weather {
    /// Nothing goes wrong, and everyone runs as soon as possible.
    pub const fn fair() -> Self {
        Self {
            plan: FaultPlan::none(),
            crash_every: None,
            down: Duration::from_millis(1),
            pause_every: None,
            pause_max: Duration::from_millis(1),
            lateness_max: Duration::ZERO,
        }
    }

    /// Some of what can go wrong, each with a rate of its own: many runs with few kinds of faults find more than
    /// runs in which everything fails at once.
    pub fn draw(random: &mut Rng, loss: LossKind) -> Self {
        let delay_min = Duration::from_nanos(random.u64(0..20_000));
        let delay_max = delay_min + Duration::from_nanos(10u64.pow(random.u32(3..=6)) * random.u64(1..=9));
        let vanish = loss != LossKind::Honest;
        let any = loss == LossKind::Anything;
        let plan = FaultPlan {
            delay_min,
            delay_max,
            duplicate: rate(random, any),
            drop: rate(random, vanish),
            truncate: rate(random, any) / 4.0,
            close: rate(random, true) / 4.0,
            tear: if random.bool() { random.f64() } else { 0.0 },
        };
        let every = |random: &mut Rng| random.bool().then(|| Duration::from_millis(random.u64(50..600)));
        Self {
            plan,
            crash_every: every(random),
            down: Duration::from_millis(random.u64(1..150)),
            pause_every: every(random),
            pause_max: Duration::from_millis(random.u64(1..300)),
            lateness_max: Duration::from_nanos(10u64.pow(random.u32(0..=5))),
        }
    }
}

/// Nothing in half of all cases, otherwise from one in twenty thousand to one in twenty.
fn rate(random: &mut Rng, possible: bool) -> f64 {
    let exponent = -4.3 + 3.0 * random.f64();
    if random.bool() && possible { 10f64.powf(exponent) } else { 0.0 }
}

/// A span around `mean`, from half to one and a half of it.
pub(crate) fn around(random: &mut Rng, mean: Duration) -> Duration {
    mean.mul_f64(0.5 + random.f64())
}
