//! How a graph can lie in far memory: a few cases in which every two choices meet, or every way with every buffer,
//! chunk and link.

use std::collections::BTreeMap;

use outboard::{BufferSize, CacheMode, Path};

use super::samples::Size;

/// By which link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Shm,
    Tcp,
}

/// By which path, and what the agent keeps.
pub(crate) type Way = (Path, CacheMode);

pub(crate) const WAYS: [Way; 7] = [
    (Path::Direct, CacheMode::Off),
    (Path::Agent, CacheMode::Off),
    (Path::Agent, CacheMode::Static),
    (Path::Agent, CacheMode::Dynamic),
    (Path::Agent, CacheMode::Auto),
    (Path::Auto, CacheMode::Static),
    (Path::Auto, CacheMode::Auto),
];
const PARTS: [u32; 3] = [2, 3, 10];
const CHUNKS: [usize; 3] = [4 << 10, 64 << 10, 1 << 20];

/// How a graph lies in far memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) way: Way,
    /// The buffer is one of so many parts of what is used.
    part: u32,
    pub(crate) chunk: usize,
    pub(crate) by: By,
    pub(crate) is_state_far: bool,
    pub(crate) is_symmetric: bool,
    /// Loaded by the server, or copied there.
    pub(crate) is_image: bool,
}

/// A case by the numbers of its choices.
type Choices = [usize; 7];
/// How many choices there are of each kind.
const COUNTS: Choices = [WAYS.len(), PARTS.len(), CHUNKS.len(), 2, 2, 2, 2];

impl Case {
    fn of(choices: Choices) -> Self {
        let [way, part, chunk, by, is_state_far, is_symmetric, is_image] = choices;
        Self {
            way: WAYS[way],
            part: PARTS[part],
            chunk: CHUNKS[chunk],
            by: [By::Shm, By::Tcp][by],
            is_state_far: is_state_far == 1,
            is_symmetric: is_symmetric == 1,
            is_image: is_image == 1,
        }
    }

    pub(crate) fn buffer(&self) -> BufferSize {
        BufferSize::Fraction { numerator: 1, denominator: self.part }
    }

    /// A graph that is large enough for a buffer that is so small a part of it. Far state is several arrays, each in
    /// chunks of its own, and with hardly more room than for these most of the time goes by waiting.
    pub(crate) fn size(&self) -> Size {
        match (self.chunk, self.part) {
            (0x10_0000, 10) => Size::Large,
            (0x10_0000, _) => Size::Medium,
            (0x1_0000, 10) if self.is_state_far => Size::Medium,
            _ => Size::Small,
        }
    }

    /// Only small graphs are there as images, and large ones are of one kind. Large chunks of far state need half of a
    /// graph as their buffer, for the same reason.
    fn is_possible(&self) -> bool {
        let has_room = !self.is_state_far || self.chunk < 1 << 20 || self.part == 2;
        match self.size() {
            Size::Small => has_room,
            Size::Medium => has_room && !self.is_image,
            Size::Large => has_room && !self.is_image && self.is_symmetric,
        }
    }
}

/// Any two choices of a case: of two kinds, two numbers.
fn pairs(choices: &Choices) -> impl Iterator<Item = [(usize, usize); 2]> + '_ {
    let kinds = 0..choices.len();
    kinds.clone().flat_map(move |first| {
        let others = (first + 1)..choices.len();
        others.map(move |second| [(first, choices[first]), (second, choices[second])])
    })
}

/// The cases to try: a few, or all if somebody has the time (`GRAPH_FAR=all`).
pub(crate) fn cases() -> Vec<Case> {
    match std::env::var_os("GRAPH_FAR") {
        Some(which) if which == "all" => product(),
        Some(which) => panic!("GRAPH_FAR={which:?} means nothing; GRAPH_FAR=all tries every case"),
        None => few(),
    }
}

/// Whatever choices can meet.
fn possible() -> Vec<Choices> {
    let mut all: Vec<Choices> = vec![[0; 7]];
    for (kind, count) in COUNTS.into_iter().enumerate() {
        let with = |choices: &Choices, choice| {
            let mut choices = *choices;
            choices[kind] = choice;
            choices
        };
        all = all.iter().flat_map(|choices| (0..count).map(move |choice| with(choices, choice))).collect();
    }
    all.retain(|choices| Case::of(*choices).is_possible());
    all
}

/// Every way with every buffer, chunk and link. What else there is to choose is chosen by turns.
fn product() -> Vec<Case> {
    let mut by_main: BTreeMap<[usize; 4], Vec<Choices>> = BTreeMap::new();
    for choices in possible() {
        let [way, part, chunk, by, ..] = choices;
        by_main.entry([way, part, chunk, by]).or_default().push(choices);
    }
    let turns = by_main.values().enumerate();
    turns.map(|(turn, choices)| Case::of(choices[turn % choices.len()])).collect()
}

/// Cases in which every two choices meet that can. Always the one is taken next in which most meet for the first time.
fn few() -> Vec<Case> {
    let all = possible();
    let mut met = std::collections::HashSet::new();
    let mut taken = Vec::new();
    loop {
        let news = |choices: &&Choices| pairs(choices).filter(|pair| !met.contains(pair)).count();
        match all.iter().max_by_key(news) {
            Some(best) if news(&best) > 0 => {
                met.extend(pairs(best));
                taken.push(Case::of(*best));
            }
            _ => return taken,
        }
    }
}

#[test]
fn every_way_meets_every_buffer_chunk_and_link() {
    let cases = few();
    for way in WAYS {
        for part in PARTS {
            assert!(cases.iter().any(|case| case.way == way && case.part == part), "{way:?} 1/{part}");
        }
        for chunk in CHUNKS {
            assert!(cases.iter().any(|case| case.way == way && case.chunk == chunk), "{way:?} {chunk}");
        }
        for by in [By::Shm, By::Tcp] {
            assert!(cases.iter().any(|case| case.way == way && case.by == by), "{way:?} {by:?}");
        }
    }
    for (part, chunk) in PARTS.into_iter().flat_map(|part| CHUNKS.map(|chunk| (part, chunk))) {
        assert!(cases.iter().any(|case| case.part == part && case.chunk == chunk), "1/{part} {chunk}");
    }
    assert!(cases.len() < 40, "{} cases are not few", cases.len());
    assert_eq!(product().len(), WAYS.len() * PARTS.len() * CHUNKS.len() * 2);
}
