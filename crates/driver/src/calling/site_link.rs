//! A caller's link to one site.

use std::collections::VecDeque;
use std::time::Duration;

use outboard_calling::{Calls, Fault};
use outboard_link::{Clock, Disposition, Frame, Link, LinkError, SendError, Waiter};
use outboard_wire::calling::{
    CALL, Call, CallerId, FAILED, Failed, OPEN, Open, REGISTERED, REPLY, Registered, Reply,
};
use outboard_wire::{Flow, FrameHead, Time};

/// How many frames are taken in one turn.
const FRAMES_PER_TURN: usize = 128;

/// How a call ended: what the function returned and replied, or why not.
pub type CallOutcome<'a> = Result<(u64, &'a [u8]), Fault>;

/// How a call ended, kept for whoever asks later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallEnded {
    /// Its number.
    pub call: u64,
    /// What the function returned and replied, or why not.
    pub result: Result<(u64, Vec<u8>), Fault>,
}

/// Why a call did not begin. Nothing was sent.
#[derive(Clone, Debug)]
pub enum CallBeginError {
    /// It can later: make [a turn](SiteLink::turn), and try again.
    Full,
    /// The arguments are longer than the link carries.
    TooLong {
        /// The longest that it carries.
        max: usize,
    },
    /// The site is gone.
    Lost(LinkError),
}

/// A caller with its link to a site.
pub struct SiteLink<L> {
    pub(super) link: L,
    calls: Calls,
    waiter: Waiter,
    /// Calls that ended while somebody waited for something else.
    kept: VecDeque<CallEnded>,
    /// Answers to registrations that nobody has looked at.
    pub(super) registered: VecDeque<Registered>,
    /// The reply that is being looked at.
    reply: Vec<u8>,
    lost: Option<LinkError>,
    is_sent: bool,
}

impl<L: Link> SiteLink<L> {
    /// Opens the site at the other end of `link` for calls, of which so many can be under way.
    pub fn new(link: L, caller: CallerId, under_way_max: usize) -> Self {
        let mut site = Self {
            link,
            calls: Calls::new(under_way_max),
            waiter: Waiter::new(),
            kept: VecDeque::new(),
            registered: VecDeque::new(),
            reply: Vec::new(),
            lost: None,
            is_sent: true,
        };
        // A link that is new has room for it.
        match site.link.send(FrameHead::new(OPEN), &Open { caller }.encode()) {
            Err(SendError::Lost(error)) => site.lose(error),
            _ => site.flush(),
        }
        site
    }

    /// The longest arguments that the link carries, in bytes.
    pub fn longest(&self) -> usize {
        self.link.capabilities().max_payload.saturating_sub(Call::LEN)
    }

    /// Puts a call into the batch that the next [`flush`](Self::flush) or [`turn`](Self::turn) sends, and returns its
    /// number. `key` decides the slot of the call: calls with one key stay in order.
    #[inline]
    pub fn begin(
        &mut self,
        handle: u32,
        key: Flow,
        arguments: &[u8],
        patience: Option<Duration>,
    ) -> Result<u64, CallBeginError> {
        if let Some(lost) = &self.lost {
            return Err(CallBeginError::Lost(lost.clone()));
        }
        let number = self.calls.next().ok_or(CallBeginError::Full)?;
        // Somebody who has no time at all has a microsecond: none would be for ever.
        let micros = |patience: Duration| u32::try_from(patience.as_micros()).unwrap_or(u32::MAX).max(1);
        let call = Call { call: number, handle, patience_us: patience.map_or(0, micros) };
        let head = FrameHead::new(CALL).with_tag(number as u32).with_flow(key);
        let length = Call::LEN + arguments.len();
        let mut window = match self.link.reserve(head, length) {
            Ok(window) => window,
            Err(SendError::Full) => return Err(CallBeginError::Full),
            Err(SendError::TooLong { .. }) => return Err(CallBeginError::TooLong { max: self.longest() }),
            Err(SendError::Lost(error)) => {
                self.lose(error.clone());
                return Err(CallBeginError::Lost(error));
            }
        };
        window.write(0, &call.encode());
        window.write(Call::LEN, arguments);
        self.link.commit(length);
        self.is_sent = false;
        // Without patience nobody looks at the clock.
        let now = patience.map_or(Time::ZERO, |_| self.waiter.clock.now());
        self.calls.begin(now, patience);
        Ok(number)
    }

