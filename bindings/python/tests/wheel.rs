//! The wheel in a clean virtual environment: packed of what cargo has built for tests, installed by pip, and tried by the package's
//! own tests, which are in Python.
#![allow(clippy::print_stdout, reason = "tests say why they are skipped")]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// What the package and its tests need.
const PACKAGES: &[&str] = &["numpy", "pytest"];
/// Programs of others that arrays are given to. Together they are a download of 150 MB, so they are for those who ask for them.
const ECOSYSTEM: &[&str] = &["pandas", "scipy", "scikit-learn", "pyarrow", "polars", "networkx"];
const WITH_ECOSYSTEM: &str = "OUTBOARD_PYTHON_ECOSYSTEM";
/// Interpreters by name, the one that users call first.
const INTERPRETERS: &[&str] = &["python3", "python3.14", "python3.13", "python3.12", "python3.11"];
const IS_NEW_ENOUGH: &str = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))";

#[test]
fn the_wheel_works_in_a_clean_environment() {
    if let Err(why) = try_wheel() {
        println!("skipped: {why}");
    }
}

/// Fails by a panic where the package is wrong, and returns why it could not be tried.
fn try_wheel() -> Result<(), String> {
    let python = interpreter().ok_or("no Python 3.11 or newer with venv: apt-get install python3-venv")?;
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wheel");
    if folder.exists() {
        fs::remove_dir_all(&folder).expect("the folder is this test's alone");
    }
    let wheel = pack(&python, sources, &folder);
    let environment = folder.join("environment");
    succeeded(Command::new(&python).args(["-m", "venv"]).arg(&environment)).map_err(|error| text(&error))?;
    let python = environment.join("bin/python");
    let pip = || {
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        pip
    };
    let with_ecosystem = env::var_os(WITH_ECOSYSTEM).is_some();
    let wanted = [PACKAGES, if with_ecosystem { ECOSYSTEM } else { &[] }].concat();
    let fetched = succeeded(pip().args(["--only-binary", ":all:"]).args(&wanted));
    fetched.map_err(|error| format!("pip cannot fetch {}: {}", wanted.join(", "), text(&error).trim()))?;
    // What is wrong with the wheel itself is no reason to skip.
    succeeded(pip().args(["--no-index", "--no-deps"]).arg(&wheel))
        .unwrap_or_else(|error| panic!("{}", text(&error)));
    let mut tests = Command::new(&python);
    // Elsewhere than the sources, so that what is installed is tried. A test that hangs shows where, and fails.
    tests.args(["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]).arg(sources.join("tests"));
    tests.args(["-o", "faulthandler_timeout=300", "-o", "faulthandler_exit_on_timeout=true"]);
    let output = tests.arg("--rootdir").arg(sources).current_dir(&folder).env("PYTHONDONTWRITEBYTECODE", "1");
    match succeeded(output) {
        Ok(output) => println!("{}", text(&output)),
        Err(output) => panic!("{}", text(&output)),
    }
    fs::remove_dir_all(&folder).expect("the folder is this test's alone");
    Ok(())
}

/// Packs the library and the program that lie beside this test.
fn pack(python: &Path, sources: &Path, folder: &Path) -> PathBuf {
    let deps = env::current_exe().expect("a process knows itself");
    let deps = deps.parent().expect("a program lies in a folder");
    let (library, program) = (deps.join("liboutboard_python.so"), deps.join("../outboard"));
    assert!(
        program.is_file(),
        "{} has not been built: `cargo build -p outboard-cli` builds it, and so does `cargo test --workspace`",
        program.display()
    );
    let mut packing = Command::new(python);
    packing.arg(sources.join("packing.py")).arg("--into").arg(folder);
    packing.arg("--library").arg(library).arg("--program").arg(program);
    let packed = succeeded(&mut packing).unwrap_or_else(|error| panic!("{}", text(&error)));
    PathBuf::from(String::from_utf8_lossy(&packed.stdout).trim())
}

fn interpreter() -> Option<PathBuf> {
    let is_new_enough = |name: &&&str| {
        let mut command = Command::new(name);
        succeeded(command.args(["-c", IS_NEW_ENOUGH])).is_ok()
    };
    INTERPRETERS.iter().find(is_new_enough).map(PathBuf::from)
}

/// The output of a program that has succeeded, or of one that has not.
fn succeeded(command: &mut Command) -> Result<Output, Output> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| Output {
        status: Default::default(),
        stdout: Vec::new(),
        stderr: format!("{command:?}: {error}").into_bytes(),
    })?;
    if output.status.success() { Ok(output) } else { Err(output) }
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
