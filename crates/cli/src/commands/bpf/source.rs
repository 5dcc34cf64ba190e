//! Programs as they come: objects, texts, hex and bytes.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, Result, bail};
use outboard_ebpf::text::assemble;
use outboard_ebpf::{Helpers, Parts, Program, ProgramError, elf};

use crate::numbers;

/// A longer file is no program, whatever else is in it.
const FILE_LEN_MAX: u64 = 64 << 20;

/// The contents of a file, before anything is checked.
enum Form {
    Object(Vec<u8>),
    Text(String),
    Bytes(Vec<u8>),
}

/// A path for messages.
pub(super) fn shown(path: &Path) -> Cow<'_, str> {
    if is_stdin(path) { "standard input".into() } else { path.to_string_lossy() }
}

/// Whether a path stands for the standard input.
pub(super) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Reads a file, or the standard input where it is called `-`.
pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut take = |input: &mut dyn Read| input.take(FILE_LEN_MAX + 1).read_to_end(&mut bytes);
    let taken = if is_stdin(path) {
        take(&mut io::stdin().lock())
    } else {
        File::open(path).and_then(|mut file| take(&mut file))
    };
    taken.with_context(|| format!("cannot read {}", shown(path)))?;
    if bytes.len() as u64 > FILE_LEN_MAX {
        bail!("{} is longer than {}, which no program is", shown(path), numbers::bytes(FILE_LEN_MAX));
    }
    Ok(bytes)
}

/// A program that is ready to be run.
pub(super) fn program(path: &Path, helpers: &Helpers) -> Result<Program> {
    let told = |error: &dyn std::fmt::Display| format!("{}: {error}", shown(path));
    match form(read(path)?) {
        Form::Object(bytes) => elf::load(&bytes, helpers).map_err(|error| anyhow::anyhow!(told(&error))),
        Form::Text(text) => {
            let parts = assemble(&text, helpers).map_err(|error| anyhow::anyhow!(told(&error)))?;
            Program::new(parts, helpers.clone()).map_err(|error| anyhow::anyhow!(told(&error)))
        }
        Form::Bytes(bytes) => {
            let parts = decoded(&bytes).map_err(|error| anyhow::anyhow!(told(&error)))?;
            let program = Program::new(parts, helpers.clone());
            program.map_err(|error| anyhow::anyhow!(told(&with_offset(error.index(), &error))))
        }
    }
}

/// The instructions of a program. Of texts and bytes, also when it could never run.
pub(super) fn parts(path: &Path, helpers: &Helpers) -> Result<Parts> {
    let parts = match form(read(path)?) {
        Form::Object(bytes) => {
            elf::load(&bytes, helpers).map(|program| parts_of(&program)).map_err(Into::into)
        }
        Form::Text(text) => assemble(&text, helpers).map_err(Into::into),
        Form::Bytes(bytes) => decoded(&bytes).map_err(anyhow::Error::msg),
    };
    parts.map_err(|error: anyhow::Error| anyhow::anyhow!("{}: {error:#}", shown(path)))
}

/// Functions without a name get the one that the engine gives them.
fn parts_of(program: &Program) -> Parts {
    let named = |entry: bool| {
        let functions = program.functions().iter().filter(move |function| function.is_entry == entry);
        functions.map(|function| (function.name.clone(), function.start)).collect()
    };
    Parts {
        code: program.code().to_vec(),
        entries: named(true),
        locals: named(false),
        rodata: program.rodata().to_vec(),
        data: program.data().to_vec(),
    }
}

fn decoded(bytes: &[u8]) -> Result<Parts, String> {
    if bytes.is_empty() {
        return Err(ProgramError::Empty.to_string());
    }
    Parts::from_bytes(bytes).map_err(|error| with_offset(Some(error.index as u32), &error))
}

/// A user who has only bytes counts bytes.
fn with_offset(index: Option<u32>, error: &dyn std::fmt::Display) -> String {
    match index {
        Some(index) => format!("offset {:#x}: {error}", u64::from(index) * 8),
        None => error.to_string(),
    }
}

fn form(bytes: Vec<u8>) -> Form {
    if bytes.starts_with(b"\x7fELF") {
        return Form::Object(bytes);
    }
    // No text has a zero, and hardly any instruction is without one.
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => match hex(&text) {
            Some(bytes) => Form::Bytes(bytes),
            None => Form::Text(text),
        },
        Ok(text) => Form::Bytes(text.into_bytes()),
        Err(error) => Form::Bytes(error.into_bytes()),
    }
}

/// Bytes in hex, with spaces wherever one likes, if it is nothing else.
pub(super) fn hex(text: &str) -> Option<Vec<u8>> {
    let text = text.trim();
    let digits = text.strip_prefix("0x").unwrap_or(text).chars().filter(|letter| !letter.is_whitespace());
    let digits: Option<Vec<u8>> = digits.map(|letter| Some(letter.to_digit(16)? as u8)).collect();
    let digits = digits?;
    let (pairs, rest) = digits.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

/// Bytes as hex.
pub(super) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
