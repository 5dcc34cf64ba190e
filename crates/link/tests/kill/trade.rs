//! Two processes that keep each other busy.

use std::time::Duration;

use outboard_link::memory::{Buffer, Segment};
use outboard_link::{
    AccessError, AccessOutcome, Disposition, Export, FrameSendError, Link, LinkError, OpenRegion,
    RemoteMemory, Token, Waiter,
};
use outboard_wire::{FrameHead, FrameKind, Generation, RegionId, RegionKey, Rights, Room};

use crate::child::say;
use crate::spec::End;

/// After how long a silence a peer counts as lost, where links look after that.
pub(crate) const DEADLINE: Duration = Duration::from_secs(3);
/// Between so many turns a child looks whether its parent wants it to end.
const TURNS_PER_LOOK: u32 = 64;

const REGION_BYTES: usize = 1 << 16;
const HEAD: FrameHead = FrameHead::new(FrameKind::new(Room::Trial, 3));
const MARK: u64 = 0x5a5a_5a5a_5a5a_5a5a;

/// The region that both sides export.
pub(crate) fn region() -> Export {
    let memory = Segment::create(c"outboard-kill", REGION_BYTES).expect("memory for a region");
    for word in 0..REGION_BYTES / 16 {
        memory.word(word * 8).store(MARK, std::sync::atomic::Ordering::Relaxed);
    }
    Export {
        region: RegionId(1),
        generation: Generation(1),
        memory: memory.into(),
        keys: vec![(RegionKey([9; 16]), Rights::ALL)],
    }
}

/// Sends, receives and accesses by turns that a seed decides.
pub(crate) struct Trader<L> {
    link: L,
    waiter: Waiter,
    random: fastrand::Rng,
    /// Whether what the peer does is expected to make sense.
    checks: bool,
    sent: u32,
    received: u32,
    opened: Option<OpenRegion>,
    buffer: Buffer,
    begun: u64,
    ended: u64,
    wrong: Option<String>,
}

impl<L: Link + RemoteMemory> Trader<L> {
    pub(crate) fn new(link: L, seed: u64, checks: bool) -> Self {
        Self {
            link,
            waiter: Waiter::new().with_spin(Duration::ZERO),
            random: fastrand::Rng::with_seed(seed),
            checks,
            sent: 0,
            received: 0,
            opened: None,
            buffer: Buffer::allocate(REGION_BYTES).expect("memory for a buffer"),
            begun: 0,
            ended: 0,
            wrong: None,
        }
    }

    pub(crate) fn into_link(self) -> L {
        self.link
    }

    /// Trades for a number of turns, whatever comes of it.
    pub(crate) fn turns(&mut self, count: usize) {
        for _ in 0..count {
            if self.turn().is_err() {
                return;
            }
        }
    }

    /// Trades until the peer is lost, or until `is_over` says so.
    pub(crate) fn run(&mut self, is_over: impl Fn() -> bool) -> End {
        let (mut has_told, mut turns) = (false, 0u32);
        let lost = loop {
            if let Err(lost) = self.turn() {
                break lost;
            }
            turns = turns.wrapping_add(1);
            if self.received > 0 && self.ended > 0 && !has_told {
                has_told = true;
                say("trading");
            }
            if let (true, Some(wrong)) = (self.checks, &self.wrong) {
                say(&format!("wrong: {wrong}"));
                return End::Wrong;
            }
            if turns.is_multiple_of(TURNS_PER_LOOK) && is_over() {
                say("carried on");
                return End::CarriedOn;
            }
        };
        say(&format!("lost: {lost}"));
        self.collect();
        if self.checks && self.begun != self.ended {
            say(&format!("wrong: {} operations begun, {} ended", self.begun, self.ended));
            return End::Wrong;
        }
        End::Lost
    }

    fn turn(&mut self) -> Result<(), LinkError> {
        self.link.progress(self.waiter.clock.now())?;
        self.send()?;
        self.receive()?;
        self.access()?;
        self.collect();
        if self.random.u8(0..16) == 0 {
            let limit = self.waiter.clock.now() + Duration::from_millis(1);
            self.waiter.sleep(&mut self.link, limit)?;
        }
        Ok(())
    }

    fn send(&mut self) -> Result<(), LinkError> {
        for _ in 0..self.random.u8(0..6) {
            let len = if self.random.bool() { self.random.usize(0..64) } else { self.random.usize(0..6000) };
            let payload = vec![self.sent as u8; len];
            match self.link.send(HEAD.with_tag(self.sent), &payload) {
                Ok(()) => self.sent = self.sent.wrapping_add(1),
                Err(FrameSendError::Lost(lost)) => return Err(lost),
                Err(FrameSendError::Full) => break,
                Err(error) => panic!("{error}"),
            }
        }
        // A batch is left open now and then, for someone to die in the middle of it.
        if self.random.u8(0..4) == 0 { Ok(()) } else { self.link.flush() }
    }

    fn receive(&mut self) -> Result<(), LinkError> {
        let Self { link, random, received, wrong, .. } = self;
        link.receive(random.usize(1..12), |frame| {
            if random.u8(0..20) == 0 {
                return Disposition::Deferred;
            }
            let payload = frame.payload.to_vec();
            let is_right = frame.head.tag == *received && payload.iter().all(|byte| *byte == *received as u8);
            if !is_right {
                wrong.get_or_insert(format!("frame {} instead of {received}", frame.head.tag));
            }
            *received = received.wrapping_add(1);
            Disposition::Taken
        })?;
        Ok(())
    }

    fn access(&mut self) -> Result<(), LinkError> {
        let token = Token(self.begun);
        let half = REGION_BYTES / 2;
        let begun = match (self.opened, self.begun) {
            (None, 0) => {
                let grant = region().grant(0).expect("the region has a key");
                self.link.open(&grant, Rights::ALL, token)
            }
            (None, _) => return Ok(()),
            (Some(region), _) => match self.random.u8(0..3) {
                // The first half is only ever read, and the second only ever written.
                0 => {
                    let words = self.random.usize(0..512);
                    let at = self.random.usize(0..half / 8 - words) * 8;
                    self.link.read(region, at as u64, &self.buffer, 0, words * 8, token)
                }
                1 => {
                    let data = [7; 2000];
                    self.link.write(region, (half + 4096) as u64, data[..].into(), token)
                }
                _ => self.link.fetch_add(region, half as u64, 1, token),
            },
        };
        match begun {
            Ok(()) => self.begun += 1,
            Err(AccessError::Lost(lost)) => return Err(lost),
            Err(_) => {}
        }
        Ok(())
    }

    fn collect(&mut self) {
        let Self { link, ended, opened, wrong, buffer, .. } = self;
        link.completions(|completion| {
            *ended += 1;
            match completion.result {
                Ok(AccessOutcome::Opened(region)) => *opened = Some(region),
                Ok(AccessOutcome::Read) if ![0, MARK].contains(&buffer.window().word(0)) => {
                    wrong.get_or_insert("bytes that no process wrote".to_owned());
                }
                Ok(_) | Err(AccessError::Lost(_)) => {}
                Err(error) => {
                    wrong.get_or_insert(format!("operation {}: {error}", completion.token.0));
                }
            }
        });
    }
}
