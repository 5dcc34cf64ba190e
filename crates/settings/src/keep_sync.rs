//! When what a memory server keeps is brought to the disk.

use std::fmt;
use std::time::Duration;

use crate::Literal;
use crate::ValueError;
use crate::quantity::{parse_duration, show_duration};
use crate::value::Value;

/// When what a memory server keeps is brought to the disk. It matters when the machine crashes; a process that crashes loses
/// nothing in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepSync {
    /// What is written back, unloaded, reserved, opened or freed: before it is acknowledged; everything else every second.
    Always,
    /// Everything, this often.
    Every(Duration),
    /// When the kernel does, and when the server ends.
    Never,
}

impl KeepSync {
    /// How often everything is brought to the disk.
    pub fn interval(self) -> Option<Duration> {
        match self {
            Self::Always => Some(Duration::from_secs(1)),
            Self::Every(interval) => Some(interval),
            Self::Never => None,
        }
    }
}

impl fmt::Display for KeepSync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always => f.write_str("always"),
            Self::Every(interval) => f.write_str(&show_duration(*interval)),
            Self::Never => f.write_str("never"),
        }
    }
}

impl Value for KeepSync {
    const KIND: &'static str = "interval";
    const EXAMPLE: &'static str = "always, never, or an interval such as 1s";

    fn read(literal: &Literal) -> Result<Self, ValueError> {
        match Self::text(literal)? {
            "always" => Ok(Self::Always),
            "never" => Ok(Self::Never),
            text => match parse_duration(text) {
                Ok(interval) if interval >= Duration::from_millis(10) => Ok(Self::Every(interval)),
                Ok(_) => Err(Self::unfit(text, "it is shorter than 10ms; always is more often")),
                Err(why) => Err(Self::unfit(text, why)),
            },
        }
    }

    fn show(&self) -> Literal {
        Literal::text(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_is_shown() {
        for text in ["always", "never", "10ms", "1s", "1min"] {
            let read = KeepSync::read(&Literal::text(text)).unwrap();
            assert_eq!(KeepSync::read(&read.show()).unwrap(), read, "{text}");
        }
        for text in ["", "often", "5", "9ms", "0s"] {
            let error = KeepSync::read(&Literal::text(text)).unwrap_err();
            assert!(error.to_string().contains("always, never"), "{error}");
        }
    }
}
