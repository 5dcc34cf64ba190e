//! The examples of the library find the server of `outboard up` without an address, as root and as another user; where none
//! runs they say what to start.
// Also outside test functions a test fails by panicking, and says why it is skipped.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use outboard::Memory;
use rustix::process::{Pid, Signal, kill_process};

type Example = fn() -> Result<(), Box<dyn Error>>;

#[path = "../../outboard/examples/caller.rs"]
mod caller;
#[path = "../../outboard/examples/far_memory.rs"]
mod far_memory;
#[path = "../../outboard/examples/memory.rs"]
mod memory;
#[path = "../../outboard/examples/writer.rs"]
mod writer;

const EXAMPLES: [(&str, Example); 4] = [
    ("memory", memory::main),
    ("far_memory", far_memory::main),
    ("writer", writer::main),
    ("caller", caller::main),
];

/// How long anything here may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Names the program for [`inside`], and tells it that it runs as a user of its own in a network of its own.
const PROGRAM: &str = "OUTBOARD_TEST_PROGRAM";

#[test]
fn examples_run_as_root() {
    as_user(0);
}

#[test]
fn examples_run_as_another_user() {
    as_user(65534);
}

/// Runs [`inside`] as this user, in a network namespace in which nobody else has the user's usual sockets.
fn as_user(user: u32) {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root can become another user");
    }
    let id = [format!("--reuid={user}"), format!("--regid={user}")];
    let prefix = ["--net", "setpriv", &id[0], &id[1], "--clear-groups"];
    let can = |program: &[&str]| {
        let output = Command::new("unshare").args(prefix).args(program).output();
        output.is_ok_and(|output| output.status.success())
    };
    if !can(&["true"]) {
        return println!(
            "skipped: unshare and setpriv cannot give user {user} a network; apt-get install util-linux"
        );
    }
    let copies = Copies::new(user);
    let (test, program) = (copies.of("test", &env::current_exe().unwrap()), env!("CARGO_BIN_EXE_outboard"));
    let program = copies.of("outboard", Path::new(program));
    let mut command = Command::new("unshare");
    command.args(prefix).arg(test).args(["--exact", "inside", "--nocapture"]);
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("OUTBOARD_")) {
        command.env_remove(name);
    }
    let command = command.env("OUTBOARD_CONFIG", "none").env(PROGRAM, program).current_dir("/");
    let output = command.output().unwrap();
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(output.status.success(), "as user {user}:\n{out}\n{err}");
    assert!(out.contains("all examples ran"), "as user {user}:\n{out}\n{err}");
}

/// Programs where every user can start them: the folder of a build may be closed to others.
struct Copies(PathBuf);

impl Copies {
    fn new(user: u32) -> Self {
        use std::os::unix::fs::PermissionsExt;
        let folder = env::temp_dir().join(format!("outboard-defaults-{}-{user}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        Self(folder)
    }

    fn of(&self, name: &str, program: &Path) -> PathBuf {
        let copy = self.0.join(name);
        fs::copy(program, &copy).unwrap();
        copy
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What runs as the other user. By itself it is no test: it needs a network of its own.
#[test]
fn inside() {
    let Some(program) = env::var_os(PROGRAM) else {
        return println!("skipped: it is a part of the other tests");
    };
    let user = rustix::process::geteuid().as_raw();
    let socket = if user == 0 { "@outboard-memory".to_owned() } else { format!("@outboard-{user}-memory") };
    for (name, run) in EXAMPLES {
        // What a program prints whose `main` returns this.
        let text = format!("{:?}", run().expect_err("no server runs"));
        assert!(text.contains("start one with `outboard up`"), "{name}: {text}");
        assert!(text.contains(&socket), "{name}: {text}");
    }
    let mut up = Command::new(program);
    let _up = Up(up.args(["up", "--json"]).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap());
    let began = Instant::now();
    while let Err(error) = Memory::find() {
        assert!(began.elapsed() < PATIENCE, "{error}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
    for (name, run) in EXAMPLES {
        run().unwrap_or_else(|error| panic!("{name}: {error:?}"));
    }
    println!("all examples ran");
}

/// A cluster that ends with the test.
struct Up(Child);

impl Drop for Up {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}
