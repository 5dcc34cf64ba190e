//! A fabric that is here, and processes that use it.

use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use outboard::Address;
use outboard_e2e::{Daemon, Ended, Folder, PATIENCE, outboard, socket};
use outboard_link::ofi;
use serde_json::Value;

/// Where to find a network card that does verbs; it may be made of software.
const VERBS_ADDRESS: &str = "OUTBOARD_TEST_VERBS";

/// Who moves the bytes and from where, and a folder for files.
pub(crate) struct Fabric {
    provider: &'static str,
    address: IpAddr,
    folder: Folder,
}

impl Fabric {
    /// Nothing, with a word about it, if there is none.
    pub(crate) fn find() -> Option<Self> {
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
        Some(Self { provider, address, folder: Folder::new() })
    }

    pub(crate) fn provider(&self) -> &str {
        self.provider
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Any port of the fabric.
    pub(crate) fn any_port(&self) -> String {
        format!("ofi:{}:0", self.address)
    }

    /// The program, without the settings of whoever runs the test, on this fabric.
    pub(crate) fn program(&self, arguments: &[&str]) -> Command {
        let mut command = outboard(arguments);
        command.env("OUTBOARD_LINK_PROVIDER", self.provider).env("OUTBOARD_LINK_ALLOW_REMOTE", "true");
        // Nothing dies here, and what is made of software may be late.
        command.env("OUTBOARD_LINK_DEADLINE", "30s").env("OUTBOARD_JOB_JOIN_TIMEOUT", "60s");
        command
    }

    /// Runs it, and returns what it prints.
    #[track_caller]
    pub(crate) fn succeed(&self, arguments: &[&str]) -> String {
        Ended::of(&mut self.program(arguments)).succeeded()
    }

    /// Starts a daemon, and waits until it listens. Beside the fabric it listens at a socket, for questions.
    #[track_caller]
    pub(crate) fn daemon(&self, arguments: &[&str]) -> OnFabric {
        let socket = socket();
        let mut command = self.program(arguments);
        command.args(["--listen", &format!("{socket},{}", self.any_port())]);
        let daemon = Daemon::of(command);
        let port =
            daemon.listening.iter().find(|at| matches!(at, Address::Ofi(_))).expect("it is on the fabric");
        OnFabric { port: port.to_string(), socket, _daemon: daemon }
    }

    /// Waits until a daemon's status is as it should be.
    #[track_caller]
    pub(crate) fn wait_until(&self, daemon: &OnFabric, is_right: impl Fn(&Value) -> bool) {
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

/// A daemon. Dropping it kills it.
pub(crate) struct OnFabric {
    _daemon: Daemon,
    /// Where it is on the fabric.
    pub(crate) port: String,
    /// Where it is on this machine.
    pub(crate) socket: String,
}
