//! What a newcomer finds on the machine: the program, the pages, and some files of the kinds that the examples name.

use std::env;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use crate::pages;
use crate::programs::{self, PROGRAM};

/// What `outboard far` loads into programs.
const PRELOAD: &str = "liboutboard_preload.so";

/// A folder with all that a machine has. It is gone with the test.
pub(crate) struct Machine(PathBuf);

impl Machine {
    pub(crate) fn new(user: u32) -> Self {
        let folder = env::temp_dir().join(format!("outboard-newcomer-{}-{user}", std::process::id()));
        for part in
            ["bin", "docs", "files", "home", "target/release/examples", "crates/ebpf", "crates/calling"]
        {
            fs::create_dir_all(folder.join(part)).unwrap();
        }
        let machine = Self(folder);
        machine.open_to_all();
        chown(machine.0.join("home"), Some(user), Some(user)).unwrap();
        machine.add_programs();
        machine.add_pages();
        machine.add_files();
        machine
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The folder of a temporary file may be closed to others by default.
    fn open_to_all(&self) {
        fs::set_permissions(&self.0, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn script(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// The program, and what stands for others: this test for the examples, this machine for others, and the build that is
    /// tested for the one that the pages ask for.
    fn add_programs(&self) {
        let bin = self.0.join("bin");
        let copy = |from: &Path, name: &str| fs::copy(from, bin.join(name)).unwrap();
        copy(Path::new(outboard_e2e::program()), "outboard");
        let benchmarks = outboard_e2e::beside_tests("outboard-bench");
        if benchmarks.is_file() {
            copy(&benchmarks, "outboard-bench");
        }
        let preload = outboard_e2e::beside_tests(PRELOAD);
        if preload.is_file() {
            copy(&preload, PRELOAD);
        }
        copy(&env::current_exe().unwrap(), "test");
        let example = |name: &str| {
            let test = bin.join("test");
            format!("exec env {}= {PROGRAM}={name} {}", outboard_child::VARIABLE, test.display())
        };
        for name in programs::names() {
            self.script(&format!("target/release/examples/{name}"), &format!("{} \"$@\"", example(name)));
        }
        self.script(
            "bin/cargo",
            &format!(
                r#"case "$*" in
    "build --release -p outboard --examples" | "build --release -p outboard-kv --examples") exit 0 ;;
    "run --release -p "*" --example "*) {} ;;
esac
echo "a newcomer's cargo does not know: $*" >&2
exit 1"#,
                example("\"$6\"")
            ),
        );
        self.script("bin/ssh", "shift\nexec \"$@\"");
        self.script("bin/clang", "exec $(PATH=${PATH#*:}; command -v clang || command -v clang-19) \"$@\"");
        let hosts = "127.0.0.1 localhost\n192.0.2.1 one\n192.0.2.2 two\n192.0.2.3 three\n";
        fs::write(self.0.join("hosts"), hosts).unwrap();
    }

    fn add_pages(&self) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for page in pages::all(&root) {
            fs::write(self.0.join(&page.name), &page.text).unwrap();
        }
        for (folder, header) in
            [("crates/ebpf/include", "outboard.h"), ("crates/calling/include", "calling.h")]
        {
            fs::create_dir_all(self.0.join(folder)).unwrap();
            fs::copy(root.join(folder).join(header), self.0.join(folder).join(header)).unwrap();
        }
        let objects = root.join("crates/ebpf/tests/objects");
        for (object, name) in
            [("lookup-v3.o", "lookup.o"), ("helpers-v3.o", "functions.o"), ("loop-v3.o", "function.o")]
        {
            fs::copy(objects.join(object), self.0.join("files").join(name)).unwrap();
        }
    }

    /// Files that everybody has who goes on from an example: a program, graphs, functions.
    fn add_files(&self) {
        self.script("files/program", "exec outboard app histogram --table 1Ki --updates 20k");
        self.script("files/build.sh", "exec sort huge.txt");
        self.script("files/start-my-job.sh", "exec outboard run -n 2 ./program");
        let circle = |first: u32, between: &str| {
            (0..100)
                .map(|vertex| format!("{}{between}{}\n", vertex + first, (vertex + 1) % 100 + first))
                .collect::<String>()
        };
        let coordinates =
            format!("%%MatrixMarket matrix coordinate pattern general\n100 100 100\n{}", circle(1, " "));
        let numbers = |count: u32| (0..count).map(|number| format!("{number}\n")).collect::<String>();
        let adjacency = format!("AdjacencyGraph\n100\n100\n{}{}", numbers(100), numbers(100));
        for (name, text) in [
            ("input.txt", "a line\n"),
            ("huge.txt", "two\nlines\n"),
            ("train.py", "print(sum(range(1000)))\n"),
            ("web-Google.txt", &format!("# a circle\n{}", circle(0, "\t"))),
            ("soc-LiveJournal1.txt", &circle(0, "\t")),
            ("roads.mtx", &coordinates),
            ("road.mtx", &coordinates),
            ("rMatGraph_J_5_100", &adjacency),
            ("sum.asm", SUM),
        ] {
            fs::write(self.0.join("files").join(name), text).unwrap();
        }
        fs::write(self.0.join("files/query.bin"), [0; 88]).unwrap();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The sum of the first two bytes of a context.
const SUM: &str = "
    .entry sum
        ldxb r0, [r1+0]
        ldxb r1, [r1+1]
        add r0, r1
        exit
";
