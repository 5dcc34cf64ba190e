//! The library as it was built for this test, and programs that are compiled with it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use outboard_e2e::{Ended, beside_tests};

/// A compiler, and the kinds of source that it reads.
pub(crate) struct Compiler {
    pub(crate) name: &'static str,
    extension: &'static str,
    standard: &'static str,
}

impl Compiler {
    /// Those that are there, one for C at least; says which are not.
    pub(crate) fn all() -> Vec<Self> {
        let of = |names: &'static [&'static str], extension, standard| {
            let is_there = |name: &&&str| Command::new(name).arg("--version").output().is_ok();
            let found = names.iter().find(is_there);
            if found.is_none() {
                println!("skipped: {} is missing", names[0]);
            }
            found.map(|name| Self { name, extension, standard })
        };
        let all = [
            of(&["gcc", "cc"], ".c", "-std=gnu99"),
            of(&["clang", "clang-19"], ".c", "-std=gnu99"),
            of(&["g++"], ".cpp", "-std=c++17"),
            of(&["clang++", "clang++-19"], ".cpp", "-std=c++17"),
        ];
        let all: Vec<Self> = all.into_iter().flatten().collect();
        assert!(
            all.iter().any(|compiler| compiler.reads(".c")),
            "gcc links programs in Rust and has to be there"
        );
        all
    }

    pub(crate) fn reads(&self, source: &str) -> bool {
        source.ends_with(self.extension)
    }
}

/// The text of a file of this package.
pub(crate) fn text_of(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The folder of the room.
fn room() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../c")
}

/// The shared library, in a folder with all programs that are compiled here.
pub(crate) struct Library {
    folder: PathBuf,
    archive: PathBuf,
}

impl Library {
    /// Links it once for all tests.
    pub(crate) fn get() -> &'static Self {
        static LIBRARY: OnceLock<Library> = OnceLock::new();
        LIBRARY.get_or_init(|| {
            let (folder, archive) = (beside_tests("c-library"), archive());
            std::fs::create_dir_all(&folder).unwrap();
            let library = Self { folder, archive };
            let mut link = Command::new("sh");
            link.arg(room().join("link.sh")).arg(&library.archive).arg(library.shared());
            compiled(&mut link);
            let short = library.folder.join("liboutboard.so");
            let _ = std::fs::remove_file(&short);
            std::os::unix::fs::symlink("liboutboard.so.0", short).unwrap();
            library
        })
    }

    /// Where it is.
    pub(crate) fn shared(&self) -> PathBuf {
        self.folder.join("liboutboard.so.0")
    }

    /// The functions that the header declares.
    pub(crate) fn functions(&self) -> Vec<String> {
        let header = std::fs::read_to_string(room().join("include/outboard.h")).unwrap();
        let code = header.lines().filter(|line| !line.starts_with("//") && !line.starts_with("typedef"));
        let name = |line: &str| {
            let before = line.split_once('(')?.0;
            let name = before.rsplit([' ', '*']).next()?;
            (before.contains(' ') && !line.starts_with(' ') && name.starts_with("outboard_"))
                .then(|| name.to_owned())
        };
        let found: Vec<String> = code.filter_map(name).collect();
        assert!(found.len() > 60, "{found:?}");
        found
    }

    /// Compiles an example with the shared library.
    #[track_caller]
    pub(crate) fn example(&self, compiler: &Compiler, source: &str) -> String {
        self.with_shared(compiler, &room().join("examples").join(source))
    }

    /// Compiles a program of these tests with the shared library.
    #[track_caller]
    pub(crate) fn test_program(&self, compiler: &Compiler, source: &str) -> String {
        self.with_shared(compiler, &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(source))
    }

    #[track_caller]
    fn with_shared(&self, compiler: &Compiler, source: &Path) -> String {
        let folder = self.folder.to_str().unwrap();
        let run_path = format!("-Wl,-rpath,{folder}");
        self.program(compiler, source, "", &["-L", folder, "-loutboard", &run_path, "-lpthread"])
    }

    /// Compiles an example with the archive.
    #[track_caller]
    pub(crate) fn statically(&self, compiler: &Compiler, source: &str) -> String {
        let source = room().join("examples").join(source);
        let archive = self.archive.to_str().unwrap();
        self.program(compiler, &source, "-static", &[archive, "-lgcc_s", "-lpthread", "-ldl", "-lm"])
    }

    #[track_caller]
    fn program(&self, compiler: &Compiler, source: &Path, kind: &str, libraries: &[&str]) -> String {
        // Tests of one run may compile the same one at the same time.
        let thread = format!("{:?}", std::thread::current().id()).replace(|c: char| !c.is_ascii_digit(), "");
        let stem = source.file_stem().unwrap().to_str().unwrap();
        let name = format!("{stem}{}-{}{kind}-{thread}", compiler.extension, compiler.name);
        let program = self.folder.join(name);
        let mut compile = Command::new(compiler.name);
        compile
            .args([compiler.standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-I"])
            .arg(room().join("include"));
        compiled(compile.arg(source).arg("-o").arg(&program).args(libraries));
        program.to_str().unwrap().to_owned()
    }
}

/// Runs a compiler, which has nothing to say.
#[track_caller]
fn compiled(command: &mut Command) {
    let ended = Ended::of(command);
    assert!(ended.code == Some(0) && ended.err.is_empty(), "{command:?}: {ended:?}");
}

/// The archive that cargo has built with this test: the latest, of those for other sets of features.
fn archive() -> PathBuf {
    let folder = beside_tests("deps");
    let names = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let is_one = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("liboutboard_c-") && name.ends_with(".a")
    };
    let found = names.filter(is_one).max_by_key(|path| path.metadata().unwrap().modified().unwrap());
    found.unwrap_or_else(|| panic!("cargo has put no liboutboard_c.a into {}", folder.display()))
}
