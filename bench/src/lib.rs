//! One benchmark per question, each beside a yardstick that does the same work in the same run.
//!
//! It measures; it does not judge: a slow figure is a figure, never an error. Names of figures are fixed, so that
//! runs can be compared.

mod calling;
mod cluster;
mod daemon;
mod daemons;
mod ebpf;
mod error;
mod far;
mod graph;
mod group;
mod harness;
mod link;
mod paging;
mod pair;
mod protection;
mod python;
mod raw;
mod routing;
mod writing;

pub use error::BenchError;
pub use harness::{BenchReport, Better, Effort, Environment, Figure, Side, Unit};
pub use pair::PeerProgram;

/// How to run a benchmark.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// How long to measure.
    pub effort: Effort,
    /// How the second process is started.
    pub peer: PeerProgram,
    /// Where to draw what was measured, if the benchmark has a picture.
    pub plot: Option<std::path::PathBuf>,
    /// A recording of far memory that is played in place of the benchmark, if that plays any.
    pub play: Option<std::path::PathBuf>,
    /// Where the source of the GAP benchmark suite lies, if it is a rival.
    pub gap: Option<std::path::PathBuf>,
}

/// Runs the benchmark `name`.
pub fn run(name: &str, options: &BenchOptions) -> Result<BenchReport, BenchError> {
    if let Some(file) = &options.plot {
        // A user who named a wrong place learns it before anything is measured. What is there stays until it is replaced.
        let opened = std::fs::OpenOptions::new().create(true).append(true).open(file);
        opened.map_err(|source| BenchError::Plot { file: file.display().to_string(), source })?;
    }
    match name {
        "link" => link::run(options),
        "cluster" => cluster::run(options),
        "daemon" => daemon::run(options),
        "protection" => protection::run(options),
        "paging" => paging::run(options),
        "far" => far::run(options),
        "graph" => graph::run(options),
        "routing" => routing::run(options),
        "ebpf" => ebpf::run(options),
        "writing" => writing::run(options),
        "calling" => calling::run(options),
        "python" => python::run(options),
        "steering" => calling::run_steering(options),
        _ => Err(BenchError::Unknown { name: name.to_owned() }),
    }
}

/// Plays the second process in `question`, with the control socket as standard input.
pub fn serve(question: &str) -> Result<(), BenchError> {
    let served = link::serve(question)
        .or_else(|| cluster::serve(question))
        .or_else(|| daemon::serve(question))
        .or_else(|| daemons::serve(question))
        .or_else(|| far::serve(question))
        .or_else(|| graph::serve(question))
        .or_else(|| routing::serve(question))
        .or_else(|| calling::serve(question));
    served.unwrap_or_else(|| Err(BenchError::Unknown { name: question.to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_that_cannot_be_written_is_an_error_before_anything_is_begun() {
        let nowhere = std::path::Path::new("/nonexistent");
        let peer = PeerProgram { path: nowhere.join("peer"), arguments: Vec::new() };
        let plot = Some(nowhere.join("picture.svg"));
        let options = BenchOptions { effort: Effort::Tiny, peer, plot, play: None, gap: None };
        for name in ["calling", "steering", "writing"] {
            // Without the peer nothing can be measured.
            let error = run(name, &options).map(|report| report.to_string()).unwrap_err();
            assert!(matches!(error, BenchError::Plot { .. }), "{error}");
        }
    }
}
