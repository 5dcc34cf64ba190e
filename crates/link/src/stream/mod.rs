//! One protocol engine for every link whose bytes travel in a stream.
//!
//! [`StreamLink`] keeps frames in two private byte queues, serves one-sided access between them and watches
//! over the peer's life; a [`ByteStream`] moves the bytes. The engine reads no clock and opens no socket, so
//! tests run pairs of it in virtual time.
//!
//! On the stream, frames lie as records: header, payload, padding to 16 bytes. Before the first record each side
//! sends one handshake message.
//!
//! **Why it cannot deadlock.** Receiving never waits for sending: a request is answered at once if its answer is
//! short, for which a headroom in the outgoing queue is kept free, and otherwise noted in a list that has room
//! for every operation a correct peer can have under way.
//!
//! **What breaks the link.** A reply to an operation that is not under way, a duplicate for example, ends it like
//! any other nonsense: a stream delivers each record once, so a peer that repeats one cannot be trusted with the rest.

mod bytes;
mod config;
mod desk;
mod exit;
mod fifo;
mod handshake;
mod inbox;
mod link;
mod outbox;
mod pulse;
mod reach;
mod remote;
mod requester;
mod server;
mod straight;
#[cfg(test)]
mod tests;

pub use config::StreamConfig;

pub(crate) use bytes::{Arrival, ByteStream, Scatter};
pub(crate) use handshake::{Accepting, Dialing, Setup};
pub(crate) use link::StreamLink;
pub(crate) use reach::{Handle, Lent, Near, Reached};
