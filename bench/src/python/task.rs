//! The same work on both sides.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use outboard::{BufferSize, CallerOptions, Outboard};
use outboard_kv::{Kv, KvTable, TableOptions};
use outboard_link::Address;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::BenchError;
use crate::group::MemoryGroup;

const WORK: &str = include_str!("work.py");
/// How many gets are under way.
const BATCH: usize = 256;
/// How many counters a rank has.
const ENTRIES: &str = "8192";
/// How often it is looked whether a program has ended.
const PAUSE: Duration = Duration::from_millis(20);

/// Seconds of three passes over an array.
#[derive(Debug, Deserialize)]
pub(super) struct Pass {
    pub(super) scan: f64,
    pub(super) gather: f64,
    pub(super) sort: f64,
}

/// The passes over an array in plain memory, and over one of which a third is here.
#[derive(Debug, Deserialize)]
pub(super) struct Passes {
    pub(super) near: Pass,
    pub(super) far: Pass,
}

/// A Python that has the package.
pub(super) struct Interpreter {
    program: OsString,
    pub(super) version: String,
    server: String,
}

impl Interpreter {
    /// The one that `OUTBOARD_PYTHON` names, or `python3`.
    pub(super) fn find() -> Result<Self, BenchError> {
        let program = std::env::var_os("OUTBOARD_PYTHON").unwrap_or_else(|| "python3".into());
        let mut command = Command::new(&program);
        command.args([
            "-c",
            "import sys, numpy, outboard; print(sys.version.split()[0], 'with numpy', numpy.__version__)",
        ]);
        let output =
            command.stdin(Stdio::null()).output().map_err(|error| missing(&program, &error.to_string()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(missing(&program, said.lines().last().unwrap_or_default()));
        }
        let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Ok(Self { program, version, server: String::new() })
    }

    /// Has it work at this memory server.
    pub(super) fn at(self, server: &Address) -> Self {
        Self { server: server.to_string(), ..self }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).stdin(Stdio::null());
        command.env("OUTBOARD_JOB_MEMORY", &self.server).env("OUTBOARD_JOB_AGENT", "none");
        command
    }

    fn said(&self, mut command: Command) -> Result<String, BenchError> {
        let output = command.output().map_err(|error| missing(&self.program, &error.to_string()))?;
        if !output.status.success() {
            return Err(BenchError::PeerFailed { why: String::from_utf8_lossy(&output.stderr).into_owned() });
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Does a piece of work.
    pub(super) fn work<T: DeserializeOwned>(&self, arguments: &[&str]) -> Result<T, BenchError> {
        let said = self.said(self.command(&[&["-c", WORK], arguments].concat()))?;
        read(&said)
    }

    /// Updates in a second, by two ranks in Python.
    pub(super) fn histogram(&self, updates: &str) -> Result<f64, BenchError> {
        let mut run = self.command(&["-m", "outboard", "run", "-n", "2", "--"]);
        run.arg(&self.program).args(["-c", WORK, "histogram", updates, ENTRIES]);
        let said = self.said(run)?;
        // Lines of ranks begin with their numbers.
        read(said.lines().find_map(|line| line.strip_prefix("[0] ")).unwrap_or(&said))
    }

    /// Updates in a second, by the application.
    pub(super) fn histogram_in_rust(&self, updates: &str) -> Result<f64, BenchError> {
        #[derive(Deserialize)]
        struct Said {
            rate: f64,
        }
        let app = ["-m", "outboard", "app", "histogram", "--ranks", "2", "--json"];
        let mut command = self.command(&app);
        command.args(["--table", ENTRIES, "--updates", updates]);
        Ok(read::<Said>(&self.said(command)?)?.rate)
    }

    /// Milliseconds until a program that imports these has ended, the best of some.
    pub(super) fn import(&self, modules: &str) -> Result<f64, BenchError> {
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            let began = Instant::now();
            self.said(self.command(&["-c", &format!("import {modules}")]))?;
            best = best.min(began.elapsed().as_secs_f64() * 1e3);
        }
        Ok(best)
    }

    /// Seconds to fill, add up and sort so many words in a memory cgroup; `limit` if it takes longer.
    pub(super) fn over_memmap(
        &self,
        group: &MemoryGroup,
        words: usize,
        place: &str,
        file: &Path,
        buffer: u64,
        limit: Duration,
    ) -> Result<f64, BenchError> {
        // It waits for its first line until it is in the group.
        let gated = format!("input()\n{WORK}");
        let mut command = self.command(&["-c", &gated, "over_memmap", &words.to_string(), place]);
        command.arg(file).env("BUFFER", buffer.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| missing(&self.program, &error.to_string()))?;
        group.take(child.id())?;
        drop(child.stdin.take().map(|mut gate| std::io::Write::write_all(&mut gate, b"\n")));
        if !ended(&mut child, limit) {
            // It has had its time; that it is gone is seen by waiting.
            let _ = child.kill();
            let _ = child.wait();
            return Ok(limit.as_secs_f64());
        }
        let output = child.wait_with_output().map_err(|error| missing(&self.program, &error.to_string()))?;
        if !output.status.success() {
            return Err(BenchError::PeerFailed { why: String::from_utf8_lossy(&output.stderr).into_owned() });
        }
        read(&String::from_utf8_lossy(&output.stdout))
    }
}

/// Whether a program ends in time.
fn ended(child: &mut Child, limit: Duration) -> bool {
    let began = Instant::now();
    while began.elapsed() < limit {
        if matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
            return true;
        }
        std::thread::park_timeout(PAUSE);
    }
    false
}

