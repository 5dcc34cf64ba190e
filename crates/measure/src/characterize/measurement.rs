//! What was measured, and what follows from it.

use serde::{Serialize, Serializer};

use super::conclusions::Conclusions;
use super::operation::{MeasuredOperation, Party};
use crate::Environment;

/// The sizes of a transfer, in bytes.
pub const SIZES: [usize; 10] =
    [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20];

/// One figure of bandwidth and one of latency.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// With whom.
    pub party: Party,
    /// Over which kind of link.
    pub link: &'static str,
    /// By which operation.
    pub operation: MeasuredOperation,
    /// Bytes in a transfer.
    pub size: usize,
    /// On which node the application's buffer lay; `None` if the kernel chose.
    pub node: Option<u32>,
    /// Bytes per second, as many transfers under way as pay.
    pub bandwidth: f64,
    /// How long one transfer takes while there is no other, the median, in nanoseconds.
    pub latency_ns: f64,
}

impl Serialize for Measurement {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Flat {
            party: Party,
            link: &'static str,
            operation: &'static str,
            sides: super::operation::Sides,
            direction: super::operation::Direction,
            size_bytes: usize,
            node: Option<u32>,
            bandwidth_bytes_per_s: f64,
            latency_p50_ns: f64,
        }
        let Self { party, link, operation, size, node, bandwidth, latency_ns } = *self;
        Flat {
            party,
            link,
            operation: operation.name(),
            sides: operation.sides(),
            direction: operation.direction(),
            size_bytes: size,
            node,
            bandwidth_bytes_per_s: bandwidth,
            latency_p50_ns: latency_ns,
        }
        .serialize(serializer)
    }
}

/// What an agent has seen while it served applications, which says more than any trial.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct AtWork {
    /// B_net: what memory servers sent it, in bytes per second.
    pub net_bytes_per_s: f64,
    /// B_intra: what it sent to applications, in bytes per second.
    pub intra_bytes_per_s: f64,
    /// B_net over B_intra: the hit rate above which dynamic caching has paid so far.
    pub ratio: f64,
}

impl AtWork {
    /// From both bandwidths, if there are any.
    pub(super) fn seen(net: u64, intra: u64) -> Option<Self> {
        let (net_bytes_per_s, intra_bytes_per_s) = (net as f64, intra as f64);
        let ratio = net_bytes_per_s / intra_bytes_per_s;
        (net > 0 && intra > 0).then_some(Self { net_bytes_per_s, intra_bytes_per_s, ratio })
    }
}

/// All that was measured between an application and its daemons.
#[derive(Clone, Debug, Serialize)]
pub struct Characterization {
    /// In the order in which they were taken.
    pub measurements: Vec<Measurement>,
    /// What follows.
    pub conclusions: Conclusions,
    /// What the agent has seen between itself, its memory servers and its applications.
    pub agent_at_work: Option<AtWork>,
    /// What a reader has to know, if anything.
    pub remarks: Vec<String>,
    /// Where.
    pub environment: Environment,
}

impl Characterization {
    /// One line of JSON.
    pub fn to_json(&self) -> String {
        // Strings as keys and finite numbers always serialise.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// All measurements with one daemon over one kind of link.
#[derive(Clone, Copy)]
pub struct Leg<'a> {
    /// With whom.
    pub party: Party,
    /// Over which kind of link.
    pub link: &'static str,
    all: &'a [Measurement],
}

impl<'a> Leg<'a> {
    /// The legs there are, in the order in which they were measured.
    pub fn all(measurements: &'a [Measurement]) -> Vec<Self> {
        let mut legs: Vec<Self> = Vec::new();
        for Measurement { party, link, .. } in measurements {
            if !legs.iter().any(|leg| (leg.party, leg.link) == (*party, *link)) {
                legs.push(Self { party: *party, link, all: measurements });
            }
        }
        legs
    }

    /// Who is connected, and how.
    pub fn title(&self) -> String {
        format!("application – {} over {}", self.party, self.link)
    }

    /// Its measurements.
    pub fn measurements(&self) -> impl Iterator<Item = &'a Measurement> + use<'a> {
        let (party, link) = (self.party, self.link);
        self.all.iter().filter(move |one| (one.party, one.link) == (party, link))
    }

    /// The nodes on which buffers lay.
    pub fn nodes(&self) -> Vec<Option<u32>> {
        let mut nodes: Vec<_> = self.measurements().map(|one| one.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// For each size the figures of the node where they are best.
    pub fn best(&self, operation: MeasuredOperation) -> Vec<&'a Measurement> {
        let mut best: Vec<&'a Measurement> = Vec::new();
        for one in self.measurements().filter(|one| one.operation == operation) {
            match best.iter_mut().find(|known| known.size == one.size) {
                Some(known) if known.bandwidth < one.bandwidth => *known = one,
                Some(_) => {}
                None => best.push(one),
            }
        }
        best.sort_by_key(|one| one.size);
        best
    }

    /// The figures for one size, of the node where they are best.
    pub fn best_at(&self, operation: MeasuredOperation, size: usize) -> Option<&'a Measurement> {
        self.best(operation).into_iter().find(|one| one.size == size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_has_not_worked_has_seen_nothing() {
        assert_eq!(AtWork::seen(0, 5), None);
        assert_eq!(AtWork::seen(5, 0), None);
        assert_eq!(AtWork::seen(2, 8).map(|seen| seen.ratio), Some(0.25));
    }
}
