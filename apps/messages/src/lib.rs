//! Six applications made of small messages, each with a serial reference that its result is compared with.
//! It starts no processes: whoever does gives each rank a [`Messenger`].
//!
//! | application | what travels | result |
//! |---|---|---|
//! | [`Histogram`] | places in a table, to be counted | the table |
//!
//! [`App`] runs any of them. The same sizes, seed and number of ranks give the same result, bit for bit, in whatever order
//! messages arrive.
//!
//! Graphs and matrices come from the generators of `outboard-graph-format`. Every rank makes the whole one and keeps its
//! own rows, before the clock starts.

#![deny(unsafe_code)]

mod application;
mod error;
mod histogram;
#[allow(unsafe_code)]
mod prefetch;
mod random;
mod results;
mod team;

pub use application::{Comparison, Figure, Report, messenger_options};
pub use error::AppError;
pub use histogram::Histogram;

use outboard::Messenger;
use serde::{Deserialize, Serialize};

use crate::application::{Application, play};

/// One of the applications, with its sizes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum App {
    /// Counts in a table that is spread over all ranks.
    Histogram(Histogram),
}

/// Does the same with whichever application it is.
macro_rules! with_app {
    ($app:expr, $inner:ident => $work:expr) => {
        match $app {
            App::Histogram($inner) => $work,
        }
    };
}

impl App {
    /// What it is called.
    pub fn name(&self) -> &'static str {
        fn name<A: Application>(_: &A) -> &'static str {
            A::NAME
        }
        with_app!(self, app => name(app))
    }

    /// Says whether its sizes make sense for so many ranks.
    pub fn check(&self, ranks: u32) -> Result<(), AppError> {
        with_app!(self, app => app.check(ranks))
    }

    /// Runs it together with the other ranks, which all have to run the same. Rank 0 gets the report, and compares the
    /// result with that of a serial run if `with_check`. The messenger was made with [`messenger_options`].
    pub fn play(&self, messenger: &mut Messenger, with_check: bool) -> Result<Option<Report>, AppError> {
        with_app!(self, app => play(app, messenger, with_check))
    }
}
