//! `outboard bpf asm`: a text as instructions.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use outboard_ebpf::insn::encode;
use outboard_ebpf::text::assemble;
use outboard_ebpf::{Helpers, Parts};
use serde_json::json;

use super::{site, source};
use crate::terminal;

/// Turn a text into instructions, in hex or as a file of bytes
///
/// Bytes carry code and nothing else: they start with the first instruction. Texts with constants, variables or
/// several functions to start are programs as they are, and need not be assembled to be run.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard bpf asm sum.asm                   in hex, a slot per line
  outboard bpf asm sum.asm --output sum.bin  as bytes
  printf 'mov r0, 7\\nexit\\n' | outboard bpf asm -")]
pub(super) struct Args {
    /// The text, - for the standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write bytes to this file instead of printing them
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file of --output if it exists
    #[arg(long, requires = "output")]
    force: bool,
    #[command(flatten)]
    declared: site::Declared,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Reads it and prints what it means.
pub(super) fn run(args: &Args) -> Result<()> {
    let parts = assembled(&args.file, &args.declared.table()?)?;
    let bytes = encode(&parts.code);
    if let Some(output) = &args.output {
        write(output, &bytes, args.force)?;
    }
    if args.json {
        let slots = parts.code.len();
        terminal::print(&json!({"slots": slots, "code": source::to_hex(&bytes)}).to_string())
    } else if args.output.is_none() {
        let lines: Vec<_> = bytes.chunks(8).map(source::to_hex).collect();
        terminal::print(&lines.join("\n"))
    } else {
        Ok(())
    }
}

fn write(path: &Path, bytes: &[u8], may_replace: bool) -> Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).create_new(!may_replace);
    let written = options.open(path).and_then(|mut file| file.write_all(bytes));
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => anyhow!("{} exists already; replace it with --force", path.display()),
        _ => anyhow!(error).context(format!("cannot write {}", path.display())),
    })
}

fn assembled(path: &Path, helpers: &Helpers) -> Result<Parts> {
    let shown = source::shown(path);
    let Ok(text) = String::from_utf8(source::read(path)?) else {
        bail!("{shown} is not a text; `outboard bpf disasm` makes one of an object or of bytes")
    };
    let parts = assemble(&text, helpers).map_err(|error| anyhow!("{shown}: {error}"))?;
    if parts.code.is_empty() {
        bail!("{shown} has no instructions");
    }
    if !parts.rodata.is_empty() || !parts.data.is_empty() {
        bail!("{shown} has constants or variables, which bytes cannot carry; run the text as it is");
    }
    if parts.entries.len() > 1 || parts.entries.iter().any(|(_, start)| *start != 0) {
        bail!("{shown} starts elsewhere than bytes do, with the first instruction; run the text as it is");
    }
    Ok(parts)
}
