//! Calls of functions over links: a caller's side, which works in the thread of whoever calls, and the desk of a site,
//! which works in the workers that its links belong to.

mod desk;
mod introduce;
mod shared;
mod site_link;

pub use desk::{CallingDesk, DeskCounts, FindRegion, Refused};
pub use introduce::{RegisterError, Wanted};
pub use shared::SharedCalls;
pub use site_link::{CallBeginError, CallEnded, CallOutcome, SiteLink};

use outboard_wire::calling::CallerId;

/// A name for a caller that nobody can guess.
pub fn draw_caller() -> CallerId {
    CallerId(crate::writing::draw_identity().0)
}
