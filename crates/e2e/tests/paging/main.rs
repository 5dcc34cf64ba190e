//! Far memory behind plain pointers, put to the proof with real servers and a real userfaultfd; in `graphs`, the graph
//! applications on it.
// Also outside test functions a test fails by panicking, and prints the seed that repeats it.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod acts;
mod agent;
mod arena;
mod bytes;
mod caveats;
mod charge;
mod discards;
mod edges;
mod examples;
mod files;
mod flush;
mod forks;
mod grain;
mod graphs;
mod growing;
mod held;
mod in_place;
mod living_on;
mod loss;
mod misuse;
mod mixture;
mod parallel;
mod prefetch;
mod pressure;
mod protections;
mod recordings;
mod refusals;
mod setup;
mod sizes;
mod sparse;
mod striped;
mod tasks;
mod trying;
mod user;

use bytes::Bytes;
use charge::Charged;
use examples::Example;
use forks::Forker;
use held::Locked;
use misuse::Misuse;
use outboard::{Address, FarMapping, FarMemory, FarVec, RegionOptions};
use outboard_e2e::await_state;
use outboard_paging::application::chunks::{Event, State, edge};
use setup::FarSetup;
use user::User;

/// Far memory at `server`, patient enough for a busy machine.
fn options(server: &Address, chunk: usize, buffer: usize) -> FarSetup {
    FarSetup::new(server, chunk, buffer)
}

#[track_caller]
fn connect(options: &FarSetup) -> FarMemory {
    options.open().unwrap_or_else(|error| panic!("{error}"))
}

/// A region of which far memory does not know that it is zero, so that its chunks are fetched.
fn not_known_to_be_zero(memory: &FarMemory, name: &str, bytes: usize, region: &RegionOptions) -> FarVec<u8> {
    let region = RegionOptions { name: Some(name.to_owned()), ..region.clone() };
    drop(memory.reserve(bytes as u64, &region).unwrap_or_else(|error| panic!("{error}")));
    memory.open_writable(name, &region).unwrap_or_else(|error| panic!("{error}"))
}

/// The bytes of a region, for a test that keeps it mapped while it uses them.
fn words(mapping: &FarMapping) -> Bytes {
    // SAFETY: tests drop the region when they are done with its bytes.
    unsafe { Bytes::new(mapping.as_ptr().as_ptr(), mapping.len()) }
}

/// How often chunks have gone this way between two states.
fn edges(memory: &FarMemory, from: State, event: Event) -> u64 {
    memory.stats().edges[edge(from, event).expect("there is such a way")]
}

/// Waits until chunks have gone this way at least `wanted` times.
#[track_caller]
fn await_edge(memory: &FarMemory, from: State, event: Event, wanted: u64) {
    await_state(&format!("{wanted} chunks that are {from:?} and {event:?}"), || {
        let seen = edges(memory, from, event);
        if seen >= wanted { Ok(()) } else { Err(seen.to_string()) }
    });
}

outboard_child::instead_of_tests!(play);

/// What programs that use far memory do.
fn play() {
    if let Some(user) = User::from_environment() {
        std::process::exit(user.run());
    }
    if let Some(forker) = Forker::from_environment() {
        std::process::exit(forker.run());
    }
    if let Some(locked) = Locked::from_environment() {
        std::process::exit(locked.run());
    }
    if let Some(example) = Example::from_environment() {
        std::process::exit(example.run());
    }
    if let Some(charged) = Charged::from_environment() {
        std::process::exit(charged.run());
    }
    if let Some(misuse) = Misuse::from_environment() {
        std::process::exit(misuse.run());
    }
}
