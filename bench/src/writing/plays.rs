//! Many plays of the model, on all cores: they take virtual time and do not disturb each other.

use std::sync::atomic::{AtomicUsize, Ordering};

use outboard_sim::nic::{NicOutcome, Plan, play};

/// Plans, and what came of them.
pub(super) struct Plays {
    plans: Vec<Plan>,
    outcomes: Vec<NicOutcome>,
}

impl Plays {
    /// Plays each of `plans`; those that cannot differ are played once.
    pub(super) fn of(plans: impl IntoIterator<Item = Plan>) -> Self {
        let mut distinct: Vec<Plan> = Vec::new();
        for plan in plans.into_iter().map(Plan::plainest) {
            if !distinct.contains(&plan) {
                distinct.push(plan);
            }
        }
        // The longest first, so that no core is left with one of them at the end.
        distinct.sort_by_key(|plan| std::cmp::Reverse(plan.writes));
        let outcomes = side_by_side(&distinct);
        Self { plans: distinct, outcomes }
    }

    /// What came of `plan`, which was among them.
    pub(super) fn outcome(&self, plan: Plan) -> &NicOutcome {
        let plan = plan.plainest();
        let at = self.plans.iter().position(|other| *other == plan);
        &self.outcomes[at.expect("a reader of an outcome has had its plan played")]
    }
}

fn side_by_side(plans: &[Plan]) -> Vec<NicOutcome> {
    let next = &AtomicUsize::new(0);
    let some = move || {
        let mine = std::iter::from_fn(|| {
            let index = next.fetch_add(1, Ordering::Relaxed);
            Some((index, play(plans.get(index)?)))
        });
        mine.collect::<Vec<_>>()
    };
    let mut outcomes = std::thread::scope(|scope| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(some)).collect();
        // A play that panics ends the benchmark.
        threads.into_iter().flat_map(|thread| thread.join().expect("a play ends")).collect::<Vec<_>>()
    });
    outcomes.sort_by_key(|(index, _)| *index);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}
