//! Requests and their replies.

use std::marker::PhantomData;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::bundle::{Bundle, Values};
use super::error::{MessengerError, SendError};
use super::messages::Messenger;
use crate::Plain;

/// A request or a reply as it travels: a word that the asker wants to find again, and the subject.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C, packed)]
struct Envelope<T> {
    token: u32,
    body: T,
}

/// Requests of one type to any rank, each with a number by which the asker knows the reply: the place where it goes, an index
/// into a list of what to do with it. No rank waits for a single reply; many are under way at once, in bundles.
///
/// Requests and replies have a message space each, so that replies never wait for requests. Nothing else may use these.
///
/// ```
/// use outboard::{Job, MessengerOptions, Requests, SendError};
/// let mut messenger = Job::join()?.messenger_with(MessengerOptions::default().with_spaces(2))?;
/// let mut requests = Requests::<u32, u64>::new(&messenger, 0, 1)?;
/// let table: Vec<u64> = (0..1000).collect();
/// let mut gathered = vec![0u64; 100];
/// for slot in 0..100u32 {
///     let rank = slot % messenger.ranks();
///     while let Err(SendError::Full) = requests.ask(&mut messenger, rank, slot, slot * 7) {
///         requests.answer(&mut messenger, |_from, place| table[place as usize])?;
///         requests.collect(&mut messenger, |_from, slot, value| gathered[slot as usize] = value)?;
///         messenger.pause()?;
///     }
/// }
/// // Until all ranks have all replies.
/// requests.settle(
///     &mut messenger,
///     |_from, place| table[place as usize],
///     |_from, slot, value| gathered[slot as usize] = value,
/// )?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Requests<Q, R> {
    requests: u8,
    replies: u8,
    /// How many replies each rank owes.
    owed: Vec<u64>,
    /// And all of them.
    outstanding: u64,
    /// Ranks of which it was said that they leave requests unanswered.
    is_given_up: Vec<bool>,
    types: PhantomData<(Q, R)>,
}

impl<Q: Plain, R: Plain> Requests<Q, R> {
    /// Nothing is asked. All ranks need the same two message spaces.
    pub fn new(messenger: &Messenger, requests: u8, replies: u8) -> Result<Self, MessengerError> {
        messenger.check_space(requests)?;
        messenger.check_space(replies)?;
        if requests == replies {
            let text = "requests and replies need a message space each: else replies wait for requests";
            return Err(MessengerError::BadOptions(text.to_owned()));
        }
        let ranks = messenger.ranks() as usize;
        let (owed, is_given_up) = (vec![0; ranks], vec![false; ranks]);
        Ok(Self { requests, replies, owed, outstanding: 0, is_given_up, types: PhantomData })
    }

    /// Asks a rank, this one included. The reply is [collected](Self::collect) with `token`. At
    /// [`Full`](SendError::Full) answer and collect what has come, [pause](Messenger::pause), and try again.
    #[inline(always)]
    pub fn ask(
        &mut self,
        messenger: &mut Messenger,
        rank: u32,
        token: u32,
        request: Q,
    ) -> Result<(), SendError> {
        messenger.send_value_in(self.requests, rank, Envelope { token, body: request })?;
        if let Some(owed) = self.owed.get_mut(rank as usize) {
            *owed += 1;
            self.outstanding += 1;
        }
        Ok(())
    }

    /// Answers the requests that have come: `reply` makes the reply to a rank's request. Returns how many there were.
    ///
    /// Takes none as long as earlier replies find no room, so that a rank that asks and does not collect gets no further.
    pub fn answer(
        &mut self,
        messenger: &mut Messenger,
        mut reply: impl FnMut(u32, Q) -> R,
    ) -> Result<usize, MessengerError> {
        self.answer_looking_ahead(messenger, 0, |from, request, _| reply(from, request))
    }

