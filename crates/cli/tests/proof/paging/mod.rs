//! Far memory behind plain pointers, put to the proof with real servers and a real userfaultfd.

mod acts;
mod agent;
mod bytes;
mod caveats;
mod edges;
mod files;
mod flush;
mod held;
mod living_on;
mod loss;
mod misuse;
mod mixture;
mod pressure;
mod refusals;
mod striped;
mod trying;
mod user;

use bytes::Bytes;
pub(crate) use held::Locked;
pub(crate) use living_on::Example;
pub(crate) use misuse::Misuse;
use outboard::{Address, Buffer, FarMapping, FarMemory, FarOptions};
use outboard_paging::application::chunks::{Event, State, edge};
pub(crate) use user::User;

use crate::daemon::await_state;
use crate::process::PATIENCE;

/// Settings for far memory at `server`, patient enough for a busy machine.
fn options(server: &Address, chunk: usize, buffer: usize) -> FarOptions {
    let mut options = FarOptions::at(server.clone()).with_buffer(Buffer::Bytes(buffer));
    options.chunk = chunk;
    options.link.handshake_timeout = PATIENCE;
    options
}

#[track_caller]
fn connect(options: &FarOptions) -> FarMemory {
    FarMemory::connect(options.clone()).unwrap_or_else(|error| panic!("{error}"))
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
