//! Two ends of a link, driven from one thread.

use std::time::{Duration, Instant};

use outboard_link::memory::{Buffer, Segment};
use outboard_link::{
    AccessError, AccessOutcome, Completion, Disposition, Export, Link, LinkError, OpenRegion, RemoteMemory,
    Token,
};
use outboard_wire::{Flow, FrameHead, FrameKind, Generation, Grant, RegionId, RegionKey, Rights, Room};

use crate::fixture::{Fixture, Sides, TestClock};

/// No state is awaited for longer than this, on any clock of ours.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// How long bytes are given to arrive when the check is that they do not.
const SETTLE: Duration = Duration::from_millis(3);
/// And how many turns at least: a side that gets no processor meanwhile takes none in that time.
const SETTLE_TURNS: u32 = 200;

/// A frame as it was sent or received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) head: FrameHead,
    pub(crate) payload: Vec<u8>,
}

/// Frame number `number`, with contents that belong to no other.
pub(crate) fn frame(number: u32, len: usize) -> Sent {
    let kind = FrameKind::new(Room::Trial, number as u8);
    let head = FrameHead::new(kind).with_tag(number).with_flow(Flow(number.rotate_left(7)));
    let mut random = fastrand::Rng::with_seed(number.into());
    let mut payload = vec![0; len];
    random.fill(&mut payload);
    Sent { head, payload }
}

/// A watchdog for loops that turn until something is true.
pub(crate) struct Patience {
    began: Instant,
    awaited: &'static str,
}

impl Patience {
    pub(crate) fn new(awaited: &'static str) -> Self {
        Self { began: Instant::now(), awaited }
    }

    #[track_caller]
    pub(crate) fn check(&self) {
        assert!(self.began.elapsed() < LIMIT, "waited {LIMIT:?} for {}", self.awaited);
    }
}

/// Two ends of a link and the time they live in.
pub(crate) struct Pair<F: Fixture> {
    pub(crate) ada: F::Link,
    pub(crate) ben: F::Link,
    pub(crate) clock: TestClock,
}

impl<F: Fixture> Pair<F> {
    pub(crate) fn new() -> Self {
        Self::with(&Sides::default())
    }

    pub(crate) fn with(sides: &Sides) -> Self {
        let (ada, ben) = F::pair(sides);
        Self { ada, ben, clock: F::clock() }
    }

    /// Lets both sides do what is due.
    #[track_caller]
    pub(crate) fn turn(&mut self) {
        self.ada.progress(self.clock.now()).unwrap();
        self.ben.progress(self.clock.now()).unwrap();
    }

    /// Turns until `step` returns something.
    #[track_caller]
    pub(crate) fn until<T>(
        &mut self,
        awaited: &'static str,
        mut step: impl FnMut(&mut Self) -> Option<T>,
    ) -> T {
        let patience = Patience::new(awaited);
        loop {
            if let Some(value) = step(self) {
                return value;
            }
            self.turn();
            patience.check();
        }
    }

    /// Gives everything that is under way the time to arrive, without taking it.
    #[track_caller]
    pub(crate) fn settle(&mut self) {
        let (until, mut turns) = (self.clock.now() + SETTLE, 0);
        while self.clock.now() < until || turns < SETTLE_TURNS {
            self.turn();
            turns += 1;
        }
    }

    /// Takes exactly `count` frames at ben.
    #[track_caller]
    pub(crate) fn take(&mut self, count: usize) -> Vec<Sent> {
        let mut taken = Vec::new();
        self.until("frames", |pair| {
            receive_into(&mut pair.ben, count - taken.len(), &mut taken).unwrap();
            (taken.len() == count).then_some(())
        });
        taken
    }

    /// Sends a frame from ada in a batch of its own, waiting for room if there is none.
    #[track_caller]
    pub(crate) fn send(&mut self, sent: &Sent) {
        self.until("room for a frame", |pair| match pair.ada.send(sent.head, &sent.payload) {
            Ok(()) => Some(()),
            Err(outboard_link::FrameSendError::Full) => None,
            Err(error) => panic!("{error}"),
        });
        self.ada.flush().unwrap();
    }

