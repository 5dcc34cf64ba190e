//! Calls of functions over links: a caller's side, which works in the thread of whoever calls, and the desk of a site,
//! which works in the workers that its links belong to.

mod ambient;
mod desk;
mod dispatcher;
mod local;
mod meter;
mod remote;
mod shared;
mod site_link;

pub use ambient::Ambient;
pub use desk::{CallingDesk, DeskCounts, FindRegion, Refused};
pub use dispatcher::{
    Begin, CallEnded, CallOutcome, Dial, Dispatcher, DispatcherConfig, Leaving, Placement, RegisterError,
    SiteReport, Wanted,
};
pub use meter::{Meter, MeterReader};
pub use remote::{RemoteAccess, RemoteRegion, RemoteSite, is_of_call};
pub use shared::SharedCalls;
pub use site_link::{CallBeginError, NoRoom, Said, SiteEnd, SiteLink};

use outboard_wire::calling::CallerId;

/// A name for a caller that nobody can guess.
pub fn draw_caller() -> CallerId {
    CallerId(crate::writing::draw_identity().0)
}
