//! The complete programs of the pages. Each is an example of a package, which a page shows to the letter.

use std::env;
use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::pages::{self, Block};

type Main = fn() -> Result<(), Box<dyn Error>>;

macro_rules! programs {
    ($($name:ident in $path:literal;)+) => {
        $(
            #[path = $path]
            mod $name;
        )+

        /// The name of the example, its file from here, and what it does.
        const PROGRAMS: &[(&str, &str, Main)] = &[$((stringify!($name), $path, $name::main)),+];
    };
}

programs! {
    caller in "../../../outboard/examples/caller.rs";
    chase in "../../../outboard/examples/chase.rs";
    count in "../../../outboard/examples/count.rs";
    counters in "../../../outboard/examples/counters.rs";
    election in "../../../outboard/examples/election.rs";
    far_memory in "../../../outboard/examples/far_memory.rs";
    growing in "../../../outboard/examples/growing.rs";
    memory in "../../../outboard/examples/memory.rs";
    messenger in "../../../outboard/examples/messenger.rs";
    parallel in "../../../outboard/examples/parallel.rs";
    ranks in "../../../outboard/examples/ranks.rs";
    survivor in "../../../outboard/examples/survivor.rs";
    word_count in "../../../outboard/examples/word_count.rs";
    writer in "../../../outboard/examples/writer.rs";
    job_table in "../../../../apps/kv/examples/job_table.rs";
    table in "../../../../apps/kv/examples/table.rs";
    tree in "../../../../apps/btree/examples/tree.rs";
}

/// Names the program that [`one_of_them`] is to be.
pub(crate) const PROGRAM: &str = "NEWCOMER_PROGRAM";

/// The names of all programs.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    PROGRAMS.iter().map(|(name, ..)| *name)
}

/// What a process does that stands for `cargo run --example NAME`.
pub(crate) fn one_of_them(wanted: &OsStr) {
    let (.., main) = PROGRAMS.iter().find(|(name, ..)| *name == wanted).expect("there is such a program");
    // What a program prints whose `main` returns this.
    main().unwrap_or_else(|error| panic!("Error: {error:?}"));
}

/// Where no server runs, programs that need one say how to start it.
pub(crate) fn say_what_to_start_without_a_server() {
    let user = rustix::process::geteuid().as_raw();
    let socket = if user == 0 { "@outboard-memory".to_owned() } else { format!("@outboard-{user}-memory") };
    for name in [
        "memory",
        "far_memory",
        "growing",
        "parallel",
        "survivor",
        "counters",
        "writer",
        "caller",
        "table",
        "tree",
    ] {
        let (.., main) = PROGRAMS.iter().find(|(known, ..)| *known == name).unwrap();
        let text = format!("{:?}", main().expect_err("no server runs"));
        assert!(text.contains("start one with `outboard up`"), "{name}: {text}");
        assert!(text.contains(&socket), "{name}: {text}");
    }
}

/// The engine's own page is compiled and run with the engine (`cargo test -p outboard-ebpf --doc`).
const RUN_ELSEWHERE: &str = "docs/ebpf.md";

/// A block of Rust on a page is one of the programs, which the page names before it. `BLESS=1` writes it there.
#[test]
fn every_program_of_the_pages_is_an_example_that_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut shown = Vec::new();
    for page in pages::all(&root).into_iter().filter(|page| page.name != RUN_ELSEWHERE) {
        let mut text = page.text.clone();
        for block in page.blocks().into_iter().filter(|block| block.language.starts_with("rust")) {
            let place = format!("{}:{}", page.name, block.line);
            assert_eq!(
                block.language, "rust",
                "{place}: a program is complete and runs; leave out what follows “rust”"
            );
            let (name, program) = program_of(&page.text, &block).unwrap_or_else(|| {
                panic!(
                    "{place}: say before the block which example it is, as `--example NAME` or examples/NAME"
                )
            });
            if env::var_os("BLESS").is_some() {
                text = text.replacen(&block.text, &program, 1);
            } else {
                assert_eq!(block.text, program, "{place} is not the example {name}; BLESS=1 writes it");
            }
            shown.push(name);
        }
        if text != page.text {
            fs::write(root.join(&page.name), text).unwrap();
        }
    }
    for name in names() {
        assert!(shown.contains(&name), "no page shows the example {name}");
    }
}

/// The example that a page names last before a block, and its text as a page shows it.
fn program_of(page: &str, block: &Block) -> Option<(&'static str, String)> {
    let before = page.split_inclusive('\n').take(block.line - 1).collect::<String>();
    let place = |name: &str| {
        ["--example ", "examples/"].iter().filter_map(|mark| last(&before, &format!("{mark}{name}"))).max()
    };
    let (name, path) = PROGRAMS
        .iter()
        .filter_map(|(name, path, _)| Some((place(name)?, (*name, *path))))
        .max_by_key(|(at, _)| *at)?
        .1;
    let file: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/newcomer", path].iter().collect();
    let text = fs::read_to_string(file).unwrap();
    // Without what is for readers of the file and for our own lints.
    let (_, program) = text.split_once("\n\n").expect("the head of an example ends with an empty line");
    Some((name, program.replace("pub(crate) fn main()", "fn main()")))
}

/// Where a word stands last.
fn last(text: &str, word: &str) -> Option<usize> {
    let ends = |at: usize| {
        text[at + word.len()..].chars().next().is_none_or(|next| !next.is_alphanumeric() && next != '_')
    };
    text.rmatch_indices(word).map(|(at, _)| at).find(|at| ends(*at))
}
