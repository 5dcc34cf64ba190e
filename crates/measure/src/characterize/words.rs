//! Conclusions as people read them.

use super::conclusions::{
    CachingAdvice, ChunkAdvice, Conclusions, ENOUGH, EQUAL, NodeAdvice, ProtocolAdvice, SizeSpan,
};
use super::measurement::{AtWork, Characterization};
use super::operation::{Direction, Party, Sides};
use crate::Unit;

impl Characterization {
    /// What follows from the figures, what the agent has seen, and what a reader has to know: one sentence each.
    pub fn sentences(&self) -> Vec<String> {
        let at_work = self.agent_at_work.iter().map(at_work);
        self.conclusions.sentences().into_iter().chain(at_work).chain(self.remarks.iter().cloned()).collect()
    }
}

impl Conclusions {
    /// One sentence each.
    pub(super) fn sentences(&self) -> Vec<String> {
        let chunks = self.chunks.iter().map(chunk);
        let protocols = self.protocols.iter().map(protocol);
        let caching = self.caching.iter().map(caching);
        chunks.chain(protocols).chain(caching).chain(self.nodes.iter().map(node)).collect()
    }
}

fn chunk(advice: &ChunkAdvice) -> String {
    let ChunkAdvice { party, link, size_bytes, bandwidth_bytes_per_s, peak_bytes_per_s } = advice;
    let (has, peak) = (rate(*bandwidth_bytes_per_s), rate(*peak_bytes_per_s));
    let (size, percent) = (size(*size_bytes), ENOUGH * 100.0);
    format!(
        "chunk size, {party} over {link}: {size} is the smallest that fetches at {percent:.0} % of the best \
         bandwidth ({has} of {peak})"
    )
}

fn protocol(advice: &ProtocolAdvice) -> String {
    let what = match advice.direction {
        Direction::ToApplication => "fetching from",
        Direction::FromApplication => "writing to",
    };
    let spans: Vec<String> = advice.spans.iter().map(|span| self::span(span, advice.spans.len())).collect();
    format!("protocol, {what} the {} over {}: {}", advice.party, advice.link, spans.join("; "))
}

fn span(span: &SizeSpan, count: usize) -> String {
    let sizes = match (count, span.first_bytes == span.last_bytes) {
        (1, _) => "for all sizes".to_owned(),
        (_, true) => format!("for {}", size(span.first_bytes)),
        (_, false) => format!("for {} to {}", size(span.first_bytes), size(span.last_bytes)),
    };
    let [least, most] = span.factor.map(|factor| format!("{factor:.1}"));
    let factor = if least == most { least } else { format!("{least} to {most}") };
    match span.faster {
        Some(Sides::One) => format!("one-sided is faster {sizes} ({factor} times)"),
        Some(Sides::Two) => format!("two-sided is faster {sizes} ({factor} times)"),
        None => format!("both take equally long {sizes}"),
    }
}

fn caching(advice: &CachingAdvice) -> String {
    let CachingAdvice { agent_link, server_link, chunk_bytes, ratio, hit_rate_needed, static_gain, .. } =
        advice;
    let (net, intra) = (rate(advice.net_bytes_per_s), rate(advice.intra_bytes_per_s));
    let dynamic = match hit_rate_needed {
        Some(needed) => format!("dynamic caching pays above a hit rate of {:.0} %", needed * 100.0),
        None => "dynamic caching cannot pay, whatever its hit rate".to_owned(),
    };
    let fixed = match static_gain {
        gain if *gain > EQUAL => format!("static caching makes fetches {gain:.1} times faster"),
        _ => "static caching saves traffic but no time".to_owned(),
    };
    format!(
        "caching, {} over {agent_link}, {} over {server_link}: R = B_net / B_intra = {net} / {intra} = {ratio:.2} \
         at {}, so {dynamic}; {fixed}",
        Party::Agent,
        Party::MemoryServer,
        size(*chunk_bytes),
    )
}

fn at_work(seen: &AtWork) -> String {
    let AtWork { net_bytes_per_s, intra_bytes_per_s, ratio } = seen;
    let (net, intra) = (rate(*net_bytes_per_s), rate(*intra_bytes_per_s));
    format!(
        "the agent at work: R = B_net / B_intra = {net} / {intra} = {ratio:.2}, between itself, its memory servers and \
         its applications so far"
    )
}

fn node(advice: &NodeAdvice) -> String {
    let NodeAdvice { party, link, best, worst, best_bytes_per_s, worst_bytes_per_s } = advice;
    let (fast, slow) = (rate(*best_bytes_per_s), rate(*worst_bytes_per_s));
    format!(
        "memory node, {party} over {link}: buffers on node {best} are best ({fast}), on node {worst} worst ({slow})"
    )
}

/// A size as people read it: all of them are whole numbers of KiB or MiB.
pub(super) fn size(bytes: usize) -> String {
    match bytes {
        bytes if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        bytes => format!("{} KiB", bytes >> 10),
    }
}

fn rate(bytes_per_s: f64) -> String {
    Unit::BytesPerSecond.show(bytes_per_s)
}
