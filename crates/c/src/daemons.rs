//! Which memory server and which agent a program works with.

use std::ffi::c_char;

use outboard::Outboard;

use crate::arguments::deadline;
use crate::handles::{self, Handle};
use crate::status::{Failure, outboard_status};
use crate::structures::sized;

/// A memory server and perhaps an agent. It holds no connection: each service that it opens makes its own.
pub struct outboard_t;

impl Handle for outboard_t {
    type Object = Outboard;
    const NAME: &'static str = "outboard_t";
}

/// Which daemons, and how long calls wait. All zero: as the configuration file and the environment say.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct outboard_options {
    /// sizeof(outboard_options)
    pub size: usize,
    /// The memory server: "unix:@name", "unix:/path" or "tcp:host:port". NULL: the one of the settings, which is that of this
    /// user's `outboard up` where they name none.
    pub memory: *const c_char,
    /// The agent, in the same form, or "none". NULL: the one of the settings, if there is one.
    pub agent: *const c_char,
    /// The name by which daemons and their operators know this process. NULL: "application".
    pub name: *const c_char,
    /// How long each call may take in milliseconds. 0: link.deadline of the settings, 5 s.
    pub deadline_ms: u64,
}

sized!(outboard_options);

/// Finds the memory server and the agent that this process works with. Whether they run is seen when a service is connected.
///
/// options: NULL for all defaults.
/// outboard: is given the handle; outboard_close() ends it.
///
/// Threads: any, at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_find(
    options: *const outboard_options,
    outboard: *mut *mut outboard_t,
) -> outboard_status {
    body!(|promise| {
        let out = promise.handle("outboard", outboard)?;
        let given = promise.options(options)?;
        let memory = promise.optional_text("outboard_options.memory", given.memory)?;
        let agent = promise.optional_text("outboard_options.agent", given.agent)?;
        let name = promise.optional_text("outboard_options.name", given.name)?;
        let mut found = Outboard::find()?;
        if let Some(address) = memory {
            found = found.with_address(address.parse()?);
        }
        found = match agent {
            None => found,
            Some("none") => found.without_agent(),
            Some(address) => found.with_agent(address.parse()?),
        };
        if let Some(name) = name {
            found = found.with_name(name);
        }
        if let Some(deadline) = deadline(given.deadline_ms) {
            found = found.with_deadline(deadline);
        }
        out.put(handles::open(found)?);
        Ok(())
    })
}

/// Says which memory server and which agent were chosen, a line each, for people.
///
/// text, room: where to put the text, which is cut to fit and ends with a zero. OUTBOARD_TOO_SHORT if it was cut.
/// length: is given the length of the whole text without the zero; may be NULL. With room 0 only that is told.
///
/// Threads: any, at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_explain(
    outboard: *mut outboard_t,
    text: *mut c_char,
    room: usize,
    length: *mut usize,
) -> outboard_status {
    body!(|promise| {
        let lines = handles::shared(outboard, |outboard| Ok(outboard.explain()))?;
        promise.give_text(&lines, (text, room), length)
    })
}

/// Ends a handle. What was opened by it stays.
///
/// Threads: any, but not while another is in a call with this handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_close(outboard: *mut outboard_t) -> outboard_status {
    body!(|_promise| {
        handles::close(outboard)?;
        Ok::<(), Failure>(())
    })
}
