//! Which pages are written often, in bounded memory.

use core::ops::Range;

/// Pages that are remembered, 8 bytes each.
const PLACES: usize = 16384;
/// Touches, by all pages together, after which heat fades by an eighth: the table remembers about eight times as many.
const TICK: u32 = PLACES as u32 * 8;
/// What one touch adds to a page's heat.
pub(super) const TOUCH: u32 = 16;

/// Ticks after which a page that was not touched is forgotten.
const FORGOTTEN: u8 = 32;

/// What is left after so many ticks, in 1/256.
const FADED: [u32; 256] = {
    let mut faded = [0; 256];
    faded[0] = 256;
    let mut ticks = 1;
    while ticks < FORGOTTEN as usize {
        faded[ticks] = faded[ticks - 1] * 7 / 8;
        ticks += 1;
    }
    faded
};

/// A page that the table remembers.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    tag: u32,
    heat: u16,
    tick: u8,
    warmth: u8,
}

impl Place {
    #[inline]
    fn heat_at(&self, tick: u8) -> u32 {
        let ticks = tick.wrapping_sub(self.tick);
        let faded = FADED[usize::from(ticks)];
        (u32::from(self.heat) * faded) >> 8
    }

    #[inline]
    fn touch(&mut self, tick: u8, at: usize) -> Found {
        let heat = (self.heat_at(tick) + TOUCH).min(u32::from(u16::MAX));
        (self.heat, self.tick) = (heat as u16, tick);
        Found { at, heat, warmth: self.warmth }
    }
}

/// A page as it was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    at: usize,
    /// What it is worth: sixteen for every touch, fading.
    pub(super) heat: u32,
    /// How warm it is; zero if its latest write was not offloaded.
    pub(super) warmth: u8,
}

/// The bits of a hash by which nothing is found.
pub(super) const HASH_UNUSED: Range<u32> = 22..32;

/// Where a page may be found.
#[derive(Debug, PartialEq, Eq)]
struct Home {
    /// The place that it would have; the one beside it would do as well.
    first: usize,
    /// Its place among the newcomers.
    newcomer: usize,
    tag: u32,
}

impl Home {
    #[inline]
    fn of(hash: u64) -> Self {
        let first = (hash as usize) & (PLACES - 1);
        let newcomer = PLACES + ((hash >> 14) as usize & (NEWCOMERS - 1));
        Self { first, newcomer, tag: (hash >> 32) as u32 | 1 }
    }
}

/// Newcomers that are remembered besides, 8 bytes each.
const NEWCOMERS: usize = 256;

/// A table of pages by heat, with two places for a page, beside each other. A page that is not in it is remembered as a
/// newcomer until another newcomer takes its place; if it is hotter by then than the colder of those in its places, it
/// settles there, and if not, it cools that one a little. So a flood of pages that are written once cannot drive out
/// those that are written often, and one that is written in a burst is known at once.
#[derive(Debug)]
pub(super) struct Heat {
    /// The table, and behind it the newcomers.
    places: Box<[Place; PLACES + NEWCOMERS]>,
    /// Where each newcomer would settle.
    homes: Box<[u32; NEWCOMERS]>,
    tick: u8,
    left: u32,
}

impl Heat {
    pub(super) fn new() -> Self {
        Self {
            places: Box::new([Place::default(); PLACES + NEWCOMERS]),
            homes: Box::new([0; NEWCOMERS]),
            tick: 0,
            left: TICK,
        }
    }

    /// Notes one write to the page with this hash.
    #[inline]
    pub(super) fn touch(&mut self, hash: u64) -> Found {
        self.left -= 1;
        if self.left == 0 {
            self.next_tick();
        }
        let tick = self.tick;
        let Home { first, newcomer, tag } = Home::of(hash);
        for at in [first, first ^ 1] {
            if self.places[at].tag == tag {
                return self.places[at].touch(tick, at);
            }
        }
        if self.places[newcomer].tag != tag {
            self.welcome(first, newcomer, tag);
        }
        self.places[newcomer].touch(tick, newcomer)
    }

