//! Starting daemons and waiting for what they say, never longer than a deadline.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// How long anything here may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A socket that nobody else uses.
pub(crate) fn socket() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("unix:@outboard-writer-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// A daemon. Dropping it kills it.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Running {
    /// Starts a daemon and waits until it listens, without the settings of whoever runs the test.
    pub(crate) fn daemon(arguments: &[&str]) -> (Self, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_outboard"));
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("OUTBOARD_"))
        {
            command.env_remove(name);
        }
        command.args(arguments).env("OUTBOARD_CONFIG", "none").stdin(Stdio::null());
        let mut daemon = Self::start(command);
        let line = daemon.await_line("listens at");
        (daemon, line)
    }

    /// Starts it. Both outputs are read as they come.
    fn start(mut command: Command) -> Self {
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

    /// A line that contains `part`, whether it has been said already or comes.
    #[track_caller]
    pub(crate) fn await_line(&mut self, part: &str) -> String {
        if let Some(line) = self.seen.iter().find(|line| line.contains(part)) {
            return line.clone();
        }
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
}

impl Running {
    /// Stops it, as a terminal does, and waits until all its threads have stopped.
    pub(crate) fn stop(&self) {
        let process = Pid::from_child(&self.child);
        kill_process(process, Signal::STOP).expect("it lives");
        waitpid(Some(process), WaitOptions::UNTRACED).expect("it is a child");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
