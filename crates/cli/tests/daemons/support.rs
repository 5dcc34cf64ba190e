//! Starting the program and waiting for what it does, never longer than a deadline.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

/// How long anything here may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The program, without the settings of whoever runs the test.
pub(crate) fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outboard"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("OUTBOARD_")) {
        command.env_remove(name);
    }
    command.args(arguments).env("OUTBOARD_CONFIG", "none").stdin(Stdio::null());
    command
}

/// Runs it to its end.
pub(crate) fn outboard(arguments: &[&str]) -> Ended {
    Ended::from(program(arguments).output().expect("the program starts"))
}

/// What a program left.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the program prints text");
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

impl Ended {
    /// Asserts the exit code, and that the error tells all of this.
    #[track_caller]
    pub(crate) fn failed(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.err.contains("outboard: "), "{self:?}");
        for part in parts {
            assert!(self.err.contains(part), "“{part}” is not in {self:?}");
        }
    }

    /// Asserts success, and returns what was printed.
    #[track_caller]
    pub(crate) fn succeeded(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.out
    }

    /// The last line, which has to be JSON.
    #[track_caller]
    pub(crate) fn json(self) -> serde_json::Value {
        let out = self.succeeded();
        serde_json::from_str(out.lines().last().expect("a line of JSON")).expect("valid JSON")
    }
}

/// A socket that nobody else uses.
pub(crate) fn socket() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("unix:@outboard-test-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// Whether the kernel knows a Unix socket whose name contains this.
pub(crate) fn socket_exists(part: &str) -> bool {
    std::fs::read_to_string("/proc/net/unix").unwrap().contains(part)
}

/// The program, still running. Dropping it kills it.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Running {
    /// Starts it. Both outputs are read as they come.
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
        let (sender, lines) = channel();
        let outputs: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        for output in outputs {
            let sender = sender.clone();
            thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    let _ = sender.send(line);
                }
            });
        }
        Self { child, lines, seen: Vec::new() }
    }

    /// Starts a daemon and waits until it listens.
    pub(crate) fn daemon(arguments: &[&str]) -> Self {
        let mut daemon = Self::start(program(arguments));
        daemon.await_line("listens at");
        daemon
    }

    /// Starts the program on a terminal of 80 columns and 24 rows, with a variable that is written `NAME=value`. Without
    /// `script`, which makes terminals, says so and returns nothing.
    pub(crate) fn on_terminal(variable: &str, arguments: &[&str]) -> Option<Self> {
        if Command::new("script").arg("--version").output().is_err() {
            println!("skipped: there is no `script` here (package bsdutils), so there is no terminal");
            return None;
        }
        let program = program(&[]);
        let path = program.get_program().to_str().unwrap();
        let run = format!(
            "stty cols 80 rows 24; TERM=xterm OUTBOARD_CONFIG=none {variable} exec {path} {}",
            arguments.join(" ")
        );
        let mut script = Command::new("script");
        script.args(["-q", "-e", "-c", &run, "/dev/null"]).stdin(Stdio::null()).env_remove("NO_COLOR");
        Some(Self::start(script))
    }

    /// What is drawn over what was there before, up to the next time.
    #[track_caller]
    pub(crate) fn frame(&mut self) -> Vec<String> {
        const TO_TOP: &str = "\x1b[H";
        let mut frame = vec![self.await_line(TO_TOP)];
        loop {
            match self.await_line("") {
                line if line.contains(TO_TOP) => return frame,
                line => frame.push(line),
            }
        }
    }

    /// The next line that contains `part`.
    #[track_caller]
    pub(crate) fn await_line(&mut self, part: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    self.seen.push(line.clone());
                    if line.contains(part) {
                        return line;
                    }
                }
                Err(error) => panic!("no line with “{part}” ({error}) but {:?}", self.seen),
            }
        }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Waits for its end; returns its exit code and all that it printed.
    #[track_caller]
    pub(crate) fn wait(self) -> (Option<i32>, Vec<String>) {
        self.wait_within(PATIENCE)
    }

    /// The same of one that has more to do.
    #[track_caller]
    pub(crate) fn wait_within(mut self, limit: Duration) -> (Option<i32>, Vec<String>) {
        await_end_within(self.pid(), limit);
        let code = self.child.wait().unwrap().code();
        let mut seen = std::mem::take(&mut self.seen);
        // The readers end with the outputs.
        seen.extend(self.lines.iter());
        (code, seen)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until a process has ended. One that is gone already has.
#[track_caller]
pub(crate) fn await_end(pid: Pid) {
    await_end_within(pid, PATIENCE);
}

#[track_caller]
fn await_end_within(pid: Pid, limit: Duration) {
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    let time = Timespec { tv_sec: limit.as_secs().cast_signed(), tv_nsec: 0 };
    let ready = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&time)).unwrap();
    assert_eq!(ready, 1, "process {pid:?} did not end within {limit:?}");
}

/// A folder that goes with the test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        let name = socket().replace("unix:@", "");
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// A file in it.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
