//! Runs a caller over its link to a site. Whoever calls does it in its own thread; nothing here has one.

mod introduce;
mod site_link;

pub use introduce::{RegisterError, Wanted};
pub use site_link::{CallBeginError, CallEnded, CallOutcome, SiteLink};

use outboard_wire::calling::CallerId;

/// A name for a caller that nobody can guess.
pub fn draw_caller() -> CallerId {
    CallerId(crate::writing::draw_identity().0)
}
