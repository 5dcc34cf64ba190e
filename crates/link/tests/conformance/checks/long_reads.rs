//! Reads that are long enough to travel by a way of their own.

use std::sync::Arc;

use outboard_link::memory::{Buffer, Segment};
use outboard_link::{AccessError, AccessOutcome, FrameSendError, Link, OpenRegion, RemoteMemory, Token};
use outboard_wire::Rights;

use crate::fixture::{Fixture, Sides};
use crate::pair::{ALL, Pair, Patience, REGION_BYTES, Sent, frame, receive_into, region};

/// What a buffer holds before anything is read into it.
const UNTOUCHED: u8 = 0xee;

/// A region with random contents, which does not change.
fn fill(memory: &Segment, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; REGION_BYTES];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    memory.window_mut(0, REGION_BYTES).write(0, &bytes);
    bytes
}

/// Every alignment at both ends brings exactly the bytes that were asked for, and touches no others; whether or not
/// the owner says that no process writes there.
pub(crate) fn have_any_alignment<F: Fixture>() {
    let sides = Sides::default();
    let export = region(1);
    let (grant, memory) = (export.grant(ALL).unwrap(), Arc::clone(&export.memory));
    sides.ben.add(export);
    let mut pair = Pair::<F>::with(&sides);
    let opened = pair.open(&grant, Rights::READ).unwrap();
    let bytes = fill(&memory, 31);
    let longest = pair.ada.capabilities().max_access.min(REGION_BYTES - 32);
    let lens = [4095, 4096, 4097, 4112, 8192, 12_288, longest / 16 * 16, longest];
    let mut random = fastrand::Rng::with_seed(32);
    for round in 0..96 {
        memory.set_quiet(round % 3 > 0);
        let len = lens[round % lens.len()];
        let (from, to) = match round {
            ..48 => (random.usize(0..=16), random.usize(0..=16)),
            _ => (random.usize(0..=REGION_BYTES - len), random.usize(0..9000)),
        };
        let buffer = Buffer::allocate(to + len + 64).unwrap();
        buffer.window_mut().write(0, &vec![UNTOUCHED; buffer.len()]);
        let outcome = pair.run(|ada, token| ada.read(opened, from as u64, &buffer, to, len, token));
        assert_eq!(outcome.unwrap(), AccessOutcome::Read);
        let found = buffer.window().to_vec();
        assert!(found[to..to + len] == bytes[from..from + len], "{len} bytes {from}->{to}");
        let around = found[..to].iter().chain(&found[to + len..]);
        assert!(around.copied().all(|byte| byte == UNTOUCHED), "{len} bytes {from}->{to}");
    }
    pair.assert_alive();
}

/// A read under way: where its bytes are in the region, and where they go.
struct UnderWay {
    from: usize,
    len: usize,
    buffer: Buffer,
}

/// One side of a link on which everything happens at once.
struct Busy<L> {
    link: L,
    region: OpenRegion,
    random: fastrand::Rng,
    /// By token.
    reads: Vec<Option<UnderWay>>,
    sent: Vec<Sent>,
    received: Vec<Sent>,
}

/// How many reads and frames each side has to get done.
const READS: usize = 150;
const FRAMES: usize = 150;

impl<L: Link + RemoteMemory> Busy<L> {
    fn new(link: L, region: OpenRegion, seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Self { link, region, random, reads: Vec::new(), sent: Vec::new(), received: Vec::new() }
    }

