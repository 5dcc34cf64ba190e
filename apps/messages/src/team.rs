//! What the applications do with their messenger: send until there is room, wait until all is handled, and tell each
//! other numbers.

use outboard::{Bundle, Messenger, MessengerError, MessengerStats, Plain, SendError, Values};

use crate::error::AppError;

/// How many message spaces applications have for themselves.
const OWN: u8 = 2;
/// The space where ranks tell each other numbers.
const NUMBERS: u8 = OWN;
/// The space where results are gathered.
pub(crate) const RESULTS: u8 = OWN + 1;
/// How many spaces a messenger needs.
pub(crate) const SPACES: u8 = OWN + 2;

/// Handles the messages of a rank.
pub(crate) trait Desk {
    /// The spaces that it handles: from the first to before the second.
    const SPACES: (u8, u8) = (0, 1);

    /// Handles messages. What it sends never has to wait.
    fn handle(&mut self, messenger: &mut Messenger, space: u8, bundle: Bundle<'_>) -> Result<(), AppError>;
}

/// The messages of a bundle, which all have to be of one type.
pub(crate) fn values<'a, T: Plain>(bundle: &Bundle<'a>) -> Result<Values<'a, T>, AppError> {
    bundle
        .values()
        .ok_or(AppError::Nonsense { rank: bundle.source(), what: "messages of an unexpected length" })
}

/// A rank among others.
pub(crate) struct Team<'a> {
    messenger: &'a mut Messenger,
    /// How often numbers were exchanged.
    round: u64,
    /// The numbers of the others, for even and for odd rounds: no rank can be further ahead than one.
    heard: [Vec<Option<u64>>; 2],
    /// What has come from other ranks.
    arrivals: Arrivals,
}

/// Bundles that have come from other ranks, and their bytes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Arrivals {
    pub(crate) bundles: u64,
    pub(crate) bytes: u64,
}

impl Arrivals {
    fn note(&mut self, bundle: &Bundle<'_>, rank: u32) {
        if bundle.source() != rank {
            self.bundles += 1;
            self.bytes += bundle.len() as u64;
        }
    }
}

impl<'a> Team<'a> {
    pub(crate) fn new(messenger: &'a mut Messenger) -> Self {
        let nothing = vec![None; messenger.ranks() as usize];
        Self { messenger, round: 0, heard: [nothing.clone(), nothing], arrivals: Arrivals::default() }
    }

    pub(crate) fn rank(&self) -> u32 {
        self.messenger.rank()
    }

    pub(crate) fn ranks(&self) -> u32 {
        self.messenger.ranks()
    }

    pub(crate) fn stats(&self) -> MessengerStats {
        self.messenger.stats()
    }

    /// Who moves messages and why.
    pub(crate) fn explain(&mut self) -> String {
        self.messenger.explain().join("; ")
    }

    /// What has come from other ranks so far.
    pub(crate) fn arrivals(&self) -> Arrivals {
        self.arrivals
    }

    /// Sends a value. While there is no room, what has arrived is handled.
    #[inline(always)]
    pub(crate) fn post<T: Plain, D: Desk>(
        &mut self,
        space: u8,
        rank: u32,
        value: T,
        desk: &mut D,
    ) -> Result<(), AppError> {
        match self.messenger.send_value_in(space, rank, value) {
            Ok(()) => Ok(()),
            Err(error) => {
                self.post_slowly(error, desk, |messenger| messenger.send_value_in(space, rank, value))
            }
        }
    }

    /// The same for bytes.
    pub(crate) fn post_bytes<D: Desk>(
        &mut self,
        space: u8,
        rank: u32,
        bytes: &[u8],
        desk: &mut D,
    ) -> Result<(), AppError> {
        match self.messenger.send_in(space, rank, bytes) {
            Ok(()) => Ok(()),
            Err(error) => self.post_slowly(error, desk, |messenger| messenger.send_in(space, rank, bytes)),
        }
    }

    #[cold]
    #[inline(never)]
    fn post_slowly<D: Desk>(
        &mut self,
        mut error: SendError,
        desk: &mut D,
        send: impl Fn(&mut Messenger) -> Result<(), SendError>,
    ) -> Result<(), AppError> {
        while error == SendError::Full {
            self.attend(desk)?;
            match send(self.messenger) {
                Ok(()) => return Ok(()),
                Err(again) => error = again,
            }
        }
        Err(error.into())
    }

