use std::collections::HashMap;

use super::*;
use crate::paging::{Touches, word};

const SMALL: Shape = Shape { chunk_len: 1 << 16, chunks: 24, buffer: 8 };

#[test]
fn every_load_finds_its_word_and_faults_are_counted() {
    let mut bare = BareRecycle::start(SMALL, Traffic::Loads, word).unwrap();
    let mut touches = Touches::new(&SMALL, 1);
    // SAFETY: the region of this shape, which no thread stores to.
    let times = unsafe { touches.run(bare.region(), Traffic::Loads, 3000, || bare.faults()) }.unwrap();
    assert_eq!(times.len() as u64, bare.faults());
    assert!(times.len() > 1000, "a third is resident, the rest must fault: {}", times.len());
    bare.stop().unwrap();
}

#[test]
fn no_store_is_lost() {
    let shape = Shape { chunk_len: 1 << 12, chunks: 96, buffer: 32 };
    let mut bare = BareRecycle::start(shape, Traffic::Stores, word).unwrap();
    let mut touches = Touches::new(&shape, 2);
    let model: HashMap<usize, u64> =
        touches.clone().take(5000).map(|touch| (touch.offset, touch.value)).collect();
    // SAFETY: the region of this shape, which no other thread stores to.
    unsafe { touches.run(bare.region(), Traffic::Stores, 5000, || bare.faults()) }.unwrap();
    let source = bare.stop().unwrap().unwrap();
    for offset in (0..shape.footprint()).step_by(8) {
        let stored = model.get(&offset).copied().unwrap_or(word(offset));
        assert_eq!(source.word(offset).load(Ordering::Relaxed), stored, "at {offset}");
    }
}
