//! Starting daemons, and hearing where they listen.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

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

/// A daemon that listens at a socket and at a port. Dropping it kills it.
pub(crate) struct Server {
    child: Child,
    pub(crate) shm: String,
    pub(crate) tcp: String,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_with(&["memory"])
    }

    /// One that a command with these arguments starts.
    pub(crate) fn start_with(arguments: &[&str]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self::start_at(&format!("unix:@outboard-calling-{}-{number}", std::process::id()), arguments)
    }

    /// The same at that socket.
    pub(crate) fn start_at(shm: &str, arguments: &[&str]) -> Self {
        let shm = shm.to_owned();
        let mut command = program(&[arguments, &["--listen", &format!("{shm},tcp:127.0.0.1:0")]].concat());
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
        let (sender, lines) = channel();
        let outputs = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
        let other = sender.clone();
        let pass_on = |lines: &mut dyn Iterator<Item = String>, to: &std::sync::mpsc::Sender<String>| {
            lines.for_each(|line| to.send(line).unwrap_or_default());
        };
        thread::spawn(move || pass_on(&mut BufReader::new(outputs.0).lines().map_while(Result::ok), &sender));
        thread::spawn(move || pass_on(&mut BufReader::new(outputs.1).lines().map_while(Result::ok), &other));
        let until = Instant::now() + PATIENCE;
        let tcp = loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = lines.recv_timeout(left).expect("the server says where it listens");
            // Before this line others name the address already, when what it serves is not there yet.
            let Some((_, listens)) = line.split_once(" listens at ") else { continue };
            if let Some(tcp) = listens.split([' ', ',']).find(|word| word.starts_with("tcp:127.0.0.1:")) {
                break tcp.to_owned();
            }
        };
        Self { child, shm, tcp }
    }

    /// An agent of a memory server.
    pub(crate) fn agent(memory: &str) -> Self {
        Self::start_with(&["agent", "--memory-servers", memory, "--workers", "2"])
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end and waits until it has. Returns its exit code, or none if a signal has ended it.
    pub(crate) fn ends_when_asked(mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("it lives");
        self.child.wait().expect("it is a child of ours").code()
    }

    /// Lets it go on after [`stop`](Self::stop).
    pub(crate) fn go_on(&self) {
        kill_process(Pid::from_child(&self.child), Signal::CONT).expect("it lives");
    }

    /// Stops it as if its machine hung. None of its threads does anything afterwards.
    pub(crate) fn stop(&self) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::STOP).expect("it lives");
        waitpid(Some(pid), WaitOptions::UNTRACED).expect("it is a child of ours");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
