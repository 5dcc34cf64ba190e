//! What does a small function cost, and what does it cost to stop it halfway and go on elsewhere?
//!
//! The yardsticks are rbpf, whose machine code checks nothing, and the same function in Rust.

mod native;
mod ours;
mod resident;
mod theirs;

use std::hint::black_box;
use std::time::Instant;

use ours::{Function, Waiting, compiler, program_of_object, program_of_text};
use outboard_ebpf::insn::encode;
use theirs::Theirs;

use crate::harness::{BenchReport, Duel, Effort, Environment, Figure, Progress, Round, Side, Unit};
use crate::{BenchError, BenchOptions};

const LOOKUP: &[u8] = include_bytes!("../../../crates/ebpf/tests/objects/lookup-v3.o");
const LOOP: &[u8] = include_bytes!("../../../crates/ebpf/tests/objects/loop-v3.o");

const RBPF_JIT: &str = "rbpf's machine code, which checks no access";
const RBPF_INTERPRETER: &str = "rbpf's interpreter";
const NATIVE: &str = "the same in Rust";

/// What it takes to answer a question.
struct Bench<'a> {
    name: &'a str,
    effort: Effort,
    progress: &'a Progress,
}

/// One thing to find out.
struct Question {
    name: &'static str,
    ask: fn(Bench<'_>) -> Result<Figure, BenchError>,
}

const QUESTIONS: &[Question] = &[
    Question { name: "ebpf.return0.compiled", ask: return0 },
    Question { name: "ebpf.bucket_lookup.compiled", ask: lookup },
    Question { name: "ebpf.bucket_lookup.compiled_over_native", ask: lookup_over_native },
    Question { name: "ebpf.loop100.compiled", ask: loop100 },
    Question { name: "ebpf.suspend_resume.in_place", ask: in_place },
    Question { name: "ebpf.suspend_resume.serialised", ask: serialised },
    Question { name: "ebpf.compile.bucket_lookup", ask: compile },
    Question { name: "ebpf.interpreter.loop100", ask: interpreter },
    Question { name: "ebpf.resident.1000_functions", ask: resident::resident },
];

/// Asks all questions.
pub(crate) fn run(options: &BenchOptions) -> Result<BenchReport, BenchError> {
    let cores_allowed = std::thread::available_parallelism().map_or(1, usize::from);
    let environment = Environment::survey(options.effort, cores_allowed, Vec::new());
    let mut progress = Progress::new(options.effort, QUESTIONS.len());
    let mut figures = Vec::new();
    for question in QUESTIONS {
        progress.begin(question.name);
        let bench = Bench { name: question.name, effort: options.effort, progress: &progress };
        figures.push((question.ask)(bench)?);
        progress.end();
    }
    Ok(BenchReport { bench: "ebpf", figures, environment })
}

/// How often something of about 10 ns is repeated in a round.
const CALLS: u64 = 500_000;

impl Bench<'_> {
    /// Nanoseconds of `ours` against `yardstick`, each repeated so often in a round.
    fn duel<T, U>(
        &self,
        calls: u64,
        mut ours: impl FnMut() -> T,
        mut yardstick: impl FnMut() -> U,
    ) -> Result<Duel, BenchError> {
        let calls = self.effort.items(calls);
        Duel::run(self.effort, self.progress, |side| {
            Ok(match side {
                Side::Ours => round(calls, &mut ours),
                Side::Yardstick => round(calls, &mut yardstick),
            })
        })
    }

    fn figure(&self, duel: &Duel, versus: &str) -> Figure {
        duel.figure(self.name, Unit::Nanoseconds, 1.0, versus)
    }
}

/// The time of one of so many calls: the best of ten parts, as an interruption is in one of them.
fn round<T>(calls: u64, call: &mut impl FnMut() -> T) -> Round {
    const PARTS: u64 = 10;
    let calls = (calls / PARTS).max(1);
    let mut score = f64::INFINITY;
    for _ in 0..PARTS {
        let began = Instant::now();
        for _ in 0..calls {
            black_box(call());
        }
        score = score.min(began.elapsed().as_secs_f64() * 1e9 / calls as f64);
    }
    Round { score, samples_ns: Vec::new() }
}

