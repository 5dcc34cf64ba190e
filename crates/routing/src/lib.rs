//! Fire-and-forget messages between the ranks of a job, as state machines without I/O.
//!
//! A source numbers its runs for each destination and message space and keeps them until the destination has them ([`Outgoing`]). A
//! destination knows which runs it has, whatever way and however often they come ([`Incoming`]), and puts long messages
//! together again ([`Joiner`]). So a run can be sent again, and by another way, whenever somebody doubts that it has
//! arrived, and every message is still handled once. When nothing is left to handle anywhere is found out by
//! [`Quiescence`]; [`Barrier`] only waits until all are there.
//!
//! Agents carry runs between those two without looking into them. Whom an agent can reach is in its [`Routes`]; how it
//! packs runs for the same next hop together, and when it sends them, is [`Packing`]. Whether a rank uses its agent is up to
//! it or to a [`CarriageChooser`].

#![forbid(unsafe_code)]

mod barrier;
mod carriage;
mod incoming;
mod joiner;
mod outgoing;
mod packing;
mod quiescence;
mod routes;
mod signal;

pub use barrier::Barrier;
pub use carriage::{Carriage, CarriageChooser};
pub use incoming::{Incoming, WINDOW};
pub use joiner::{JoinError, Joiner};
pub use outgoing::{Kept, NotSent, Outgoing};
pub use packing::{OpenParcel, Packing, PackingConfig, Room};
pub use quiescence::{Counts, Quiescence};
pub use routes::{Neighbour, RouteError, Routes};
pub use signal::{SIGNAL_LEN, Signal};