fn missing(program: &OsString, why: &str) -> BenchError {
    let program = program.to_string_lossy();
    let why = format!(
        "{program} has no package outboard ({why}): pip install ./bindings/python, or name another interpreter with OUTBOARD_PYTHON"
    );
    BenchError::PeerFailed { why }
}

fn read<T: DeserializeOwned>(said: &str) -> Result<T, BenchError> {
    serde_json::from_str(said.trim())
        .map_err(|error| BenchError::PeerFailed { why: format!("{error}: {said}") })
}

/// The error of the side that is in this process.
fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::PeerFailed { why: error.to_string() }
}

/// The words of an array, as Python has them too.
fn fill(words: &mut [u64]) {
    for (number, word) in words.iter_mut().enumerate() {
        *word = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1;
    }
}

fn seconds(work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_secs_f64()
}

fn pass(words: &mut [u64], picks: &[usize]) -> Pass {
    fill(words);
    let add = |sum: u64, word: &u64| sum.wrapping_add(*word);
    let scan = seconds(|| {
        std::hint::black_box(words.iter().fold(0, add));
    });
    let gather = seconds(|| {
        // NumPy makes an array of what it picks, and so does this.
        let picked: Vec<u64> = picks.iter().map(|at| words[*at]).collect();
        std::hint::black_box(picked.iter().fold(0, add));
    });
    let sort = seconds(|| words.sort_unstable());
    Pass { scan, gather, sort }
}

/// The passes in Rust.
pub(super) fn rust_passes(server: &Address, words: usize, picks: usize) -> Result<Passes, BenchError> {
    let mut random = fastrand::Rng::with_seed(7);
    let picks: Vec<usize> = (0..picks).map(|_| random.usize(..words)).collect();
    let near = pass(&mut vec![0; words], &picks);
    let outboard = Outboard::at(server.clone());
    let options = outboard.far_options().with_buffer(BufferSize::Bytes(8 * words / 3));
    let far = outboard.far_with(options)?;
    let far = pass(&mut far.allocate::<u64>(words)?, &picks);
    Ok(Passes { near, far })
}

/// Gets in a second in Rust.
pub(super) fn rust_gets(server: &Address, keys: u64, gets: usize) -> Result<f64, BenchError> {
    let outboard = Outboard::at(server.clone());
    let mut memory = outboard.memory().map_err(failed)?;
    let table = TableOptions { keys, key_max: 8, value_max: 64 };
    let table = KvTable::create_unnamed(&mut memory, &table).map_err(failed)?;
    let caller = outboard.caller_with(CallerOptions::default().with_under_way_max(BATCH)).map_err(failed)?;
    let mut kv = Kv::new(caller, &table).map_err(failed)?;
    for key in 0..keys {
        kv.put(&key.to_le_bytes(), &[0; 64]).map_err(failed)?;
    }
    let mut random = fastrand::Rng::with_seed(7);
    let (mut begun, mut ended, mut wrong) = (0, 0, None);
    let began = Instant::now();
    while ended < gets {
        while begun < gets && kv.under_way() < BATCH {
            kv.begin_get(&random.u64(..keys).to_le_bytes()).map_err(failed)?;
            begun += 1;
        }
        ended += kv.drain(|_, answer| {
            if let Err(error) = answer {
                wrong = Some(error);
            }
        });
        if let Some(error) = wrong.take() {
            return Err(failed(error));
        }
        std::hint::spin_loop();
    }
    Ok(gets as f64 / began.elapsed().as_secs_f64())
}
