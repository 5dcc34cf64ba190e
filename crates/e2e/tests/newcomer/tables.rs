//! What of the pages is not done to the letter, and why.

/// Commands that are not run. A command is on the list if it contains the words.
pub(crate) const NOT_RUN: &[(&str, &str)] = &[
    ("cargo xtask", "they are the tests and packages themselves, and CI runs each of its own"),
    ("cargo install", "builds the program anew"),
    ("cargo build --release --target aarch64", "builds the program for another processor"),
    ("rustup target", "changes the toolchain"),
    ("export CARGO_TARGET", "is of no use without that build"),
    ("sudo ", "changes the machine"),
    ("scp ", "there is no other machine to copy to"),
    ("ssh dpu", "there is no DPU"),
    ("srun ", "there is no Slurm"),
    ("ofi:", "there is no fabric"),
    ("tcp:[2001:db8::1]", "not every machine has IPv6"),
    ("pip install", "the tests of the Python package install it, and nothing can be fetched here"),
    ("bench python", "an interpreter that has the package is not there"),
    ("--far-servers tcp:", "there is no other machine with a memory server"),
    ("cargo new", "a package of one's own is built anew, with all that it depends on"),
    ("mine/", "the same"),
    (
        "pkg-config --cflags",
        "the library for C is not installed; its examples are compiled and run by `cargo xtask test c`",
    ),
    ("./far_array", "the same"),
];

/// Commands that are run as one of the users only, and whether that is root. The first line that fits counts.
pub(crate) const AS_ONE: &[(&str, bool, &str)] = &[
    ("outboard bench graph", true, "makes memory cgroups"),
    ("outboard far", true, "takes the right that system calls wait for far memory"),
    ("outboard bench", false, "takes long, and root may do whatever another user may"),
    ("outboard characterize", false, "the same"),
    ("outboard demo --json", false, "the same; without --json it is run as both"),
];

/// What stands for words of a command: less work, as a newcomer's build is optimised and this one is not; and folders of the
/// newcomer's own in place of the machine's.
pub(crate) const INSTEAD: &[(&str, &str)] = &[
    ("--scale 20", "--scale 12"),
    ("--scale 18", "--scale 14"),
    ("--scale 16", "--scale 10"),
    ("--updates 20M", "--updates 20k"),
    ("--requests 2M", "--requests 20k"),
    ("--particles 1M", "--particles 10k"),
    ("--keys 10M", "--keys 20k"),
    ("--keys 1M", "--keys 20k"),
    ("--keys 500k", "--keys 10k"),
    ("--filled 5M", "--filled 10k"),
    ("--filled 500k", "--filled 10k"),
    ("--table 64Mi", "--table 64Ki"),
    ("--table 8Mi", "--table 8Ki"),
    ("--mesh 64x64x64", "--mesh 8x8x8"),
    ("far -- ./program", "far -- sort huge.txt"),
    ("--dry-run -- ./program", "--dry-run -- sort huge.txt"),
    ("--json -- ./program", "--json -- sort huge.txt"),
    ("kv bench", "kv bench --seconds 1"),
    ("btree bench", "btree bench --seconds 1"),
    ("cargo run --release -- ", "outboard "),
    (" > up.log", ""),
    ("/etc/outboard", "./etc/outboard"),
    ("/srv/graphs", "./srv/graphs"),
    ("/var/lib/outboard", "./var/lib/outboard"),
];

/// Less work for applications that are not told how much: a flag and its value, added unless the example has the flag.
pub(crate) const LESS: &[(&str, &str, &str)] = &[
    ("outboard app histogram", "--updates", "20k"),
    ("outboard app index-gather", "--requests", "20k"),
    ("outboard app transpose", "--scale", "12"),
    ("outboard app triangles", "--scale", "8"),
    ("outboard app sssp", "--scale", "8"),
    ("outboard app transport", "--particles", "2k"),
];

/// What a page takes for granted: commands that come first. `README.md`, `docs/…` or the words of a command.
pub(crate) const BEFORE: &[(&str, &str)] = &[
    ("memory free", "outboard memory reserve table --size 1MiB; outboard memory load web/edges.bin"),
    ("memory list", "outboard memory reserve table --size 1MiB"),
    ("memory save", "outboard memory reserve table --size 1MiB"),
    (
        "memory restore",
        "outboard memory reserve table --size 1MiB; outboard memory save table table.region; outboard memory free table",
    ),
    (
        "kv get",
        "outboard kv create; outboard kv put greeting hello; outboard kv create --server tcp:192.0.2.7:7000; \
        outboard kv put greeting hello --server tcp:192.0.2.7:7000",
    ),
    ("kv put", "outboard kv create"),
    ("kv delete", "outboard kv create; outboard kv put greeting hello"),
    (
        "btree get",
        "outboard btree create; outboard btree insert 17 4; outboard btree create --server \
         tcp:192.0.2.7:7000; outboard btree insert 17 4 --server tcp:192.0.2.7:7000",
    ),
    ("btree insert", "outboard btree create"),
    ("btree scan", "outboard btree create --filled 2000 --keys 2000"),
    ("keys issue", "outboard keys init; outboard keys init --dir ./etc/outboard/keys"),
    (
        "keys show",
        "outboard keys init; outboard keys init --dir ./etc/outboard/keys; outboard keys issue node7 --for ./node7",
    ),
    ("graph info", "outboard graph generate --scale 10 web.graph"),
    (
        "graph run",
        "outboard graph generate --scale 14 web.graph; outboard graph generate --scale 10 --symmetric social.graph",
    ),
    ("run", "printf 'one slots=2\\ntwo slots=2\\n' > hosts.txt"),
    ("docs/cluster.md", "outboard graph generate --scale 10 big.graph"),
];

/// Programs that a machine may lack, and which commands then cannot be run.
pub(crate) const OPTIONAL: &[(&str, &str)] =
    &[("man -l", "man-db"), ("mpirun", "openmpi-bin"), ("clang", "clang-19")];

/// Commands whose output depends on the machine: they are run, and what they print is not compared.
pub(crate) const NOT_COMPARED: &[(&str, &str)] = &[
    ("outboard doctor", "says what this machine has"),
    ("app histogram -n 2 --table 64", "a table that fits into caches is of another category"),
];

/// Commands that take long, and are the same on all pages: each is run once.
pub(crate) const ONCE: &[&str] = &["outboard demo", "outboard bench", "outboard characterize"];
