//! The entries that were asked for last, and how requests move among them.

/// How many entries are remembered.
const LENGTH: usize = 128;
/// How far a step from one entry to the next can be.
const STEP_MAX: i64 = 16;
/// An entry that is among so many latest ones is not noted again: threads that take turns must not fill the list.
const LATEST: usize = 8;

/// The entries that were asked for last.
#[derive(Clone, Debug)]
pub(crate) struct RecentList {
    ring: [(u32, u64); LENGTH],
    next: usize,
}

/// No region has this number.
const NONE: (u32, u64) = (u32::MAX, 0);

impl RecentList {
    pub(crate) fn new() -> Self {
        Self { ring: [NONE; LENGTH], next: 0 }
    }

    /// Notes a request.
    pub(crate) fn note(&mut self, region: u32, entry: u64) {
        let is_latest =
            (1..=LATEST).any(|back| self.ring[(self.next + LENGTH - back) % LENGTH] == (region, entry));
        if !is_latest {
            self.ring[self.next] = (region, entry);
            self.next = (self.next + 1) % LENGTH;
        }
    }

    /// The step of the movement that has just reached `entry`: from the entry before it, or by two equal steps. Of two
    /// neighbours the one that was asked for last tells the direction: a movement may have turned round.
    pub(crate) fn movement(&self, region: u32, entry: u64) -> Option<i64> {
        // Bit n stands for the entry n - STEP_MAX * 2 away.
        const WIDTH: i64 = STEP_MAX * 2;
        let mut near = 0u128;
        let mut neighbour = None;
        for back in 1..=LENGTH {
            let (other, number) = self.ring[(self.next + LENGTH - back) % LENGTH];
            let away = number.wrapping_sub(entry).cast_signed();
            if other == region && (-WIDTH..=WIDTH).contains(&away) {
                near |= 1 << (away + WIDTH);
                if away.abs() == 1 {
                    neighbour = neighbour.or(Some(away));
                }
            }
        }
        let has = |away: i64| near & (1 << (away + WIDTH)) != 0;
        match neighbour {
            Some(1) if has(2) => return Some(-1),
            Some(_) if has(-1) => return Some(1),
            _ => {}
        }
        let mut steps = (1..=STEP_MAX).flat_map(|step| [step, -step]);
        steps.find(|step| has(-step) && has(-2 * step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(entries: &[u64], at: u64) -> Option<i64> {
        let mut recent = RecentList::new();
        entries.iter().for_each(|entry| recent.note(7, *entry));
        recent.movement(7, at)
    }

    #[test]
    fn movements_are_seen_in_both_directions_and_by_steps() {
        assert_eq!(after(&[4], 5), Some(1));
        assert_eq!(after(&[7, 6], 5), Some(-1));
        assert_eq!(after(&[6], 5), None, "another movement may have begun there");
        assert_eq!(after(&[1, 4], 7), Some(3));
        assert_eq!(after(&[27, 16], 5), Some(-11));
        assert_eq!(after(&[100, 4, 900], 5), Some(1), "others may come between");
        assert_eq!(after(&[1], 7), None, "one step is no movement");
        assert_eq!(after(&[3, 4, 5, 6, 7, 6], 5), Some(-1), "it has turned round");
        assert_eq!(after(&[7, 6, 5, 4, 3, 4], 5), Some(1), "and again");
        assert_eq!(after(&[], 5), None);
        assert_eq!(after(&[u64::MAX], 0), Some(1), "wrapping around does no harm");
    }

    #[test]
    fn other_regions_and_old_requests_do_not_count() {
        let mut recent = RecentList::new();
        recent.note(1, 4);
        assert_eq!(recent.movement(2, 5), None);
        (0..LENGTH as u64).for_each(|entry| recent.note(1, 1000 * (entry + 1)));
        assert_eq!(recent.movement(1, 5), None);
    }

    #[test]
    fn threads_that_take_turns_do_not_push_each_other_out() {
        let mut recent = RecentList::new();
        recent.note(1, 50);
        for _ in 0..1000 {
            recent.note(1, 100);
            recent.note(1, 200);
        }
        assert_eq!(recent.movement(1, 51), Some(1));
    }
}
