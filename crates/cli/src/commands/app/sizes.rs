//! How large an application's input is.

use outboard_messages::{App, Histogram};

use super::count::count;

/// The flags for an application's sizes.
pub(super) trait Sizes: clap::Args {
    /// The application of these sizes.
    fn app(&self, seed: u64) -> App;
}

/// The flags of the histogram.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard app histogram -n 2 --check                      is every update counted
  outboard app histogram -n 2 --table 64Mi --updates 20M   with a table that no cache holds")]
pub(super) struct HistogramSizes {
    /// How many counters of 8 bytes each rank has
    #[arg(long, value_name = "COUNT", default_value = "512Ki", value_parser = count)]
    table: u64,
    /// How many updates each rank sends
    #[arg(long, value_name = "COUNT", default_value = "8M", value_parser = count)]
    updates: u64,
}

impl Sizes for HistogramSizes {
    fn app(&self, seed: u64) -> App {
        App::Histogram(Histogram { table: self.table, updates: self.updates, seed })
    }
}
