//! What one rank does.

use outboard::{Bundle, Messenger, MessengerError, SendError};
use serde::{Deserialize, Serialize};

use super::bare::{Bare, RING_BYTES};
use super::seat::{Seat, failed};
use super::updates::{AHEAD, Updates, prefetch};
use crate::BenchError;
use crate::pair::{Answer, Control, Waits, now_ns};
use crate::raw::{BareListener, BareRings, BareSocket};

/// What the processes are told to play.
pub(super) const PART: &str = "routing.rank";

/// What a rank has.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Setup {
    pub(super) table_words: u64,
    pub(super) has_rings: bool,
    pub(super) has_socket: bool,
}

/// What is done in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Work {
    /// Updates, as messages.
    Histogram,
    /// Updates, through bare rings.
    BareHistogram,
    /// Words of other ranks' tables, asked for and answered.
    Gather,
    /// Messages of a kilobyte from the first rank to the second.
    Stream,
    /// As many bytes through a bare socket.
    BareStream(Waits),
}

impl Work {
    /// How many ranks send.
    pub(super) fn senders(self, ranks: u64) -> u64 {
        if matches!(self, Self::Stream | Self::BareStream(_)) { 1 } else { ranks }
    }
}

/// How many requests a rank sends before it looks whether others have come: replies are longer than requests, and find no
/// room if those are answered only when there is none.
const LOOK_EVERY: u64 = 1024;
/// How long the messages of a stream are, and how long a bundle is that is full of them.
pub(super) const STREAMED: usize = 1 << 10;
const WRITTEN: usize = 64 * STREAMED;
const READ_BUFFER: usize = 1 << 18;

/// A round.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) work: Work,
    pub(super) items: u64,
    pub(super) seed: u64,
}

/// A rank with its table.
struct Player {
    messenger: Messenger,
    bare: Option<Bare>,
    socket: Option<BareSocket>,
    table: Vec<u64>,
    rank: u32,
    ranks: u32,
}

/// A process that is a rank.
pub(super) fn serve(control: &Control) -> Result<(), BenchError> {
    let seat: Seat = control.receive("who I am")?;
    let mut player = Player::prepare(&seat, control)?;
    control.send(&Answer::Ready)?;
    while let Some(task) = control.receive::<Option<Task>>("a round")? {
        let marks_ns = player.perform(&task)?;
        control.send(&Answer::Done { digest: marks_ns.1, marks_ns: marks_ns.0 })?;
    }
    Ok(())
}

/// Connects the two ranks by a bare socket.
fn connect(rank: u32, control: &Control) -> Result<BareSocket, BenchError> {
    if rank > 0 {
        return BareSocket::connect(control.receive("where the bare socket listens")?);
    }
    let listener = BareListener::bind()?;
    control.send(&listener.address()?)?;
    listener.accept()
}

impl Player {
    fn prepare(seat: &Seat, control: &Control) -> Result<Self, BenchError> {
        let Setup { table_words, has_rings, has_socket } = control.receive("what I have")?;
        let Seat { rank, ranks, .. } = *seat;
        seat.settle()?;
        let rings = if has_rings { Some(BareRings::take(control, RING_BYTES)?) } else { None };
        let socket = if has_socket { Some(connect(rank, control)?) } else { None };
        let messenger = seat.join(|options| options.with_spaces(2))?;
        let bare = rings.map(|rings| Bare::new(&rings, rank));
        Ok(Self { messenger, bare, socket, table: vec![1; table_words as usize], rank, ranks })
    }

    /// Does a round. Returns when it began and ended, and how many messages were handled here.
    fn perform(&mut self, task: &Task) -> Result<(Vec<u64>, u64), BenchError> {
        let updates = Updates::new(self.rank, self.ranks, self.table.len() as u64, task.seed);
        self.messenger.barrier().map_err(failed)?;
        let began = now_ns();
        let handled = match task.work {
            Work::Histogram => self.histogram(updates, task.items).map_err(failed)?,
            Work::Gather => self.gather(updates, task.items).map_err(failed)?,
            Work::Stream => self.stream(task.items).map_err(failed)?,
            Work::BareStream(waits) => self.bare_stream(task.items, waits)?,
            Work::BareHistogram => self
                .bare
                .as_mut()
                .map_or(Ok(0), |bare| bare.histogram(updates, task.items, &mut self.table))?,
        };
        let ended = now_ns();
        self.messenger.barrier().map_err(failed)?;
        Ok((vec![began, ended], handled))
    }

