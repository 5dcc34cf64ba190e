//! A caller's link to one site.

use std::collections::VecDeque;

use outboard_contract::{Disposition, Frame, FrameSendError, Link, LinkError};
use outboard_wire::calling::{
    CALL, Call, CallerId, FAILED, FORWARDED, Failed, Forwarded, OPEN, Open, REGISTERED, REPLY, RETURNED,
    Registered, ReplyHead, SlotSites, TABLE,
};
use outboard_wire::trial::ECHO;
use outboard_wire::{Flow, FrameHead, Incarnation, Time};

use crate::NoReply;

/// How many frames are taken in one turn.
const FRAMES_PER_TURN: usize = 128;

/// What a site has said of a call.
pub(super) type Said<'a> = Result<(u64, &'a [u8]), NoReply<'a>>;

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
    pub(super) heard: Heard,
    /// The frame that is being looked at.
    frame: Vec<u8>,
    /// Why the site is gone, if it is.
    pub(super) lost: Option<LinkError>,
    is_sent: bool,
}

/// What a site has said besides answers to calls, until the dispatcher looks at it.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// Answers to registrations.
    pub(super) registered: VecDeque<Registered>,
    /// The latest table of slots.
    pub(super) table: Option<SlotSites>,
    /// What the latest answer says of the table that the site knows.
    pub(super) label: Flow,
    /// Calls that the site has given back, as they travel.
    pub(super) returned: VecDeque<Vec<u8>>,
    /// The site has answered an [`ECHO`]: it lives, whatever it has to do.
    pub(super) has_echoed: bool,
}

impl<L: Link> SiteLink<L> {
    /// Opens the site at the other end of `link` for calls of functions on the regions of `server`.
    pub fn new(link: L, caller: CallerId, server: Incarnation) -> Self {
        let (heard, frame) = (Heard::default(), Vec::new());
        let mut site = Self { link, heard, frame, lost: None, is_sent: true };
        // A link that is new has room for it.
        match site.link.send(FrameHead::new(OPEN), &Open { caller, server }.encode()) {
            Err(FrameSendError::Lost(error)) => site.lost = Some(error),
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
            Err(FrameSendError::Full) => return Err(CallBeginError::Full(NoRoom::Site)),
            Err(FrameSendError::TooLong { .. }) => {
                let max = self.link.capabilities().max_payload.saturating_sub(Call::LEN);
                return Err(CallBeginError::TooLong { max });
            }
            Err(FrameSendError::Lost(error)) => {
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

    /// Hears what the site says. Returns whether anything moved; a loss is seen in `lost`.
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
        let Self { link, heard, frame: answer, .. } = self;
        let hear = |frame: Frame<'_>| {
            answer.resize(frame.payload.len(), 0);
            frame.payload.read(0, answer);
            match frame.head.kind {
                REPLY => {
                    heard.label = frame.head.flow;
                    if let Ok((ReplyHead { call, value }, bytes)) = ReplyHead::decode(answer) {
                        tell(call, Ok((value, bytes)));
                    }
                }
                FAILED => {
                    heard.label = frame.head.flow;
                    if let Ok(Failed { call, failure }) = Failed::decode(answer) {
                        tell(call, Err(failure.into()));
                    }
                }
                FORWARDED => {
                    heard.label = frame.head.flow;
                    if let Ok(forwarded) = Forwarded::decode(answer) {
                        tell(forwarded.call, Err(NoReply::Forwarded(forwarded)));
                    }
                }
                RETURNED => heard.returned.push_back(answer.clone()),
                REGISTERED => heard.registered.extend(Registered::decode(answer)),
                TABLE => heard.table = SlotSites::decode(answer).ok(),
                ECHO => heard.has_echoed = true,
                _ => {}
            }
            Disposition::Taken
        };
        moved |= link.receive(FRAMES_PER_TURN, hear)? > 0;
        link.flush()?;
        Ok(moved)
    }

    /// Sends a frame about functions at once.
    pub(super) fn send(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), FrameSendError> {
        let sent = self.link.send(head, payload).and_then(|()| Ok(self.link.flush()?));
        if let Err(FrameSendError::Lost(error)) = &sent {
            self.lost = Some(error.clone());
        }
        sent
    }

    /// Says goodbye.
    pub(super) fn close(&mut self) {
        self.link.close("the caller is done");
    }
}
