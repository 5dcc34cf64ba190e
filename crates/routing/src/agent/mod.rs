//! What an agent does about messages: runs are packed by their next hop.
//!
//! ```text
//!  rank              one worker thread of the agent                        rank of this node, or another agent
//!  Run ────────────► receive.rs: queue
//!                    pack.rs: next hop, room in its open parcel?
//!  (its memory) ───► the bytes, straight into the parcel
//!                    full, or nothing to wait for: closed ── if another worker has the link, by an errand ──┐
//!                    send.rs: word of it, or the bytes ───────────────────────────────────────► Parcel  ◄──┘
//!                    ◄─────────────────────────────────────────────────────────────────────── Taken
//!  Parcel ─────────► unpack.rs: taken apart; what is nearly a parcel for a rank goes to it as it lies, other runs are
//!                    packed by their next hop
//! ```
//!
//! Every worker packs into buffers of its own what its links bring; no lock and nothing shared is touched for a run but
//! the memory that it lies in. What a next hop does not take waits, and nothing is dropped that could be delivered; what
//! cannot is sent again by its source, which is told that the rank is not reached any more.

mod backlog;
mod buffers;
mod pack;
mod packing;
mod receive;
mod routes;
mod send;
mod shared;
mod side;
mod unpack;
mod worker;

pub use packing::{OpenParcel, Packing, PackingConfig, ParcelRoom};
pub use routes::{Neighbour, RouteError, Routes};
pub use shared::{RouterHost, RoutingConfig, RoutingCounts, SharedRouting};
pub use worker::RoutingWorker;
