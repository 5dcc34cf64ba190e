//! What a child process is told to be.

use std::process::ExitStatus;

const VARIABLE: &str = "OUTBOARD_KILL_CHILD";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Shm,
    Tcp,
    /// libfabric, by its provider for any network. That for one machine has locks in shared memory, and a process that is
    /// killed while it holds one takes its peer along.
    Ofi,
}

impl Transport {
    const ALL: [Self; 3] = [Self::Shm, Self::Tcp, Self::Ofi];

    /// What libfabric calls the provider.
    pub(crate) fn provider(self) -> Option<&'static str> {
        match self {
            Self::Shm | Self::Tcp => None,
            Self::Ofi => Some("tcp;ofi_rxm"),
        }
    }

    fn named(name: &str) -> Self {
        let found = Self::ALL.into_iter().find(|transport| format!("{transport:?}") == name);
        found.expect("the parent knows transports")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Listen,
    Dial,
}

impl Side {
    /// The name that the other side's errors must give it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Listen => "the-listener",
            Self::Dial => "the-dialler",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Exchange frames and one-sided operations, and check them.
    Trade,
    /// Exchange them without checking, until the parent says that it is enough: the other side scribbles.
    Endure,
    /// Trade at first, then write anything anywhere.
    Scribble,
}

/// How a child ends, as its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The peer was lost, and this was reported.
    Lost = 42,
    /// The peer was gone before there was a link.
    NeverMet = 43,
    /// Nothing came of the scribbling.
    CarriedOn = 44,
    /// A frame or a completion was wrong.
    Wrong = 45,
}

impl End {
    /// `None` for a process that was killed, crashed or panicked.
    pub(crate) fn of(status: ExitStatus) -> Option<Self> {
        let ends = [Self::Lost, Self::NeverMet, Self::CarriedOn, Self::Wrong];
        ends.into_iter().find(|end| status.code() == Some(*end as i32))
    }
}

/// Whether the vandal of a couple with this seed does every kind of damage, among them messages that mean nothing: its
/// victim must notice sooner or later. The seeds of both children say the same.
pub(crate) fn is_thorough(seed: u64) -> bool {
    seed / 2 % 4 == 3
}

/// All that a child needs to know.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) transport: Transport,
    pub(crate) side: Side,
    pub(crate) act: Act,
    pub(crate) at: String,
    pub(crate) seed: u64,
}

impl Spec {
    pub(crate) fn to_environment(&self) -> (&'static str, String) {
        let Self { transport, side, act, at, seed } = self;
        (VARIABLE, format!("{transport:?} {side:?} {act:?} {at} {seed}"))
    }

    pub(crate) fn from_environment() -> Option<Self> {
        let text = std::env::var(VARIABLE).ok()?;
        let mut words = text.split(' ');
        let mut word = || words.next().expect("the variable has five words");
        Some(Self {
            transport: Transport::named(word()),
            side: if word() == "Listen" { Side::Listen } else { Side::Dial },
            act: match word() {
                "Trade" => Act::Trade,
                "Endure" => Act::Endure,
                _ => Act::Scribble,
            },
            at: word().to_owned(),
            seed: word().parse().expect("a seed is a number"),
        })
    }
}
