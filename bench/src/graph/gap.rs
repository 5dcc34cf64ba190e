//! The GAP benchmark suite, the same applications in C++, built from its source: what they take on the same graph with as many
//! threads, all in memory.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use outboard_graph::Application;
use outboard_graph_format::{Existing, Format, Graph, save};

use crate::BenchError;

/// What GAP calls the applications that both have.
const PROGRAMS: [(Application, &str); 3] =
    [(Application::Bfs, "bfs"), (Application::Components, "cc"), (Application::Pagerank, "pr")];
/// How often an application runs in a process, of which the last counts.
pub(super) const TRIALS: u32 = 3;

/// GAP's programs with the graph in their format.
pub(super) struct Gap {
    folder: PathBuf,
    source: u32,
    pub(super) threads: usize,
}

fn failed(why: String) -> BenchError {
    BenchError::Gap { why }
}

impl Gap {
    /// Compiles the source that lies in `gap` into `folder`, as its Makefile does, and writes the graph there.
    pub(super) fn build(gap: &Path, folder: &Path, graph: &Graph) -> Result<Self, BenchError> {
        for (_, program) in PROGRAMS {
            let file = gap.join("src").join(format!("{program}.cc"));
            let mut compiler = Command::new("c++");
            compiler.args(["-std=c++11", "-O3", "-fopenmp", "-o"]);
            compiler.arg(folder.join(program)).arg(&file);
            end(&mut compiler)?;
        }
        save(graph, &folder.join("gap.sg"), Some(Format::Sg), Existing::Keep, &())
            .map_err(|error| failed(crate::error::chain(&error)))?;
        let offsets = graph.out().offsets();
        let source = offsets.windows(2).position(|both| both[0] < both[1]).unwrap_or(0) as u32;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self { folder: folder.to_owned(), source, threads })
    }

    /// How long an application takes, in seconds; `None` if GAP has no such application.
    pub(super) fn run(&self, application: Application, iterations: u32) -> Result<Option<f64>, BenchError> {
        let Some((_, program)) = PROGRAMS.iter().find(|(known, _)| *known == application) else {
            return Ok(None);
        };
        let mut command = Command::new(self.folder.join(program));
        command.env("OMP_NUM_THREADS", self.threads.to_string()).arg("-f").arg(self.folder.join("gap.sg"));
        command.args(["-n", &TRIALS.to_string()]);
        match application {
            Application::Bfs => command.args(["-r", &self.source.to_string()]),
            // As many iterations as ours, however little ranks change.
            Application::Pagerank => command.args(["-i", &iterations.to_string(), "-t", "0"]),
            _ => &mut command,
        };
        let output = end(&mut command)?;
        let text = String::from_utf8_lossy(&output.stdout);
        last_trial(&text).map(Some).ok_or_else(|| failed(format!("{program} does not tell its times")))
    }
}

/// What the last of several trials took.
fn last_trial(text: &str) -> Option<f64> {
    let mut trials = text.lines().filter_map(|line| line.strip_prefix("Trial Time:"));
    trials.next_back()?.trim().parse().ok()
}

fn end(command: &mut Command) -> Result<Output, BenchError> {
    let program = command.get_program().display().to_string();
    let output = command.output().map_err(|error| failed(format!("cannot start {program}: {error}")))?;
    match output.status.success() {
        true => Ok(output),
        false => Err(failed(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_several_trials_counts() {
        let text = "Read Time:           0.1\nTrial Time:          0.50\nTrial Time:          0.25\nAverage Time:  0.4\n";
        assert_eq!(last_trial(text), Some(0.25));
        assert_eq!(last_trial("Read Time: 0.1\n"), None);
    }

    #[test]
    fn source_that_is_not_there_is_an_error_that_says_so() {
        let folder = std::env::temp_dir();
        let graph = outboard_graph_format::Recipe {
            kind: outboard_graph_format::GeneratorKind::Uniform,
            scale: 2,
            degree: 1,
            seed: 1,
            cleaning: Default::default(),
        };
        let graph = graph.make(&()).unwrap();
        let error = Gap::build(&folder.join("no-gap-here"), &folder, &graph).err().unwrap().to_string();
        assert!(error.contains("--gap"), "{error}");
    }
}
