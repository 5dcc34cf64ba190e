//! Decides which of a few options (sites, paths, cache modes) a piece of work takes, and says why.
//! It performs no work, reads no clock and allocates nothing: time and measurements are arguments.
//!
//! A room keeps one [`Signal`] per option and quantity, builds a [`Cost`] from them, and lets a [`Chooser`]
//! review the costs from time to time. For each piece of work it asks [`Chooser::pick`], a counter and a
//! comparison; nearly always that is the present choice, now and then an option that needs measuring.
//!
//! ```
//! use std::time::Duration;
//! use outboard_steering::{Chooser, SteeringConfig, Evidence, Preference, Signal, Site, Time};
//!
//! let config = SteeringConfig::default();
//! let mut latency = Site::ALL.map(|_| Signal::new(&config));
//! let mut chooser = Chooser::new(Site::ALL, Preference::Hint(Site::Agent), config, Time::ZERO)?;
//!
//! let mut now = Time::ZERO;
//! for _ in 0..40_000 {
//!     now += Duration::from_micros(10);
//!     let site = chooser.pick();
//!     let measured_ns = match site {
//!         Site::Application => 9_800.0,
//!         Site::Agent => 12_000.0,
//!         Site::Server => 4_100.0,
//!     };
//!     latency[site as usize].observe(now, measured_ns);
//!     chooser.review(now, &latency.each_ref().map(Evidence::from_signal));
//! }
//! assert_eq!(chooser.decision().chosen, Site::Server);
//! assert!(chooser.explain(now).to_string().contains("4.1 µs against 9.8 µs at application"));
//! # Ok::<(), outboard_steering::UnknownOption<Site>>(())
//! ```
//!
//! # What is promised
//!
//! With the fields of [`SteeringConfig`] written as names, and one *bucket* lasting `window` or the time that
//! `min_samples` samples take, whichever is longer:
//!
//! - **Quiet.** If the samples of options that cost the same stay within ±`m / (2 + m)` of it, `m` being
//!   the margin (±9 % for 20 %), nothing ever moves. Wilder noise (uniform ±90 %, exponential, one sample in
//!   a thousand a hundred times too large, a tail of infinite variance) allows no certainty; three such
//!   options are tested to move at most three times in their first twenty thousand samples.
//! - **Quick.** A chosen option that becomes at least twice as dear as a measured rival is left within five
//!   buckets, one `dwell` and two reviews; one that becomes five times as dear within five buckets, half a
//!   `dwell` and two reviews (noise up to ±9 %). By default, with samples at least
//!   every 100 µs, that is 12.5 ms and 7.5 ms.
//! - **Few moves.** Any span `T` holds at most `switch_burst + T / switch_period` moves that were a choice.
//! - **Little exploration.** At most one pick in `explore_fast_one_in` explores, and exploring options
//!   known to be dearer (up to 1024 times) costs at most `1 / explore_one_in` of the work.
//! - **Nothing stale.** No option is moved to on measurements older than `stale_after`, unless the chosen
//!   one is excluded and nothing else is known.
//!
//! # Caveats
//!
//! - A site that stops answering produces no samples. Observe the age of the oldest unanswered request as
//!   well: it is a lower bound of a latency that has not ended yet. Otherwise the chooser leaves the silent
//!   site only when its measurements go stale.
//! - An option that only explorers visit is measured without load. Where moving all work would overload it,
//!   move the work in parts, each with its own chooser.
//! - A dear option that recovers is noticed after `3 * min_samples` exploring picks, each spaced in
//!   proportion to how dear it was. Where a site can report its load unasked, observe that: no exploring
//!   is needed then.
//! - A cost that mostly consists of its rarest hundredth cannot be learnt from a few exploring picks; such
//!   options may keep moving as often as the budget allows. Feed averages instead of single samples then.
//! - Options whose rate of samples is below `3 * min_samples` per `stale_after` are never known well enough
//!   to be chosen.

#![forbid(unsafe_code)]

mod budget;
mod chooser;
mod config;
mod cost;
mod decision;
mod explanation;
mod explorer;
mod signal;

pub use chooser::Chooser;
pub use config::SteeringConfig;
pub use cost::Cost;
pub use decision::{Decision, Evidence, Preference, Reason, UnknownOption};
pub use explanation::{Explanation, Review, Rival};
pub use outboard_wire::Site;
pub use outboard_wire::time::Time;
pub use signal::{Estimate, Signal};
