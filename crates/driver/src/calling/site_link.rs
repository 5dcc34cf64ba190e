//! A caller's link to one site.

use std::collections::VecDeque;

use outboard_calling::NoReply;
use outboard_link::{Disposition, Frame, Link, LinkError, Peer, SendError, WaitOn};
use outboard_wire::calling::{
    CALL, Call, CallerId, FAILED, FORWARDED, Failed, Forwarded, OPEN, Open, REGISTERED, REPLY, RETURNED,
    Registered, Reply, TABLE, Table,
};
use outboard_wire::trial::ECHO;
use outboard_wire::{Flow, FrameHead, Incarnation, Time};

/// How many frames are taken in one turn.
const FRAMES_PER_TURN: usize = 128;

/// What a site has said of a call.
pub type Said<'a> = Result<(u64, &'a [u8]), NoReply<'a>>;

/// Why a call did not begin. Nothing was sent.
#[derive(Clone, Debug)]
pub enum CallBeginError {
    /// It can later: make [a turn](super::Dispatcher::turn), and try again.
    Full(NoRoom),
    /// The arguments are longer than the link carries.
    TooLong {
        /// The longest that it carries.
        max: usize,
    },
    /// The site is gone.
    Lost(LinkError),
    /// No site knows the function.
    NoFunction,
}

/// Of what there is not enough for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoRoom {
    /// As many are under way as may be.
    UnderWay,
    /// The site takes no more for the moment.
    Site,
    /// The site is about to learn the function again.
    Learning,
}

/// A caller's link to a site.
pub struct SiteLink<L> {
    pub(super) link: L,
    /// Answers to registrations that nobody has looked at.
    registered: VecDeque<Registered>,
    /// The answer that is being looked at.
    answer: Vec<u8>,
    pub(super) lost: Option<LinkError>,
    is_sent: bool,
    /// A table of slots that nobody has looked at.
    table: Option<Table>,
    /// What the latest answer says of the table that the site knows.
    label: Flow,
    /// Calls that the site has given back, as they travel.
    returned: VecDeque<Vec<u8>>,
    /// The site has answered a question that means nothing.
    has_echoed: bool,
}

impl<L: Link> SiteLink<L> {
    /// Opens the site at the other end of `link` for calls of functions on the regions of `server`.
    pub fn new(link: L, caller: CallerId, server: Incarnation) -> Self {
        let (registered, answer) = (VecDeque::new(), Vec::new());
        let (table, label, returned) = (None, Flow(0), VecDeque::new());
        let (lost, is_sent, has_echoed) = (None, true, false);
        let mut site = Self { link, registered, answer, lost, is_sent, table, label, returned, has_echoed };
        // A link that is new has room for it.
        match site.link.send(FrameHead::new(OPEN), &Open { caller, server }.encode()) {
            Err(SendError::Lost(error)) => site.lost = Some(error),
            _ => site.flush(),
        }
        site
    }

    /// Puts a call into the batch that the next [`flush`](Self::flush) or [`listen`](Self::listen) sends.
    #[inline]
    pub(super) fn begin(&mut self, call: &Call, slot: Flow, arguments: &[u8]) -> Result<(), CallBeginError> {
        if let Some(lost) = &self.lost {
            return Err(CallBeginError::Lost(lost.clone()));
        }
        let head = FrameHead::new(CALL).with_tag(call.call as u32).with_flow(slot);
        let length = Call::LEN + arguments.len();
        let mut window = match self.link.reserve(head, length) {
            Ok(window) => window,
            Err(SendError::Full) => return Err(CallBeginError::Full(NoRoom::Site)),
            Err(SendError::TooLong { .. }) => {
                let max = self.link.capabilities().max_payload.saturating_sub(Call::LEN);
                return Err(CallBeginError::TooLong { max });
            }
            Err(SendError::Lost(error)) => {
                self.lost = Some(error.clone());
                return Err(CallBeginError::Lost(error));
            }
        };
        window.write(0, &call.encode());
        window.write(Call::LEN, arguments);
        self.link.commit(length);
        self.is_sent = false;
        Ok(())
    }

    /// Sends the batch.
    #[inline]
    pub(super) fn flush(&mut self) {
        if self.lost.is_none()
            && let Err(error) = self.link.flush()
        {
            self.lost = Some(error);
        }
        self.is_sent = true;
    }

