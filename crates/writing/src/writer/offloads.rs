//! The one-sided writes that are under way.

use outboard_wire::Time;

use super::WriteId;
use crate::WriteSpan;
use crate::writer::policy::Lesson;
use crate::writer::span::PageCounts;

/// A one-sided write under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offload {
    pub(super) id: WriteId,
    pub(super) span: WriteSpan,
    pub(super) began: Time,
    pub(super) lesson: Lesson,
    pub(super) signal: bool,
    /// Whether it was unloaded before, and may have been done.
    pub(super) is_doubtful: bool,
}

/// A bounded table of them. A token is a place in it and the turn in which the place was taken, so that a token of an
/// earlier turn means nothing.
#[derive(Debug)]
pub(super) struct Offloads {
    places: Vec<(u32, Option<Offload>)>,
    /// The place that was given back last is taken first, so that few are ever taken.
    free: Vec<u32>,
    /// From here on no place was ever taken.
    untouched: usize,
    pages: PageCounts,
}

impl Offloads {
    pub(super) fn new(most: usize) -> Self {
        let free = (0..most as u32).rev().collect();
        Self { places: vec![(0, None); most], free, untouched: 0, pages: PageCounts::new() }
    }

    /// Remembers one and names it; `None` if there is no room.
    #[inline]
    pub(super) fn add(&mut self, added: Offload) -> Option<u64> {
        let place = self.free.pop()?;
        self.untouched = self.untouched.max(place as usize + 1);
        let (turn, offload) = &mut self.places[place as usize];
        *turn = turn.wrapping_add(1);
        *offload = Some(added);
        self.pages.add(&added.span);
        Some(u64::from(place) | u64::from(*turn) << 32)
    }

    #[inline]
    pub(super) fn take(&mut self, token: u64) -> Option<Offload> {
        let (turn, offload) = self.places.get_mut(token as u32 as usize)?;
        if u64::from(*turn) != token >> 32 {
            return None;
        }
        let offload = offload.take()?;
        self.free.push(token as u32);
        self.pages.remove(&offload.span);
        Some(offload)
    }

    pub(super) fn take_all(&mut self) -> Vec<Offload> {
        let tokens: Vec<u64> = self
            .places
            .iter()
            .zip(0_u64..)
            .map(|((turn, _), place)| place | u64::from(*turn) << 32)
            .collect();
        let mut taken: Vec<Offload> = tokens.into_iter().filter_map(|token| self.take(token)).collect();
        taken.sort_by_key(|offload| offload.id);
        taken
    }

    /// Whether one of them touches a byte of `span`.
    #[inline]
    pub(super) fn overlaps(&self, span: &WriteSpan) -> bool {
        self.pages.may_meet(span)
            && self.places[..self.untouched]
                .iter()
                .filter_map(|(_, offload)| offload.as_ref())
                .any(|other| other.span.overlaps(span))
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.free.len() == self.places.len()
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}
