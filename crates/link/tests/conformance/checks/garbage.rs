//! A peer that writes nonsense is reported or survived, never believed, and its peer does not wait for it.

use std::time::{Duration, Instant};

use outboard_link::memory::Buffer;
use outboard_link::{
    AccessError, AccessOutcome, Disposition, FrameSendError, Link, LinkError, Loss, RemoteMemory, Token,
    Violation, Waiter,
};
use outboard_wire::access::{AccessReply, AccessStatus};
use outboard_wire::liveness::Liveness;
use outboard_wire::{FrameHead, FrameHeader, FrameKind, Rights, Room, Text};

use crate::fixture::{Fixture, Sides, TestClock, Vandal};
use crate::pair::{ALL, LIMIT, Patience, frame, region};

const TURNS: usize = 60;

/// What the victim does while the vandal is at work: everything that a link can.
struct Victim<L> {
    link: L,
    clock: TestClock,
    opened: Option<outboard_link::OpenRegion>,
    buffer: Buffer,
    operations: u64,
}

impl<L: Link + RemoteMemory> Victim<L> {
    fn turn(&mut self, random: &mut fastrand::Rng) -> Result<(), LinkError> {
        self.link.progress(self.clock.now())?;
        self.send(random)?;
        let mut total = 0;
        self.link.receive(16, |frame| {
            total += frame.payload.to_vec().len();
            if random.u8(0..8) == 0 { Disposition::Deferred } else { Disposition::Taken }
        })?;
        self.access(random)
    }

    fn send(&mut self, random: &mut fastrand::Rng) -> Result<(), LinkError> {
        for _ in 0..random.usize(0..6) {
            let sent = frame(random.u32(..), random.usize(0..3000));
            match self.link.send(sent.head, &sent.payload) {
                Ok(()) | Err(FrameSendError::Full) => {}
                Err(FrameSendError::Lost(lost)) => return Err(lost),
                Err(error) => panic!("{error}"),
            }
        }
        self.link.flush()
    }

    fn access(&mut self, random: &mut fastrand::Rng) -> Result<(), LinkError> {
        let token = Token(self.operations);
        let begun = match self.opened {
            Some(region) => match random.u8(0..3) {
                0 => self.link.read(region, random.u64(0..9000), &self.buffer, 0, 512, token),
                1 => self.link.write(region, 64, [7; 100][..].into(), token),
                _ => self.link.fetch_add(region, random.u64(0..600) * 8, 1, token),
            },
            None => {
                let grant = region(1).grant(ALL).unwrap();
                self.link.open(&grant, Rights::ALL, token)
            }
        };
        match begun {
            Ok(()) => self.operations += 1,
            Err(AccessError::Lost(lost)) => return Err(lost),
            Err(_) => {}
        }
        let mut opened = self.opened;
        self.link.completions(|completion| {
            if let Ok(AccessOutcome::Opened(region)) = completion.result {
                opened = Some(region);
            }
        });
        self.opened = opened;
        Ok(())
    }
}

fn one_round<F: Fixture>(seed: u64) -> bool {
    let mut random = fastrand::Rng::with_seed(seed);
    let sides = Sides::default();
    sides.ada.add(region(1));
    sides.ben.add(region(1));
    let (link, mut vandal) = F::vandal(&sides);
    let buffer = Buffer::allocate(4096).unwrap();
    let mut victim = Victim { link, clock: F::clock(), opened: None, buffer, operations: 0 };
    for _ in 0..TURNS {
        if random.bool() {
            vandal.scribble(&mut random);
        }
        vandal.progress(victim.clock.now());
        if let Err(lost) = victim.turn(&mut random) {
            assert!(!lost.to_string().is_empty());
            return true;
        }
    }
    // It may carry on, but the survivor may not hang on to it.
    if victim.link.wait_on().is_some() {
        let waiter = Waiter::new().with_spin(Duration::ZERO);
        let limit = Duration::from_millis(2);
        let waited = waiter.until(&mut victim.link, limit, "a frame from a vandal", |link| {
            let taken = link.receive(1, |_| Disposition::Taken)?;
            Ok((taken > 0).then_some(()))
        });
        return waited.is_err();
    }
    false
}

/// Many rounds of damage, each from its own seed.
pub(crate) fn never_crashes_or_stalls<F: Fixture>() {
    let mut lost = 0;
    for seed in 0..F::LINKS {
        let began = Instant::now();
        let outcome = std::panic::catch_unwind(|| one_round::<F>(seed));
        assert!(outcome.is_ok(), "seed {seed} brought the link down");
        assert!(began.elapsed() < LIMIT, "seed {seed} stalled the link");
        lost += u64::from(outcome.unwrap_or_default());
    }
    assert!(lost > 0, "the vandals were not noticed in {} rounds", F::LINKS);
}

/// What a victim says of a peer that did this.
fn verdict<F: Fixture>(act: impl FnOnce(&mut F::Vandal, usize)) -> LinkError {
    let (mut link, mut vandal) = F::vandal(&Sides::default());
    let clock = F::clock();
    act(&mut vandal, link.capabilities().max_payload);
    let patience = Patience::new("the vandal to be noticed");
    loop {
        vandal.progress(clock.now());
        let turn = link.progress(clock.now()).and_then(|_| link.receive(8, |_| Disposition::Taken));
        if let Err(lost) = turn {
            return lost;
        }
        patience.check();
    }
}

/// A frame that claims to be longer than was agreed is reported at once, not waited for.
pub(crate) fn is_not_waited_for<F: Fixture>() {
    for beyond in [1usize, 4096, 1 << 20, u32::MAX as usize] {
        let lost = verdict::<F>(|vandal, max| {
            let claimed = max.saturating_add(beyond).min(u32::MAX as usize) as u32;
            vandal.send_frame(FrameHeader::new(frame(1, 0).head, claimed), &[0; 64]);
        });
        assert!(matches!(lost.loss, Loss::Broke(Violation::Oversize { .. })), "{beyond} beyond: {lost}");
    }
}

/// Messages that a correct peer never sends end the link with a word on what was wrong.
pub(crate) fn is_called_by_its_name<F: Fixture>() {
    let reply = AccessReply::Done { status: AccessStatus::Done, old: 0 };
    let messages = [
        ("a reply to nothing", reply.kind(), reply.encode().as_bytes().to_vec()),
        ("a message of no known kind", FrameKind::new(Room::Link, 250), vec![0; 8]),
        ("a ping of the wrong length", Liveness::Ping(1).kind(), vec![0; 5]),
        (
            "a goodbye that is no text",
            Liveness::Goodbye { code: 0, reason: Text::new("") }.kind(),
            vec![0xff; 64],
        ),
    ];
    for (what, kind, payload) in messages {
        let head = FrameHead::new(kind).with_tag(77);
        let header = FrameHeader::new(head, payload.len() as u32);
        let lost = verdict::<F>(|vandal, _| vandal.send_message(header, &payload));
        assert!(matches!(lost.loss, Loss::Broke(_)), "{what}: {lost}");
        assert!(lost.to_string().contains("broke the protocol"), "{what}: {lost}");
    }
}
