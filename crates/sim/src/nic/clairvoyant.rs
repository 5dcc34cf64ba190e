//! A policy that knows what no writer can know.

use outboard_writing::WritePath;

use super::Parameters;
use super::hardware::Target;
use super::workload::Stream;

/// The path of a writer that looks into the cache and knows how often each page will be written.
///
/// A write whose page is at hand is offloaded. Any other is unloaded, unless its page is worth fetching: it will be written more
/// often than the page that would have to leave, by enough to pay for the fetch.
pub(super) fn choose(
    numbers: &Parameters,
    target: &Target,
    stream: &Stream,
    now: f64,
    offset: u64,
    len: u64,
) -> WritePath {
    let (is_at_hand, victim) = target.looks(offset);
    let (fetching, unloading) = (numbers.walk(), numbers.unloading(len as f64));
    if is_at_hand || fetching <= unloading {
        return WritePath::Offload;
    }
    let coming = stream.expected(now, offset);
    let leaving = victim.map_or(0.0, |victim| stream.expected(now, victim));
    let saved = (coming - leaving) * unloading;
    if saved > fetching - unloading { WritePath::Offload } else { WritePath::Unload }
}
