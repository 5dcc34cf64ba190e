//! One application's link: what it has attached, and the answers that wait for it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use outboard_contract::memory::{Buffer, Window};
use outboard_contract::{FrameSendError, Link, LinkError, LinkId};
use outboard_wire::paging::{CacheMode, FetchSource, PagingReply, PagingStatus};
use outboard_wire::{FrameHead, Generation, RegionId, RegionKey, Rights, Time, mutant};

use super::cache::{CacheSpan, RegionIdentity, RegionNumber};
use super::shared::SharedPaging;
use super::worker::PagingWorker;

/// How many requests of one link may be under way. More stay where they are until some are answered.
const UNDER_WAY_MAX: usize = 256;
/// How many of them may be fetches that are not cached.
const BOUNCES_MAX: usize = 32;
/// An application that takes no answers for so long loses the bytes that are kept for it.
const PATIENCE: Duration = Duration::from_secs(1);
/// How many regions one link may attach.
pub(super) const ATTACHED_MAX: usize = 1024;

/// A region that an application has attached on a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attached {
    pub(super) number: RegionNumber,
    pub(super) name: RegionIdentity,
    pub(super) size: u64,
    pub(super) key: RegionKey,
    pub(super) rights: Rights,
    pub(super) mode: CacheMode,
}

/// An answer that waits for room on its link.
#[derive(Debug)]
pub(super) enum ClientAnswer {
    /// Bytes in the cache.
    Slot { tag: u32, source: FetchSource, place: CacheSpan },
    /// Bytes that are not cached.
    Bounce { tag: u32, bounce: u32, len: u32 },
    /// Bytes of a static copy.
    Static { tag: u32, copy: Buffer, offset: u64, len: u32 },
    /// No bytes.
    Plain { tag: u32, reply: PagingReply },
}

/// One application's link.
#[derive(Default)]
pub(super) struct ClientSide {
    pub(super) attached: BTreeMap<(RegionId, Generation), Attached>,
    answers: VecDeque<ClientAnswer>,
    /// Requests that were taken and whose answers are not queued yet.
    pub(super) under_way: usize,
    /// How many fetches that are not cached are under way or wait to be sent.
    pub(super) bounces: usize,
    /// Since when the link has no room for the next answer.
    blocked_since: Option<Time>,
}

impl ClientSide {
    /// Whether another request can be taken.
    pub(super) fn has_room(&self) -> bool {
        self.under_way + self.answers.len() < UNDER_WAY_MAX
    }

    /// Whether another fetch that is not cached can be taken.
    pub(super) fn has_bounces(&self) -> bool {
        self.bounces < BOUNCES_MAX
    }

    /// Queues the answer to a request that was under way.
    pub(super) fn push(&mut self, answer: ClientAnswer) {
        self.under_way = self.under_way.saturating_sub(1);
        self.answers.push_back(answer);
    }

    /// Queues the answer to a request at once.
    pub(super) fn answer(&mut self, tag: u32, reply: PagingReply) {
        self.answers.push_back(ClientAnswer::Plain { tag, reply });
    }

    /// Queues bytes in answer to a request at once.
    pub(super) fn answer_bytes(&mut self, answer: ClientAnswer) {
        self.answers.push_back(answer);
    }

    /// Whether answers wait to be sent.
    pub(super) fn has_answers(&self) -> bool {
        !self.answers.is_empty()
    }

    /// How many regions are attached and how many answers wait.
    pub(super) fn held(&self) -> usize {
        self.attached.len() + self.answers.len()
    }

    pub(super) fn into_answers(self) -> VecDeque<ClientAnswer> {
        self.answers
    }
}

fn fetched(source: FetchSource, length: u32) -> PagingReply {
    PagingReply::Fetched { status: PagingStatus::Done, source, length }
}

impl PagingWorker {
    /// Queues an answer to the application that asked, if it is still there.
    pub(super) fn answer(&mut self, client: LinkId, answer: ClientAnswer) {
        match self.clients.get_mut(&client) {
            Some(side) => side.push(answer),
            None => self.discard(answer),
        }
    }

    /// Gives back what an answer holds that will not be sent.
    fn discard(&mut self, answer: ClientAnswer) {
        match answer {
            ClientAnswer::Slot { place, .. } => self.shared.state().cache.release(place.slot),
            ClientAnswer::Bounce { bounce, .. } => self.bounces.push(bounce),
            ClientAnswer::Static { .. } | ClientAnswer::Plain { .. } => {}
        }
    }

