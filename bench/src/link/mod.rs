//! What do the links cost beyond what the machine itself costs?
//!
//! Two processes, each on a core of its own; every byte is written by one and read by the other, and checked.

mod echo;
mod ofi;
mod ofi_read;
mod ofi_stream;
mod payload;
mod pump;
mod shm_frames;
mod shm_read;
mod shm_roundtrip;
mod stage;
mod stream;
mod tcp_roundtrip;
mod tcp_stream;
mod tls_stream;
mod transport;

pub(crate) use ofi_read::QUESTION as OFI_READ;
pub(crate) use ofi_stream::QUESTION as OFI_STREAM;
pub(crate) use pump::Pump;
use stage::Stage;
pub(crate) use tls_stream::QUESTION as TLS_STREAM;

use crate::harness::{BenchReport, Environment, Figure, Progress};
use crate::pair::{Control, Cores, Peer};
use crate::{BenchError, BenchOptions};

/// The bare rings have the capacity that a shared-memory link has by default, so that both use as much cache.
const RING_BYTES: usize = 1 << 19;

const KIB_64: usize = 1 << 16;

/// One thing to find out, and the two parts in finding it out.
pub(crate) struct Question {
    name: &'static str,
    /// Why it cannot be asked on this machine.
    unfit: fn() -> Option<String>,
    lead: fn(&Stage<'_>) -> Result<Vec<Figure>, BenchError>,
    serve: fn(&Control) -> Result<(), BenchError>,
}

/// There is nothing that a machine could lack.
const ANYWHERE: fn() -> Option<String> = || None;

const QUESTIONS: &[Question] = &[
    Question {
        name: "link.shm.frames_64B",
        unfit: ANYWHERE,
        lead: shm_frames::lead,
        serve: shm_frames::serve,
    },
    Question {
        name: "link.shm.roundtrip_64B",
        unfit: ANYWHERE,
        lead: |stage| shm_roundtrip::lead::<64>(stage, "link.shm.roundtrip_64B", 20_000),
        serve: shm_roundtrip::serve::<64>,
    },
    Question {
        name: "link.shm.roundtrip_64KiB",
        unfit: ANYWHERE,
        lead: |stage| shm_roundtrip::lead::<KIB_64>(stage, "link.shm.roundtrip_64KiB", 600),
        serve: shm_roundtrip::serve::<KIB_64>,
    },
    Question { name: "link.shm.read_64KiB", unfit: ANYWHERE, lead: shm_read::lead, serve: shm_read::serve },
    Question {
        name: "link.tcp.stream_64KiB",
        unfit: ANYWHERE,
        lead: tcp_stream::lead,
        serve: tcp_stream::serve,
    },
    Question {
        name: "link.tcp.roundtrip_64B",
        unfit: ANYWHERE,
        lead: |stage| tcp_roundtrip::lead(stage, "link.tcp.roundtrip_64B", 1000, 64),
        serve: |control| tcp_roundtrip::serve(control, 64),
    },
    Question {
        name: "link.tcp.roundtrip_64KiB",
        unfit: ANYWHERE,
        lead: |stage| tcp_roundtrip::lead(stage, "link.tcp.roundtrip_64KiB", 300, KIB_64),
        serve: |control| tcp_roundtrip::serve(control, KIB_64),
    },
];

/// Asks all questions.
pub(crate) fn run(options: &BenchOptions) -> Result<BenchReport, BenchError> {
    ask("link", QUESTIONS, options)
}

/// Asks these questions, for the benchmark `bench`.
pub(crate) fn ask(
    bench: &'static str,
    questions: &[Question],
    options: &BenchOptions,
) -> Result<BenchReport, BenchError> {
    let cores_allowed = std::thread::available_parallelism().map_or(1, usize::from);
    let cores = Cores::take()?;
    let mut environment = Environment::survey(options.effort, cores_allowed, cores.chosen().to_vec());
    let mut progress = Progress::new(options.effort, questions.len());
    let mut figures = Vec::new();
    for question in questions {
        progress.begin(question.name);
        if let Some(why) = (question.unfit)() {
            environment.notes.push(format!("no {}: {why}", question.name));
            progress.end();
            continue;
        }
        let peer = Peer::start(&options.peer, question.name)?;
        let stage = Stage { effort: options.effort, progress: &progress, cores: &cores, peer };
        figures.extend((question.lead)(&stage)?);
        stage.peer.stop()?;
        progress.end();
    }
    Ok(BenchReport { bench, figures, environment })
}

/// The peer's part in a question; `None` if there is no such question here.
pub(crate) fn serve(question: &str) -> Option<Result<(), BenchError>> {
    play(QUESTIONS, question)
}

/// The peer's part in one of these questions.
pub(crate) fn play(questions: &[Question], question: &str) -> Option<Result<(), BenchError>> {
    let question = questions.iter().find(|known| known.name == question)?;
    Some(Control::play(question.serve))
}
