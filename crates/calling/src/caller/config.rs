//! How a caller works.

use std::time::Duration;

use outboard_steering::Site;

use crate::Ambient;

/// Where calls run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallPlacement {
    /// Where the memory server's table says, or elsewhere if nothing is heard from there.
    #[default]
    Steered,
    /// There, or elsewhere if nothing is heard from there.
    Hinted(Site),
    /// Only there.
    Fixed(Site),
}

impl From<Site> for CallPlacement {
    /// Only there.
    fn from(site: Site) -> Self {
        Self::Fixed(site)
    }
}

impl CallPlacement {
    /// Whether calls may go elsewhere.
    pub(super) fn is_free(self) -> bool {
        !matches!(self, Self::Fixed(_))
    }
}

/// How a caller works.
#[derive(Clone, Copy, Debug)]
pub struct DispatcherConfig {
    /// Calls that may be under way.
    pub under_way_max: usize,
    /// Where they run.
    pub placement: CallPlacement,
    /// How long a site may say nothing that owes answers, before calls there are given up.
    pub silence_max: Duration,
    /// What functions find that run here.
    pub ambient: Ambient,
}
