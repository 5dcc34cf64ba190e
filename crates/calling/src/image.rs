//! A function as it travels.

use outboard_ebpf::insn::{decode, encode};
use outboard_ebpf::program::{MAX_DATA, MAX_SLOTS};
use outboard_ebpf::text::assemble;
use outboard_ebpf::{Insn, Parts, Program, elf};
use outboard_wire::calling::{CODE_LEN_MAX, FunctionName, INTERFACE_VERSION};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::helpers::{FORWARD, FORWARD_TO, helpers};

/// The bytes of a function: its program and which of the program's entry points it is. Its name is their hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionImage {
    bytes: Vec<u8>,
    name: FunctionName,
}

/// Why something is no function.
#[derive(Error)]
#[non_exhaustive]
pub enum ImageError {
    /// An object file that cannot be loaded.
    #[error("the object cannot be used: {0}")]
    Object(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A text that cannot be read.
    #[error("the text cannot be used: {0}")]
    Text(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A program that can never be right.
    #[error("the program cannot be used: {0}")]
    Program(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Instructions that cannot be read.
    #[error("the code cannot be read: {0}")]
    Code(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The program has no such entry point.
    #[error("there is no function `{entry}` that can be called; there are {known}")]
    NoEntry {
        /// What was asked for.
        entry: String,
        /// What there is.
        known: String,
    },
    /// Too long for any site.
    #[error("the function has {len} bytes, and sites take {CODE_LEN_MAX}; leave out what it does not call")]
    TooLong {
        /// How long it is.
        len: usize,
    },
    /// Bytes that [`FunctionImage::bytes`] never gives.
    #[error("the image of the function is damaged: {what}")]
    Damaged {
        /// What is wrong.
        what: &'static str,
    },
}

outboard_wire::debug_with_causes!(ImageError);

/// What the head of an image is made of: version, lengths of code, constants and variables, the number of functions,
/// and which of them is called.
const HEAD: usize = 24;
/// What stands before a function's name: first slot, length of the name, whether it can be started.
const FUNCTION_HEAD: usize = 8;

impl FunctionImage {
    /// The function `entry` of an object that clang has made of C, with the header `calling.h` of this project:
    /// `clang -target bpf -mcpu=v3 -O2 -c count.c -o count.o`.
    pub fn from_object(object: &[u8], entry: &str) -> Result<Self, ImageError> {
        let program = elf::load(object, &helpers()).map_err(|error| ImageError::Object(error.into()))?;
        Self::from_program(&program, entry)
    }

    /// The function `entry` of a program in the text form of the eBPF engine: an instruction a line, `name:` before a line to
    /// jump to, what follows `;` is a comment. Without `.entry name` the program is one function, `main`.
    ///
    /// A function begins with the address of its arguments in `r1` and their length in `r2`, may use 512 bytes below `r10`, and
    /// returns `r0`. It `call`s helpers with their arguments from `r1` on and finds what they answer in `r0`; `r6` to `r9` keep
    /// their values. A region is its place among those that the function was registered with, from 0; lengths and offsets
    /// are bytes.
    ///
    /// | helper | takes |
    /// |---|---|
    /// | `region_read`, `region_write` | region, offset, address here, length |
    /// | `region_fetch` | region, offset, length, number of a buffer from 0 to 10: answers its address, with the bytes in it |
    /// | `region_fetch_add` | region, offset, what to add: answers what it was |
    /// | `region_compare_swap` | region, offset, expected, new: answers what it was |
    /// | `reply` | address here, length: appends to the reply |
    /// | `forward` | number of another function of the caller, address of its arguments, length |
    /// | `forward_to` | number of a memory server, number of a function there, address of its arguments, length |
    /// | `outboard_log` | address of a text, length |
    /// | `outboard_time`, `outboard_random` | nothing |
    pub fn from_text(text: &str, entry: &str) -> Result<Self, ImageError> {
        let helpers = helpers();
        let parts = assemble(text, &helpers).map_err(|error| ImageError::Text(error.into()))?;
        let program = Program::new(parts, helpers).map_err(|error| ImageError::Program(error.into()))?;
        Self::from_program(&program, entry)
    }

    /// The function `entry` of a program that was made for [`helpers`].
    #[doc(hidden)]
    pub fn from_program(program: &Program, entry: &str) -> Result<Self, ImageError> {
        let Some(called) = program.entry(entry) else {
            let entries = program.functions().iter().filter(|function| function.is_entry);
            let known = entries.map(|function| format!("`{}`", function.name)).collect::<Vec<_>>().join(", ");
            return Err(ImageError::NoEntry { entry: entry.to_owned(), known });
        };
        let code = encode(program.code());
        let functions = program.functions();
        let mut bytes = Vec::new();
        let lengths = [code.len(), program.rodata().len(), program.data().len(), functions.len()];
        word(&mut bytes, INTERFACE_VERSION);
        // None of these is more than what the engine takes, which is less than 2^32.
        lengths.into_iter().for_each(|length| word(&mut bytes, length as u32));
        word(&mut bytes, called.index() as u32);
        for part in [code.as_slice(), program.rodata(), program.data()] {
            bytes.extend_from_slice(part);
        }
        for function in functions {
            word(&mut bytes, function.start);
            let length = u16::try_from(function.name.len())
                .map_err(|_| ImageError::Damaged { what: "the name of a function is too long" })?;
            bytes.extend_from_slice(&length.to_le_bytes());
            bytes.extend_from_slice(&u16::from(function.is_entry).to_le_bytes());
            bytes.extend_from_slice(function.name.as_bytes());
        }
        if bytes.len() > CODE_LEN_MAX {
            return Err(ImageError::TooLong { len: bytes.len() });
        }
        Ok(Self { name: name_of(&bytes), bytes })
    }

    /// An image that another process has sent. Whether it is a function is found out when it is registered.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self { name: name_of(&bytes), bytes }
    }

    /// The name of the function.
    pub fn name(&self) -> FunctionName {
        self.name
    }

    /// What travels.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether it can go on as another function, here or at another server. Of one that cannot be read this is unknown.
    pub fn may_forward(&self) -> bool {
        self.program().is_ok_and(|(program, _)| Forwards::of(&program).any())
    }

    /// The program, and which of its functions is called.
    #[doc(hidden)]
    pub fn program(&self) -> Result<(Program, String), ImageError> {
        let mut reader = Reader(&self.bytes);
        if reader.word()? != INTERFACE_VERSION {
            return Err(ImageError::Damaged { what: "it is of another version" });
        }
        let [code, rodata, data, functions, called] =
            [reader.word()?, reader.word()?, reader.word()?, reader.word()?, reader.word()?];
        if code as usize > MAX_SLOTS * 8 || rodata as usize > MAX_DATA || data as usize > MAX_DATA {
            return Err(ImageError::Damaged { what: "it is longer than any function" });
        }
        let mut parts = Parts {
            code: decode(reader.take(code as usize)?).map_err(|error| ImageError::Code(error.into()))?,
            rodata: reader.take(rodata as usize)?.to_vec(),
            data: reader.take(data as usize)?.to_vec(),
            ..Parts::default()
        };
        if functions as usize > reader.0.len() / FUNCTION_HEAD {
            return Err(ImageError::Damaged { what: "it ends too early" });
        }
        let mut entry = None;
        for index in 0..functions {
            let start = reader.word()?;
            let (length, is_entry) = (reader.half()?, reader.half()?);
            let name = std::str::from_utf8(reader.take(length.into())?)
                .map_err(|_| ImageError::Damaged { what: "the name of a function is no text" })?;
            match is_entry {
                0 => parts.locals.push((name.to_owned(), start)),
                1 => parts.entries.push((name.to_owned(), start)),
                _ => return Err(ImageError::Damaged { what: "an unused bit is set" }),
            }
            if index == called && is_entry == 1 {
                entry = Some(name.to_owned());
            }
        }
        if !reader.0.is_empty() {
            return Err(ImageError::Damaged { what: "something stands behind its end" });
        }
        let entry = entry.ok_or(ImageError::Damaged { what: "it has no entry point" })?;
        let program = Program::new(parts, helpers()).map_err(|error| ImageError::Program(error.into()))?;
        Ok((program, entry))
    }
}

fn word(bytes: &mut Vec<u8>, word: u32) {
    bytes.extend_from_slice(&word.to_le_bytes());
}

/// The first instructions at which a program says as which function it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Forwards {
    /// At the same server.
    pub(crate) here: Option<u32>,
    /// At any of its caller's servers.
    pub(crate) elsewhere: Option<u32>,
}

impl Forwards {
    pub(crate) fn of(program: &Program) -> Self {
        let first = |helper: u32| {
            let calls = |insn: &Insn| matches!(insn, Insn::CallHelper { id } if *id == helper);
            program.code().iter().position(calls).map(|index| index as u32)
        };
        Self { here: first(FORWARD), elsewhere: first(FORWARD_TO) }
    }

    /// Whether there is one.
    pub(crate) fn any(self) -> bool {
        self.here.is_some() || self.elsewhere.is_some()
    }
}

fn name_of(bytes: &[u8]) -> FunctionName {
    let mut hasher = Sha256::new();
    hasher.update(b"outboard function");
    hasher.update(INTERFACE_VERSION.to_le_bytes());
    hasher.update(bytes);
    FunctionName(hasher.finalize().into())
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], ImageError> {
        let (taken, rest) =
            self.0.split_at_checked(length).ok_or(ImageError::Damaged { what: "it ends too early" })?;
        self.0 = rest;
        Ok(taken)
    }

    fn word(&mut self) -> Result<u32, ImageError> {
        let bytes = self.take(4)?;
        Ok(bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte)))
    }

    fn half(&mut self) -> Result<u16, ImageError> {
        let bytes = self.take(2)?;
        Ok(bytes.iter().rev().fold(0, |half, byte| half << 8 | u16::from(*byte)))
    }
}

