//! What comes when a thread touches what is absent: chunks where they are used as a whole, pages where touches have no order.

use std::time::Duration;

use outboard::{Advice, FarMapping, FarMemory, FarStats, FaultAnswer, Path, RegionOptions};
use outboard_e2e::{Daemon, Place};

use super::{connect, options, words};

const CHUNK: usize = 64 << 10;
const PAGE: usize = 4096;
const BYTES: usize = 256 * CHUNK;

fn region() -> RegionOptions {
    RegionOptions { chunk: CHUNK, path: Path::Direct, ..Default::default() }
}

/// A region in which every page begins with its own number, all of it at the server.
fn numbered(memory: &FarMemory) -> FarMapping {
    let mapping = memory.reserve(BYTES as u64, &region()).unwrap();
    for page in 0..BYTES / PAGE {
        words(&mapping).write(page * PAGE, &page.to_ne_bytes());
    }
    mapping.flush().unwrap();
    mapping
}

fn check(mapping: &FarMapping, page: usize) {
    let mut found = [0; 8];
    words(mapping).read(page * PAGE, &mut found);
    assert_eq!(usize::from_ne_bytes(found), page);
}

/// Touches pages without an order. Returns how many faults that took, how many of them brought a page, and how many bytes came.
fn roam(memory: &FarMemory, mapping: &FarMapping, pages: std::ops::Range<usize>, seed: u64) -> [u64; 3] {
    let mut random = fastrand::Rng::with_seed(seed);
    let before = memory.stats();
    (0..4000).for_each(|_| check(mapping, random.usize(pages.clone())));
    since(memory, &before)
}

fn since(memory: &FarMemory, before: &FarStats) -> [u64; 3] {
    let after = memory.stats();
    let fetched = |stats: &FarStats| stats.traffic.demand + stats.traffic.ahead;
    [
        after.faults_fetched - before.faults_fetched,
        after.faults_for_pages - before.faults_for_pages,
        fetched(&after) - fetched(before),
    ]
}

#[test]
fn touches_without_an_order_bring_pages_and_passes_bring_chunks() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    for (at, faults) in [
        (daemon.local(), FaultAnswer::Threads),
        (daemon.local(), FaultAnswer::Signal),
        (daemon.remote(), FaultAnswer::Threads),
    ] {
        let setup = options(at, CHUNK, BYTES / 4).with(|options| options.faults = faults);
        let memory = connect(&setup);
        let mapping = numbered(&memory);
        let pages = BYTES / PAGE;
        roam(&memory, &mapping, 0..pages, 1);
        let [fetched, for_pages, bytes] = roam(&memory, &mapping, 0..pages, 2);
        println!("{at}: {fetched} faults, {for_pages} for pages, {bytes} bytes");
        assert!(for_pages * 10 > fetched * 8, "{for_pages} of {fetched} faults brought a page");
        assert!(bytes < fetched * 3 * PAGE as u64, "{bytes} bytes for {fetched} faults");
        let explained = mapping.explain().concat();
        assert!(explained.contains("page by page in "), "{explained}");
        // Half of it is passed over again and again: there chunks come, and pages where it is roamed.
        for round in 0..3 {
            let before = memory.stats();
            (0..pages / 2).for_each(|page| check(&mapping, page));
            let [fetched, for_pages, _] = since(&memory, &before);
            println!("{at}, pass {round}: {fetched} faults, {for_pages} for pages");
            assert!(round == 0 || for_pages * 10 < pages as u64 / 2, "{for_pages} faults for pages");
            let [fetched, for_pages, _] = roam(&memory, &mapping, pages / 2..pages, 3 + round);
            println!("{at}, roam {round}: {fetched} faults, {for_pages} for pages");
            // Nearly a tenth of so few chunks are beside the last one, and streams expect some by chance.
            assert!(for_pages * 2 > fetched, "{for_pages} of {fetched} faults brought a page");
        }
    }
}

#[test]
fn what_the_application_says_is_about_its_span_alone() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let memory = connect(&options(daemon.local(), CHUNK, BYTES / 4));
    let mapping = numbered(&memory);
    let (first, last) = (0..BYTES / PAGE / 2, BYTES / PAGE / 2..BYTES / PAGE);
    mapping.advise(0..BYTES / 2, Advice::Random).unwrap();
    mapping.advise(BYTES / 2..BYTES, Advice::Whole).unwrap();
    for seed in 0..2 {
        let [fetched, for_pages, _] = roam(&memory, &mapping, first.clone(), seed);
        assert!(fetched > 500 && for_pages == fetched, "{for_pages} of {fetched} faults brought a page");
        let [_, for_pages, _] = roam(&memory, &mapping, last.clone(), seed);
        assert!(seed == 0 || for_pages == 0, "{for_pages} faults brought pages");
    }
    mapping.advise(0..BYTES / 2, Advice::Whole).unwrap();
    roam(&memory, &mapping, last, 9);
    let [fetched, for_pages, _] = roam(&memory, &mapping, first, 10);
    assert!(for_pages * 4 < fetched, "{for_pages} of {fetched} faults brought a page");
}

#[test]
fn pages_of_divided_chunks_are_pinned_tried_flushed_and_discarded() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    for at in [daemon.local(), daemon.remote()] {
        let memory = connect(&options(at, CHUNK, 16 * CHUNK));
        let mut mapping = numbered(&memory);
        mapping.advise(0..BYTES, Advice::Random).unwrap();
        let pages = CHUNK / PAGE;
        // Every other page of some chunks is here, and changed.
        for page in (0..4 * pages).step_by(2) {
            words(&mapping).write(page * PAGE + 8, &(page as u64).to_ne_bytes());
        }
        let before = memory.stats();
        mapping.pin(PAGE..CHUNK + 1).unwrap();
        assert!(memory.stats().faults_for_pages > before.faults_for_pages, "they come one by one");
        mapping.flush().unwrap();
        let mut found = vec![0; 2 * CHUNK];
        mapping.try_read(CHUNK + 100, &mut found, Duration::from_secs(30)).unwrap();
        mapping.try_write(3 * CHUNK - 4, &[7; 8], Duration::from_secs(30)).unwrap();
        // All others take the room of what is not pinned.
        (8 * pages..BYTES / PAGE).for_each(|page| check(&mapping, page));
        mapping.try_read(PAGE, &mut found[..CHUNK - PAGE], Duration::ZERO).unwrap();
        mapping.unpin();
        mapping.discard(2 * CHUNK..3 * CHUNK).unwrap();
        mapping.prefault(0..4 * CHUNK).unwrap();
        for page in 0..4 * pages {
            let mut found = [0; 16];
            words(&mapping).read(page * PAGE, &mut found);
            let is_zero = page / pages == 2;
            let number = if is_zero { 0 } else { page as u64 };
            let written = if is_zero || page % 2 == 1 { 0 } else { page as u64 };
            let is_tried = page == 3 * pages;
            let first = if is_tried { u64::from_ne_bytes([7, 7, 7, 7, 0, 0, 0, 0]) } else { number };
            assert_eq!(found[..8], first.to_ne_bytes(), "page {page}");
            assert_eq!(found[8..], written.to_ne_bytes(), "page {page}");
        }
    }
}
