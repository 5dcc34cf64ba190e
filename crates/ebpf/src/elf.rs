//! Objects as clang makes them with `-target bpf`.
//!
//! All sections that are executable become code, all that can only be read become constants, all that can be
//! written become variables, whatever they are called. Global functions are entry points. A function that is
//! declared but not defined is the helper with that name.

mod layout;
mod machine;
mod relocate;
mod sections;

use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol, SymbolKind};

use crate::helper::Helpers;
use crate::insn::{Flaw, InsnDecodeError, decode};
use crate::program::{Parts, Program, ProgramError};
use layout::Layout;

type Elf<'a> = ElfFile64<'a, LittleEndian>;

/// An object that is no program.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    /// Not even an object.
    #[error("not an ELF object, or a broken one: {0}")]
    Object(#[from] object::Error),
    /// The file itself is broken.
    #[error("not an ELF object, or a broken one, at offset {offset:#x}: {why}")]
    File {
        /// Where in the file.
        offset: u64,
        /// What is wrong.
        why: &'static str,
    },
    /// A section that does not say where its bytes are, or what they are about.
    #[error("section `{section}`, whose header is at offset {offset:#x} of the file: {why}")]
    Section {
        /// Its name, or its number if it has none.
        section: String,
        /// Where its header lies in the file.
        offset: u64,
        /// What is wrong.
        why: &'static str,
    },
    /// The kernel's maps are not there outside of it.
    #[error(
        "section `{section}` has maps of the kernel's, which there are none of here; use regions or variables"
    )]
    Maps {
        /// Its name.
        section: String,
    },
    /// A file for another machine, or one that was linked.
    #[error("this is {what}, not an object for BPF: compile with `clang -target bpf -c`")]
    Kind {
        /// What it is instead.
        what: String,
    },
    /// A section longer than the engine takes.
    #[error("section `{section}` is too long")]
    TooLong {
        /// Its name.
        section: String,
    },
    /// Code sections are made of slots of eight bytes.
    #[error("section `{section}` has {length} bytes of code, which is not a multiple of 8")]
    Length {
        /// Its name.
        section: String,
        /// How many bytes.
        length: u64,
    },
    /// A slot that is no instruction.
    #[error("section `{section}`, offset {offset:#x}: {flaw}")]
    Instruction {
        /// The section's name.
        section: String,
        /// The instruction's offset in it.
        offset: u64,
        /// What is wrong with it.
        flaw: Flaw,
    },
    /// Something that should be filled in, and cannot be.
    #[error("section `{section}`, offset {offset:#x}: {flaw}")]
    Relocation {
        /// The section's name.
        section: String,
        /// Where in it.
        offset: u64,
        /// What is wrong with it.
        flaw: RelocationFlaw,
    },
    /// A symbol that is nowhere.
    #[error("function `{name}` begins at {offset:#x}, which is not the beginning of an instruction")]
    Function {
        /// Its name.
        name: String,
        /// Where.
        offset: u64,
    },
    /// Nothing to run.
    #[error("the object has no functions; were its symbols stripped?")]
    NoFunctions,
    /// Something that can never be right, at an instruction.
    #[error("section `{section}`, offset {offset:#x}: {error}")]
    At {
        /// The section's name.
        section: String,
        /// The instruction's offset in it.
        offset: u64,
        /// What.
        error: ProgramError,
    },
    /// Something that can never be right.
    #[error(transparent)]
    Program(ProgramError),
}

/// Why a relocation cannot be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RelocationFlaw {
    /// Of a kind that means nothing there.
    #[error("relocation of type {kind} is not supported there")]
    Kind {
        /// Its number in the ABI.
        kind: u32,
    },
    /// Outside of its section, or not where an instruction begins.
    #[error("the relocation does not lie on an instruction")]
    Place,
    /// It refers to no symbol.
    #[error("the relocation refers to a symbol that the object does not have")]
    NoSymbol,
    /// It refers to something that is neither in the object nor a helper.
    #[error("`{name}` is not defined, and is no helper")]
    Undefined {
        /// The symbol's name.
        name: String,
    },
    /// The address of a function is wanted, or of something that is not loaded.
    #[error("the address of `{name}` is not that of a constant or variable")]
    NoData {
        /// The symbol's name.
        name: String,
    },
    /// A call into something that is no code, or out of it.
    #[error("the call of `{name}` does not go to an instruction of the object")]
    NoCode {
        /// The symbol's name.
        name: String,
    },
}

/// Loads and checks an object.
pub fn load(bytes: &[u8], helpers: &Helpers) -> Result<Program, ElfError> {
    machine::check(bytes)?;
    sections::check(bytes)?;
    let elf = Elf::parse(bytes)?;
    let mut layout = Layout::new(&elf)?;
    for section in elf.sections() {
        for (offset, relocation) in section.relocations() {
            if layout.has(section.index()) {
                relocate::relocate(&elf, &mut layout, helpers, &section, offset, &relocation)
                    .map_err(|flaw| ElfError::Relocation { section: name_of(&section), offset, flaw })?;
            }
        }
    }
    finish(&elf, layout, helpers)
}

fn finish(elf: &Elf<'_>, layout: Layout, helpers: &Helpers) -> Result<Program, ElfError> {
    let code = decode(&layout.code).map_err(|InsnDecodeError { index, flaw }| {
        let (section, offset) = layout.place(index as u32);
        ElfError::Instruction { section, offset, flaw }
    })?;
    let (mut entries, mut locals) = (Vec::new(), Vec::new());
    for symbol in elf.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text) {
        let Some(section) = symbol.section_index() else { continue };
        let name = symbol.name()?.to_owned();
        let Some(slot) = layout.slot(section, symbol.address()) else {
            return Err(ElfError::Function { name, offset: symbol.address() });
        };
        let named = if symbol.is_local() { &mut locals } else { &mut entries };
        named.push((name, slot));
    }
    if entries.is_empty() && locals.is_empty() {
        return Err(ElfError::NoFunctions);
    }
    let Layout { rodata, data, .. } = &layout;
    let parts = Parts { code, entries, locals, rodata: rodata.clone(), data: data.clone() };
    Program::new(parts, helpers.clone()).map_err(|error| match error.index() {
        Some(index) => {
            let (section, offset) = layout.place(index);
            ElfError::At { section, offset, error }
        }
        None => ElfError::Program(error),
    })
}

fn name_of<'a>(section: &impl ObjectSection<'a>) -> String {
    section.name().unwrap_or("?").to_owned()
}
