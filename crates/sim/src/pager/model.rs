//! What memory must hold: every word what was last stored there.

use std::sync::Arc;

use outboard_link::memory::Segment;

use super::layout::{PLANS, REGIONS, WORD};
use crate::Recorder;

/// The regions' bytes at the server.
pub(super) type Regions = [Arc<Segment>; REGIONS];

/// Numbers that are stored begin here; what a word holds before is its own number.
const FIRST: u64 = 1 << 32;

/// Knows the newest value of every word. Values grow, so that older ones can be told from newer ones.
pub(super) struct Model {
    recorder: Recorder,
    server: Regions,
    newest: [Vec<u64>; REGIONS],
    latest: u64,
}

/// Regions in which no two words are the same.
pub(super) fn regions() -> Regions {
    PLANS.each_ref().map(|plan| {
        // Without some pages of memory there is nothing to simulate.
        let len = plan.size.next_multiple_of(4096);
        let segment = Segment::create(c"outboard-sim", len).expect("some pages of memory");
        for word in 0..plan.words() {
            segment.window_mut(word * WORD, WORD).set_word(0, first(plan.class.0, word));
        }
        Arc::new(segment)
    })
}

/// What a word holds before anything is stored there.
fn first(class: u8, word: usize) -> u64 {
    u64::from(class) << 16 | word as u64
}

impl Model {
    pub(super) fn new(recorder: Recorder, server: Regions) -> Self {
        let newest =
            PLANS.each_ref().map(|plan| (0..plan.words()).map(|word| first(plan.class.0, word)).collect());
        Self { recorder, server, newest, latest: FIRST }
    }

    /// A number to be stored in a word.
    pub(super) fn store(&mut self, region: usize, word: usize) -> u64 {
        self.latest += 1;
        self.newest[region][word] = self.latest;
        self.latest
    }

    /// A word was loaded.
    pub(super) fn load(&self, region: usize, word: usize, found: u64) {
        let newest = self.newest[region][word];
        self.recorder.expect(found == newest, || {
            format!(
                "a load sees the newest store: word {word} of region {region} is {found:#x}, not {newest:#x}"
            )
        });
    }

    /// All that was stored so far.
    pub(super) fn stored(&self, region: usize) -> Vec<u64> {
        self.newest[region].clone()
    }

    /// A flush that began when the region was as in `stored` has ended.
    pub(super) fn flushed(&self, region: usize, stored: &[u64]) {
        for (word, (least, most)) in stored.iter().zip(&self.newest[region]).enumerate() {
            let found = self.at_server(region, word);
            self.recorder.expect((least..=most).contains(&&found), || {
                format!(
                    "the server has what was flushed: word {word} of region {region} is {found:#x}, not from \
                     {least:#x} to {most:#x}"
                )
            });
        }
    }

    /// What the server does not have of a region is given up: it may have any of what was stored.
    pub(super) fn adopt(&mut self, region: usize) {
        for word in 0..self.newest[region].len() {
            let (found, newest) = (self.at_server(region, word), self.newest[region][word]);
            self.recorder.expect(found <= newest, || {
                format!("the server has what was stored: word {word} of region {region} is {found:#x}")
            });
            self.newest[region][word] = found;
        }
    }

    /// At the end, when everything was flushed.
    pub(super) fn close(&self) {
        (0..REGIONS).for_each(|region| self.flushed(region, &self.newest[region]));
    }

    fn at_server(&self, region: usize, word: usize) -> u64 {
        self.server[region].window(word * WORD, WORD).word(0)
    }
}
