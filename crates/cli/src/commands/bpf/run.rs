//! `outboard bpf run`: a function, once.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use outboard_ebpf::text::instruction;
use outboard_ebpf::{
    Compiler, Engine, Exit, FunctionId, Insn, Instance, Interpreter, MemoryFault, Program, ProgramLimits,
    Trap, Why,
};
use serde_json::{Value, json};

use super::{site, source};
use crate::failure::wrong_usage;
use crate::terminal;

/// Run a function once and print its result
///
/// The result is printed as 0x and hex digits, the fuel it took on the standard error. A function that does what it
/// must not ends with exit code 1, and a message that has the instruction, the address and the reason.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard bpf run sum.asm --memory 0102030405
  outboard bpf run lookup.o --memory-file query.bin --entry bucket_lookup --json
  echo b7000000070000009500000000000000 | outboard bpf run - --engine interpreter")]
pub(super) struct Args {
    /// The program, - for the standard input
    #[arg(value_name = "FILE", required_unless_present = "program")]
    file: Option<PathBuf>,
    /// The program, as it was given before
    #[arg(long, value_name = "FILE", conflicts_with = "file", hide = true)]
    program: Option<PathBuf>,
    /// Which function, if the program has several to start
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
    /// What it finds at the address in r1, in hex
    #[arg(long, value_name = "HEX", conflicts_with = "memory_file", value_parser = memory)]
    memory: Option<Memory>,
    /// A file with what it finds at the address in r1
    #[arg(long, value_name = "FILE")]
    memory_file: Option<PathBuf>,
    /// Who runs it
    #[arg(long, value_name = "ENGINE", value_enum, default_value_t = EngineChoice::Compiled)]
    engine: EngineChoice,
    /// How many instructions it may take, as blocks of them are entered
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    fuel: u64,
    #[command(flatten)]
    declared: site::Declared,
    /// Print one JSON object, which also has the memory as the function left it
    #[arg(long)]
    json: bool,
}

/// The engines that can run a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum EngineChoice {
    Interpreter,
    Compiled,
}

/// A context.
#[derive(Debug, Clone)]
struct Memory(Vec<u8>);

fn memory(text: &str) -> Result<Memory, String> {
    source::hex(text).map(Memory).ok_or_else(|| "expected bytes in hex, two digits each".to_owned())
}

/// Runs it.
pub(super) fn run(args: &Args) -> Result<()> {
    let file = args.file.as_deref().or(args.program.as_deref()).unwrap_or(Path::new("-"));
    let context = match (&args.memory, &args.memory_file) {
        (Some(memory), _) => memory.0.clone(),
        (None, Some(path)) if source::is_stdin(path) && source::is_stdin(file) => {
            return Err(wrong_usage("the standard input cannot be both the program and its memory"));
        }
        (None, Some(path)) => source::read(path)?,
        (None, None) => Vec::new(),
    };
    let program = Arc::new(source::program(file, &args.declared.table()?)?);
    let function = function(&program, args.entry.as_deref())?;
    let mut instance = Instance::new(ProgramLimits { context: context.len(), ..ProgramLimits::default() });
    instance.set_context(&context)?;
    let executor: Box<dyn Engine> = match args.engine {
        EngineChoice::Interpreter => Box::new(Interpreter::new(program.clone())),
        EngineChoice::Compiled => Box::new(Compiler::native()?.compile(program.clone())?),
    };
    let exit = executor.start(&mut instance, function, &mut args.declared.site(), args.fuel);
    let used = args.fuel - instance.fuel();
    if args.json {
        terminal::print(&report(&program, exit, used, instance.context()).to_string())?;
    }
    match exit {
        Exit::Returned(_) if args.json => Ok(()),
        Exit::Returned(value) => {
            eprintln!("{used} fuel used");
            terminal::print(&format!("{value:#x}"))
        }
        Exit::Suspended => bail!("the function waits for a helper that this command does not answer"),
        Exit::Trapped(trap) => bail!("{}, after {used} fuel", told(&program, trap)),
    }
}

/// The function that is meant.
fn function(program: &Program, wanted: Option<&str>) -> Result<FunctionId> {
    let entries = program.functions().iter().filter(|function| function.is_entry);
    let names: Vec<&str> = entries.map(|function| function.name.as_str()).collect();
    let name = match (wanted, names.as_slice()) {
        (Some(wanted), _) => wanted,
        (None, [only]) => only,
        (None, []) => bail!("the program has no function that can be started; static ones cannot"),
        (None, _) => {
            return Err(wrong_usage(&format!(
                "the program has several functions, choose one with --entry: {}",
                names.join(", ")
            )));
        }
    };
    let found = program.entry(name);
    found.ok_or_else(|| {
        let message =
            format!("--entry {name}: the program has no such function to start, but {}", names.join(", "));
        wrong_usage(&message)
    })
}

/// A trap with the instruction as people read it.
fn told(program: &Program, trap: Trap) -> String {
    let (name, text) = place(program, trap.index);
    let called = match program.code().get(trap.index as usize) {
        Some(Insn::CallHelper { id }) => program.helpers().get(*id),
        _ => None,
    };
    let why = match (trap.why, called.and_then(site::advice)) {
        (Why::Helper { .. }, Some(advice)) => advice,
        (why, _) => why.to_string(),
    };
    format!("trap in `{name}`, instruction {} `{text}`: {why}", trap.index)
}

fn place(program: &Program, index: u32) -> (&str, String) {
    let name = program.function_at(index).map_or("?", |id| program.function(id).name.as_str());
    let text = program.code().get(index as usize).map(|insn| instruction(insn, program.helpers()));
    (name, text.unwrap_or_default())
}

fn report(program: &Program, exit: Exit, used: u64, context: &[u8]) -> Value {
    let mut report = json!({"fuel_used": used, "memory": source::to_hex(context)});
    match exit {
        Exit::Returned(value) => report["result"] = json!(format!("{value:#x}")),
        Exit::Suspended => report["suspended"] = json!(true),
        Exit::Trapped(trap) => {
            let (function, text) = place(program, trap.index);
            let address = match trap.why {
                Why::Memory(MemoryFault::Outside { address, .. } | MemoryFault::ReadOnly { address, .. }) => {
                    Some(format!("{address:#x}"))
                }
                _ => None,
            };
            report["trap"] = json!({
                "function": function,
                "index": trap.index,
                "instruction": text,
                "address": address,
                "why": trap.why.to_string(),
            });
        }
    }
    report
}
