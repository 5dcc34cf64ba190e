//! A fabric that is here, and processes that use it.

use std::io::{BufRead, BufReader, Read};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use outboard_link::ofi;
use serde_json::Value;

/// How long anything here may take where the fabric and the processor are made of software.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Where to find a network card that does verbs; it may be made of software.
const VERBS_ADDRESS: &str = "OUTBOARD_TEST_VERBS";

/// Who moves the bytes and from where, and a folder for files.
pub(crate) struct Fabric {
    provider: &'static str,
    address: IpAddr,
    folder: PathBuf,
}

impl Fabric {
    /// Nothing, with a word about it, if there is none.
    pub(crate) fn find() -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let named = std::env::var(VERBS_ADDRESS).ok();
        let (provider, address) = match &named {
            Some(text) => ("verbs;ofi_rxm", text.parse().expect("an IP address")),
            None => ("tcp;ofi_rxm", IpAddr::from([127, 0, 0, 1])),
        };
        if let Err(why) = ofi::choose(Some(address), Some(provider)) {
            assert_eq!(named, None, "{why}");
            println!("skipped: {why}");
            return None;
        }
        let unique = format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(format!("outboard-fabric-{unique}"));
        std::fs::create_dir_all(&folder).unwrap();
        Some(Self { provider, address, folder })
    }

    pub(crate) fn provider(&self) -> &str {
        self.provider
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Any port of the fabric.
    pub(crate) fn any_port(&self) -> String {
        format!("ofi:{}:0", self.address)
    }

    /// The program, without the settings of whoever runs the test, on this fabric.
    pub(crate) fn program(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_outboard"));
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("OUTBOARD_"))
        {
            command.env_remove(name);
        }
        command.env("OUTBOARD_LINK_PROVIDER", self.provider).env("OUTBOARD_LINK_ALLOW_REMOTE", "true");
        // Nothing dies here, and what is made of software may be late.
        command.env("OUTBOARD_LINK_DEADLINE", "30s").env("OUTBOARD_JOB_JOIN_TIMEOUT", "60s");
        command.args(arguments).env("OUTBOARD_CONFIG", "none").stdin(Stdio::null());
        command
    }

    /// Runs it, and returns what it prints.
    #[track_caller]
    pub(crate) fn succeed(&self, arguments: &[&str]) -> String {
        let output = self.program(arguments).output().expect("the program starts");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("it prints text")
    }

    /// Starts a daemon, and waits until it listens. Beside the fabric it listens at a socket, for questions.
    #[track_caller]
    pub(crate) fn daemon(&self, arguments: &[&str]) -> Daemon {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let socket = format!("unix:@outboard-fabric-{}-{number}", std::process::id());
        let listen = format!("{socket},{}", self.any_port());
        let mut command = self.program(arguments);
        let mut process = Running::start(command.args(["--listen", &listen]));
        let port = process.await_word("ofi:");
        Daemon { _process: process, port, socket }
    }

    /// Waits until a daemon's status is as it should be.
    #[track_caller]
    pub(crate) fn wait_until(&self, daemon: &Daemon, is_right: impl Fn(&Value) -> bool) {
        let began = Instant::now();
        loop {
            let status = self.succeed(&["status", &daemon.socket, "--json"]);
            let status: Value = serde_json::from_str(&status).unwrap();
            if is_right(&status[0]["numbers"]) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{status}");
            std::thread::park_timeout(Duration::from_millis(50));
        }
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A daemon. Dropping it kills it.
pub(crate) struct Daemon {
    _process: Running,
    /// Where it is on the fabric.
    pub(crate) port: String,
    /// Where it is on this machine.
    pub(crate) socket: String,
}

/// A process that is killed when nobody wants it any more.
pub(crate) struct Running {
    child: Child,
    errors: BufReader<ChildStderr>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let errors = BufReader::new(child.stderr.take().unwrap());
        Self { child, errors }
    }

    /// The first word of its log that begins like this. A process that ends closes its log, and one that hangs is ended
    /// by whoever runs the tests.
    #[track_caller]
    fn await_word(&mut self, begin: &str) -> String {
        let mut seen = String::new();
        loop {
            let start = seen.len();
            assert!(self.errors.read_line(&mut seen).unwrap() > 0, "no word with “{begin}” but {seen}");
            if let Some(word) = seen[start..].split([' ', ',', '\n']).find(|word| word.starts_with(begin)) {
                return word.to_owned();
            }
        }
    }

    /// Waits for its end, and returns what it printed, which must fit into a pipe.
    #[track_caller]
    pub(crate) fn finish(mut self) -> String {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(began.elapsed() < PATIENCE, "not done after {PATIENCE:?}");
            std::thread::park_timeout(Duration::from_millis(20));
        };
        let (mut out, mut err) = (String::new(), String::new());
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        self.errors.read_to_string(&mut err).unwrap();
        assert!(status.success(), "{err}");
        out
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
