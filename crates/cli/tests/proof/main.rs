//! The promises of the daemons, put to the proof with real processes: killed, flooded with nonsense, taken for
//! something else, and crowded.
// Also outside test functions a test fails by panicking, and prints the seed that repeats it.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod closed;
mod crowd;
mod daemon;
mod doors;
mod ending;
mod flight;
mod kill;
mod leases;
mod linger;
mod masses;
mod meeting;
mod nonsense;
mod paging;
mod place;
mod process;
mod random;
mod restart;
mod shortage;
mod stopping;
mod tenant;

/// What clients run; nothing in the test itself.
#[test]
fn entry() {
    if let Some(tenant) = tenant::Tenant::from_environment() {
        std::process::exit(tenant.run());
    }
    if let Some(throng) = masses::Throng::from_environment() {
        std::process::exit(throng.run());
    }
    if let Some(frugal) = shortage::Frugal::from_environment() {
        std::process::exit(frugal.run());
    }
    if let Some(user) = paging::User::from_environment() {
        std::process::exit(user.run());
    }
    if let Some(locked) = paging::Locked::from_environment() {
        std::process::exit(locked.run());
    }
    if let Some(example) = paging::Example::from_environment() {
        std::process::exit(example.run());
    }
    if let Some(misuse) = paging::Misuse::from_environment() {
        std::process::exit(misuse.run());
    }
}
