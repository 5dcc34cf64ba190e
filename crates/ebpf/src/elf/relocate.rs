//! Fills in addresses and calls that the compiler left open.

use object::elf::{R_BPF_64_32, R_BPF_64_64};
use object::{
    Object, ObjectSection, ObjectSymbol, Relocation, RelocationFlags, RelocationTarget, SectionIndex,
};

use super::layout::{Layout, Part};
use super::{Elf, RelocationFlaw};
use crate::helper::Helpers;

/// A 64-bit address in a data section; the constant is missing from the crate that knows the others.
const R_BPF_64_ABS64: u32 = 2;

const CALL: u8 = 0x85;
const LOAD_IMM: u8 = 0x18;

/// What a relocation refers to.
struct Symbol {
    name: String,
    /// Where it is defined, if it is.
    section: Option<SectionIndex>,
    value: u64,
}

/// Does one relocation of a section that is loaded.
pub(super) fn relocate<'a>(
    elf: &Elf<'_>,
    layout: &mut Layout,
    helpers: &Helpers,
    section: &impl ObjectSection<'a>,
    offset: u64,
    relocation: &Relocation,
) -> Result<(), RelocationFlaw> {
    let RelocationFlags::Elf { r_type: kind } = relocation.flags() else {
        return Err(RelocationFlaw::Kind { kind: 0 });
    };
    let symbol = symbol(elf, relocation)?;
    let index = section.index();
    let Some((part, bytes)) = layout.bytes_mut(index) else { return Ok(()) };
    match (kind, part) {
        (R_BPF_64_32, Part::Code) => {
            let slot = slot_at::<8>(bytes, offset).filter(|slot| slot[0] == CALL);
            let &mut slot = slot.ok_or(RelocationFlaw::Place)?;
            let patched = call(layout, helpers, index, offset, slot, &symbol)?;
            store(layout, index, offset, &patched)
        }
        (R_BPF_64_64, Part::Code) => {
            let slots = slot_at::<16>(bytes, offset).filter(|slots| slots[0] == LOAD_IMM);
            let &mut mut slots = slots.ok_or(RelocationFlaw::Place)?;
            let [low, high] = [word(&slots, 4), word(&slots, 12)];
            let addend = u64::from(low) | u64::from(high) << 32;
            let address = address(layout, &symbol, addend)?;
            slots[4..8].copy_from_slice(&(address as u32).to_le_bytes());
            slots[12..16].copy_from_slice(&((address >> 32) as u32).to_le_bytes());
            store(layout, index, offset, &slots)
        }
        (R_BPF_64_ABS64, Part::Rodata | Part::Data) => {
            let start = usize::try_from(offset).map_err(|_| RelocationFlaw::Place)?;
            let field = bytes.get_mut(start..).and_then(|rest| rest.first_chunk_mut::<8>());
            let addend = u64::from_le_bytes(*field.ok_or(RelocationFlaw::Place)?);
            let address = address(layout, &symbol, addend)?;
            store(layout, index, offset, &address.to_le_bytes())
        }
        _ => Err(RelocationFlaw::Kind { kind }),
    }
}

fn symbol(elf: &Elf<'_>, relocation: &Relocation) -> Result<Symbol, RelocationFlaw> {
    let RelocationTarget::Symbol(index) = relocation.target() else { return Err(RelocationFlaw::NoSymbol) };
    let symbol = elf.symbol_by_index(index).map_err(|_| RelocationFlaw::NoSymbol)?;
    let section = symbol.section_index();
    let mut name = symbol.name().unwrap_or_default().to_owned();
    if name.is_empty() {
        // Symbols of sections have no name of their own.
        let found = section.and_then(|index| elf.section_by_index(index).ok());
        name = found.map(|section| super::name_of(&section)).unwrap_or_default();
    }
    Ok(Symbol { name, section, value: symbol.address() })
}

/// `N` bytes at the beginning of an instruction.
fn slot_at<const N: usize>(bytes: &mut [u8], offset: u64) -> Option<&mut [u8; N]> {
    let start = usize::try_from(offset).ok().filter(|offset| offset.is_multiple_of(8))?;
    bytes.get_mut(start..)?.first_chunk_mut()
}

fn word(bytes: &[u8; 16], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn store(
    layout: &mut Layout,
    section: SectionIndex,
    offset: u64,
    bytes: &[u8],
) -> Result<(), RelocationFlaw> {
    let (_, target) = layout.bytes_mut(section).ok_or(RelocationFlaw::Place)?;
    let start = offset as usize;
    target.get_mut(start..start + bytes.len()).ok_or(RelocationFlaw::Place)?.copy_from_slice(bytes);
    Ok(())
}

/// The call instruction with its target filled in: a function of the object, or a helper.
fn call(
    layout: &Layout,
    helpers: &Helpers,
    section: SectionIndex,
    offset: u64,
    mut slot: [u8; 8],
    symbol: &Symbol,
) -> Result<[u8; 8], RelocationFlaw> {
    let [.., i0, i1, i2, i3] = slot;
    let addend = i64::from(i32::from_le_bytes([i0, i1, i2, i3]));
    let name = || symbol.name.clone();
    let Some(target) = symbol.section else {
        let helper = helpers.all().iter().find(|helper| helper.name == symbol.name);
        let helper = helper.ok_or_else(|| RelocationFlaw::Undefined { name: name() })?;
        slot[1] = 0;
        slot[4..].copy_from_slice(&helper.id.to_le_bytes());
        return Ok(slot);
    };
    // Calls count from the next instruction, so the compiler leaves -1 for the symbol's own place.
    let place = (addend + 1).checked_mul(8).and_then(|bytes| symbol.value.checked_add_signed(bytes));
    let target = place.and_then(|place| layout.slot(target, place));
    let own = layout.slot(section, offset);
    let (Some(target), Some(own)) = (target, own) else {
        return Err(RelocationFlaw::NoCode { name: name() });
    };
    let distance = i64::from(target) - i64::from(own) - 1;
    slot[1] = 0x10;
    slot[4..].copy_from_slice(&(distance as i32).to_le_bytes());
    Ok(slot)
}

fn address(layout: &Layout, symbol: &Symbol, addend: u64) -> Result<u64, RelocationFlaw> {
    let Some(section) = symbol.section else {
        return Err(RelocationFlaw::Undefined { name: symbol.name.clone() });
    };
    let offset = symbol.value.wrapping_add(addend);
    layout.address(section, offset).ok_or_else(|| RelocationFlaw::NoData { name: symbol.name.clone() })
}
