//! `outboard bpf disasm`: a program as text.

use std::path::PathBuf;

use anyhow::Result;
use outboard_ebpf::Insn;
use outboard_ebpf::text::{disassemble, instruction};
use serde_json::json;

use super::{site, source};
use crate::terminal;

/// Print a program as text that `outboard bpf asm` and all other commands read
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard bpf disasm lookup.o
  echo b7000000070000009500000000000000 | outboard bpf disasm - --json")]
pub(super) struct Args {
    /// The program, - for the standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    declared: site::Declared,
    /// Print one JSON object instead of a text
    #[arg(long)]
    json: bool,
}

/// Reads it and prints it.
pub(super) fn run(args: &Args) -> Result<()> {
    let helpers = args.declared.table()?;
    let parts = source::parts(&args.file, &helpers)?;
    if !args.json {
        return terminal::print(disassemble(&parts, &helpers).trim_end());
    }
    let listed = |named: &[(String, u32)]| -> Vec<_> {
        named.iter().map(|(name, start)| json!({"name": name, "start": start})).collect()
    };
    let code = (0u32..).zip(&parts.code).filter(|(_, insn)| **insn != Insn::SecondHalf);
    let code: Vec<_> =
        code.map(|(index, insn)| json!({"index": index, "text": instruction(insn, &helpers)})).collect();
    let all = json!({
        "entries": listed(&parts.entries),
        "functions": listed(&parts.locals),
        "constants": source::to_hex(&parts.rodata),
        "variables": source::to_hex(&parts.data),
        "instructions": code,
    });
    terminal::print(&all.to_string())
}
