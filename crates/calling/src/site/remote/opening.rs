//! Regions of a memory server that functions use.

use std::collections::VecDeque;
use std::sync::Arc;

use outboard_contract::{AccessError, LinkError, OpenRegion, RemoteMemory, Token};
use outboard_wire::calling::{Allowed, CallerId, RegisterRefusal};
use outboard_wire::{Grant, RegionId, Rights};

use super::{CALLING, OPENING};
use crate::Refused;

/// How many regions are open on one link for functions. Those that no function uses any more make room. Where they are
/// opened for many, no client has more than are left for others.
const REGIONS_MAX: usize = 512;

/// A region of a memory server that is open on the link by which it was asked for. Clones are the same opening.
#[derive(Clone, Debug)]
pub struct RemoteRegion(Arc<OpenRegion>);

impl RemoteRegion {
    #[inline]
    pub(super) fn open(&self) -> OpenRegion {
        *self.0
    }
}

enum State {
    /// The server has not said whether it is as the caller says.
    Unproven,
    Wanted,
    Asked,
    Open(RemoteRegion),
    Failed(Refused),
}

/// A region as functions may use it.
struct Entry {
    grant: Grant,
    state: State,
    /// Who has asked for it first.
    by: CallerId,
    /// Whether a client that has asked for it is about to use it.
    is_awaited: bool,
}

/// The regions that functions use, or are to use.
#[derive(Default)]
pub(super) struct Openings {
    /// By the number in their token.
    entries: Vec<Option<Entry>>,
    to_close: Vec<OpenRegion>,
    is_anything_wanted: bool,
    /// A client may lie, so that the server is asked before anything is opened.
    trusts_no_client: bool,
    unproven: VecDeque<u32>,
}

impl Openings {
    pub(super) fn new(trusts_no_client: bool) -> Self {
        Self { trusts_no_client, ..Self::default() }
    }

    /// The region, when it is open. The server judges whether the key allows calls and what they do.
    pub(super) fn find(&mut self, by: CallerId, allowed: &Allowed) -> Result<Option<RemoteRegion>, Refused> {
        // Where regions are mapped they are read; every key that allows calls allows that.
        let rights = allowed.rights.and(Rights::CALL).and(Rights::READ);
        let Allowed { region, generation, key, size, .. } = *allowed;
        let grant = Grant { region, generation, key, rights, size };
        let is_it = |entry: &Entry| {
            let Grant { region, generation, key, rights, size } = entry.grant;
            let (named, known) = ((region, generation, rights, size), &grant);
            named == (known.region, known.generation, known.rights, known.size) && key.matches(&known.key)
        };
        let found = self.entries.iter_mut().find(|entry| entry.as_ref().is_some_and(is_it));
        let Some(place) = found else {
            self.want(by, grant)?;
            return Ok(None);
        };
        match place.take_if(|entry| matches!(entry.state, State::Failed(_))) {
            Some(Entry { state: State::Failed(refused), .. }) => Err(refused),
            _ => Ok(match place {
                Some(Entry { state: State::Open(region), is_awaited, .. }) => {
                    *is_awaited = false;
                    Some(region.clone())
                }
                _ => None,
            }),
        }
    }

    /// How many regions are open for this client, and how many more can be for any client.
    fn share(&self, by: CallerId) -> (usize, usize) {
        let (all, own) = (self.entries.iter().flatten(), |entry: &&Entry| entry.by == by);
        (all.clone().filter(own).count(), REGIONS_MAX.saturating_sub(all.count()))
    }

    fn has_room(&self, by: CallerId) -> bool {
        let (own, left) = self.share(by);
        if self.trusts_no_client { own < left } else { left > 0 }
    }

    fn want(&mut self, by: CallerId, grant: Grant) -> Result<(), Refused> {
        if !self.has_room(by) {
            self.forget_unused(|_| true);
        }
        if !self.has_room(by) {
            let (own, left) = self.share(by);
            let detail = format!("its caller has {own} regions open here, and {left} are left for others");
            return Err((RegisterRefusal::TooMuch, detail));
        }
        let free = self.entries.iter().position(Option::is_none);
        let place = free.unwrap_or(self.entries.len());
        if place == self.entries.len() {
            self.entries.push(None);
        }
        let state = if self.trusts_no_client { State::Unproven } else { State::Wanted };
        self.entries[place] = Some(Entry { grant, state, by, is_awaited: true });
        if self.trusts_no_client {
            self.unproven.push_back(place as u32);
        }
        self.is_anything_wanted = true;
        Ok(())
    }