    /// Begins some of what is left to do, in any order.
    fn begin(&mut self) {
        for _ in 0..self.random.usize(0..6) {
            if self.random.bool() && self.reads.len() < READS {
                let longest = self.link.capabilities().max_access.min(20_000);
                let len = match self.random.u32(0..4) {
                    0 => self.random.usize(0..64),
                    1 => self.random.usize(4096..longest),
                    _ => self.random.usize(256..longest / 16) * 16,
                };
                let from = self.random.usize(0..=REGION_BYTES - len);
                let buffer = Buffer::allocate(len).unwrap();
                let token = Token(self.reads.len() as u64);
                match self.link.read(self.region, from as u64, &buffer, 0, len, token) {
                    Ok(()) => self.reads.push(Some(UnderWay { from, len, buffer })),
                    Err(AccessError::Full) => {}
                    Err(error) => panic!("{error}"),
                }
            } else if self.sent.len() < FRAMES {
                let next = frame(self.sent.len() as u32, self.random.usize(0..5000));
                match self.link.send(next.head, &next.payload) {
                    Ok(()) => self.sent.push(next),
                    Err(FrameSendError::Full) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
        self.link.flush().unwrap();
    }

    /// Takes what has come. The bytes of a read must be those of the other side's region.
    fn end(&mut self, bytes: &[u8]) {
        receive_into(&mut self.link, self.random.usize(0..4), &mut self.received).unwrap();
        let reads = &mut self.reads;
        self.link.completions(|completion| {
            assert_eq!(completion.result.unwrap(), AccessOutcome::Read);
            let UnderWay { from, len, buffer } =
                reads[completion.token.0 as usize].take().expect("ends once");
            assert!(
                buffer.window().part(0, len).to_vec() == bytes[from..from + len],
                "{len} bytes at {from}"
            );
        });
    }

    fn is_done(&self) -> bool {
        let reads_done = self.reads.len() == READS && self.reads.iter().all(Option::is_none);
        reads_done && self.sent.len() == FRAMES && self.received.len() == FRAMES
    }
}

/// Long and short reads and frames in both directions at once, all of them many.
pub(crate) fn pass_among_frames<F: Fixture>() {
    let sides = Sides::default();
    let (ours, theirs) = (region(1), region(2));
    let grants = [ours.grant(ALL).unwrap(), theirs.grant(ALL).unwrap()];
    let (ada_bytes, ben_bytes) = (fill(&ours.memory, 33), fill(&theirs.memory, 34));
    ours.memory.set_quiet(true);
    theirs.memory.set_quiet(true);
    sides.ada.add(ours);
    sides.ben.add(theirs);
    let mut pair = Pair::<F>::with(&sides);
    let at_ben = pair.open(&grants[1], Rights::READ).unwrap();
    std::mem::swap(&mut pair.ada, &mut pair.ben);
    let at_ada = pair.open(&grants[0], Rights::READ).unwrap();
    let Pair { ada: ben, ben: ada, clock } = pair;
    let (mut ada, mut ben) = (Busy::new(ada, at_ben, 35), Busy::new(ben, at_ada, 36));
    let patience = Patience::new("reads and frames in both directions");
    while !ada.is_done() || !ben.is_done() {
        ada.begin();
        ben.begin();
        ada.link.progress(clock.now()).unwrap();
        ben.link.progress(clock.now()).unwrap();
        ada.end(&ben_bytes);
        ben.end(&ada_bytes);
        patience.check();
    }
    assert!(ada.received == ben.sent && ben.received == ada.sent, "frames arrive in order, each once");
}

/// A link that is lost while replies arrive ends every read once, and no buffer is touched afterwards.
pub(crate) fn end_with_the_link<F: Fixture>() {
    for turns in [0, 1, 2, 3, 5, 8, 13, 40] {
        let sides = Sides::default();
        let export = region(1);
        let grant = export.grant(ALL).unwrap();
        let bytes = fill(&export.memory, 37);
        sides.ben.add(export);
        let mut pair = Pair::<F>::with(&sides);
        let opened = pair.open(&grant, Rights::READ).unwrap();
        let len = pair.ada.capabilities().max_access.min(REGION_BYTES) / 16 * 16;
        let mut buffers = Vec::new();
        while buffers.len() < 24 {
            let buffer = Buffer::allocate(len).unwrap();
            match pair.ada.read(opened, 0, &buffer, 0, len, Token(buffers.len() as u64)) {
                Ok(()) => buffers.push(Some(buffer)),
                Err(AccessError::Full) if !buffers.is_empty() => break,
                Err(AccessError::Full) => pair.turn(),
                Err(error) => panic!("{error}"),
            }
        }
        (0..turns).for_each(|_| pair.turn());
        let Pair { mut ada, ben, clock } = pair;
        drop(ben);
        let mut handed_back = Vec::new();
        let patience = Patience::new("the end of reads on a link that is lost");
        while buffers.iter().any(Option::is_some) {
            let _ = ada.progress(clock.now());
            ada.completions(|completion| {
                let buffer = buffers[completion.token.0 as usize].take().expect("each read ends once");
                match completion.result {
                    Ok(outcome) => {
                        assert_eq!(outcome, AccessOutcome::Read);
                        assert!(buffer.window().part(0, len).to_vec() == bytes[..len]);
                    }
                    Err(error) => assert!(matches!(error, AccessError::Lost(_)), "{error}"),
                }
                buffer.window_mut().write(0, &vec![UNTOUCHED; buffer.len()]);
                handed_back.push(buffer);
            });
            patience.check();
        }
        for _ in 0..100 {
            let _ = ada.progress(clock.now());
        }
        for buffer in handed_back {
            assert!(buffer.window().to_vec().iter().all(|byte| *byte == UNTOUCHED), "after {turns} turns");
        }
    }
}
