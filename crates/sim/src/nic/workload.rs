//! The writes of each workload.

use super::zipf::Zipf;

/// The page of the workloads, whatever that of the NIC is.
const PAGE: u64 = 4096;
/// Pages of a hot set: half of what the model's cache holds.
const HOT_PAGES: u64 = 1024;
/// Pages of memory that is never at hand.
const COLD_PAGES: u64 = 1 << 20;
/// Pages among which Zipf's law chooses.
const ZIPF_PAGES: usize = 1 << 16;
/// How long a small write is.
const SMALL: u64 = 64;
/// How long a large write is.
const LARGE: u64 = 64 << 10;
/// How long one phase lasts, in nanoseconds.
const PHASE_NS: f64 = 1e9;
/// Writes for which it is known how often pages will be written: as many as a phase of a second holds.
const HORIZON: f64 = 1e6;

/// A way of writing.
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    /// Small writes to a set of pages that fits the cache.
    Hot,
    /// Small writes to pages that are hardly ever written again.
    Cold,
    /// Small writes; this share of them, in percent, is to cold pages, the rest to a hot set.
    Skewed(u32),
    /// Small writes by Zipf's law, with this exponent in tenths.
    Zipf(u32),
    /// Small writes, one behind the other.
    Sequential,
    /// Writes of 64 KiB to cold memory.
    Large,
    /// Every second another way: skewed, cold, skewed with another hot set, hot.
    Phases,
}

impl Workload {
    /// All of them, for which figures are given.
    pub const ALL: [Self; 11] = [
        Self::Hot,
        Self::Cold,
        Self::Skewed(50),
        Self::Zipf(6),
        Self::Zipf(8),
        Self::Zipf(10),
        Self::Zipf(12),
        Self::Zipf(14),
        Self::Sequential,
        Self::Large,
        Self::Phases,
    ];

    /// Its name in figures.
    pub fn name(&self) -> String {
        match self {
            Self::Hot => "hot".to_owned(),
            Self::Cold => "cold".to_owned(),
            Self::Skewed(50) => "skewed".to_owned(),
            Self::Skewed(percent) => format!("skewed{percent}"),
            Self::Zipf(tenths) => format!("zipf{tenths:02}"),
            Self::Sequential => "sequential".to_owned(),
            Self::Large => "large".to_owned(),
            Self::Phases => "phases".to_owned(),
        }
    }

    /// Whether it has hot and cold pages at the same time.
    pub fn is_mixed(&self) -> bool {
        matches!(self, Self::Skewed(_) | Self::Zipf(_) | Self::Phases)
    }
}

/// A workload on its way.
#[derive(Debug)]
pub(super) struct Stream {
    workload: Workload,
    zipf: Option<Zipf>,
    random: fastrand::Rng,
    next: u64,
}

/// Scatters ranks over memory.
const SCATTER: u64 = 0x9E37_79B1;

impl Stream {
    pub(super) fn new(workload: &Workload, seed: u64) -> Self {
        let zipf = match workload {
            Workload::Zipf(tenths) => Some(Zipf::new(ZIPF_PAGES, f64::from(*tenths) / 10.0)),
            _ => None,
        };
        Self { workload: workload.clone(), zipf, random: fastrand::Rng::with_seed(seed), next: 0 }
    }

    fn phase(now: f64) -> (Workload, u64) {
        match (now / PHASE_NS) as u64 % 4 {
            0 => (Workload::Skewed(50), 0),
            1 => (Workload::Cold, 0),
            2 => (Workload::Skewed(50), HOT_PAGES),
            _ => (Workload::Hot, 0),
        }
    }

    /// The next write: where it goes and how long it is.
    pub(super) fn next(&mut self, now: f64) -> (u64, u64) {
        match &self.workload {
            Workload::Sequential => {
                let offset = self.next;
                self.next = (self.next + SMALL) % (COLD_PAGES * PAGE);
                (offset, SMALL)
            }
            Workload::Large => (self.random.u64(..COLD_PAGES) * PAGE, LARGE),
            Workload::Zipf(_) => {
                let rank = self.zipf.as_ref().map_or(0, |zipf| zipf.draw(&mut self.random));
                let page = (rank as u64).wrapping_mul(SCATTER) % ZIPF_PAGES as u64;
                self.within(page)
            }
            Workload::Phases => {
                let (workload, shift) = Self::phase(now);
                self.mixed(&workload, shift)
            }
            workload => self.mixed(&workload.clone(), 0),
        }
    }

    fn mixed(&mut self, workload: &Workload, shift: u64) -> (u64, u64) {
        let cold_percent = match workload {
            Workload::Hot => 0,
            Workload::Skewed(percent) => *percent,
            _ => 100,
        };
        let page = if self.random.u32(..100) < cold_percent {
            2 * HOT_PAGES + self.random.u64(..COLD_PAGES)
        } else {
            shift + self.random.u64(..HOT_PAGES)
        };
        self.within(page)
    }

    fn within(&mut self, page: u64) -> (u64, u64) {
        (page * PAGE + self.random.u64(..PAGE / SMALL) * SMALL, SMALL)
    }

    /// How often the page at `offset` will be written in the time for which that is known.
    pub(super) fn expected(&self, now: f64, offset: u64) -> f64 {
        let page = offset / PAGE;
        let (workload, shift, horizon) = match &self.workload {
            Workload::Phases => {
                let (workload, shift) = Self::phase(now);
                (workload, shift, HORIZON * (1.0 - (now / PHASE_NS).fract()))
            }
            workload => (workload.clone(), 0, HORIZON),
        };
        match workload {
            Workload::Sequential => {
                let end = (page + 1) * PAGE;
                if offset <= self.next && self.next < end { ((end - self.next) / SMALL) as f64 } else { 0.0 }
            }
            Workload::Large => 0.0,
            Workload::Zipf(_) => {
                // The inverse of the scattering, by which the rank of a page is found again.
                let rank = page.wrapping_mul(inverse(SCATTER)) % ZIPF_PAGES as u64;
                self.zipf.as_ref().map_or(0.0, |zipf| zipf.chance(rank as usize)) * horizon
            }
            Workload::Hot | Workload::Cold | Workload::Skewed(_) | Workload::Phases => {
                let cold = match workload {
                    Workload::Hot => 0.0,
                    Workload::Skewed(percent) => f64::from(percent) / 100.0,
                    _ => 1.0,
                };
                let is_hot = (shift..shift + HOT_PAGES).contains(&page);
                let chance = if is_hot { (1.0 - cold) / HOT_PAGES as f64 } else { cold / COLD_PAGES as f64 };
                chance * horizon
            }
        }
    }
}

/// The factor that undoes a multiplication by an odd number.
const fn inverse(odd: u64) -> u64 {
    let mut inverse = odd;
    let mut round = 0;
    while round < 6 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
        round += 1;
    }
    inverse
}