    /// Hears what the site says. Returns whether anything moved; a loss is seen by [`lost`](Self::lost).
    #[inline]
    pub(super) fn listen(&mut self, now: Time, tell: impl FnMut(u64, Said<'_>)) -> bool {
        if self.lost.is_some() {
            return false;
        }
        self.try_to_listen(now, tell).unwrap_or_else(|error| {
            self.lost = Some(error);
            true
        })
    }

    fn try_to_listen(&mut self, now: Time, mut tell: impl FnMut(u64, Said<'_>)) -> Result<bool, LinkError> {
        if !self.is_sent {
            self.link.flush()?;
            self.is_sent = true;
        }
        let mut moved = self.link.progress(now)?;
        let Self { link, answer, registered, table, label, returned, has_echoed, .. } = self;
        let hear = |frame: Frame<'_>| {
            answer.resize(frame.payload.len(), 0);
            frame.payload.read(0, answer);
            match frame.head.kind {
                REPLY => {
                    *label = frame.head.flow;
                    if let Ok((Reply { call, value }, bytes)) = Reply::decode(answer) {
                        tell(call, Ok((value, bytes)));
                    }
                }
                FAILED => {
                    *label = frame.head.flow;
                    if let Ok(Failed { call, failure }) = Failed::decode(answer) {
                        tell(call, Err(failure.into()));
                    }
                }
                FORWARDED => {
                    *label = frame.head.flow;
                    if let Ok(forwarded) = Forwarded::decode(answer) {
                        tell(forwarded.call, Err(NoReply::Forwarded(forwarded)));
                    }
                }
                RETURNED => returned.push_back(answer.clone()),
                REGISTERED => registered.extend(Registered::decode(answer)),
                TABLE => *table = Table::decode(answer).ok(),
                ECHO => *has_echoed = true,
                _ => {}
            }
            Disposition::Taken
        };
        moved |= link.receive(FRAMES_PER_TURN, hear)? > 0;
        link.flush()?;
        Ok(moved)
    }
}

/// A site as its caller sees it, by whichever kind of link.
pub trait SiteEnd: Send {
    /// Puts a call into the next batch.
    fn begin(&mut self, call: &Call, slot: Flow, arguments: &[u8]) -> Result<(), CallBeginError>;
    /// Sends the batch.
    fn flush(&mut self);
    /// Hears what the site says. Returns whether anything moved.
    fn listen(&mut self, now: Time, tell: &mut dyn FnMut(u64, Said<'_>)) -> bool;
    /// Sends a frame about functions.
    fn send(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), SendError>;
    /// The next answer to a registration.
    fn next_registered(&mut self) -> Option<Registered>;
    /// The latest table of slots, once.
    fn next_table(&mut self) -> Option<Table>;
    /// What the latest answer says of the table that the site knows.
    fn label(&self) -> Flow;
    /// The next call that the site has given back, as it travels.
    fn next_returned(&mut self) -> Option<Vec<u8>>;
    /// The longest payload that the link carries, in bytes.
    fn payload_max(&self) -> usize;
    /// Whether the site has answered an [`ECHO`] since this was last asked: it lives, whatever it has to do.
    fn take_echo(&mut self) -> bool;
    /// Why the site is gone, if it is.
    fn lost(&self) -> Option<&LinkError>;
    /// Who is there.
    fn peer(&self) -> &Peer;
    /// Whether there is nothing to do until [`wait_on`](Self::wait_on) says so.
    fn prepare_to_wait(&mut self) -> bool;
    /// What to sleep on.
    fn wait_on(&self) -> Option<WaitOn<'_>>;
    /// When the link has something to do by itself.
    fn next_deadline(&self) -> Option<Time>;
    /// Says goodbye.
    fn close(&mut self);
}

impl<L: Link + Send> SiteEnd for SiteLink<L> {
    fn begin(&mut self, call: &Call, slot: Flow, arguments: &[u8]) -> Result<(), CallBeginError> {
        Self::begin(self, call, slot, arguments)
    }

    fn flush(&mut self) {
        Self::flush(self);
    }

    fn listen(&mut self, now: Time, tell: &mut dyn FnMut(u64, Said<'_>)) -> bool {
        Self::listen(self, now, tell)
    }

    fn send(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), SendError> {
        let sent = self.link.send(head, payload).and_then(|()| Ok(self.link.flush()?));
        if let Err(SendError::Lost(error)) = &sent {
            self.lost = Some(error.clone());
        }
        sent
    }

    fn next_registered(&mut self) -> Option<Registered> {
        self.registered.pop_front()
    }

    fn next_table(&mut self) -> Option<Table> {
        self.table.take()
    }

    fn label(&self) -> Flow {
        self.label
    }

    fn next_returned(&mut self) -> Option<Vec<u8>> {
        self.returned.pop_front()
    }

    fn payload_max(&self) -> usize {
        self.link.capabilities().max_payload
    }

    fn take_echo(&mut self) -> bool {
        std::mem::take(&mut self.has_echoed)
    }

    fn lost(&self) -> Option<&LinkError> {
        self.lost.as_ref()
    }

    fn peer(&self) -> &Peer {
        self.link.peer()
    }

    fn prepare_to_wait(&mut self) -> bool {
        self.link.prepare_to_wait()
    }

    fn wait_on(&self) -> Option<WaitOn<'_>> {
        self.link.wait_on()
    }

    fn next_deadline(&self) -> Option<Time> {
        self.link.next_deadline()
    }

    fn close(&mut self) {
        self.link.close("the caller is done");
    }
}