    fn histogram(&mut self, mut updates: Updates, items: u64) -> Result<u64, MessengerError> {
        let Self { messenger, table, .. } = self;
        let mut handled = 0;
        let mut update = |_: &mut Messenger, bundle: Bundle<'_>| {
            let Some(values) = bundle.values::<u64>() else { return };
            handled += values.len() as u64;
            values.for_each_with_later(AHEAD, |place, later| {
                if let Some(later) = later {
                    prefetch(table, later);
                }
                if let Some(word) = table.get_mut(place as usize) {
                    *word += 1;
                }
            });
        };
        for _ in 0..items {
            let (rank, place) = updates.next();
            while let Err(error) = messenger.send_value(rank, place) {
                match error {
                    SendError::Full => messenger.make_room(0, &mut update)?,
                    error => return Err(error.into()),
                }
            }
        }
        messenger.quiesce_bundles(0, &mut update)?;
        Ok(handled)
    }

    fn stream(&mut self, items: u64) -> Result<u64, MessengerError> {
        let Self { messenger, rank, .. } = self;
        let (mut handled, mut sum) = (0, 0u64);
        let mut count = |_: &mut Messenger, bundle: Bundle<'_>| {
            for message in bundle.messages().map_while(Result::ok) {
                handled += 1;
                sum = sum.wrapping_add(u64::from(message[0]));
            }
        };
        let message = [7; STREAMED];
        for _ in 0..if *rank == 0 { items } else { 0 } {
            while let Err(error) = messenger.send(1, &message) {
                match error {
                    SendError::Full => messenger.make_room(0, &mut count)?,
                    error => return Err(error.into()),
                }
            }
        }
        messenger.quiesce_bundles(0, &mut count)?;
        std::hint::black_box(sum);
        Ok(handled)
    }

    fn bare_stream(&mut self, items: u64, waits: Waits) -> Result<u64, BenchError> {
        let Some(socket) = &mut self.socket else { return Ok(0) };
        socket.waits = waits;
        let bytes = items as usize * STREAMED;
        if self.rank == 0 {
            let block = vec![7; WRITTEN];
            for at in (0..bytes).step_by(WRITTEN) {
                socket.write_all(&block[..WRITTEN.min(bytes - at)])?;
            }
            return Ok(0);
        }
        let (mut buffer, mut left) = (vec![0; READ_BUFFER], bytes);
        while left > 0 {
            let most = READ_BUFFER.min(left);
            left -= socket.read_some(&mut buffer[..most])?;
        }
        Ok(items)
    }

    /// Requests in one space, replies in another, as they are written by hand.
    fn gather(&mut self, mut updates: Updates, items: u64) -> Result<u64, MessengerError> {
        let Self { messenger, table, .. } = self;
        let (mut answered, mut sum) = (0u64, 0u64);
        let mut answer = |this: &mut Messenger, bundle: Bundle<'_>| {
            let Some(values) = bundle.values::<[u32; 2]>() else { return };
            values.for_each_with_later(AHEAD, |[place, slot], later| {
                if let Some([later, _]) = later {
                    prefetch(table, later.into());
                }
                let word = table.get(place as usize).copied().unwrap_or(0);
                // In a handler there is always room.
                let _ = this.send_value_in(1, bundle.source(), [u64::from(slot), word]);
            });
        };
        let mut take = |_: &mut Messenger, bundle: Bundle<'_>| {
            let Some(values) = bundle.values::<[u64; 2]>() else { return };
            answered += values.len() as u64;
            values.iter().for_each(|[_, word]| sum = sum.wrapping_add(word));
        };
        for item in 0..items {
            let (rank, place) = updates.next();
            while let Err(error) = messenger.send_value(rank, [place as u32, item as u32]) {
                match error {
                    SendError::Full => {
                        messenger.receive_bundles(1, &mut take)?;
                        messenger.make_room(0, &mut answer)?;
                    }
                    error => return Err(error.into()),
                }
            }
            if (item + 1) % LOOK_EVERY == 0 {
                messenger.receive_bundles(1, &mut take)?;
                messenger.receive_bundles(0, &mut answer)?;
            }
        }
        messenger.begin_quiesce(0)?;
        while !messenger.poll_quiesce(0)? {
            messenger.receive_bundles(1, &mut take)?;
            messenger.make_room(0, &mut answer)?;
        }
        messenger.quiesce_bundles(1, &mut take)?;
        std::hint::black_box(sum);
        Ok(answered)
    }
}
