//! What is measured: who moves which bytes in which direction.

use std::fmt;

use serde::Serialize;

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Party {
    /// The process that serves this node's applications.
    Agent,
    /// The process that owns far memory.
    MemoryServer,
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Agent => "agent",
            Self::MemoryServer => "memory server",
        })
    }
}

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// They arrive here, as at a fetch.
    ToApplication,
    /// They leave here, as at a write-back.
    FromApplication,
}

/// How many processes have a part in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sides {
    /// The daemon's memory is read or written, by its link or without it; the daemon decides nothing.
    One,
    /// The daemon receives a frame and answers it with another.
    Two,
}

/// One way to move bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasuredOperation {
    /// The daemon's memory is read.
    Read,
    /// The daemon's memory is written.
    Write,
    /// The daemon is asked for bytes and sends them.
    Ask,
    /// The daemon is sent bytes and acknowledges them.
    Send,
}

impl MeasuredOperation {
    /// All of them, those of one direction beside each other.
    pub const ALL: [Self; 4] = [Self::Read, Self::Ask, Self::Write, Self::Send];

    /// Which way its bytes go.
    pub const fn direction(self) -> Direction {
        match self {
            Self::Read | Self::Ask => Direction::ToApplication,
            Self::Write | Self::Send => Direction::FromApplication,
        }
    }

    /// How many processes have a part in it.
    pub const fn sides(self) -> Sides {
        match self {
            Self::Read | Self::Write => Sides::One,
            Self::Ask | Self::Send => Sides::Two,
        }
    }

    /// What it is called: as in the interfaces of network cards, whichever way a send goes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Ask | Self::Send => "send",
        }
    }

    /// Name and direction, seen from the application.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Read => "read ←",
            Self::Ask => "send ←",
            Self::Write => "write →",
            Self::Send => "send →",
        }
    }

    /// The other way to move bytes in the same direction.
    pub const fn rival(self) -> Self {
        match self {
            Self::Read => Self::Ask,
            Self::Ask => Self::Read,
            Self::Write => Self::Send,
            Self::Send => Self::Write,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rivals_move_the_same_way_by_the_other_protocol() {
        for operation in MeasuredOperation::ALL {
            let rival = operation.rival();
            assert_eq!((rival.rival(), rival.direction()), (operation, operation.direction()));
            assert_ne!(rival.sides(), operation.sides());
        }
    }
}
