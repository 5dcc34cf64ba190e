//! The ends of calls without a reply.

use std::time::Duration;

use outboard_calling::{CallBeginError, CallFault, NoRoom};
use outboard_limits::show_size;
use outboard_link::{LinkError, Peer};
use outboard_steering::Site as CallSite;
use outboard_wire::calling::{CallFailure, TrapReason};
use thiserror::Error;

use super::servers::Server;

/// Why a call has no reply.
#[derive(Clone, Error)]
#[non_exhaustive]
pub enum CallError {
    /// The function did something it must not. What it wrote until then stays written. Of a call that has gone on elsewhere
    /// this is the function that it went on as, or the one that named a server or a function that there is not.
    #[error("the function ended at instruction {index}: {}", reason.text())]
    Trapped {
        /// The instruction, counted from the beginning of its program, as `outboard bpf check` shows it.
        index: u32,
        /// The mistake.
        reason: TrapReason,
        /// The address of an access to the function's own memory, else zero.
        address: u64,
    },
    /// The site knows no such function. It did not run.
    #[error("the site knows no function of that number; register it")]
    NoSuchFunction,
    /// The arguments are longer than the site or the link takes. It did not run.
    #[error("the arguments are longer than {}", show_size(*max as u64))]
    ArgumentsTooLong {
        /// The longest that would be taken.
        max: usize,
    },
    /// The site has seen a call of this number before, and ran it then if ever.
    #[error("the site has seen a call of this number before")]
    Repeated,
    /// It was moved to another site in the middle of its run, and that could not go on with it. It has run in part.
    #[error("the call was moved in the middle of its run to a site that cannot go on with it")]
    NotResumed,
    /// There was no answer in time.
    #[error("no answer from {peer} in time; {}", whether_run(*may_have_run))]
    Deadline {
        /// The process that was to answer: the one where the call was last.
        peer: Peer,
        /// Whether the function may have run all the same, or may run still.
        may_have_run: bool,
    },
    /// The site is gone.
    #[error("{error}; {}", whether_run(*may_have_run))]
    Lost {
        /// The loss, and the peer.
        error: LinkError,
        /// Whether the function may have run.
        may_have_run: bool,
    },
    /// No site took calls for so long that none could be begun. It did not run.
    #[error("no room for a call at {peer} in {waited:?}: {why}")]
    NoRoom {
        /// The memory server where it was to begin.
        peer: Peer,
        /// How long it was tried.
        waited: Duration,
        /// For want of what.
        why: NoRoomBecause,
    },
}

/// Why there was no room for a call.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NoRoomBecause {
    /// As many calls are under way as may be.
    #[error("{calls} are under way and none of them has ended; {}", advice(*silent))]
    UnderWay {
        /// How many.
        calls: usize,
        /// A site that has some of them and says nothing.
        silent: Option<CallSite>,
    },
    /// As many calls as may wait to go on at another memory server, and the function may go on there as well.
    #[error(
        "{calls} wait to go on at memory server {server}, which takes none of them; give calls a deadline"
    )]
    Crossing {
        /// How many.
        calls: usize,
        /// The number of the server.
        server: usize,
    },
    /// The site takes no more.
    #[error("the site takes no more of them for now; take answers by poll or wait, it may wait for that")]
    Site,
    /// The site has forgotten the function, and was not told of it yet.
    #[error("the agent has to learn the function again")]
    Learning,
}

fn whether_run(may_have_run: bool) -> &'static str {
    if may_have_run { "the function may have run" } else { "the function did not run" }
}

fn advice(silent: Option<CallSite>) -> String {
    match silent {
        Some(site) => format!("the {site} has some and says nothing: give calls a deadline"),
        None => "allow more of them (under_way_max)".to_owned(),
    }
}

impl CallError {
    /// How a call ended by a fault at one of the sites of `server`.
    pub(super) fn new(fault: CallFault, server: &Server) -> Self {
        let may_have_run = fault.may_have_run();
        let server = server.client();
        let deadline = |peer: &Peer| Self::Deadline { peer: peer.clone(), may_have_run };
        match fault {
            CallFault::Failed(CallFailure::NoFunction | CallFailure::Recalled) => Self::NoSuchFunction,
            CallFault::Failed(CallFailure::NotResumed) => Self::NotResumed,
            CallFault::Failed(CallFailure::ArgumentsTooLong { max }) => {
                Self::ArgumentsTooLong { max: max as usize }
            }
            CallFault::Failed(CallFailure::Repeated) => Self::Repeated,
            CallFault::Failed(CallFailure::Trapped { index, reason, address }) => {
                Self::Trapped { index, reason, address }
            }
            CallFault::Failed(CallFailure::Expired) => deadline(server.peer()),
            CallFault::Late { at, .. } => deadline(server.peer_at(at)),
            CallFault::Lost { .. } => match server.lost() {
                Some(error) => Self::Lost { error: error.clone(), may_have_run },
                None => deadline(server.peer()),
            },
        }
    }

    /// Why a call that has not begun never will, or what it waits for.
    pub(super) fn at_begin(error: CallBeginError) -> Result<NoRoom, Self> {
        match error {
            CallBeginError::Full(lacking) => Ok(lacking),
            CallBeginError::TooLong { max } => Err(Self::ArgumentsTooLong { max }),
            CallBeginError::Lost(error) => Err(Self::Lost { error, may_have_run: false }),
            CallBeginError::NoFunction => Err(Self::NoSuchFunction),
        }
    }

    /// Whether the function may have run, in part or as a whole.
    pub fn may_have_run(&self) -> bool {
        match self {
            Self::Trapped { .. } | Self::Repeated | Self::NotResumed => true,
            Self::NoSuchFunction | Self::ArgumentsTooLong { .. } | Self::NoRoom { .. } => false,
            Self::Deadline { may_have_run, .. } | Self::Lost { may_have_run, .. } => *may_have_run,
        }
    }
}

outboard_wire::debug_with_causes!(CallError, NoRoomBecause);
