//! The layout of a tree's region. `functions/btree.c` has it too, so change both.

use crate::BTreeError;

const MAGIC: u64 = 0x3130_6565_7274_6274;
pub(crate) const HEADER: u64 = 64;
pub(crate) const NODE: u64 = 1024;
const ENTRY: usize = 16;
const LEVEL_SHIFT: u32 = 48;
/// The most entries of a node.
const ENTRIES_MAX: u64 = 59;
/// A high fence without anything behind it; no key is as high.
pub(crate) const INFINITE: u64 = u64::MAX;
/// The most keys that a tree can be made for.
pub(crate) const KEYS_MAX: u64 = 1 << 40;
/// The most pairs that a scan gives.
pub(crate) const SCAN_MAX: usize = 1000;

/// How many nodes there is room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) nodes: u64,
}

impl Layout {
    /// For so many keys, in whatever order they come: nodes are at least half full, but for those at the edges.
    pub(crate) fn new(keys: u64) -> Result<Self, BTreeError> {
        if keys > KEYS_MAX {
            return Err(BTreeError::TooLarge { keys, max: KEYS_MAX });
        }
        let leaves = keys.div_ceil(ENTRIES_MAX / 2);
        // All inner levels together have less than a twentieth of the leaves.
        Ok(Self { nodes: leaves + leaves / 20 + 64 })
    }

    /// The bytes of the region.
    pub(crate) fn size(self) -> u64 {
        HEADER + self.nodes * NODE
    }

    /// The header of a tree whose first nodes are used, up to a root of this level.
    pub(crate) fn header(self, root: u64, level: u64, used: u64) -> [u64; 8] {
        [MAGIC, NODE, self.nodes, level << LEVEL_SHIFT | root, used, 0, 0, 0]
    }

    /// The shape of the tree that has this header, in a region of so many bytes.
    pub(crate) fn read(header: [u64; 8], region_bytes: u64) -> Option<Self> {
        let [magic, node, nodes, root, ..] = header;
        let root = root & ((1 << LEVEL_SHIFT) - 1);
        let is_sane = magic == MAGIC && node == NODE && nodes <= KEYS_MAX && (1..=nodes).contains(&root);
        (is_sane && Self { nodes }.size() <= region_bytes).then_some(Self { nodes })
    }
}

/// A node as it is written.
pub(crate) struct Node {
    pub(crate) level: u64,
    pub(crate) low: u64,
    pub(crate) high: u64,
    pub(crate) next: u64,
    pub(crate) entries: Vec<(u64, u64)>,
}

impl Node {
    /// Its bytes; what is behind its entries is not written.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let head = [0, self.entries.len() as u64, self.level, self.low, self.high, self.next, 0, 0];
        let mut bytes = Vec::with_capacity(NODE as usize);
        head.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        for (key, value) in &self.entries {
            bytes.extend_from_slice(&key.to_le_bytes());
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        bytes
    }
}

/// The pairs of a scan's reply.
pub(crate) fn pairs(reply: &[u8]) -> Vec<(u64, u64)> {
    let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
    reply.chunks_exact(ENTRY).map(|pair| (word(&pair[..8]), word(&pair[8..]))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written_and_nonsense_is_no_tree() {
        let layout = Layout::new(1000).unwrap();
        let header = layout.header(1, 0, 1);
        assert_eq!(Layout::read(header, layout.size()), Some(layout));
        assert_eq!(Layout::read(header, layout.size() - 1), None);
        for word in 0..4 {
            for value in [0, u64::MAX] {
                let mut header = header;
                header[word] = value;
                assert_eq!(Layout::read(header, u64::MAX), None, "{word} is {value}");
            }
        }
        assert!(matches!(Layout::new(u64::MAX), Err(BTreeError::TooLarge { .. })));
    }
}
