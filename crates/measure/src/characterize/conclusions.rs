//! What the figures mean for the configuration of far memory.

use serde::Serialize;

use super::measurement::{Leg, Measurement};
use super::operation::{Direction, MeasuredOperation, Party, Sides};

/// A size is large enough when it reaches this share of the best bandwidth.
pub(super) const ENOUGH: f64 = 0.9;
/// Times and bandwidths that differ by less are taken for equal.
pub(super) const EQUAL: f64 = 1.1;
/// The size at which nodes and caches are judged, in bytes: the usual chunk.
const USUAL: usize = 64 << 10;

/// How large a chunk should be.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChunkAdvice {
    /// Fetched from whom.
    pub party: Party,
    /// Over which kind of link.
    pub link: &'static str,
    /// The smallest size with enough of the best bandwidth, in bytes.
    pub size_bytes: usize,
    /// What it has, in bytes per second.
    pub bandwidth_bytes_per_s: f64,
    /// The best of any size, in bytes per second.
    pub peak_bytes_per_s: f64,
}

/// Sizes beside each other for which the same protocol is faster.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizeSpan {
    /// The smallest of them, in bytes.
    pub first_bytes: usize,
    /// The largest of them, in bytes.
    pub last_bytes: usize,
    /// Which is faster; `None` if neither is.
    pub faster: Option<Sides>,
    /// How many times faster it is, at least and at most.
    pub factor: [f64; 2],
}

/// Which protocol should move chunks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProtocolAdvice {
    /// Between the application and whom.
    pub party: Party,
    /// Over which kind of link.
    pub link: &'static str,
    /// Which way.
    pub direction: Direction,
    /// From the smallest size to the largest.
    pub spans: Vec<SizeSpan>,
}

/// When an agent's cache pays.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CachingAdvice {
    /// The link between application and agent.
    pub agent_link: &'static str,
    /// The link to the memory server.
    pub server_link: &'static str,
    /// The size that was looked at, in bytes.
    pub chunk_bytes: usize,
    /// B_net: reads from the memory server, in bytes per second.
    pub net_bytes_per_s: f64,
    /// B_intra: what the agent sends when it is asked, in bytes per second.
    pub intra_bytes_per_s: f64,
    /// B_net over B_intra.
    pub ratio: f64,
    /// The hit rate above which dynamic caching pays; `None` if it cannot.
    pub hit_rate_needed: Option<f64>,
    /// How many times faster chunks of a statically cached region, read one-sidedly from the agent, come.
    pub static_gain: f64,
}

/// Where buffers should lie.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeAdvice {
    /// For transfers with whom.
    pub party: Party,
    /// Over which kind of link.
    pub link: &'static str,
    /// The node that is best.
    pub best: u32,
    /// Its bandwidth, in bytes per second.
    pub best_bytes_per_s: f64,
    /// The node that is worst.
    pub worst: u32,
    /// Its bandwidth, in bytes per second.
    pub worst_bytes_per_s: f64,
}

/// What follows from the figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Conclusions {
    /// For each link.
    pub chunks: Vec<ChunkAdvice>,
    /// For each link and direction.
    pub protocols: Vec<ProtocolAdvice>,
    /// For each pair of a link to an agent and one to a memory server.
    pub caching: Vec<CachingAdvice>,
    /// For each link, if there are several nodes.
    pub nodes: Vec<NodeAdvice>,
}

impl Conclusions {
    /// Draws them.
    pub fn draw(measurements: &[Measurement]) -> Self {
        let legs = Leg::all(measurements);
        let of = |party| legs.iter().filter(move |leg| leg.party == party);
        let pairs =
            of(Party::MemoryServer).flat_map(|server| of(Party::Agent).map(move |agent| (agent, server)));
        let directions = |leg| {
            [MeasuredOperation::Read, MeasuredOperation::Write]
                .into_iter()
                .filter_map(move |one| protocol(leg, one))
        };
        Self {
            chunks: legs.iter().filter_map(chunk).collect(),
            protocols: legs.iter().flat_map(directions).collect(),
            caching: pairs.filter_map(|(agent, server)| caching(agent, server)).collect(),
            nodes: legs.iter().filter_map(node).collect(),
        }
    }
}

/// How paging fetches: from a server one-sidedly, from an agent that has to look by asking.
fn fetch(party: Party) -> MeasuredOperation {
    match party {
        Party::MemoryServer => MeasuredOperation::Read,
        Party::Agent => MeasuredOperation::Ask,
    }
}

