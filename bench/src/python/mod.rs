//! What does it cost that a program is in Python?
//!
//! Far memory, tables and messages in Python, each beside the same work in Rust; and far arrays beside `numpy.memmap` in one memory
//! cgroup. `OUTBOARD_PYTHON` names an interpreter that has the package; `python3` otherwise.

mod task;

use std::path::Path;
use std::time::Duration;

use outboard_measure::bar;
use task::{Interpreter, Passes, rust_gets, rust_passes};

use crate::daemons::{Host, HostSpec};
use crate::group::MemoryGroup;
use crate::harness::{BenchReport, Effort, Environment, Figure, Unit, percentile};
use crate::{BenchError, BenchOptions};

const RUST: &str = "the same pass in Rust, far memory over plain memory in both";
const MEMMAP: &str =
    "numpy.memmap of a file on this machine's disk, in the same memory cgroup: fill, sum and sort";
const APP: &str = "outboard app histogram with as many ranks and updates";
const KV: &str = "the same gets by the library in Rust, 256 under way";
const NUMPY: &str = "import numpy alone";
/// How many times its memory cgroup a program's data have.
const OVER: f64 = 2.4;
/// How long a rival may take before its time counts as this.
const MEMMAP_MAX: Duration = Duration::from_secs(120);

/// How much is done.
struct Extent {
    words: usize,
    picks: usize,
    group: u64,
    keys: u64,
    gets: usize,
    updates: usize,
    rounds: u64,
}

impl Extent {
    fn of(effort: Effort) -> Self {
        let (words, rounds) = match effort {
            Effort::Tiny => (1 << 18, 1),
            Effort::Quick => (4 << 20, 3),
            Effort::Full => (32 << 20, 5),
        };
        Self {
            words,
            picks: words / 64,
            group: (words as u64 * 8).max(64 << 20),
            keys: 20_000,
            gets: words / 32,
            updates: words / 2,
            rounds,
        }
    }
}

/// Everything that is measured.
pub(crate) fn run(options: &BenchOptions) -> Result<BenchReport, BenchError> {
    let cores_allowed = std::thread::available_parallelism().map_or(1, usize::from);
    let mut environment = Environment::survey(options.effort, cores_allowed, Vec::new());
    let extent = Extent::of(options.effort);
    let interpreter = Interpreter::find()?;
    let host = Host::start(&options.peer, &HostSpec::Memory { data_dir: None, workers: None })?;
    let interpreter = interpreter.at(&host.local);
    let (bar, mut rounds) = (bar(extent.rounds), Rounds::default());
    for _ in 0..extent.rounds {
        rounds.play(&interpreter, &host, &extent)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    let mut figures = rounds.figures();
    match over_memmap(&interpreter, &extent) {
        Ok(figure) => figures.push(figure),
        Err(error) => environment.notes.push(format!("python.over_memmap was left out: {error}")),
    }
    environment.notes.push(format!("Python: {}", interpreter.version));
    Ok(BenchReport { bench: "python", figures, environment })
}

/// What the rounds brought: ours, and the yardstick's.
#[derive(Default)]
struct Rounds {
    scan: Vec<[f64; 2]>,
    gather: Vec<[f64; 2]>,
    sort: Vec<[f64; 2]>,
    messages: Vec<[f64; 2]>,
    kv: Vec<[f64; 2]>,
    import: Vec<[f64; 2]>,
}

impl Rounds {
    fn play(&mut self, python: &Interpreter, host: &Host, extent: &Extent) -> Result<(), BenchError> {
        let ours: Passes = python.work(&["beside", &extent.words.to_string(), &extent.picks.to_string()])?;
        let theirs = rust_passes(&host.local, extent.words, extent.picks)?;
        // A rate far over a rate near is a time near over a time far.
        let kept = |passes: &Passes, of: fn(&task::Pass) -> f64| of(&passes.near) / of(&passes.far);
        let both = |of: fn(&task::Pass) -> f64| [kept(&ours, of), kept(&theirs, of)];
        self.scan.push(both(|pass| pass.scan));
        self.gather.push(both(|pass| pass.gather));
        self.sort.push(both(|pass| pass.sort));
        let updates = extent.updates.to_string();
        self.messages.push([python.histogram(&updates)?, python.histogram_in_rust(&updates)?]);
        let (keys, gets) = (extent.keys, extent.gets);
        let in_python: f64 = python.work(&["kv", &keys.to_string(), &gets.to_string()])?;
        self.kv.push([in_python, rust_gets(&host.local, keys, gets)?]);
        self.import.push([python.import("numpy, outboard")?, python.import("numpy")?]);
        Ok(())
    }

    fn figures(&self) -> Vec<Figure> {
        let figure = |name: &str, unit, rounds: &[[f64; 2]], versus| {
            let [ours, theirs] = [0, 1]
                .map(|side| percentile(&mut rounds.iter().map(|round| round[side]).collect::<Vec<_>>(), 0.5));
            Figure::new(name, unit, ours, theirs, versus)
        };
        vec![
            figure("python.scan.third", Unit::Ratio, &self.scan, RUST),
            figure("python.sort.third", Unit::Ratio, &self.sort, RUST),
            figure("python.gather.third", Unit::Ratio, &self.gather, RUST),
            figure("python.messages.histogram", Unit::MessagesPerSecond, &self.messages, APP),
            figure("python.kv.batch", Unit::OperationsPerSecond, &self.kv, KV),
            figure("python.import_ms", Unit::Milliseconds, &self.import, NUMPY),
        ]
    }
}

/// Far arrays beside mapped files, each in a memory cgroup that is smaller than they are. The memory server is outside, as another
/// machine would be.
fn over_memmap(python: &Interpreter, extent: &Extent) -> Result<Figure, BenchError> {
    let group = MemoryGroup::create("python")?;
    // The interpreter and its packages have to have room too.
    group.limit(extent.group + (96 << 20))?;
    let words = ((extent.group + (96 << 20)) as f64 * OVER / 8.0) as usize;
    let file = std::env::temp_dir().join(format!("outboard-bench-{}.u64", std::process::id()));
    let timed = |place: &str| python.over_memmap(&group, words, place, &file, extent.group / 2, MEMMAP_MAX);
    let both = timed("far").and_then(|far| Ok((far, timed("memmap")?)));
    remove(&file);
    let (far, memmap) = both?;
    Ok(Figure::new("python.over_memmap", Unit::OperationsPerSecond, 1.0 / far, 1.0 / memmap, MEMMAP))
}

fn remove(file: &Path) {
    // It may not be there: the rival may not have come so far.
    let _ = std::fs::remove_file(file);
}