const _: () = assert!(HEAD + MAX_SLOTS * 8 < CODE_LEN_MAX);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "
        .entry first
            mov r0, 1
            exit
        .entry second
            call local helper
            exit
        .function helper
            mov r0, 2
            exit";

    #[test]
    fn an_image_gives_the_same_program_under_the_same_name() {
        let image = FunctionImage::from_text(TEXT, "second").unwrap();
        let arrived = FunctionImage::from_bytes(image.bytes().to_vec());
        assert_eq!(arrived, image);
        let (program, entry) = arrived.program().unwrap();
        assert_eq!(entry, "second");
        assert_eq!(FunctionImage::from_program(&program, "second").unwrap(), image);
        let other = FunctionImage::from_text(TEXT, "first").unwrap();
        assert_ne!(other.name(), image.name(), "another entry point is another function");
    }

    #[test]
    fn what_is_not_there_is_named() {
        let error = FunctionImage::from_text(TEXT, "third").unwrap_err().to_string();
        assert!(error.contains("`third`") && error.contains("`first`, `second`"), "{error}");
        let error = FunctionImage::from_object(b"\x7fELF and nothing more", "main").unwrap_err();
        assert!(matches!(error, ImageError::Object(_)), "{error}");
    }

    proptest! {
        #[test]
        fn damaged_images_are_refused_or_another_function(at: usize, flip in 1u8.., cut: usize) {
            let image = FunctionImage::from_text(TEXT, "second").unwrap();
            let mut bytes = image.bytes().to_vec();
            let at = at % bytes.len();
            bytes[at] ^= flip;
            let damaged = FunctionImage::from_bytes(bytes.clone());
            prop_assert_ne!(damaged.name(), image.name());
            let _ = damaged.program();
            bytes[at] ^= flip;
            bytes.truncate(cut % bytes.len());
            prop_assert!(FunctionImage::from_bytes(bytes).program().is_err());
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = FunctionImage::from_bytes(bytes).program();
        }
    }
}