    /// Handles what has arrived, or lets others run if nothing has.
    pub(crate) fn attend<D: Desk>(&mut self, desk: &mut D) -> Result<(), AppError> {
        let (mut result, rank, arrivals) = (Ok(()), self.rank(), &mut self.arrivals);
        for space in D::SPACES.0..D::SPACES.1 {
            self.messenger.make_room(space, |messenger, bundle| {
                arrivals.note(&bundle, rank);
                if result.is_ok() {
                    result = desk.handle(messenger, space, bundle);
                }
            })?;
        }
        result
    }

    /// Handles what has arrived, on the way, without waiting for more.
    pub(crate) fn look<D: Desk>(&mut self, desk: &mut D) -> Result<(), AppError> {
        let (mut result, rank, arrivals) = (Ok(()), self.rank(), &mut self.arrivals);
        for space in D::SPACES.0..D::SPACES.1 {
            self.messenger.receive_bundles(space, |messenger, bundle| {
                arrivals.note(&bundle, rank);
                if result.is_ok() {
                    result = desk.handle(messenger, space, bundle);
                }
            })?;
        }
        result
    }

    /// Waits until every message has been handled everywhere. Others may be through earlier: before anything that is
    /// meant for another desk is sent, all have to [`exchange`](Self::exchange) a number or [`meet`](Self::meet).
    pub(crate) fn settle<D: Desk>(&mut self, desk: &mut D) -> Result<(), AppError> {
        self.settle_with(desk, |_, _| Ok(()))
    }

    /// The same for a desk that keeps messages for later: `work` does what they ask for, may send, and leaves nothing.
    pub(crate) fn settle_with<D: Desk>(
        &mut self,
        desk: &mut D,
        mut work: impl FnMut(&mut Self, &mut D) -> Result<(), AppError>,
    ) -> Result<(), AppError> {
        // A space whose messages cause others is quiet before those are.
        for space in D::SPACES.0..D::SPACES.1 {
            self.messenger.begin_quiesce(space)?;
            loop {
                self.attend(desk)?;
                work(self, desk)?;
                if self.messenger.poll_quiesce(space)? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Waits until all ranks are here.
    pub(crate) fn meet(&mut self) -> Result<(), AppError> {
        self.exchange(0).map(|_| ())
    }

    /// Waits until no rank needs this one any more. The first to learn that may be gone before others learn it.
    pub(crate) fn part(&mut self) -> Result<(), AppError> {
        match self.meet() {
            Err(AppError::Messenger(MessengerError::Send(SendError::Departed { .. }))) => Ok(()),
            other => other,
        }
    }

    /// Tells all ranks a number and learns theirs, in order of the ranks. No rank is through before all have come.
    pub(crate) fn exchange(&mut self, number: u64) -> Result<Vec<u64>, AppError> {
        self.round += 1;
        let now = (self.round % 2) as usize;
        let mut numbers = Numbers { round: self.round, heard: std::mem::take(&mut self.heard) };
        for rank in 0..self.ranks() {
            self.post(NUMBERS, rank, [self.round, number], &mut numbers)?;
        }
        self.messenger.flush_in(NUMBERS)?;
        while numbers.heard[now].contains(&None) {
            self.attend(&mut numbers)?;
        }
        let told = numbers.heard[now].iter_mut().filter_map(Option::take).collect();
        self.heard = numbers.heard;
        Ok(told)
    }

    /// The sum of all ranks' numbers.
    pub(crate) fn sum(&mut self, number: u64) -> Result<u64, AppError> {
        Ok(self.exchange(number)?.into_iter().fold(0, u64::wrapping_add))
    }
}

/// Notes what others tell.
struct Numbers {
    round: u64,
    heard: [Vec<Option<u64>>; 2],
}

impl Desk for Numbers {
    const SPACES: (u8, u8) = (NUMBERS, NUMBERS + 1);

    fn handle(&mut self, _: &mut Messenger, _: u8, bundle: Bundle<'_>) -> Result<(), AppError> {
        let source = bundle.source();
        let nonsense = AppError::Nonsense { rank: source, what: "a number out of turn" };
        for [round, number] in values::<[u64; 2]>(&bundle)?.iter() {
            let place = &mut self.heard[(round % 2) as usize][source as usize];
            if !(self.round..=self.round + 1).contains(&round) || place.is_some() {
                return Err(nonsense);
            }
            *place = Some(number);
        }
        Ok(())
    }
}
