//! Numbered things that several parties share, each with a share of its own.

/// Things that are free or belong to a party. However many the others have, a party can always have its share: what one
/// waits for may depend on what another one does.
pub(super) struct Pool {
    free: Vec<u32>,
    owners: Vec<u8>,
    used: Vec<u32>,
    share: u32,
}

impl Pool {
    /// So many things for so many parties.
    pub(super) fn new(things: u32, parties: usize, share: u32) -> Self {
        // The first ones are taken first: who needs few touches little memory.
        let free = (0..things).rev().collect();
        Self { free, owners: vec![0; things as usize], used: vec![0; parties], share }
    }

    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    pub(super) fn len(&self) -> usize {
        self.owners.len()
    }

    /// Takes one for a party.
    pub(super) fn take(&mut self, party: u8) -> Option<u32> {
        let used = *self.used.get(usize::from(party))?;
        let owed = |(other, used): (usize, &u32)| match other == usize::from(party) {
            true => 0,
            false => self.share.saturating_sub(*used),
        };
        let owed: u32 = self.used.iter().enumerate().map(owed).sum();
        if used >= self.share && self.free.len() as u32 <= owed {
            return None;
        }
        let thing = self.free.pop()?;
        self.owners[thing as usize] = party;
        self.used[usize::from(party)] += 1;
        Some(thing)
    }

    pub(super) fn give_back(&mut self, thing: u32) {
        let owner = usize::from(self.owners[thing as usize]);
        self.used[owner] = self.used[owner].saturating_sub(1);
        self.free.push(thing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_a_share_whatever_others_have() {
        let mut pool = Pool::new(10, 3, 2);
        let greedy: Vec<u32> = std::iter::from_fn(|| pool.take(0)).collect();
        assert_eq!(greedy.len(), 6, "two are left for each of the others");
        let modest: Vec<u32> = (0..2).filter_map(|_| pool.take(1)).collect();
        assert_eq!((modest.len(), pool.take(1)), (2, None));
        assert!(pool.take(2).is_some() && pool.take(2).is_some() && pool.take(2).is_none());
        greedy.into_iter().for_each(|thing| pool.give_back(thing));
        assert!(pool.take(1).is_some(), "what no space is owed is for all");
        assert_eq!(pool.take(9), None);
    }
}
