//! Far memory behind plain pointers, put to the proof with real servers and a real userfaultfd.

mod bytes;
mod mixture;

use outboard::{Address, Buffer, FarMemory, FarOptions};

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
