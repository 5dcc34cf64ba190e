//! Measures two sides at the same work by turns and reports how they compare.
//!
//! A *round* is a short stretch of work, 5 to 20 ms; a *score* is its result. A figure is the best round's score
//! on each side: on a machine that others use as well, disturbance only ever makes a round worse.

mod duel;
mod effort;
mod environment;
mod figure;
mod progress;
mod report;
mod samples;

pub use duel::Side;
pub(crate) use duel::{Duel, Round};
pub use effort::Effort;
pub use environment::Environment;
pub use figure::{Better, Figure, Unit};
pub(crate) use progress::Progress;
pub use report::Report;
