//! The promises of the daemons, put to the proof with real processes: killed, flooded with nonsense, taken for
//! something else, and crowded.
// Also outside test functions a test fails by panicking, and prints the seed that repeats it.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod closed;
mod crowd;
mod doors;
mod ending;
mod flight;
mod kept;
mod kill;
mod leases;
mod linger;
mod masses;
mod meeting;
mod nonsense;
mod older;
mod restart;
mod shortage;
mod tenant;

outboard_child::instead_of_tests!(play);

/// What clients do.
fn play() {
    if let Some(tenant) = tenant::Tenant::from_environment() {
        std::process::exit(tenant.run());
    }
    if let Some(throng) = masses::Throng::from_environment() {
        std::process::exit(throng.run());
    }
    if let Some(frugal) = shortage::Frugal::from_environment() {
        std::process::exit(frugal.run());
    }
}