    /// A region that the server is to be asked about, by its number.
    pub(super) fn next_unproven(&mut self) -> Option<(u32, Allowed)> {
        let index = self.unproven.pop_front()?;
        let Grant { region, generation, key, rights, size } =
            self.entries.get(index as usize)?.as_ref()?.grant;
        Some((index, Allowed { region, generation, key, rights, size }))
    }

    /// What the server says to that.
    pub(super) fn judged(&mut self, index: u32, verdict: Result<(), Refused>) {
        let Some(Some(entry)) = self.entries.get_mut(index as usize) else { return };
        if matches!(entry.state, State::Unproven) {
            entry.state = verdict.map_or_else(State::Failed, |()| State::Wanted);
            self.is_anything_wanted = true;
        }
    }

    /// This caller has gone, or calls no more by one of its links. Closes regions that no function uses any more, and those
    /// that only it has asked for, now or when they are open: keeping one open keeps its memory.
    pub(super) fn caller_gone(&mut self, gone: CallerId) {
        self.entries
            .iter_mut()
            .flatten()
            .filter(|entry| entry.by == gone)
            .for_each(|it| it.is_awaited = false);
        self.close_unused();
    }

    fn close_unused(&mut self) {
        self.forget_unused(|entry| !entry.is_awaited);
        self.is_anything_wanted |= !self.to_close.is_empty();
    }

    fn forget_unused(&mut self, may_go: impl Fn(&Entry) -> bool) {
        for place in &mut self.entries {
            let unused = place.take_if(|entry| match &entry.state {
                State::Open(region) => Arc::strong_count(&region.0) == 1 && may_go(entry),
                State::Failed(_) => true,
                State::Unproven | State::Wanted | State::Asked => false,
            });
            if let Some(Entry { state: State::Open(region), .. }) = unused {
                self.to_close.push(region.open());
            }
        }
    }

    /// Asks for what is wanted. Returns whether anything was asked.
    pub(super) fn work<L: RemoteMemory>(&mut self, link: &mut L) -> Result<bool, LinkError> {
        if !self.is_anything_wanted {
            return Ok(false);
        }
        self.to_close.drain(..).for_each(|region| link.close_region(region));
        let mut moved = false;
        for (index, entry) in self.entries.iter_mut().enumerate() {
            let Some(entry) = entry.as_mut().filter(|entry| matches!(entry.state, State::Wanted)) else {
                continue;
            };
            match link.open(&entry.grant, entry.grant.rights, Token(CALLING | OPENING | index as u64)) {
                Ok(()) => entry.state = State::Asked,
                Err(AccessError::Full) => return Ok(moved),
                Err(AccessError::Lost(error)) => return Err(error),
                Err(error) => entry.state = State::Failed(refused(entry.grant.region, &error)),
            }
            moved = true;
        }
        self.is_anything_wanted = false;
        Ok(moved)
    }

    /// The server has answered.
    pub(super) fn opened(&mut self, index: u32, result: Result<OpenRegion, AccessError>) {
        let Some(Some(entry)) = self.entries.get_mut(index as usize) else { return };
        entry.state = match result {
            Ok(region) => State::Open(RemoteRegion(Arc::new(region))),
            Err(error) => State::Failed(refused(entry.grant.region, &error)),
        };
        if !entry.is_awaited {
            self.close_unused();
        }
    }
}

fn refused(region: RegionId, error: &AccessError) -> Refused {
    let refusal = match error {
        AccessError::NoRight { .. } => RegisterRefusal::NoRight,
        AccessError::NotOpen | AccessError::Lost(_) => RegisterRefusal::NoRegion,
        _ => RegisterRefusal::TooMuch,
    };
    (refusal, format!("{region}: {error}"))
}
