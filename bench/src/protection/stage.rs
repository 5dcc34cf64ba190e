//! A server that keeps its regions, in a process that can be killed.

use std::path::PathBuf;

use outboard::{Memory, Settings};
use outboard_link::{Address, Identity};
use outboard_wire::Role;

use crate::daemons::{Host, HostSpec};
use crate::error::Named;
use crate::{BenchError, PeerProgram};

/// Where a server keeps its regions and listens, whichever process it is. The folder goes with this.
pub(super) struct Stage {
    folder: PathBuf,
    pub(super) address: Address,
}

impl Stage {
    pub(super) fn new() -> Result<Self, BenchError> {
        let unique = Identity::new(Role::Tool, "").incarnation;
        let folder = std::env::temp_dir().join(format!("outboard-bench-keep-{unique}"));
        std::fs::create_dir(&folder).named("mkdir")?;
        Ok(Self { folder, address: Address::Abstract(format!("outboard-bench-keep-{unique}")) })
    }

    /// Starts the server, for the first time or again. It is killed when the host is dropped.
    pub(super) fn start(&self, program: &PeerProgram) -> Result<Host, BenchError> {
        let keep = self.folder.join("regions").display().to_string();
        Host::start(program, &HostSpec::Keeping { keep, address: self.address.to_string() })
    }

    pub(super) fn memory(&self) -> Result<Memory, BenchError> {
        let identity = Identity::new(Role::Application, "client");
        let outboard = outboard::Outboard::from_settings(&Settings::default());
        let outboard = outboard.with_address(self.address.clone()).with_identity(identity);
        Ok(outboard.memory()?)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // What cannot be removed is in the system's folder for what is temporary.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
