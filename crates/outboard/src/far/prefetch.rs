//! Programs that know what they touch next.

use std::ops::Range;
use std::sync::Arc;

use super::{FarError, FarMapping};

impl FarMapping {
    /// Says that the bytes of these spans will be touched next. They are fetched in the background, those at lower addresses first,
    /// as far as there is room: what of the buffer is free, and an eighth of it for which others leave. The rest comes when it is
    /// touched. It returns at once, whatever state the memory server is in.
    ///
    /// Worth the call where the program knows what no pattern of faults shows: the rows of a list of keys, the edges of a
    /// frontier. Streams are read ahead without it.
    pub fn prefetch(&self, spans: impl IntoIterator<Item = Range<usize>>) -> Result<(), FarError> {
        let chunks_of = |span: Range<usize>| {
            self.check_span(&span)?;
            Ok((span.start / self.chunk()) as u32..span.end.div_ceil(self.chunk()) as u32)
        };
        let chunks = spans.into_iter().filter(|span| !span.is_empty()).map(chunks_of);
        let chunks = merged(chunks.collect::<Result<Vec<_>, FarError>>()?);
        let mut room = self.shared().pages.room_ahead() / self.chunk();
        let mut parts = Vec::new();
        for mut chunks in chunks {
            chunks.end = chunks.end.min(chunks.start.saturating_add(u32::try_from(room).unwrap_or(u32::MAX)));
            room -= chunks.len();
            for (part, region) in self.regions().iter().enumerate() {
                let of_part = region.spec().stripes.chunks(chunks.clone(), self.chunk());
                if !of_part.is_empty() {
                    parts.push((part, of_part));
                }
            }
        }
        self.fetch_parts(&parts);
        Ok(())
    }

    /// Has chunks of parts fetched in the background.
    pub(super) fn fetch_parts(&self, parts: &[(usize, Range<u32>)]) {
        if !parts.is_empty() && self.shared().is_here() {
            let list =
                parts.iter().map(|(part, chunks)| (Arc::clone(&self.regions()[*part]), chunks.clone()));
            self.shared().threads.prefetch(list.collect());
        }
    }
}

/// These chunks in ascending order, each once.
fn merged(mut all: Vec<Range<u32>>) -> Vec<Range<u32>> {
    all.sort_unstable_by_key(|chunks| chunks.start);
    all.dedup_by(|next, last| {
        let touches = next.start <= last.end;
        if touches {
            last.end = last.end.max(next.end);
        }
        touches
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_sorted_and_each_chunk_is_named_once() {
        assert_eq!(merged(vec![9..10, 1..2, 4..7, 6..7, 1..2]), [1..2, 4..7, 9..10]);
        let (one, nothing) = (merged(vec![3..4, 0..1, 0..3, 2..3]), merged(Vec::new()));
        assert!(one.len() == 1 && one[0] == (0..4) && nothing.is_empty());
    }
}