    /// Sends answers to an application while its link has room.
    pub(super) fn send_to_client<L: Link>(
        &mut self,
        id: LinkId,
        link: &mut L,
        now: Time,
    ) -> Result<bool, LinkError> {
        let Some(client) = self.clients.get_mut(&id).filter(|client| !client.answers.is_empty()) else {
            return Ok(false);
        };
        let began = client.blocked_since.take().unwrap_or_else(|| self.shared.time(now));
        let (mut bytes, mut has_sent) = (0, false);
        while let Some(answer) = client.answers.front() {
            let (tag, reply, data) = self.shared.content(answer);
            match send_one(link, tag, &reply, data) {
                Ok(()) => {}
                Err(FrameSendError::Full) => {
                    client.blocked_since = Some(self.shared.time(now));
                    self.show_soon(now);
                    break;
                }
                Err(FrameSendError::TooLong { .. }) => {
                    let reply = PagingReply::not_fetched(PagingStatus::Malformed);
                    let short = ClientAnswer::Plain { tag, reply };
                    if let Some(long) = client.answers.pop_front() {
                        client.bounces -= usize::from(matches!(long, ClientAnswer::Bounce { .. }));
                        hold(&mut self.released, &mut self.bounces, &long);
                    }
                    client.answers.push_front(short);
                    continue;
                }
                Err(FrameSendError::Lost(error)) => return Err(error),
            }
            has_sent = true;
            if let Some(answer) = client.answers.pop_front() {
                client.bounces -= usize::from(matches!(answer, ClientAnswer::Bounce { .. }));
                bytes += hold(&mut self.released, &mut self.bounces, &answer);
            }
        }
        let busy = self.shared.time(now).since(began);
        self.settle(now, bytes, busy);
        Ok(has_sent)
    }

    /// Gives back the slots of answers that were sent, and notes how long sending took.
    fn settle(&mut self, now: Time, bytes: u64, busy: Duration) {
        if self.released.is_empty() && bytes == 0 {
            return;
        }
        let mut state = self.shared.state();
        state.intra.add(now, bytes, busy);
        for slot in self.released.drain(..) {
            state.cache.release(slot);
        }
    }

    /// An application is gone: so is what it has attached, and what it asked for.
    pub(super) fn lose_client(&mut self, link: LinkId) {
        self.cancel_attachments(link, |_| true);
        let Some(mut client) = self.clients.remove(&link) else { return };
        for attached in std::mem::take(&mut client.attached).values() {
            if !mutant("paging.kept-after-its-application-is-gone") {
                self.give_up(attached, true);
            }
        }
        for answer in client.into_answers() {
            self.discard(answer);
        }
    }

    /// Takes back what is kept for applications that take no answers: they must not hold up the others. Returns
    /// whether there are more to look after.
    pub(super) fn relieve(&mut self, now: Time) -> bool {
        let (mut taken, mut is_more) = (Vec::new(), false);
        for client in self.clients.values_mut() {
            let Some(since) = client.blocked_since else { continue };
            if self.shared.time(now).since(since) < PATIENCE {
                is_more = true;
                continue;
            }
            for answer in &mut client.answers {
                let (ClientAnswer::Slot { tag, .. } | ClientAnswer::Bounce { tag, .. }) = answer else {
                    continue;
                };
                let no =
                    ClientAnswer::Plain { tag: *tag, reply: PagingReply::not_fetched(PagingStatus::Busy) };
                taken.push(std::mem::replace(answer, no));
            }
            client.bounces = client.bounces.min(client.under_way);
        }
        taken.into_iter().for_each(|answer| self.discard(answer));
        is_more
    }
}

/// Takes back what an answer that is done with holds, and says how many bytes it carried.
fn hold(released: &mut Vec<u32>, bounces: &mut Vec<u32>, answer: &ClientAnswer) -> u64 {
    match answer {
        ClientAnswer::Slot { place, .. } => {
            released.push(place.slot);
            place.len.into()
        }
        ClientAnswer::Bounce { bounce, len, .. } => {
            bounces.push(*bounce);
            (*len).into()
        }
        ClientAnswer::Static { len, .. } => (*len).into(),
        ClientAnswer::Plain { .. } => 0,
    }
}

impl SharedPaging {
    /// The head of an answer, and the bytes that go with it.
    fn content<'a>(&'a self, answer: &'a ClientAnswer) -> (u32, PagingReply, Option<Window<'a>>) {
        match answer {
            ClientAnswer::Slot { tag, source, place } => {
                let data = self.memory().window().part(self.at(place), place.len as usize);
                (*tag, fetched(*source, place.len), Some(data))
            }
            ClientAnswer::Bounce { tag, bounce, len } => {
                let data = self.memory().window().part(self.bounce_at(*bounce), *len as usize);
                (*tag, fetched(FetchSource::Uncached, *len), Some(data))
            }
            ClientAnswer::Static { tag, copy, offset, len } => {
                let data = copy.window().part(*offset as usize, *len as usize);
                (*tag, fetched(FetchSource::Hit, *len), Some(data))
            }
            ClientAnswer::Plain { tag, reply } => (*tag, *reply, None),
        }
    }
}

/// Sends one answer, its bytes straight from where they lie.
fn send_one<L: Link>(
    link: &mut L,
    tag: u32,
    reply: &PagingReply,
    data: Option<Window<'_>>,
) -> Result<(), FrameSendError> {
    let fixed = reply.encode();
    let fixed = fixed.as_bytes();
    let len = fixed.len() + data.map_or(0, |data| data.len());
    let mut window = link.reserve(FrameHead::new(reply.kind()).with_tag(tag), len)?;
    window.write(0, fixed);
    if let Some(data) = data {
        window.write_window(fixed.len(), data);
    }
    link.commit(len);
    Ok(())
}