    /// Runs one operation of ada's to its end.
    #[track_caller]
    pub(crate) fn run(
        &mut self,
        mut begin: impl FnMut(&mut F::Link, Token) -> Result<(), AccessError>,
    ) -> Result<AccessOutcome, AccessError> {
        let token = Token(fastrand::u64(..));
        let begun = self.until("room for an operation", |pair| match begin(&mut pair.ada, token) {
            Err(AccessError::Full) => None,
            other => Some(other),
        });
        begun?;
        self.until("a completion", |pair| completion_of(&mut pair.ada, token))
    }

    #[track_caller]
    pub(crate) fn open(&mut self, grant: &Grant, rights: Rights) -> Result<OpenRegion, AccessError> {
        match self.run(|ada, token| ada.open(grant, rights, token))? {
            AccessOutcome::Opened(region) => Ok(region),
            other => panic!("an opening ended with {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn read(
        &mut self,
        region: OpenRegion,
        offset: u64,
        len: usize,
    ) -> Result<Vec<u8>, AccessError> {
        let buffer = Buffer::allocate(len + 8).unwrap();
        let outcome = self.run(|ada, token| ada.read(region, offset, &buffer, 8, len, token))?;
        assert_eq!(outcome, AccessOutcome::Read);
        Ok(buffer.window().part(8, len).to_vec())
    }

    #[track_caller]
    pub(crate) fn write(&mut self, region: OpenRegion, offset: u64, data: &[u8]) -> Result<(), AccessError> {
        let outcome = self.run(|ada, token| ada.write(region, offset, data.into(), token))?;
        assert_eq!(outcome, AccessOutcome::Written);
        Ok(())
    }

    #[track_caller]
    pub(crate) fn fetch_add(
        &mut self,
        region: OpenRegion,
        offset: u64,
        addend: u64,
    ) -> Result<u64, AccessError> {
        match self.run(|ada, token| ada.fetch_add(region, offset, addend, token))? {
            AccessOutcome::Old(old) => Ok(old),
            other => panic!("a fetch-add ended with {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn compare_swap(
        &mut self,
        region: OpenRegion,
        offset: u64,
        (expected, desired): (u64, u64),
    ) -> Result<u64, AccessError> {
        match self.run(|ada, token| ada.compare_swap(region, offset, expected, desired, token))? {
            AccessOutcome::Old(old) => Ok(old),
            other => panic!("a compare-and-swap ended with {other:?}"),
        }
    }

    /// Shows that frames still pass in both directions.
    #[track_caller]
    pub(crate) fn assert_alive(&mut self) {
        let there = frame(0xa11e, 33);
        self.send(&there);
        assert_eq!(self.take(1), [there]);
        std::mem::swap(&mut self.ada, &mut self.ben);
        let back = frame(0xbacc, 44);
        self.send(&back);
        assert_eq!(self.take(1), [back]);
        std::mem::swap(&mut self.ada, &mut self.ben);
    }
}

/// The end of the operation with this token, if it has come. It must be the only one under way.
#[track_caller]
pub(crate) fn completion_of(
    link: &mut impl RemoteMemory,
    token: Token,
) -> Option<Result<AccessOutcome, AccessError>> {
    let mut ended: Vec<Completion> = Vec::new();
    link.completions(|completion| ended.push(completion));
    assert!(ended.len() <= 1, "one operation ended more than once: {ended:?}");
    let completion = ended.pop()?;
    assert_eq!(completion.token, token);
    Some(completion.result)
}

/// Takes up to `max` frames.
pub(crate) fn receive_into(
    link: &mut impl Link,
    max: usize,
    into: &mut Vec<Sent>,
) -> Result<usize, LinkError> {
    link.receive(max, |frame| {
        into.push(Sent { head: frame.head, payload: frame.payload.to_vec() });
        Disposition::Taken
    })
}

/// The size of the regions that the checks export.
pub(crate) const REGION_BYTES: usize = 1 << 16;

/// The keys of [`region`], by their place.
pub(crate) const ALL: usize = 0;
pub(crate) const READ_ONLY: usize = 1;

/// A region with one key for everything and one to read.
pub(crate) fn region(id: u64) -> Export {
    Export {
        region: RegionId(id),
        generation: Generation(3),
        memory: std::sync::Arc::new(Segment::create(c"conformance", REGION_BYTES).unwrap()),
        keys: vec![
            (RegionKey([0xa0 ^ id as u8; 16]), Rights::ALL),
            (RegionKey([0x0b ^ id as u8; 16]), Rights::READ),
        ],
    }
}
