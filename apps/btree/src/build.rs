//! Trees made of keys that are there already, level by level.

use crate::BTreeError;
use crate::layout::{INFINITE, Layout, Node};

/// How many entries a new node has: enough room is left for some more.
const FILL: usize = 45;

/// What is to be written: every node with its number, and the header last.
pub(crate) fn build(
    layout: Layout,
    pairs: impl IntoIterator<Item = (u64, u64)>,
    mut write: impl FnMut(u64, &[u8]) -> Result<(), BTreeError>,
) -> Result<[u64; 8], BTreeError> {
    let mut used = 0;
    let mut before = None;
    let checked = pairs.into_iter().map(|(key, value)| {
        if before.is_some_and(|before| key <= before) || key == INFINITE {
            return Err(BTreeError::NotInOrder { key, before: before.unwrap_or(0) });
        }
        before = Some(key);
        Ok((key, value))
    });
    let mut numbers = write_level(layout, 0, &mut used, checked, &mut write)?;
    let mut level = 0;
    while numbers.len() > 1 {
        level += 1;
        numbers = write_level(layout, level, &mut used, numbers.into_iter().map(Ok), &mut write)?;
    }
    Ok(layout.header(numbers[0].1, level, used))
}

/// Writes a level. Returns the low fences and numbers of its nodes, of which there is at least one.
fn write_level(
    layout: Layout,
    level: u64,
    used: &mut u64,
    entries: impl Iterator<Item = Result<(u64, u64), BTreeError>>,
    write: &mut impl FnMut(u64, &[u8]) -> Result<(), BTreeError>,
) -> Result<Vec<(u64, u64)>, BTreeError> {
    let mut entries = entries.peekable();
    let (mut low, mut nodes) = (0, Vec::new());
    loop {
        let taken = entries.by_ref().take(FILL).collect::<Result<Vec<_>, _>>()?;
        *used += 1;
        if *used > layout.nodes {
            return Err(BTreeError::Full);
        }
        let (high, next) = match entries.peek() {
            Some(Ok((key, _))) => (*key, *used + 1),
            Some(Err(_)) | None => (INFINITE, 0),
        };
        nodes.push((low, *used));
        write(*used, &Node { level, low, high, next, entries: taken }.bytes())?;
        if entries.peek().is_none() {
            return Ok(nodes);
        }
        low = high;
    }
}
