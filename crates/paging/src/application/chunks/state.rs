//! The states of a chunk, and the only ways from one to another.

/// Where a chunk stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Not here; what the server has is right.
    Absent,
    /// Its bytes are on their way into its seat.
    Fetching,
    /// In the region, where the application reads and writes it.
    Resident,
    /// In its seat, the same as at the server.
    Aside,
    /// In its seat, newer than at the server.
    Dirty,
    /// In its seat, on its way to the server.
    Saving,
    /// Back in the region while an older state of it is on its way to the server.
    Returned,
}

/// The events of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// It gets a seat and is asked for.
    Fetch,
    /// It arrived and was moved in.
    Arrive,
    /// It arrived before any thread needed it, and stays in its seat.
    Wait,
    /// It is known to be zero at the server, and was moved in as zeros without being asked for.
    Blank,
    /// It did not arrive.
    Fail,
    /// It was touched in its seat and moved in.
    Rescue,
    /// It was moved out, and no thread had changed it.
    LeaveClean,
    /// It was moved out, and it had been changed.
    LeaveDirty,
    /// It is sent to the server.
    Save,
    /// The server has it.
    Saved,
    /// The server may not have it.
    SaveFail,
    /// Its seat is taken for another.
    Evict,
    /// It is made zero here and at the server, whatever it was.
    Discard,
}

use Event::{
    Arrive, Blank, Discard, Evict, Fail, Fetch, LeaveClean, LeaveDirty, Rescue, Save, SaveFail, Saved, Wait,
};
use State::{Absent, Aside, Dirty, Fetching, Resident, Returned, Saving};

/// Every way from one state to another. What is not here cannot happen.
pub const TRANSITIONS: [(State, Event, State); 20] = [
    (Absent, Fetch, Fetching),
    (Fetching, Arrive, Resident),
    (Fetching, Blank, Resident),
    (Fetching, Wait, Aside),
    (Fetching, Fail, Absent),
    (Resident, LeaveClean, Aside),
    (Resident, LeaveDirty, Dirty),
    (Aside, Rescue, Resident),
    (Aside, Evict, Absent),
    (Dirty, Rescue, Resident),
    (Dirty, Save, Saving),
    (Saving, Saved, Aside),
    (Saving, SaveFail, Dirty),
    (Saving, Rescue, Returned),
    (Returned, Saved, Resident),
    (Returned, SaveFail, Resident),
    (Resident, Discard, Absent),
    (Aside, Discard, Absent),
    (Dirty, Discard, Absent),
    // A process that frees a region, or is told that its server is lost for good, gives up what only it has.
    (Dirty, Evict, Absent),
];

/// The number of a way in [`TRANSITIONS`]; none if there is no such way.
pub fn edge(from: State, event: Event) -> Option<usize> {
    TRANSITIONS.iter().position(|(state, on, _)| *state == from && *on == event)
}
