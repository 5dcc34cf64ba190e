//! Whether an object's table of sections makes sense. A reader that skips what it cannot read would load something else
//! than was compiled: code whose relocations are out of reach still decodes.

use super::ElfError;

const SECTION_LEN: usize = 64;
const RELOCATION_LEN: u64 = 16;
const SYMBOL_LEN: u64 = 24;

const SYMBOLS: u32 = 2;
const RELOCATIONS_WITH_ADDENDS: u32 = 4;
const NO_BYTES: u32 = 8;
const RELOCATIONS: u32 = 9;
const LOADED: u64 = 2;

/// A section's header.
struct Section {
    /// Where the header lies in the file.
    at: usize,
    name: u32,
    kind: u32,
    flags: u64,
    offset: u64,
    size: u64,
    link: u32,
    info: u32,
    entry_size: u64,
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|long| u64::from_le_bytes(*long))
}

fn half(bytes: &[u8], at: usize) -> Option<usize> {
    bytes.get(at..)?.first_chunk().map(|half| usize::from(u16::from_le_bytes(*half)))
}

impl Section {
    fn read(bytes: &[u8], at: usize) -> Option<Self> {
        Some(Self {
            at,
            name: word(bytes, at)?,
            kind: word(bytes, at + 4)?,
            flags: long(bytes, at + 8)?,
            offset: long(bytes, at + 24)?,
            size: long(bytes, at + 32)?,
            link: word(bytes, at + 40)?,
            info: word(bytes, at + 44)?,
            entry_size: long(bytes, at + 56)?,
        })
    }

    fn bytes<'a>(&self, file: &'a [u8]) -> Option<&'a [u8]> {
        let start = usize::try_from(self.offset).ok()?;
        file.get(start..start.checked_add(usize::try_from(self.size).ok()?)?)
    }

    /// What is wrong with it, if anything.
    fn flaw(&self, file: &[u8], all: &[Self]) -> Option<&'static str> {
        let linked = all.get(self.link as usize);
        let target = all.get(self.info as usize).filter(|_| self.info != 0);
        match self.kind {
            NO_BYTES => None,
            _ if self.bytes(file).is_none() => Some("its bytes lie outside the file"),
            RELOCATIONS | RELOCATIONS_WITH_ADDENDS if target.is_none() => {
                Some("it has relocations of a section that the object does not have")
            }
            RELOCATIONS_WITH_ADDENDS if target.is_some_and(|target| target.flags & LOADED != 0) => {
                Some("it has relocations with addends, which BPF does not have")
            }
            RELOCATIONS if linked.is_none_or(|linked| linked.kind != SYMBOLS) => {
                Some("its relocations refer to something that is no table of symbols")
            }
            RELOCATIONS if self.entry_size != RELOCATION_LEN || !self.size.is_multiple_of(RELOCATION_LEN) => {
                Some("it is not made of relocations of 16 bytes")
            }
            SYMBOLS if self.entry_size != SYMBOL_LEN || !self.size.is_multiple_of(SYMBOL_LEN) => {
                Some("it is not made of symbols of 24 bytes")
            }
            SYMBOLS if linked.is_none() => Some("its names are in a section that the object does not have"),
            _ => None,
        }
    }
}

/// Looks at every section before any is used.
pub(super) fn check(file: &[u8]) -> Result<(), ElfError> {
    let broken = |offset: usize, why| ElfError::File { offset: offset as u64, why };
    let table = long(file, 40).and_then(|table| usize::try_from(table).ok()).unwrap_or(usize::MAX);
    let (size, count) = (half(file, 58).unwrap_or(0), half(file, 60).unwrap_or(0));
    let names = half(file, 62).unwrap_or(0);
    if size != SECTION_LEN {
        return Err(broken(58, "its section headers do not have 64 bytes"));
    }
    let header = |index: usize| Section::read(file, table.checked_add(index * SECTION_LEN)?);
    let all: Option<Vec<Section>> = (0..count).map(header).collect();
    let Some(all) = all else {
        return Err(broken(40, "its table of sections lies outside the file; was it cut off?"));
    };
    let names = all.get(names).and_then(|names| names.bytes(file)).unwrap_or(&[]);
    for (index, section) in all.iter().enumerate().skip(1) {
        let name = names.get(section.name as usize..).and_then(|rest| rest.split(|byte| *byte == 0).next());
        let name = name.and_then(|name| std::str::from_utf8(name).ok()).filter(|name| !name.is_empty());
        let name = || name.map_or_else(|| format!("#{index}"), str::to_owned);
        if matches!(name().as_str(), "maps" | ".maps") {
            return Err(ElfError::Maps { section: name() });
        }
        if let Some(why) = section.flaw(file, &all) {
            return Err(ElfError::Section { section: name(), offset: section.at as u64, why });
        }
    }
    Ok(())
}
