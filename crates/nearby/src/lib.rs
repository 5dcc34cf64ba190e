//! A memory server in the process that asks for it, so that the examples in the library's documentation run as they stand:
//! their hidden first line starts one, and `Outboard::find()` finds it.
//!
//! It is for examples and tests. Users start a memory server with `outboard up`.

#![deny(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering};

use outboard_agent::Daemon;
use outboard_link::Address;
use outboard_settings::Settings;

/// A memory server. It ends when this is dropped.
pub struct NearbyServer {
    /// None once it has ended.
    daemon: Option<Daemon>,
    address: Address,
}

/// Starts a memory server, and has this process find it: by the environment, which it changes. So it is called before there
/// is any other thread.
///
/// # Panics
///
/// If the memory server cannot be started: without it the example means nothing.
#[must_use = "the memory server ends when this is dropped"]
pub fn start() -> NearbyServer {
    static STARTED: AtomicU32 = AtomicU32::new(0);
    let number = STARTED.fetch_add(1, Ordering::Relaxed);
    let address = Address::Abstract(format!("outboard-nearby-{}-{number}", std::process::id()));
    announce(&address);
    let mut settings = Settings::default();
    settings.memory.listen = vec![address.clone()];
    let daemon = Daemon::memory(&settings).expect("a memory server can be started");
    NearbyServer { daemon: Some(daemon), address }
}

/// Has whatever is opened from here on use the server, and no agent of the user.
#[allow(unsafe_code)]
fn announce(address: &Address) {
    // SAFETY: no other thread reads or writes the environment: an example begins with this.
    unsafe {
        std::env::set_var("OUTBOARD_JOB_MEMORY", address.to_string());
        std::env::set_var("OUTBOARD_JOB_AGENT", "none");
    }
}

impl NearbyServer {
    /// Where it listens.
    pub fn address(&self) -> &Address {
        &self.address
    }
}

impl Drop for NearbyServer {
    fn drop(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            // Its clients are told that it is gone in any case.
            let _ = daemon.stop("the example is over");
        }
    }
}