fn return0(bench: Bench<'_>) -> Result<Figure, BenchError> {
    let mut ours = Function::compiled(program_of_text("mov r0, 0\nexit")?, &[0; 64])?;
    let mut theirs = Theirs::compiled(ours.bytecode(), &[0; 64])?;
    let duel = bench.duel(CALLS, || ours.call(), || theirs.call_compiled())?;
    Ok(bench.figure(&duel, RBPF_JIT))
}

fn lookup(bench: Bench<'_>) -> Result<Figure, BenchError> {
    let query = native::Query::hit_in_last_slot();
    let mut ours = Function::compiled(program_of_object(LOOKUP)?, &query.bytes())?;
    let mut theirs = Theirs::compiled(ours.bytecode(), &query.bytes())?;
    ours.must_return(query.answer())?;
    let duel = bench.duel(CALLS, || ours.call(), || theirs.call_compiled())?;
    Ok(bench.figure(&duel, RBPF_JIT))
}

fn lookup_over_native(bench: Bench<'_>) -> Result<Figure, BenchError> {
    let query = native::Query::hit_in_last_slot();
    let mut ours = Function::compiled(program_of_object(LOOKUP)?, &query.bytes())?;
    ours.must_return(query.answer())?;
    let native = || native::bucket_lookup(black_box(&query));
    let duel = bench.duel(CALLS, || ours.call(), native)?;
    Ok(bench.figure(&duel, NATIVE))
}

const ROUNDS: u64 = 100;

fn loop_context() -> Vec<u8> {
    [ROUNDS, 1].map(u64::to_le_bytes).concat()
}

fn loop100(bench: Bench<'_>) -> Result<Figure, BenchError> {
    let mut ours = Function::compiled(program_of_object(LOOP)?, &loop_context())?;
    ours.must_return(native::mix(ROUNDS, 1))?;
    let native = || native::mix(black_box(ROUNDS), black_box(1));
    let duel = bench.duel(CALLS / 10, || ours.call(), native)?;
    Ok(bench.figure(&duel, NATIVE))
}

fn interpreter(bench: Bench<'_>) -> Result<Figure, BenchError> {
    let mut ours = Function::interpreted(program_of_object(LOOP)?, &loop_context())?;
    let mut theirs = Theirs::interpreted(ours.bytecode(), &loop_context())?;
    ours.must_return(native::mix(ROUNDS, 1))?;
    let calls = CALLS / 200;
    let duel = bench.duel(calls, || ours.call(), || theirs.call_interpreted())?;
    Ok(bench.figure(&duel, RBPF_INTERPRETER))
}

/// How much longer a call takes whose helper says that it takes longer.
fn in_place(bench: Bench<'_>) -> Result<Figure, BenchError> {
    let (mut pending, mut answered) = (Waiting::new()?, Waiting::new()?);
    let duel = bench.duel(CALLS, || pending.suspend_and_resume(), || answered.answered_at_once())?;
    let both = bench.figure(&duel, "");
    let versus =
        "what the same call takes when its helper answers at once; the number is what is added to it";
    Ok(Figure::new(bench.name, Unit::Nanoseconds, both.value - both.yardstick, both.yardstick, versus))
}

fn serialised(bench: Bench<'_>) -> Result<Figure, BenchError> {
    let (mut travelling, mut answered) = (Waiting::new()?, Waiting::new()?);
    travelling.suspend()?;
    let duel = bench.duel(CALLS / 10, || travelling.travel_and_resume(), || answered.answered_at_once())?;
    Ok(bench.figure(&duel, "the same call when its helper answers at once"))
}

fn compile(bench: Bench<'_>) -> Result<Figure, BenchError> {
    let (program, compiler) = (program_of_object(LOOKUP)?, compiler()?);
    let bytecode = encode(program.code());
    let duel = bench.duel(40, || compiler.compile(program.clone()).is_ok(), || Theirs::compile(&bytecode))?;
    let versus = "rbpf's compiler, which looks at one instruction at a time";
    Ok(duel.figure(bench.name, Unit::Milliseconds, 1e-6, versus))
}

#[cfg(test)]
mod tests;
