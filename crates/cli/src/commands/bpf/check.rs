//! `outboard bpf check`: what is known about a program before it runs.

use std::collections::HashMap;
use std::path::PathBuf;

use anyhow::Result;
use outboard_ebpf::analysis::AccessFinding;
use outboard_ebpf::text::instruction;
use outboard_ebpf::{Analysis, Function, Insn, Program};
use serde_json::{Value, json};

use super::{site, source};
use crate::terminal;

/// Say what is proven about a program, what is checked while it runs, and what it costs
///
/// Per function, beside its instructions: which accesses to memory need no check, which need one and why, which
/// loops end by themselves, and how much fuel a run takes at most. A program is refused, with exit code 1, only for
/// what can never be right.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard bpf check lookup.o
  outboard bpf check sum.asm --json
  outboard bpf check functions.o --helper 77:ask --helper 9:tell")]
pub(super) struct Args {
    /// The program, - for the standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    declared: site::Declared,
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
}

/// Checks it and says what was found.
pub(super) fn run(args: &Args) -> Result<()> {
    let program = source::program(&args.file, &args.declared.table()?)?;
    let report = Report::new(&program);
    terminal::print(&if args.json { report.json().to_string() } else { report.tables() })
}

struct Report<'a> {
    program: &'a Program,
    analysis: Analysis,
    findings: HashMap<u32, Vec<AccessFinding>>,
    /// By the slot at which they begin.
    loops: HashMap<u32, Option<u64>>,
}

impl<'a> Report<'a> {
    fn new(program: &'a Program) -> Self {
        let analysis = Analysis::new(program);
        let mut findings: HashMap<u32, Vec<AccessFinding>> = HashMap::new();
        for finding in analysis.findings() {
            findings.entry(finding.index).or_default().push(finding);
        }
        let loops = analysis.loops().into_iter().map(|found| (found.start, found.rounds)).collect();
        Self { program, analysis, findings, loops }
    }

    /// The slots of a function at which instructions begin.
    fn instructions(&self, function: &Function) -> impl Iterator<Item = (u32, &'a Insn)> {
        let code = &self.program.code()[function.start as usize..function.end as usize];
        (function.start..).zip(code).filter(|(_, insn)| **insn != Insn::SecondHalf)
    }

    /// The facts about the access at this slot; none if there is no access.
    fn access(&self, index: u32, insn: &Insn) -> Option<Access> {
        if !matches!(insn, Insn::Load { .. } | Insn::Store { .. } | Insn::Atomic { .. }) {
            return None;
        }
        if !self.analysis.is_complete() {
            return Some(Access { verdict: "checked", why: "checked: too much to look at".to_owned() });
        }
        let Some(findings) = self.findings.get(&index) else {
            return Some(Access { verdict: "unreached", why: "never reached".to_owned() });
        };
        let mut told: Vec<String> = Vec::new();
        for finding in findings.iter().map(AccessFinding::to_string) {
            if !told.contains(&finding) {
                told.push(finding);
            }
        }
        let verdict = if findings.iter().all(AccessFinding::is_proven) { "proven" } else { "checked" };
        Some(Access { verdict, why: told.join("; or, by who calls: ") })
    }

    /// How many accesses of a function have this verdict.
    fn count(&self, function: &Function, verdict: &str) -> usize {
        let accesses = self.instructions(function).filter_map(|(index, insn)| self.access(index, insn));
        accesses.filter(|access| access.verdict == verdict).count()
    }

    fn fuel(&self, function: &Function) -> Option<u64> {
        self.analysis.fuel_of(self.program.entry(&function.name)?)
    }

    fn context(&self, function: &Function) -> Option<u32> {
        self.analysis.context_of(self.program.entry(&function.name)?)
    }

    fn tables(&self) -> String {
        let program = self.program;
        let mut text = format!(
            "program {}\n{} slots of code, {} bytes of constants, {} bytes of variables\n",
            program.hash(),
            program.code().len(),
            program.rodata().len(),
            program.data().len()
        );
        if !self.analysis.is_complete() {
            text += "too much to look at: every access is checked, every loop pays fuel\n";
        }
        for function in program.functions() {
            text += &format!("\n{}\n{}\n", self.summary(function), self.listing(function));
        }
        text.trim_end().to_owned()
    }

    fn summary(&self, function: &Function) -> String {
        let count = |verdict| self.count(function, verdict);
        let mut text = format!(
            "function {}: {} accesses proven, {} checked",
            function.name,
            count("proven"),
            count("checked")
        );
        if function.is_entry {
            text += &match self.fuel(function) {
                Some(fuel) => format!(", at most {fuel} fuel"),
                None => ", fuel not bounded".to_owned(),
            };
            match self.context(function) {
                Some(length) if length > 0 => text += &format!(", proofs need {length} bytes of memory"),
                _ => {}
            }
        } else {
            text += ", only called by others";
        }
        if function.may_suspend { text + ", may be suspended" } else { text }
    }

    fn listing(&self, function: &Function) -> String {
        let mut table = terminal::table(["slot", "instruction", "what is known"]);
        for (index, insn) in self.instructions(function) {
            let mut known = Vec::new();
            known.extend(self.loops.get(&index).map(|rounds| match rounds {
                Some(rounds) => format!("loop: bounded, at most {rounds} rounds"),
                None => "loop: not bounded, pays fuel".to_owned(),
            }));
            known.extend(self.access(index, insn).map(|access| access.why));
            table.add_row([index.to_string(), instruction(insn, self.program.helpers()), known.join("\n")]);
        }
        table.to_string()
    }

    fn json(&self) -> Value {
        let functions: Vec<Value> =
            self.program.functions().iter().map(|function| self.function(function)).collect();
        json!({
            "program": self.program.hash().to_string(),
            "slots": self.program.code().len(),
            "constants": self.program.rodata().len(),
            "variables": self.program.data().len(),
            "analysed": self.analysis.is_complete(),
            "functions": functions,
        })
    }

    fn function(&self, function: &Function) -> Value {
        let mut loops = Vec::new();
        let mut instructions = Vec::new();
        for (index, insn) in self.instructions(function) {
            if let Some(rounds) = self.loops.get(&index) {
                loops.push(json!({"start": index, "bounded": rounds.is_some(), "rounds": rounds}));
            }
            let mut told = json!({"index": index, "text": instruction(insn, self.program.helpers())});
            if let Some(access) = self.access(index, insn) {
                told["access"] = json!({"verdict": access.verdict, "why": access.why});
            }
            instructions.push(told);
        }
        json!({
            "name": function.name,
            "entry": function.is_entry,
            "may_suspend": function.may_suspend,
            "proven": self.count(function, "proven"),
            "checked": self.count(function, "checked"),
            "fuel_max": self.fuel(function),
            "memory_needed": self.context(function),
            "loops": loops,
            "instructions": instructions,
        })
    }
}

/// The facts about one access.
struct Access {
    /// `proven`, `checked` or `unreached`.
    verdict: &'static str,
    why: String,
}