    /// Answers requests; `reply` also gets the request that comes `ahead` places later in the bundle, to prepare for it.
    pub fn answer_looking_ahead(
        &mut self,
        messenger: &mut Messenger,
        ahead: usize,
        mut reply: impl FnMut(u32, Q, Option<Q>) -> R,
    ) -> Result<usize, MessengerError> {
        let (replies, mut count, mut failed) = (self.replies, 0, Ok(()));
        if !messenger.backlogs[usize::from(replies)].is_empty() {
            messenger.progress()?;
            if !messenger.backlogs[usize::from(replies)].is_empty() {
                return Ok(0);
            }
        }
        messenger.receive_bundles(self.requests, |this, bundle| {
            let source = bundle.source();
            let Some(requests) = envelopes::<Q>(&bundle, &mut failed) else { return };
            count += requests.len();
            let mut sent = Ok(());
            requests.for_each_with_later(ahead, |Envelope { token, body }, later| {
                let body = reply(source, body, later.map(|later| later.body));
                if let Err(error) = this.send_value_in(replies, source, Envelope { token, body }) {
                    sent = Err(error);
                }
            });
            match sent {
                // A rank that is gone needs no reply.
                Ok(()) | Err(SendError::Departed { .. }) => {}
                Err(error) => failed = Err(error.into()),
            }
        })?;
        failed.map(|()| count)
    }

    /// Hands the replies that have come to `handle`, with the rank that answered and the request's number. Returns how many there
    /// were. A rank that is gone with replies owed is an [error](MessengerError::Unanswered), once; the others go on.
    pub fn collect(
        &mut self,
        messenger: &mut Messenger,
        mut handle: impl FnMut(u32, u32, R),
    ) -> Result<usize, MessengerError> {
        // Everything of a rank that is known to be gone has arrived, and is handled below.
        let gone = self.gone(messenger);
        let (mut count, mut failed) = (0, Ok(()));
        messenger.receive_bundles(self.replies, |_, bundle| {
            let source = bundle.source();
            if self.is_given_up[source as usize] {
                // An agent may still have had it when its rank was lost.
                return;
            }
            let Some(replies) = envelopes::<R>(&bundle, &mut failed) else { return };
            let owed = &mut self.owed[source as usize];
            let Some(left) = owed.checked_sub(replies.len() as u64) else {
                let why = "replies without a request".to_owned();
                failed = Err(MessengerError::Nonsense { rank: source, why });
                return;
            };
            *owed = left;
            self.outstanding -= replies.len() as u64;
            count += replies.len();
            replies.iter().for_each(|Envelope { token, body }| handle(source, token, body));
        })?;
        failed?;
        for (rank, why) in gone {
            let requests = std::mem::take(&mut self.owed[rank as usize]);
            self.outstanding -= requests;
            if requests > 0 {
                self.is_given_up[rank as usize] = true;
                return Err(MessengerError::Unanswered { rank, requests, why });
            }
        }
        Ok(count)
    }

    /// Ranks that are gone and owe replies.
    fn gone(&self, messenger: &mut Messenger) -> Vec<(u32, String)> {
        let departed = messenger.worker.service().departed().iter();
        let owing = departed.filter(|departed| self.owed[departed.rank as usize] > 0);
        owing.map(|departed| (departed.rank, departed.why.clone())).collect()
    }

    /// How many replies this rank has not collected.
    pub fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// How many of them a rank owes.
    pub fn outstanding_from(&self, rank: u32) -> u64 {
        self.owed.get(rank as usize).copied().unwrap_or(0)
    }

    /// Answers and collects until no rank owes another a reply. All ranks have to take part.
    pub fn settle(
        &mut self,
        messenger: &mut Messenger,
        mut reply: impl FnMut(u32, Q) -> R,
        mut handle: impl FnMut(u32, u32, R),
    ) -> Result<(), MessengerError> {
        let (what, requests, replies) = ("to the end of the requests", self.requests, self.replies);
        messenger.wait_for(
            what,
            |messenger| {
                let answered = self.answer(messenger, &mut reply)?;
                Ok(self.collect(messenger, &mut handle)? + answered > 0)
            },
            Some(requests),
        )?;
        messenger.wait_for(what, |messenger| Ok(self.collect(messenger, &mut handle)? > 0), Some(replies))
    }
}

/// The requests or replies in a bundle, if it holds nothing else.
fn envelopes<'a, T: Plain>(
    bundle: &Bundle<'a>,
    failed: &mut Result<(), MessengerError>,
) -> Option<Values<'a, Envelope<T>>> {
    let values = bundle.values::<Envelope<T>>();
    if values.is_none() {
        let why = format!("not requests or replies of {} bytes each", size_of::<T>());
        *failed = Err(MessengerError::Nonsense { rank: bundle.source(), why });
    }
    values
}
