//! One application's link: what it has attached, and the answers that wait for it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use outboard_contract::memory::{Buffer, Window};
use outboard_contract::{Link, LinkError, LinkId, SendError};
use outboard_wire::paging::{CacheMode, Reply, Source, Status};
use outboard_wire::{FrameHead, Generation, RegionId, RegionKey, Rights, Time, mutant};

use super::cache::{Place, RegionName, RegionNumber};
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
    pub(super) name: RegionName,
    pub(super) size: u64,
    pub(super) key: RegionKey,
    pub(super) rights: Rights,
    pub(super) mode: CacheMode,
}

/// An answer that waits for room on its link.
#[derive(Debug)]
pub(super) enum Answer {
    /// Bytes in the cache.
    Slot { tag: u32, source: Source, place: Place },
    /// Bytes that are not cached.
    Bounce { tag: u32, bounce: u32, len: u32 },
    /// Bytes of a static copy.
    Static { tag: u32, copy: Buffer, offset: u64, len: u32 },
    /// No bytes.
    Plain { tag: u32, reply: Reply },
}

/// One application's link.
#[derive(Default)]
pub(super) struct ClientSide {
    pub(super) attached: BTreeMap<(RegionId, Generation), Attached>,
    answers: VecDeque<Answer>,
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
    pub(super) fn push(&mut self, answer: Answer) {
        self.under_way = self.under_way.saturating_sub(1);
        self.answers.push_back(answer);
    }

    /// Queues the answer to a request at once.
    pub(super) fn answer(&mut self, tag: u32, reply: Reply) {
        self.answers.push_back(Answer::Plain { tag, reply });
    }

    /// Queues bytes in answer to a request at once.
    pub(super) fn answer_bytes(&mut self, answer: Answer) {
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

    pub(super) fn into_answers(self) -> VecDeque<Answer> {
        self.answers
    }
}

fn fetched(source: Source, length: u32) -> Reply {
    Reply::Fetched { status: Status::Done, source, length }
}

impl PagingWorker {
    /// Queues an answer to the application that asked, if it is still there.
    pub(super) fn answer(&mut self, client: LinkId, answer: Answer) {
        match self.clients.get_mut(&client) {
            Some(side) => side.push(answer),
            None => self.discard(answer),
        }
    }

    /// Gives back what an answer holds that will not be sent.
    fn discard(&mut self, answer: Answer) {
        match answer {
            Answer::Slot { place, .. } => self.shared.state().cache.release(place.slot),
            Answer::Bounce { bounce, .. } => self.bounces.push(bounce),
            Answer::Static { .. } | Answer::Plain { .. } => {}
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
                Err(SendError::Full) => {
                    client.blocked_since = Some(self.shared.time(now));
                    self.show_soon(now);
                    break;
                }
                Err(SendError::TooLong { .. }) => {
                    let reply = Reply::not_fetched(Status::Malformed);
                    let short = Answer::Plain { tag, reply };
                    if let Some(long) = client.answers.pop_front() {
                        client.bounces -= usize::from(matches!(long, Answer::Bounce { .. }));
                        hold(&mut self.released, &mut self.bounces, &long);
                    }
                    client.answers.push_front(short);
                    continue;
                }
                Err(SendError::Lost(error)) => return Err(error),
            }
            has_sent = true;
            if let Some(answer) = client.answers.pop_front() {
                client.bounces -= usize::from(matches!(answer, Answer::Bounce { .. }));
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
                let (Answer::Slot { tag, .. } | Answer::Bounce { tag, .. }) = answer else { continue };
                let no = Answer::Plain { tag: *tag, reply: Reply::not_fetched(Status::Busy) };
                taken.push(std::mem::replace(answer, no));
            }
            client.bounces = client.bounces.min(client.under_way);
        }
        taken.into_iter().for_each(|answer| self.discard(answer));
        is_more
    }
}

/// Takes back what an answer that is done with holds, and says how many bytes it carried.
fn hold(released: &mut Vec<u32>, bounces: &mut Vec<u32>, answer: &Answer) -> u64 {
    match answer {
        Answer::Slot { place, .. } => {
            released.push(place.slot);
            place.len.into()
        }
        Answer::Bounce { bounce, len, .. } => {
            bounces.push(*bounce);
            (*len).into()
        }
        Answer::Static { len, .. } => (*len).into(),
        Answer::Plain { .. } => 0,
    }
}

impl SharedPaging {
    /// What an answer says, and the bytes that go with it.
    fn content<'a>(&'a self, answer: &'a Answer) -> (u32, Reply, Option<Window<'a>>) {
        match answer {
            Answer::Slot { tag, source, place } => {
                let data = self.memory().window().part(self.at(place), place.len as usize);
                (*tag, fetched(*source, place.len), Some(data))
            }
            Answer::Bounce { tag, bounce, len } => {
                let data = self.memory().window().part(self.bounce_at(*bounce), *len as usize);
                (*tag, fetched(Source::Uncached, *len), Some(data))
            }
            Answer::Static { tag, copy, offset, len } => {
                let data = copy.window().part(*offset as usize, *len as usize);
                (*tag, fetched(Source::Hit, *len), Some(data))
            }
            Answer::Plain { tag, reply } => (*tag, *reply, None),
        }
    }
}

/// Sends one answer, its bytes straight from where they lie.
fn send_one<L: Link>(
    link: &mut L,
    tag: u32,
    reply: &Reply,
    data: Option<Window<'_>>,
) -> Result<(), SendError> {
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
