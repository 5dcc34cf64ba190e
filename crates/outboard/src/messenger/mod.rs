//! Fire-and-forget messages between the ranks of a job.

mod agreement;
mod backlog;
mod builder;
mod bundle;
mod conveyor;
mod error;
mod lanes;
mod messages;
mod options;
mod placement;
mod receive;
mod reception;
mod requests;
mod send;
mod stats;

pub use builder::{BundleBuilder, BundleId};
pub use bundle::{Bundle, Messages, Values, ValuesIter};
pub use conveyor::Conveyor;
pub use error::{MessengerError, SendError};
pub use messages::Messenger;
pub use options::MessengerOptions;
pub use requests::Requests;
pub use stats::MessengerStats;
