//! How long to measure.

use std::time::Duration;

use serde::Serialize;

/// How long to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// One small round of everything: shows that it works, measures nothing.
    Tiny,
    /// All figures within a minute.
    Quick,
    /// Figures to quote.
    Full,
}

impl Effort {
    /// How long one question may take, warm-up included.
    pub fn budget(self) -> Duration {
        match self {
            Self::Tiny => Duration::ZERO,
            Self::Quick => Duration::from_secs(3),
            Self::Full => Duration::from_secs(12),
        }
    }

    /// Rounds that are run and forgotten, so that pages are mapped and buffers have grown.
    pub fn warm_up(self) -> usize {
        match self {
            Self::Tiny => 0,
            Self::Quick | Self::Full => 3,
        }
    }

    /// How many rounds count at least, however slow they are.
    pub fn rounds_min(self) -> usize {
        match self {
            Self::Tiny => 1,
            Self::Quick | Self::Full => 3,
        }
    }

    /// The size of a round that is `usual` when it counts.
    pub fn items(self, usual: u64) -> u64 {
        match self {
            Self::Tiny => (usual / 1000).clamp(4, 4096),
            Self::Quick | Self::Full => usual,
        }
    }
}
