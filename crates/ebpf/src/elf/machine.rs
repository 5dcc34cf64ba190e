//! Which machine an ELF file is for. This is looked at first: other machines have other relocations, and a message about
//! those would say nothing to a person who forgot `-target bpf`.

use object::elf;

use super::ElfError;

const HEADER_LEN: usize = 64;
const LITTLE: u8 = 1;
const SIXTY_FOUR_BITS: u8 = 2;

/// Refuses what is not a relocatable object for little-endian BPF.
pub(super) fn check(file: &[u8]) -> Result<(), ElfError> {
    if file.len() < HEADER_LEN || !file.starts_with(b"\x7fELF") {
        return Err(ElfError::File { offset: 0, why: "it does not begin as an ELF object does" });
    }
    let [width, order] = [file[4], file[5]];
    let half = |at: usize| {
        let bytes = [file[at], file[at + 1]];
        if order == LITTLE { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) }
    };
    let (kind, machine) = (half(16), half(18));
    if machine == elf::EM_BPF && kind == elf::ET_REL && order == LITTLE && width == SIXTY_FOUR_BITS {
        return Ok(());
    }
    let what = match kind {
        elf::ET_REL => "an object",
        elf::ET_EXEC | elf::ET_DYN => "a program or library",
        _ => "an ELF file",
    };
    Err(ElfError::Kind { what: format!("{what} for {}", name(machine, order)) })
}

fn name(machine: u16, order: u8) -> String {
    let name = match machine {
        elf::EM_BPF if order == LITTLE => "BPF",
        elf::EM_BPF => "big-endian BPF",
        elf::EM_X86_64 => "x86-64",
        elf::EM_AARCH64 => "aarch64",
        elf::EM_386 => "32-bit x86",
        elf::EM_ARM => "32-bit ARM",
        elf::EM_RISCV => "RISC-V",
        elf::EM_PPC64 => "64-bit PowerPC",
        elf::EM_S390 => "s390",
        elf::EM_LOONGARCH => "LoongArch",
        other => return format!("machine number {other}"),
    };
    name.to_owned()
}
