//! Bytes from strangers, thrown at every decoder: the table of fuzz targets and a mutator for them.
//!
//! It does not guide itself by coverage; libFuzzer does that, when `cargo xtask fuzz` builds it in. A new
//! decoder gets one more line in [`TARGETS`].
#![forbid(unsafe_code)]

mod calling;
mod control;
mod ebpf;
mod fabric;
mod journal;
pub mod kept;
mod mutator;
mod paging;
mod routing;
mod wire;
mod writing;

pub use mutator::Mutator;

/// One decoder and what must hold for it.
#[derive(Clone, Copy)]
pub struct FuzzTarget {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What it checks, for people.
    pub what: &'static str,
    /// Decodes the bytes, and panics if a promise is broken.
    pub run: fn(&[u8]) -> FuzzVerdict,
    /// Inputs to start from. All of them decode.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// What a decoder made of its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FuzzVerdict {
    /// It was understood, and everything promised of it holds.
    Decoded,
    /// It was turned away with an error.
    Refused,
}

/// All targets.
pub const TARGETS: &[FuzzTarget] = &[
    FuzzTarget {
        name: "frame_header",
        what: "the sixteen bytes before every frame",
        run: wire::frame_header,
        seeds: wire::frame_header_seeds,
    },
    FuzzTarget {
        name: "hello",
        what: "the connecting side's first message",
        run: wire::hello,
        seeds: wire::hello_seeds,
    },
    FuzzTarget {
        name: "answer",
        what: "the accepting side's welcome or refusal",
        run: wire::answer,
        seeds: wire::answer_seeds,
    },
    FuzzTarget {
        name: "region",
        what: "a region descriptor with its extents, and what follows it",
        run: wire::region,
        seeds: wire::region_seeds,
    },
    FuzzTarget {
        name: "liveness",
        what: "pings, pongs and goodbyes",
        run: wire::liveness,
        seeds: wire::liveness_seeds,
    },
    FuzzTarget {
        name: "request",
        what: "one-sided requests: open, close, read, write, atomics",
        run: wire::request,
        seeds: wire::request_seeds,
    },
    FuzzTarget {
        name: "reply",
        what: "answers to one-sided requests",
        run: wire::reply,
        seeds: wire::reply_seeds,
    },
    FuzzTarget {
        name: "question",
        what: "what clients ask of daemons",
        run: control::question,
        seeds: control::question_seeds,
    },
    FuzzTarget {
        name: "control_answer",
        what: "what daemons answer",
        run: control::control_answer,
        seeds: control::control_answer_seeds,
    },
    FuzzTarget {
        name: "paging_request",
        what: "what is asked about far memory: attach, fetch, write back, fence",
        run: paging::paging_request,
        seeds: paging::paging_request_seeds,
    },
    FuzzTarget {
        name: "paging_reply",
        what: "what is answered about far memory",
        run: paging::paging_reply,
        seeds: paging::paging_reply_seeds,
    },
    FuzzTarget {
        name: "recording",
        what: "which chunks of far memory were touched",
        run: paging::recording,
        seeds: paging::recording_seeds,
    },
    FuzzTarget {
        name: "routing",
        what: "messages between ranks and agents: runs, parcels, who is reached",
        run: routing::routing,
        seeds: routing::routing_seeds,
    },
    FuzzTarget {
        name: "agreement",
        what: "what ranks tell each other about their end and their barriers",
        run: routing::signal,
        seeds: routing::signal_seeds,
    },
    FuzzTarget {
        name: "function",
        what: "functions as they travel: code, constants, variables and names",
        run: calling::function,
        seeds: calling::function_seeds,
    },
    FuzzTarget {
        name: "fabric_preface",
        what: "what each side says of its endpoint before it is reached by a fabric",
        run: fabric::preface,
        seeds: fabric::preface_seeds,
    },
    FuzzTarget {
        name: "calling",
        what: "calls of functions: registrations, code, calls, answers, who runs which slots",
        run: calling::calling,
        seeds: calling::calling_seeds,
    },
    FuzzTarget {
        name: "writing",
        what: "what is unloaded: attachments, regions, batches with their entries, answers",
        run: writing::writing,
        seeds: writing::writing_seeds,
    },
    FuzzTarget {
        name: "journal",
        what: "what a memory server notes of the regions that it keeps",
        run: journal::journal,
        seeds: journal::journal_seeds,
    },
    FuzzTarget {
        name: "dump",
        what: "the file of a region that was saved",
        run: journal::dump,
        seeds: journal::dump_seeds,
    },
    FuzzTarget {
        name: "trial",
        what: "how many bytes a trial wants back",
        run: wire::trial,
        seeds: wire::trial_seeds,
    },
    FuzzTarget {
        name: "ebpf_program",
        what: "eBPF instructions, run on both executors",
        run: ebpf::program,
        seeds: ebpf::program_seeds,
    },
    FuzzTarget { name: "ebpf_text", what: "eBPF as text", run: ebpf::text, seeds: ebpf::text_seeds },
    FuzzTarget {
        name: "ebpf_object",
        what: "eBPF objects from clang, run on both executors",
        run: ebpf::object,
        seeds: ebpf::object_seeds,
    },
    FuzzTarget {
        name: "ebpf_continuation",
        what: "suspended runs of a function, resumed on both executors",
        run: ebpf::continuation,
        seeds: ebpf::continuation_seeds,
    },
];

/// The target called `name`.
pub fn find(name: &str) -> Option<&'static FuzzTarget> {
    TARGETS.iter().find(|target| target.name == name)
}

#[cfg(test)]
mod tests;
