//! Which formats there are.

/// A way to write a graph down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// A graph image of this project: a folder `NAME.graph`.
    Image,
}

impl Format {
    /// All of them.
    pub const ALL: &'static [Self] = &[Self::Image];

    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
        }
    }
}

/// The names of all formats, for messages.
pub(crate) fn names() -> String {
    Format::ALL.iter().map(|format| format.name()).collect::<Vec<_>>().join(", ")
}