    /// Sends the batch.
    #[inline]
    pub fn flush(&mut self) {
        if self.lost.is_none()
            && let Err(error) = self.link.flush()
        {
            self.lose(error);
        }
        self.is_sent = true;
    }

    /// Does what there is to do now, and tells which calls have ended. Returns whether anything moved.
    pub fn turn(&mut self, mut tell: impl FnMut(u64, CallOutcome<'_>)) -> bool {
        let mut moved = !self.kept.is_empty();
        for CallEnded { call, result } in self.kept.drain(..) {
            tell(
                call,
                result.as_ref().map(|(value, reply)| (*value, reply.as_slice())).map_err(|fault| *fault),
            );
        }
        if self.lost.is_some() {
            return moved;
        }
        let now = self.waiter.clock.now();
        match self.listen(now, &mut tell) {
            Ok(any) => moved |= any,
            Err(error) => {
                self.lose(error);
                return self.turn(tell) | true;
            }
        }
        self.calls.on_time(now, |call| {
            moved = true;
            tell(call, Err(Fault::Late));
        });
        moved
    }

    /// As [`turn`](Self::turn), for whoever waits for something else: what has ended is kept.
    pub fn turn_and_keep(&mut self) -> bool {
        let mut ended = std::mem::take(&mut self.kept);
        let before = ended.len();
        let mut moved = self.turn(|call, result| {
            let result = result.map(|(value, reply)| (value, reply.to_vec()));
            ended.push_back(CallEnded { call, result });
        });
        moved |= ended.len() > before;
        self.kept = ended;
        moved
    }

    /// The next call that has ended and was kept.
    pub fn next_kept(&mut self) -> Option<CallEnded> {
        self.kept.pop_front()
    }

    /// Keeps calls that were taken out and are for somebody else.
    pub fn put_back(&mut self, ended: Vec<CallEnded>) {
        ended.into_iter().rev().for_each(|ended| self.kept.push_front(ended));
    }

    fn listen(&mut self, now: Time, tell: &mut impl FnMut(u64, CallOutcome<'_>)) -> Result<bool, LinkError> {
        if !self.is_sent {
            self.link.flush()?;
            self.is_sent = true;
        }
        let mut moved = self.link.progress(now)?;
        let Self { link, calls, reply, registered, .. } = self;
        let hear = |frame: Frame<'_>| {
            reply.resize(frame.payload.len(), 0);
            frame.payload.read(0, reply);
            match frame.head.kind {
                REPLY => {
                    if let Ok((Reply { call, value }, bytes)) = Reply::decode(reply)
                        && calls.end(call)
                    {
                        tell(call, Ok((value, bytes)));
                    }
                }
                FAILED => {
                    if let Ok(Failed { call, failure }) = Failed::decode(reply)
                        && calls.end(call)
                    {
                        tell(call, Err(Fault::Failed(failure)));
                    }
                }
                REGISTERED => registered.extend(Registered::decode(reply)),
                _ => {}
            }
            Disposition::Taken
        };
        moved |= link.receive(FRAMES_PER_TURN, hear)? > 0;
        link.flush()?;
        Ok(moved)
    }

    pub(super) fn lose(&mut self, error: LinkError) {
        self.lost = Some(error);
        let kept = &mut self.kept;
        self.calls.lose(|call| kept.push_back(CallEnded { call, result: Err(Fault::Lost) }));
    }

    /// Sleeps until there may be something to do, at most until `limit`.
    pub fn sleep(&mut self, limit: Time) -> Result<(), LinkError> {
        let limit = self.calls.next_deadline().map_or(limit, |due| due.min(limit));
        self.waiter.sleep(&mut self.link, limit)
    }

    /// How many calls are under way, or have ended and were not told.
    pub fn under_way(&self) -> usize {
        self.calls.under_way() + self.kept.len()
    }

    /// The clock that it goes by.
    pub fn clock(&self) -> Clock {
        self.waiter.clock
    }

    /// The link, for those who ask who is at its other end.
    pub fn link(&self) -> &L {
        &self.link
    }

    /// Why the site is gone, if it is.
    pub fn lost(&self) -> Option<&LinkError> {
        self.lost.as_ref()
    }

    /// Says goodbye.
    pub fn close(&mut self) {
        self.link.close("the caller is done");
    }
}
