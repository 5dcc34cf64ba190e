//! The settings of the counters that other programs collect.

use std::net::SocketAddr;

use crate::section::section;

section! {
    /// Counters for other programs.
    "metrics" => pub struct MetricsSettings {
        /// Where Prometheus collects them over HTTP; none is nowhere.
        pub listen: Option<SocketAddr> = None,
    }
}
