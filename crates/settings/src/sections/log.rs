//! The settings of logs.

use crate::section::section;
use crate::value::Choice;

section! {
    /// What is written about what happens, to the standard error.
    "log" => pub struct LogSettings {
        /// The least important lines that are written: off, error, warn, info, debug or trace.
        pub level: LogLevel = LogLevel::Info,
        /// What lines look like: human, or json with one object a line.
        pub format: LogFormat = LogFormat::Human,
    }
}

/// How important a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// Nothing is written.
    Off,
    /// Something failed.
    Error,
    /// Something will fail, or is slower than it could be.
    Warn,
    /// Something began or ended.
    Info,
    /// How a choice was made.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    /// As it is written, and as `tracing` knows it.
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(_, level)| *level == self).map_or("", |(name, _)| name)
    }
}

impl Choice for LogLevel {
    const KIND: &'static str = "level";
    const EXAMPLE: &'static str = "off, error, warn, info, debug or trace";
    const ALL: &'static [(&'static str, Self)] = &[
        ("off", Self::Off),
        ("error", Self::Error),
        ("warn", Self::Warn),
        ("info", Self::Info),
        ("debug", Self::Debug),
        ("trace", Self::Trace),
    ];
}

/// What lines look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogFormat {
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}

impl Choice for LogFormat {
    const KIND: &'static str = "format";
    const EXAMPLE: &'static str = "human or json";
    const ALL: &'static [(&'static str, Self)] = &[("human", Self::Human), ("json", Self::Json)];
}
