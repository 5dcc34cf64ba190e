//! More nodes than there are here, in the simulator.

use std::time::Duration;

use outboard_sim::{BundleStudy, bundle_study};

use crate::harness::{Figure, Progress, Unit};
use crate::{BenchError, BenchOptions, Effort};

/// How many questions there are.
pub(super) const COUNT: usize = 2;

/// The average size of what agents give to their ranks at once, and how long messages take, beside those of two nodes.
pub(super) fn figures(options: &BenchOptions, progress: &mut Progress) -> Result<Vec<Figure>, BenchError> {
    // By the simulated clock.
    let span = match options.effort {
        Effort::Full => Duration::from_millis(10),
        Effort::Quick => Duration::from_millis(2),
        Effort::Tiny => Duration::from_micros(200),
    };
    let study = |nodes| bundle_study(nodes, span, 1);
    // So many nodes take long enough.
    let short = span.min(Duration::from_micros(300));
    progress.begin("routing.sim.bundle.8nodes");
    let (two, eight) = (study(2), study(8));
    progress.end();
    // A test has no time for so many.
    let many = (options.effort != Effort::Tiny).then(|| {
        progress.begin("routing.sim.bundle.64nodes");
        let many = bundle_study(64, short, 1);
        progress.end();
        many
    });
    let compare = |of: &BundleStudy| {
        let nodes = of.nodes;
        let ns = |time: Duration| time.as_nanos() as f64;
        let bundles = "the average bundle from an agent to a rank with 2 nodes, simulated: 4 ranks on each, the same rate each";
        let times = "the time that 99 of 100 messages take at most with 2 nodes, simulated";
        [
            Figure::new(
                format!("routing.sim.bundle.{nodes}nodes"),
                Unit::BytesPerBundle,
                of.bundle_bytes,
                two.bundle_bytes,
                bundles,
            ),
            Figure::new(
                format!("routing.sim.p99.{nodes}nodes"),
                Unit::Nanoseconds,
                ns(of.p99),
                ns(two.p99),
                times,
            ),
        ]
    };
    Ok([Some(eight), many].iter().flatten().flat_map(compare).collect())
}
