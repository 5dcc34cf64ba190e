//! Measures two sides at the same work by turns and reports how they compare.
//!
//! A *round* is a short piece of work, 5 to 20 ms on each side; a *score* is its result, chosen so that being
//! interrupted for a while does not change it: the median time, or the best window. A figure is the median over
//! the rounds, and its ratio the median of the ratios within the rounds: what changes more slowly than a round,
//! such as the clock rate or where a hypervisor puts the cores, cancels out.

mod breakdown;
mod duel;
mod figure;
mod growth;
mod progress;
mod report;

pub use duel::Side;
pub(crate) use duel::{Duel, Round};
pub use figure::Figure;
pub(crate) use outboard_measure::percentile;
pub use outboard_measure::{Better, Effort, Environment, Unit};
pub(crate) use progress::Progress;
pub use report::BenchReport;
