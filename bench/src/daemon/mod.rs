//! What does a daemon cost: while no client asks anything of it, and until a client can?
//!
//! The second process is an agent like any other. The yardsticks are limits that were promised, and for a round trip
//! what the kernel needs to wake a process and be woken by it.

mod attach;
mod crowd;
mod echo;
mod host;
mod idle;

use host::Host;

use crate::harness::{BenchReport, Effort, Environment, Figure, Progress};
use crate::pair::Control;
use crate::{BenchError, BenchOptions};

/// One thing to find out of an agent that has nothing else to do.
struct Question {
    name: &'static str,
    ask: fn(&Host, Effort, &Progress) -> Result<Vec<Figure>, BenchError>,
}

const QUESTIONS: &[Question] = &[
    Question { name: "daemon.idle", ask: idle::ask },
    Question { name: "daemon.attach", ask: attach::ask },
    Question { name: "daemon.echo", ask: echo::ask },
    Question { name: "daemon.crowd", ask: crowd::ask },
];

/// Asks all questions, each of an agent of its own.
pub(crate) fn run(options: &BenchOptions) -> Result<BenchReport, BenchError> {
    let cores_allowed = std::thread::available_parallelism().map_or(1, usize::from);
    // Not pinned: neither are daemons and clients.
    let environment = Environment::survey(options.effort, cores_allowed, Vec::new());
    let mut progress = Progress::new(options.effort, QUESTIONS.len());
    let mut figures = Vec::new();
    for question in QUESTIONS {
        progress.begin(question.name);
        let host = Host::start(&options.peer, question.name)?;
        figures.extend((question.ask)(&host, options.effort, &progress)?);
        host.stop()?;
        progress.end();
    }
    Ok(BenchReport { bench: "daemon", figures, environment })
}

/// The agent's part; `None` if there is no such question here.
pub(crate) fn serve(question: &str) -> Option<Result<(), BenchError>> {
    let is_known = QUESTIONS.iter().any(|known| known.name == question);
    is_known.then(|| Control::play(host::serve))
}

fn not_tcp() -> BenchError {
    BenchError::PeerFailed { why: "it does not listen on TCP".to_owned() }
}
