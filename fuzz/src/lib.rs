//! Bytes from strangers, thrown at every decoder: the table of fuzz targets and a mutator for them.
//!
//! It does not guide itself by coverage; libFuzzer does that, when `cargo xtask fuzz` builds it in. A new
//! decoder gets one more line in [`TARGETS`].
#![forbid(unsafe_code)]

mod calling;
mod control;
mod ebpf;
mod mutator;
mod paging;
mod routing;
mod wire;
mod writing;

pub use mutator::Mutator;

/// One decoder and what must hold for it.
#[derive(Clone, Copy)]
pub struct Target {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What it checks, for people.
    pub what: &'static str,
    /// Decodes the bytes, and panics if a promise is broken.
    pub run: fn(&[u8]) -> Verdict,
    /// Inputs to start from. All of them decode.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// What a decoder made of its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It was understood, and everything promised of it holds.
    Decoded,
    /// It was turned away with an error.
    Refused,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "frame_header",
        what: "the sixteen bytes before every frame",
        run: wire::frame_header,
        seeds: wire::frame_header_seeds,
    },
    Target {
        name: "hello",
        what: "the connecting side's first message",
        run: wire::hello,
        seeds: wire::hello_seeds,
    },
    Target {
        name: "answer",
        what: "the accepting side's welcome or refusal",
        run: wire::answer,
        seeds: wire::answer_seeds,
    },
    Target {
        name: "region",
        what: "a region descriptor with its extents, and what follows it",
        run: wire::region,
        seeds: wire::region_seeds,
    },
    Target {
        name: "liveness",
        what: "pings, pongs and goodbyes",
        run: wire::liveness,
        seeds: wire::liveness_seeds,
    },
    Target {
        name: "request",
        what: "one-sided requests: open, close, read, write, atomics",
        run: wire::request,
        seeds: wire::request_seeds,
    },
    Target {
        name: "reply",
        what: "answers to one-sided requests",
        run: wire::reply,
        seeds: wire::reply_seeds,
    },
    Target {
        name: "question",
        what: "what clients ask of daemons",
        run: control::question,
        seeds: control::question_seeds,
    },
    Target {
        name: "control_answer",
        what: "what daemons answer",
        run: control::control_answer,
        seeds: control::control_answer_seeds,
    },
    Target {
        name: "paging_request",
        what: "what is asked about far memory: attach, fetch, write back, fence",
        run: paging::paging_request,
        seeds: paging::paging_request_seeds,
    },
    Target {
        name: "paging_reply",
        what: "what is answered about far memory",
        run: paging::paging_reply,
        seeds: paging::paging_reply_seeds,
    },
    Target {
        name: "routing",
        what: "messages between ranks and agents: runs, parcels, who is reached",
        run: routing::routing,
        seeds: routing::routing_seeds,
    },
    Target {
        name: "calling",
        what: "calls of functions: registrations, code, calls, answers, who runs which slots",
        run: calling::calling,
        seeds: calling::calling_seeds,
    },
    Target {
        name: "writing",
        what: "what is unloaded: attachments, regions, batches with their entries, answers",
        run: writing::writing,
        seeds: writing::writing_seeds,
    },
    Target {
        name: "trial",
        what: "how many bytes a trial wants back",
        run: wire::trial,
        seeds: wire::trial_seeds,
    },
    Target {
        name: "ebpf_program",
        what: "eBPF instructions, run on both executors",
        run: ebpf::program,
        seeds: ebpf::program_seeds,
    },
    Target { name: "ebpf_text", what: "eBPF as text", run: ebpf::text, seeds: ebpf::text_seeds },
    Target {
        name: "ebpf_object",
        what: "eBPF objects from clang, run on both executors",
        run: ebpf::object,
        seeds: ebpf::object_seeds,
    },
    Target {
        name: "ebpf_continuation",
        what: "suspended runs of a function, resumed on both executors",
        run: ebpf::continuation,
        seeds: ebpf::continuation_seeds,
    },
];

/// The target called `name`.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

#[cfg(test)]
mod tests;
