//! Where the sections of an object end up in a program.

use object::{Object, ObjectSection, SectionFlags, SectionIndex};

use super::{Elf, ElfError, name_of};
use crate::memory::{DATA, RODATA};
use crate::program::{MAX_DATA, MAX_SLOTS};

/// What a section becomes part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Code,
    Rodata,
    Data,
}

#[derive(Debug)]
struct Placed {
    section: SectionIndex,
    name: String,
    part: Part,
    start: usize,
    length: usize,
}

/// The sections that are loaded, one behind the other.
#[derive(Debug, Default)]
pub(super) struct Layout {
    pub(super) code: Vec<u8>,
    pub(super) rodata: Vec<u8>,
    pub(super) data: Vec<u8>,
    placed: Vec<Placed>,
}

impl Layout {
    pub(super) fn new(elf: &Elf<'_>) -> Result<Layout, ElfError> {
        let mut layout = Layout::default();
        for section in elf.sections() {
            let SectionFlags::Elf { sh_flags } = section.flags() else { continue };
            let has = |flag: u32| sh_flags & u64::from(flag) != 0;
            let part = match (has(object::elf::SHF_ALLOC), has(object::elf::SHF_EXECINSTR)) {
                (false, _) => continue,
                (true, true) => Part::Code,
                (true, false) if has(object::elf::SHF_WRITE) => Part::Data,
                (true, false) => Part::Rodata,
            };
            layout.place_section(&section, part)?;
        }
        Ok(layout)
    }

    fn place_section<'a>(&mut self, section: &impl ObjectSection<'a>, part: Part) -> Result<(), ElfError> {
        let name = name_of(section);
        let bytes = section.data()?;
        // Sections without bytes in the file, as `.bss`, have only a length, which any file can claim.
        let length = usize::try_from(section.size()).unwrap_or(usize::MAX).max(bytes.len());
        let alignment = section.align().clamp(1, 4096).next_power_of_two() as usize;
        let (target, most) = match part {
            Part::Code => (&mut self.code, MAX_SLOTS * 8),
            Part::Rodata => (&mut self.rodata, MAX_DATA),
            Part::Data => (&mut self.data, MAX_DATA),
        };
        if part == Part::Code && !length.is_multiple_of(8) {
            return Err(ElfError::Length { section: name, length: length as u64 });
        }
        let start = if part == Part::Code { target.len() } else { target.len().next_multiple_of(alignment) };
        match start.checked_add(length) {
            Some(end) if end <= most => target.resize(end, 0),
            _ => return Err(ElfError::TooLong { section: name }),
        }
        target[start..start + bytes.len()].copy_from_slice(bytes);
        self.placed.push(Placed { section: section.index(), name, part, start, length });
        Ok(())
    }

    fn find(&self, section: SectionIndex) -> Option<&Placed> {
        self.placed.iter().find(|placed| placed.section == section)
    }

    /// Whether a section is loaded at all.
    pub(super) fn has(&self, section: SectionIndex) -> bool {
        self.find(section).is_some()
    }

    /// The bytes of a section, and what it is part of.
    pub(super) fn bytes_mut(&mut self, section: SectionIndex) -> Option<(Part, &mut [u8])> {
        let &Placed { part, start, length, .. } = self.find(section)?;
        let target = match part {
            Part::Code => &mut self.code,
            Part::Rodata => &mut self.rodata,
            Part::Data => &mut self.data,
        };
        Some((part, &mut target[start..start + length]))
    }

    /// The slot of an instruction in a code section.
    pub(super) fn slot(&self, section: SectionIndex, offset: u64) -> Option<u32> {
        let placed = self.find(section).filter(|placed| placed.part == Part::Code)?;
        let within = offset < placed.length as u64 && offset.is_multiple_of(8);
        within.then(|| ((placed.start as u64 + offset) / 8) as u32)
    }

    /// The address a program sees a byte of a data section at. The byte behind the last one has an address, too.
    pub(super) fn address(&self, section: SectionIndex, offset: u64) -> Option<u64> {
        let placed = self.find(section).filter(|placed| offset <= placed.length as u64)?;
        let base = match placed.part {
            Part::Code => return None,
            Part::Rodata => RODATA,
            Part::Data => DATA,
        };
        Some(base + placed.start as u64 + offset)
    }

    /// The section and offset that a slot came from.
    pub(super) fn place(&self, slot: u32) -> (String, u64) {
        let byte = slot as usize * 8;
        let holds = |placed: &&Placed| placed.part == Part::Code && placed.start <= byte;
        let found = self.placed.iter().rfind(holds);
        found.map_or((String::new(), byte as u64), |placed| {
            (placed.name.clone(), (byte - placed.start) as u64)
        })
    }
}
