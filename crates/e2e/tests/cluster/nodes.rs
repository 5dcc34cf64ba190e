//! The nodes that somebody has set up.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use outboard_e2e::program;
use serde_json::Value;

/// How long anything may take that should be quick.
const PATIENCE: Duration = Duration::from_secs(60);

/// The nodes, as their host file names them.
pub(crate) struct Nodes {
    file: String,
    hosts: Vec<(String, String)>,
}

impl Nodes {
    /// Nothing, with a word about it, if there are none.
    pub(crate) fn find() -> Option<Self> {
        let Ok(file) = std::env::var("CLUSTER_HOSTS") else {
            println!("skipped: there are no nodes here; see `cargo xtask nodes`");
            return None;
        };
        let lines = std::fs::read_to_string(&file).unwrap();
        let host =
            |line: &str| line.split_once('=').map(|(name, address)| (name.to_owned(), address.to_owned()));
        let hosts: Vec<_> = lines.lines().map(|line| host(line).unwrap()).collect();
        assert!(hosts.len() > 1, "{lines}");
        Some(Self { file, hosts })
    }

    pub(crate) fn count(&self) -> usize {
        self.hosts.len()
    }

    pub(crate) fn address(&self, index: usize) -> &str {
        &self.hosts[index].1
    }

    /// The same over IPv6, if the nodes have it.
    pub(crate) fn address_with_labels(&self, index: usize) -> Option<String> {
        if !std::path::Path::new("/proc/net/if_inet6").exists() {
            println!("skipped: there is no IPv6 here");
            return None;
        }
        Some(format!("fd77::{}", self.address(index)))
    }

    /// The program in a node.
    pub(crate) fn inside(&self, index: usize, arguments: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.hosts[index].0, program()]).args(arguments);
        command.env("OUTBOARD_LOG_LEVEL", "warn");
        command
    }

    /// A job on all nodes.
    pub(crate) fn run(&self, flags: &[&str], settings: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(["run", "--hosts", &self.file, "--shell", "ip netns exec", "--config", "none"]);
        for setting in settings.chunks(2) {
            let name = setting[0].trim_start_matches("--").replace('-', "_").to_uppercase();
            command.env(format!("OUTBOARD_{name}"), setting[1]);
        }
        command.args(flags).env("OUTBOARD_LOG_LEVEL", "warn");
        command
    }

    /// Two ranks on each node, started by mpirun as somebody for whom no daemon runs. Nothing, with a word about it, if
    /// that cannot be done here.
    pub(crate) fn mpirun(&self, meeting: &str) -> Option<(Command, IntoNode)> {
        const NOBODY: [&str; 3] = ["setpriv", "--reuid=65534", "--clear-groups"];
        let can = |program: &str, args: &[&str]| {
            Command::new(program).args(args).output().is_ok_and(|output| output.status.success())
        };
        if !can("mpirun", &["--version"]) || !can("unshare", &["--uts", "true"]) {
            println!("skipped: mpirun or unshare cannot be started; apt-get install openmpi-bin util-linux");
            return None;
        }
        if !can(NOBODY[0], &[&NOBODY[1..], &[program(), "--version"]].concat()) {
            println!("skipped: another user cannot start {}", program());
            return None;
        }
        let shell = IntoNode::write();
        let hosts: Vec<String> = self.hosts.iter().map(|(_, address)| format!("{address}:2")).collect();
        let mut command = Command::new(&shell.0);
        command.args([self.address(0), "mpirun", "--allow-run-as-root", "--host", &hosts.join(",")]);
        command.args(["-n", &(self.count() * 2).to_string(), "--mca", "plm_rsh_agent"]).arg(&shell.0);
        command.args(["--mca", "oob_tcp_if_include", "10.77.0.0/24", "--bind-to", "none"]);
        for variable in ["OUTBOARD_JOB_RENDEZVOUS", "OUTBOARD_LINK_SECRET", "OUTBOARD_CONFIG"] {
            command.args(["-x", variable]);
        }
        command.args(["-x", "OUTBOARD_MESSAGES_PLACEMENT"]).args(NOBODY);
        command.env("OUTBOARD_MESSAGES_PLACEMENT", "agent").env("OUTBOARD_CONFIG", "none");
        command.env("OUTBOARD_JOB_RENDEZVOUS", meeting);
        Some((command, shell))
    }

    /// Waits until nobody in a node listens at a socket whose name begins like this.
    pub(crate) fn wait_until_no_socket(&self, index: usize, name: &str) {
        let began = Instant::now();
        loop {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", &self.hosts[index].0, "cat", "/proc/net/unix"]);
            let sockets = text(&command.output().unwrap().stdout);
            if !sockets.contains(&format!("@{name}")) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{sockets}");
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    /// Runs the program in a node, and returns what it prints.
    pub(crate) fn succeed(&self, index: usize, arguments: &[&str]) -> String {
        let output = self.inside(index, arguments).env("OUTBOARD_CONFIG", "none").output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Waits until a daemon answers.
    pub(crate) fn wait_for(&self, index: usize, address: &str) {
        self.wait_until(index, address, |_| true);
    }

    /// Waits until a daemon's status is as it should be.
    pub(crate) fn wait_until(&self, index: usize, address: &str, is_right: impl Fn(&Value) -> bool) {
        let began = Instant::now();
        loop {
            let output =
                self.inside(index, &["status", address, "--config", "none", "--json"]).output().unwrap();
            let status = json(&output.stdout);
            if output.status.success() && is_right(&status[0]) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{address}: {status} {}", text(&output.stderr));
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What is no JSON is null.
pub(crate) fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_default()
}

/// A script that stands in for ssh: it runs a command line in the node that has an address. Dropping it removes it.
pub(crate) struct IntoNode(PathBuf);

impl IntoNode {
    fn write() -> Self {
        let path = std::env::temp_dir().join(format!("outboard-into-node-{}", std::process::id()));
        // The last argument of mpirun is a command line for a shell.
        let script = "#!/bin/sh\nnode=$(grep \"=$1\\$\" \"$CLUSTER_HOSTS\" | cut -d= -f1); name=$1; shift\n\
                      exec ip netns exec \"$node\" unshare --uts sh -c \"hostname node-$name; $*\"\n";
        let written = Self(path);
        std::fs::write(&written.0, script).unwrap();
        std::fs::set_permissions(&written.0, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        written
    }
}

impl Drop for IntoNode {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
