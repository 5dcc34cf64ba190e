//! Regions of a memory server that functions use.

use std::collections::VecDeque;
use std::sync::Arc;

use outboard_link::{AccessError, LinkError, OpenRegion, RemoteMemory, Token};
use outboard_wire::calling::{Allowed, CallerId, RegisterRefusal};
use outboard_wire::{Grant, RegionId, Rights};

use super::{CALLING, OPENING};
use crate::calling::desk::Refused;

/// How many regions are open on one link for functions. Those that no function uses any more make room. Where they are
/// opened for many, nobody has more than are left for others.
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
    /// Whether somebody who has asked for it is about to use it.
    is_awaited: bool,
}

/// The regions that functions use, or are to use.
#[derive(Default)]
pub(super) struct Openings {
    /// By the number in their token.
    entries: Vec<Option<Entry>>,
    to_close: Vec<OpenRegion>,
    is_anything_wanted: bool,
    /// Whoever asks may lie, so that the server is asked before anything is opened.
    trusts_nobody: bool,
    unproven: VecDeque<u32>,
}

impl Openings {
    pub(super) fn new(trusts_nobody: bool) -> Self {
        Self { trusts_nobody, ..Self::default() }
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

    /// How many regions are open for this client, and how many more can be for anybody.
    fn share(&self, by: CallerId) -> (usize, usize) {
        let (all, own) = (self.entries.iter().flatten(), |entry: &&Entry| entry.by == by);
        (all.clone().filter(own).count(), REGIONS_MAX.saturating_sub(all.count()))
    }

    fn has_room(&self, by: CallerId) -> bool {
        let (own, left) = self.share(by);
        if self.trusts_nobody { own < left } else { left > 0 }
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
        let state = if self.trusts_nobody { State::Unproven } else { State::Wanted };
        self.entries[place] = Some(Entry { grant, state, by, is_awaited: true });
        if self.trusts_nobody {
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
    /// that only it has asked for, now or when they are open: whoever keeps one open keeps its memory.
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

#[cfg(test)]
mod tests {
    use outboard_link::loopback::{FaultPlan, LoopbackLink, Network};
    use outboard_link::memory::Segment;
    use outboard_link::{Export, Exports, Identity, Link, Outcome};
    use outboard_wire::{Generation, RegionKey, Role, Time};

    use super::*;

    /// An agent's end of a link to the owner of a region.
    struct Pair {
        openings: Openings,
        ours: LoopbackLink,
        theirs: LoopbackLink,
        now: u64,
    }

    const ALLOWED: Allowed = Allowed {
        region: RegionId(1),
        generation: Generation(1),
        key: RegionKey([7; 16]),
        rights: Rights::READ,
        size: 4096,
    };

    impl Pair {
        fn new() -> Self {
            let (exports, Allowed { region, generation, key, .. }) = (Exports::new(), ALLOWED);
            let memory = Arc::new(Segment::create(c"test", 4096).unwrap());
            exports.add(Export { region, generation, memory, keys: vec![(key, Rights::ALL)] });
            let identity = |name| Identity::new(Role::Tool, name);
            let network = Network::new(1, FaultPlan::none());
            let (ours, theirs) =
                network.connect(identity("agent"), Exports::new(), identity("owner"), exports).unwrap();
            Self { openings: Openings::new(false), ours, theirs, now: 0 }
        }

        /// Lets both ends do what there is to do.
        fn turn(&mut self) {
            for _ in 0..10 {
                self.now += 1_000_000;
                let now = Time::from_nanos(self.now);
                self.openings.work(&mut self.ours).unwrap();
                self.ours.progress(now).unwrap();
                self.theirs.progress(now).unwrap();
                let openings = &mut self.openings;
                self.ours.completions(|completion| {
                    let Ok(Outcome::Opened(region)) = completion.result else { panic!("{completion:?}") };
                    openings.opened(completion.token.0 as u32, Ok(region));
                });
            }
        }

        fn count(&self) -> usize {
            self.openings.entries.iter().flatten().count()
        }
    }

    #[test]
    fn what_only_somebody_who_has_gone_has_asked_for_is_closed() {
        let (gone, other) = (CallerId([1; 16]), CallerId([2; 16]));
        for has_opened in [false, true] {
            let mut pair = Pair::new();
            assert!(pair.openings.find(gone, &ALLOWED).unwrap().is_none(), "it is not open yet");
            if has_opened {
                pair.turn();
            }
            pair.openings.caller_gone(other);
            assert_eq!(pair.count(), 1, "somebody is about to use it");
            pair.openings.caller_gone(gone);
            pair.turn();
            assert_eq!(pair.count(), 0, "nobody is about to use it: {has_opened}");
            // Whoever wants it next opens it anew.
            assert!(pair.openings.find(other, &ALLOWED).unwrap().is_none());
            pair.turn();
            let used = pair.openings.find(other, &ALLOWED).unwrap();
            pair.openings.caller_gone(other);
            assert!(used.is_some() && pair.count() == 1, "a function uses it");
        }
    }
}
