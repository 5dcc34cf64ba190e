//! A list of cores, as the kernel writes it.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use thiserror::Error;

/// Numbers of cores or memory nodes, ascending. Written `0-3,8`, as the kernel does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoreList(Vec<u32>);

/// A text is no list of cores.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("“{0}” is no list of cores such as 0-3,8")]
pub struct CoreListError(String);

/// More than any kernel counts; a longer range is a mistake.
const CORES_MAX: u32 = 1 << 16;

impl CoreList {
    /// The numbers.
    pub fn as_slice(&self) -> &[u32] {
        &self.0
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromStr for CoreList {
    type Err = CoreListError;

    fn from_str(text: &str) -> Result<Self, CoreListError> {
        let error = || CoreListError(text.trim().to_owned());
        let mut cores = Vec::new();
        for part in text.trim().split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u32, u32) =
                (first.parse().map_err(|_| error())?, last.parse().map_err(|_| error())?);
            if first > last || last >= CORES_MAX {
                return Err(error());
            }
            cores.extend(first..=last);
        }
        cores.sort_unstable();
        cores.dedup();
        Ok(Self(cores))
    }
}

impl fmt::Display for CoreList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, run) in self.0.chunk_by(|one, next| one + 1 == *next).enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match run {
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                [only] => write!(f, "{comma}{only}")?,
                // A run has at least one number.
                [] => {}
            }
        }
        Ok(())
    }
}

impl Serialize for CoreList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_shown_as_the_kernel_writes_them() {
        let list: CoreList = "0-3,8\n".parse().unwrap();
        assert_eq!(list.as_slice(), [0, 1, 2, 3, 8]);
        for text in ["", "0", "0-1", "0-3,8", "1,3,5-7,64-127"] {
            assert_eq!(text.parse::<CoreList>().unwrap().to_string(), text);
        }
        assert_eq!("3,1,2,2".parse::<CoreList>().unwrap().to_string(), "1-3");
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in ["a", "1-", "-1", "3-1", "0-4294967295", "1;2", "0-3:1/2"] {
            assert!(text.parse::<CoreList>().is_err(), "{text}");
        }
    }
}