fn chunk(leg: &Leg<'_>) -> Option<ChunkAdvice> {
    let figures = leg.best(fetch(leg.party));
    let peak = figures.iter().map(|one| one.bandwidth).fold(0.0, f64::max);
    let enough = figures.iter().find(|one| one.bandwidth >= ENOUGH * peak)?;
    Some(ChunkAdvice {
        party: leg.party,
        link: leg.link,
        size_bytes: enough.size,
        bandwidth_bytes_per_s: enough.bandwidth,
        peak_bytes_per_s: peak,
    })
}

/// Compares the times of an operation with one side with those of its rival with two.
fn protocol(leg: &Leg<'_>, one_sided: MeasuredOperation) -> Option<ProtocolAdvice> {
    let against = |ours: &Measurement| {
        let rival = leg.best_at(one_sided.rival(), ours.size)?;
        Some((ours.size, rival.latency_ns / ours.latency_ns))
    };
    let factors: Vec<(usize, f64)> = leg.best(one_sided).into_iter().filter_map(against).collect();
    let mut spans: Vec<SizeSpan> = Vec::new();
    for (size, factor) in smooth(&factors) {
        let (faster, factor) = match factor {
            factor if factor >= EQUAL => (Some(Sides::One), factor),
            factor if factor <= 1.0 / EQUAL => (Some(Sides::Two), 1.0 / factor),
            factor => (None, factor.max(1.0 / factor)),
        };
        match spans.last_mut() {
            Some(span) if span.faster == faster => {
                span.last_bytes = size;
                span.factor = [span.factor[0].min(factor), span.factor[1].max(factor)];
            }
            _ => spans.push(SizeSpan { first_bytes: size, last_bytes: size, faster, factor: [factor; 2] }),
        }
    }
    let advice = ProtocolAdvice { party: leg.party, link: leg.link, direction: one_sided.direction(), spans };
    Some(advice).filter(|advice| !advice.spans.is_empty())
}

/// Each factor with its neighbours, the middle one of the three; at the ends the geometric mean of the two. One figure
/// that something disturbed does not make a span of its own.
fn smooth(factors: &[(usize, f64)]) -> Vec<(usize, f64)> {
    let of = |(index, (size, factor)): (usize, &(usize, f64))| {
        let near = factors[index.saturating_sub(1)..factors.len().min(index + 2)].iter();
        let mut near: Vec<f64> = near.map(|(_, factor)| *factor).collect();
        near.sort_unstable_by(f64::total_cmp);
        let smooth = match near[..] {
            [one, other] => (one * other).sqrt(),
            [_, middle, _] => middle,
            _ => *factor,
        };
        (*size, smooth)
    };
    factors.iter().enumerate().map(of).collect()
}

/// A chunk costs `1 / B_net` without a cache and `1 / B_intra + (1 - h) / B_net` with one, so a cache pays if its hit
/// rate `h` is above `B_net / B_intra`.
fn caching(agent: &Leg<'_>, server: &Leg<'_>) -> Option<CachingAdvice> {
    let net = server.best_at(MeasuredOperation::Read, USUAL)?.bandwidth;
    let intra = agent.best_at(MeasuredOperation::Ask, USUAL)?.bandwidth;
    let copy = agent.best_at(MeasuredOperation::Read, USUAL)?.bandwidth;
    let ratio = net / intra;
    Some(CachingAdvice {
        agent_link: agent.link,
        server_link: server.link,
        chunk_bytes: USUAL,
        net_bytes_per_s: net,
        intra_bytes_per_s: intra,
        ratio,
        hit_rate_needed: (ratio < 1.0).then_some(ratio),
        static_gain: copy / net,
    })
}

fn node(leg: &Leg<'_>) -> Option<NodeAdvice> {
    let fetches = |one: &&Measurement| (one.operation, one.size) == (fetch(leg.party), USUAL);
    let of_node = |one: &Measurement| Some((one.node?, one.bandwidth));
    let figures: Vec<(u32, f64)> = leg.measurements().filter(fetches).filter_map(of_node).collect();
    let by_bandwidth = |a: &&(u32, f64), b: &&(u32, f64)| a.1.total_cmp(&b.1);
    let (best, worst) = (figures.iter().max_by(by_bandwidth)?, figures.iter().min_by(by_bandwidth)?);
    (figures.len() > 1).then_some(NodeAdvice {
        party: leg.party,
        link: leg.link,
        best: best.0,
        best_bytes_per_s: best.1,
        worst: worst.0,
        worst_bytes_per_s: worst.1,
    })
}

#[cfg(test)]
mod tests;
