//! The library's errors as exceptions of Python, with the library's words.

use std::error::Error;

use outboard::{
    AccessError, AskError, BufferError, CallError, FarError, ImageError, JobError, MessengerError, OpenError,
    PagingError, RegisterError, SendError, WriteError,
};
use outboard_btree::BTreeError;
use outboard_kv::KvError;
use pyo3::prelude::*;

/// Which class of `outboard._errors` an error is an instance of.
pub(crate) trait Raised: Error + 'static {
    fn class(&self) -> &'static str {
        "OutboardError"
    }
}

const OPEN: &str = "OpenError";
const LOST: &str = "LostError";
const DEADLINE: &str = "DeadlineError";
const NO_ROOM: &str = "NoRoomError";
const OTHER: &str = "OutboardError";

impl Raised for OpenError {
    fn class(&self) -> &'static str {
        OPEN
    }
}

impl Raised for AskError {
    fn class(&self) -> &'static str {
        match self {
            Self::Deadline { .. } => DEADLINE,
            Self::Lost(_) => LOST,
            Self::NoRoom { .. } => NO_ROOM,
            Self::Access(AccessError::OutOfBounds { .. }) => "BoundsError",
            _ if self.is_not_there() => "NotThereError",
            _ => OTHER,
        }
    }
}

impl Raised for FarError {
    fn class(&self) -> &'static str {
        match self {
            Self::Open(_) => OPEN,
            Self::Ask(error) => error.class(),
            Self::Lost { .. } | Self::ThrownAway { .. } | Self::NotFlushed { .. } => LOST,
            Self::Deadline { .. } => DEADLINE,
            Self::NoRoom { .. } | Self::ArenaFull { .. } => NO_ROOM,
            Self::OutOfBounds { .. } => "BoundsError",
            _ => OTHER,
        }
    }
}

impl Raised for WriteError {
    fn class(&self) -> &'static str {
        match self {
            Self::Deadline { .. } => DEADLINE,
            Self::Lost(_) => LOST,
            Self::Access(AccessError::OutOfBounds { .. }) => "BoundsError",
            _ => OTHER,
        }
    }
}

impl Raised for CallError {
    fn class(&self) -> &'static str {
        match self {
            Self::Deadline { .. } => DEADLINE,
            Self::Lost { .. } => LOST,
            Self::NoRoom { .. } => NO_ROOM,
            _ => OTHER,
        }
    }
}

impl Raised for SendError {
    fn class(&self) -> &'static str {
        if matches!(self, Self::Departed { .. }) { LOST } else { OTHER }
    }
}

impl Raised for MessengerError {
    fn class(&self) -> &'static str {
        match self {
            Self::Send(error) => error.class(),
            Self::Deadline { .. } => DEADLINE,
            Self::Unanswered { .. } => LOST,
            _ => OTHER,
        }
    }
}

impl Raised for KvError {
    fn class(&self) -> &'static str {
        match self {
            Self::Full => NO_ROOM,
            Self::NoSuchTable { .. } => "NotThereError",
            Self::Ask(error) => error.class(),
            Self::Call(error) => error.class(),
            _ => OTHER,
        }
    }
}

impl Raised for BTreeError {
    fn class(&self) -> &'static str {
        match self {
            Self::Full => NO_ROOM,
            Self::NoSuchTree { .. } => "NotThereError",
            Self::Ask(error) => error.class(),
            Self::Call(error) => error.class(),
            _ => OTHER,
        }
    }
}

impl Raised for JobError {
    fn class(&self) -> &'static str {
        OPEN
    }
}

impl Raised for BufferError {}
impl Raised for PagingError {}
impl Raised for RegisterError {}
impl Raised for ImageError {}

/// The exception that tells of `error` and of its causes.
pub(crate) fn raise<E: Raised>(error: E) -> PyErr {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        // Some errors say their cause themselves.
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    raised(error.class(), text)
}

/// An exception of a class of `outboard._errors`.
pub(crate) fn raised(class: &str, text: String) -> PyErr {
    Python::attach(|py| {
        let class = py.import("outboard._errors").and_then(|module| module.getattr(class));
        class.and_then(|class| class.call1((text,))).map_or_else(|error| error, PyErr::from_value)
    })
}

/// An exception about something that has no class of its own.
pub(crate) fn refuse(text: impl Into<String>) -> PyErr {
    raised(OTHER, text.into())
}

/// A refusal of a value that an argument cannot have.
pub(crate) fn bad_value(text: impl Into<String>) -> PyErr {
    pyo3::exceptions::PyValueError::new_err(text.into())
}
