//! Which site runs which calls: keys fall into slots, and a table says where the calls of a slot run.

use outboard_steering::Site;
use outboard_wire::Flow;
pub use outboard_wire::calling::SLOTS;
use outboard_wire::calling::SlotSites;

/// An odd number without a pattern: 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The slot of a key, the same at every caller for ever.
///
/// The key is taken as words of eight bytes, little-endian, the last one filled up with zeros. Starting from the length,
/// each word is added by exclusive or, then the sum is multiplied by 2^64 divided by the golden ratio, and its upper half
/// folded onto its lower one. The slot is the top byte of that times the same number.
#[inline]
pub fn slot_of(key: &[u8]) -> u8 {
    let (words, rest) = key.as_chunks::<8>();
    let mut hash = words.iter().fold(key.len() as u64, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hash = mix(hash, u64::from_le_bytes(word));
    }
    (hash.wrapping_mul(GOLDEN) >> 56) as u8
}

#[inline]
fn mix(hash: u64, word: u64) -> u64 {
    let product = (hash ^ word).wrapping_mul(GOLDEN);
    product ^ product >> 32
}

/// Where the calls of every slot run. One of a later epoch replaces one of an earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotTable {
    epoch: u64,
    sites: [Site; SLOTS],
}

impl Default for SlotTable {
    /// All slots at the server, as it is until the first table comes.
    fn default() -> Self {
        Self { epoch: 0, sites: [Site::Server; SLOTS] }
    }
}

impl SlotTable {
    /// How many changes there were.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Where the calls of a slot run.
    #[inline]
    pub fn site(&self, slot: u8) -> Site {
        self.sites[usize::from(slot)]
    }

    /// How many slots each site has, in the order of [`Site::ALL`].
    pub fn counts(&self) -> [usize; 3] {
        let mut counts = [0; 3];
        self.sites.iter().for_each(|site| counts[*site as usize] += 1);
        counts
    }

    /// Moves slots to a site, as one change. Returns how many were not there already; if none, nothing has changed.
    pub fn assign(&mut self, slots: impl IntoIterator<Item = u8>, site: Site) -> usize {
        let mut moved = 0;
        for slot in slots {
            let was = std::mem::replace(&mut self.sites[usize::from(slot)], site);
            moved += usize::from(was != site);
        }
        self.epoch += u64::from(moved > 0);
        moved
    }

    /// What rides on answers, so that a caller that hears them knows whether there is a newer table.
    #[inline]
    pub fn label(&self) -> Flow {
        Flow(self.epoch as u32)
    }

    /// Whether an answer with this label comes from a site that knows a newer table.
    #[inline]
    pub fn is_older_than(&self, label: Flow) -> bool {
        // The label is the end of a number that grows: the nearer way round says which is ahead.
        (label.0.wrapping_sub(self.epoch as u32) as i32) > 0
    }

    /// As it travels.
    pub fn to_wire(&self) -> SlotSites {
        SlotSites { epoch: self.epoch, sites: self.sites }
    }

    /// As it came.
    pub fn from_wire(table: &SlotSites) -> Self {
        Self { epoch: table.epoch, sites: table.sites }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn slots_of_keys_never_change() {
        assert_eq!(slot_of(b""), 0);
        assert_eq!(slot_of(b"key"), 73);
        assert_eq!(slot_of(&7u64.to_le_bytes()), 111);
        assert_eq!(slot_of(b"a longer key of 25 bytes."), 114);
    }

    #[test]
    fn keys_that_differ_little_fall_into_all_slots_alike() {
        let numbers = (0..25_600u64).map(|number| number.to_le_bytes().to_vec());
        let apart = (0..25_600u64).map(|number| (number << 20).to_be_bytes().to_vec());
        let texts = (0..25_600u32).map(|number| format!("user{number}").into_bytes());
        let long = (0..25_600u32).map(|number| [&[7; 13][..], &number.to_le_bytes()].concat());
        let kinds: [Vec<Vec<u8>>; 4] = [numbers.collect(), apart.collect(), texts.collect(), long.collect()];
        for keys in kinds {
            let mut counts = [0; SLOTS];
            keys.iter().for_each(|key| counts[usize::from(slot_of(key))] += 1);
            assert!(counts.iter().all(|count| (50..=160).contains(count)), "{counts:?}");
        }
    }

    #[test]
    fn a_change_of_many_slots_is_one_epoch() {
        let mut table = SlotTable::default();
        assert_eq!(table.counts(), [0, 0, 256]);
        assert_eq!(table.assign(0..100, Site::Agent), 100);
        assert_eq!(table.assign(50..150, Site::Agent), 50);
        assert_eq!(table.assign(0..150, Site::Agent), 0);
        assert_eq!((table.epoch(), table.counts()), (2, [0, 150, 106]));
        assert_eq!((table.site(149), table.site(150)), (Site::Agent, Site::Server));
    }

    #[test]
    fn a_label_tells_which_table_is_newer_also_when_it_begins_again() {
        let mut table = SlotTable::default();
        assert!(!table.is_older_than(table.label()));
        assert!(table.is_older_than(Flow(1)));
        assert!(!table.is_older_than(Flow(u32::MAX)));
        table.epoch = u64::from(u32::MAX);
        assert!(table.is_older_than(Flow(0)));
        assert!(!table.is_older_than(Flow(u32::MAX - 5)));
    }

    proptest! {
        #[test]
        fn tables_travel(moves in proptest::collection::vec((any::<u8>(), any::<u8>(), 0..3usize), 0..20)) {
            let mut table = SlotTable::default();
            for (first, last, site) in moves {
                table.assign(first..=last, Site::ALL[site]);
            }
            prop_assert_eq!(SlotTable::from_wire(&SlotSites::decode(&table.to_wire().encode()).unwrap()), table);
        }
    }
}
