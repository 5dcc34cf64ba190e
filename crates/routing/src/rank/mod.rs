//! What runs in a rank's own thread: bundles lie in memory that other ranks of the node and the agent can read, and only
//! word of them travels.

mod agreement;
mod barrier;
mod buffers;
mod carriage;
mod carrier;
mod incoming;
mod joiner;
mod outgoing;
mod peer;
mod pool;
mod quiescence;
mod receiving;
mod sending;
mod service;
mod signal;

pub use agreement::{Agreement, LETTER_LEN};
pub use barrier::Barrier;
pub use buffers::{Buffers, BundleMemory};
pub use carriage::{Carrier, CarrierChooser};
pub use incoming::{Incoming, WINDOW};
pub use joiner::{JoinError, Joiner};
pub use outgoing::{Kept, NotSent, Outgoing};
pub use peer::Departed;
pub use quiescence::{Quiescence, SentAndHandled};
pub use service::{Arrived, Carried, RankConfig, RankService};
pub use signal::{AgreementSignal, SIGNAL_LEN};