    /// A page comes that is not known: it takes the place of the newcomer who has the same.
    #[inline]
    fn welcome(&mut self, first: usize, at: usize, tag: u32) {
        let home = &mut self.homes[at - PLACES];
        let (former, former_home) = (self.places[at], *home);
        *home = first as u32;
        self.places[at] = Place { tag, tick: self.tick, ..Place::default() };
        // Of those that were touched once, one in four gets the chance: hot pages come again, and again.
        if former.heat > TOUCH as u16 || self.left.is_multiple_of(4) {
            self.settle(former, former_home);
        }
    }

    /// A newcomer has to leave: into the table, if it is hotter than who is there.
    fn settle(&mut self, newcomer: Place, home: u32) {
        let first = home as usize & (PLACES - 1);
        let pair = [first, first ^ 1];
        let heats = pair.map(|at| self.places[at].heat_at(self.tick));
        let colder = pair[usize::from(heats[1] < heats[0])];
        let heat = heats[0].min(heats[1]);
        let place = &mut self.places[colder];
        if newcomer.heat_at(self.tick) >= heat {
            *place = newcomer;
        } else {
            // The hotter it is, the less it minds.
            let cooled = heat - ((TOUCH * TOUCH) >> heat.ilog2()).min(heat);
            (place.heat, place.tick) = (cooled as u16, self.tick);
        }
    }

    /// Notes how warm the page is from now on.
    #[inline]
    pub(super) fn set_warmth(&mut self, found: Found, warmth: u8) {
        self.places[found.at].warmth = warmth;
    }

    /// The page with this hash was offloaded in vain: it has to become hot anew, from half of `from` at most.
    pub(super) fn demote(&mut self, hash: u64, from: u32) {
        let Home { first, newcomer, tag } = Home::of(hash);
        let tick = self.tick;
        let place = match () {
            () if self.places[first].tag == tag => &mut self.places[first],
            () if self.places[first ^ 1].tag == tag => &mut self.places[first ^ 1],
            () => &mut self.places[newcomer],
        };
        if place.tag == tag {
            place.heat = (place.heat_at(tick).min(from) / 2) as u16;
            (place.tick, place.warmth) = (tick, super::frontier::BURNT);
        }
    }

    #[cold]
    fn next_tick(&mut self) {
        self.left = TICK;
        self.tick = self.tick.wrapping_add(1);
        // A page that was last seen so long ago that its tick comes round again must not look fresh.
        let (tick, sixteenth) = (self.tick, PLACES / 16);
        let start = usize::from(self.tick % 16) * sixteenth;
        for place in &mut self.places[start..start + sixteenth] {
            if tick.wrapping_sub(place.tick) >= FORGOTTEN {
                *place = Place { tick, ..Place::default() };
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::writer::span::page_hash;

    pub(crate) fn same_home(one: u64, other: u64) -> bool {
        Home::of(one) == Home::of(other)
    }

    #[test]
    fn pages_that_are_written_often_stay_hot_in_a_flood_of_others() {
        let mut heat = Heat::new();
        let mut random = fastrand::Rng::with_seed(5);
        for turn in 0..200_000_u64 {
            let page = if turn % 2 == 0 { random.u64(0..1000) } else { random.u64(1 << 20..1 << 40) };
            heat.touch(page_hash(0, page));
        }
        let hot = (0..1000).filter(|page| heat.touch(page_hash(0, *page)).heat > 8 * TOUCH).count();
        let cold = (2000..3000).filter(|page| heat.touch(page_hash(0, *page)).heat > TOUCH).count();
        assert!(hot > 950 && cold == 0, "{hot} {cold}");
    }

    #[test]
    fn pages_that_are_left_alone_are_forgotten() {
        let mut heat = Heat::new();
        for _ in 0..1000 {
            heat.touch(page_hash(0, 7));
        }
        let before = heat.touch(page_hash(0, 7)).heat;
        for turn in 0..TICK * 300 {
            heat.touch(page_hash(1, u64::from(turn % 100)));
        }
        let after = heat.touch(page_hash(0, 7)).heat;
        assert!(before > 900 * TOUCH && after == TOUCH, "{before} {after}");
    }
}
