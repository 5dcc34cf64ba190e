//! Children that are forked and see far memory as it was then, as far as it is a matter of the kernel.
//!
//! ```text
//!  before the fork   what is newer than at the server goes to the regions; nothing leaves them (`handlers`)
//!  the fork          the kernel shows the child the pages that are in the regions
//!  in the child      a userfaultfd of its own for the rest, sent to the parent (`entry`); a helper thread (`helper`)
//!  in the parent     answers the child's faults from the server and from copies, until the child ends (`faults`)
//! ```

mod entry;
mod faults;
mod handlers;
mod helper;

pub use faults::{ChildFaults, ChildNews, FillError};
pub use handlers::{ChildRange, Forks, NewChild};
