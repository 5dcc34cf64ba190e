//! Two processes that measure together: the *lead*, which asks, and the *peer*, which it starts.
//!
//! They agree on what to do next over a control socket; what is measured goes another way.

mod control;
mod cores;
mod patience;
mod peer;

pub(crate) use control::{Answer, Control, Order};
pub(crate) use cores::Cores;
pub(crate) use patience::{PATIENCE, Waits, now_ns, spin_until};
pub(crate) use peer::Peer;
pub use peer::PeerProgram;
