//! Which pages are written often, in bounded memory.

/// Pages that are remembered, 8 bytes each.
const PLACES: usize = 8192;
/// Touches, by all pages together, after which heat fades by an eighth: the table remembers about eight times as many.
const TICK: u32 = PLACES as u32 / 2;
/// What one touch adds to a page's heat.
pub(super) const TOUCH: u32 = 16;

/// What fades in so many ticks, in 1/256.
const FADED: [u32; 32] = {
    let mut faded = [256; 32];
    let mut ticks = 1;
    while ticks < 32 {
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
    /// Whether its latest write was offloaded, so that its translation may be at hand.
    is_warm: bool,
}

impl Place {
    #[inline]
    fn heat_at(&self, tick: u8) -> u32 {
        let ticks = tick.wrapping_sub(self.tick);
        let faded = FADED.get(usize::from(ticks)).copied().unwrap_or(0);
        (u32::from(self.heat) * faded) >> 8
    }
}

/// A page as it was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    at: Option<u32>,
    /// What it is worth: sixteen for every touch, fading.
    pub(super) heat: u32,
    /// Whether its latest write was offloaded.
    pub(super) is_warm: bool,
}

/// A table of pages by heat. Two places are possible for a page, beside each other; a stranger who finds both taken
/// cools the colder one and gets its place when that is cold. So a flood of pages that are written once cannot drive out
/// those that are written often.
#[derive(Debug)]
pub(super) struct Heat {
    places: Box<[Place; PLACES]>,
    tick: u8,
    left: u32,
}

impl Heat {
    pub(super) fn new() -> Self {
        Self { places: Box::new([Place::default(); PLACES]), tick: 0, left: TICK }
    }

    /// Notes one write to the page with this hash.
    #[inline]
    pub(super) fn touch(&mut self, hash: u64) -> Found {
        self.left -= 1;
        if self.left == 0 {
            self.next_tick();
        }
        let tick = self.tick;
        let first = (hash as usize) & (PLACES - 1);
        let tag = (hash >> 32) as u32 | 1;
        let pair = [first, first ^ 1];
        for at in pair {
            let place = &mut self.places[at];
            if place.tag == tag {
                let heat = (place.heat_at(tick) + TOUCH).min(u32::from(u16::MAX));
                (place.heat, place.tick) = (heat as u16, tick);
                return Found { at: Some(at as u32), heat, is_warm: place.is_warm };
            }
        }
        let heats = pair.map(|at| self.places[at].heat_at(tick));
        let colder = pair[usize::from(heats[1] < heats[0])];
        let heat = heats[0].min(heats[1]);
        let place = &mut self.places[colder];
        if heat > TOUCH {
            (place.heat, place.tick) = ((heat - TOUCH) as u16, tick);
            return Found { at: None, heat: TOUCH, is_warm: false };
        }
        *place = Place { tag, heat: TOUCH as u16, tick, is_warm: false };
        Found { at: Some(colder as u32), heat: TOUCH, is_warm: false }
    }

    /// Notes by which path the write that found the page goes.
    #[inline]
    pub(super) fn set_warm(&mut self, found: Found, is_warm: bool) {
        if let Some(at) = found.at {
            self.places[at as usize & (PLACES - 1)].is_warm = is_warm;
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
            if tick.wrapping_sub(place.tick) >= FADED.len() as u8 {
                *place = Place { tick, ..Place::default() };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::span::page_hash;

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
