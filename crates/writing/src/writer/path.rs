//! The two ways that a write can go.

use core::fmt;

/// A way to the target's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WritePath {
    /// One-sided: straight into the target's memory, where its NIC or its mapping translates the address.
    Offload,
    /// Into a ring at the target that is always warm; a processor there copies the bytes home.
    Unload,
}

impl WritePath {
    /// Both, in the order of their discriminants.
    pub const ALL: [Self; 2] = [Self::Offload, Self::Unload];
}

impl fmt::Display for WritePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Offload => "offload",
            Self::Unload => "unload",
        })
    }
}

/// What the application knows of a write's page. It is believed; where the path is fixed it has no say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hint {
    /// Nothing: the writer finds out.
    #[default]
    None,
    /// It is written again and again: its translation will be at hand.
    Hot,
    /// It is hardly ever written.
    Cold,
    /// The write is one of many that go through memory in order: its page is hot now and cold soon.
    Streaming,
}
