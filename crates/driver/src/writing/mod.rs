//! The links of a writer, on the real clock: one to the memory server, by which writes are offloaded, and where an agent
//! drains, one to the agent. The thread that writes steps them; nothing here has one of its own.

mod linked_writer;
mod writer_links;

pub use linked_writer::LinkedWriter;
pub use writer_links::WriterLinks;

use outboard_wire::writing::WriterId;

/// A name for a writer that no process can guess. Where the kernel gives no random bytes, it is unlike others at least.
pub(crate) fn draw_identity() -> WriterId {
    let mut bytes = [0; 16];
    let drawn = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty());
    if drawn != Ok(bytes.len()) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        bytes[..8].copy_from_slice(&(now.tv_sec << 30 | now.tv_nsec).to_ne_bytes());
        bytes[8..12].copy_from_slice(&std::process::id().to_ne_bytes());
    }
    WriterId(bytes)
}
