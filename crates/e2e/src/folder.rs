//! Names that no other test uses.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A name that no other test uses.
#[must_use]
pub fn unique() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("outboard-test-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// A socket that no other test uses.
#[must_use]
pub fn socket() -> String {
    format!("unix:@{}", unique())
}

/// Whether the kernel knows a Unix socket whose name contains this.
///
/// # Panics
///
/// If the kernel does not list its sockets.
#[must_use]
pub fn socket_exists(part: &str) -> bool {
    std::fs::read_to_string("/proc/net/unix").expect("the kernel lists its sockets").contains(part)
}

/// A folder that goes with the test.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Default for Folder {
    fn default() -> Self {
        Self::new()
    }
}

impl Folder {
    /// An empty one.
    ///
    /// # Panics
    ///
    /// If the temporary folder cannot be written to.
    #[must_use]
    pub fn new() -> Self {
        let path = std::env::temp_dir().join(unique());
        std::fs::create_dir(&path).expect("the temporary folder can be written to");
        Self(path)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Where it is, as an argument of a program.
    ///
    /// # Panics
    ///
    /// If the name of the temporary folder is no text.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.to_str().expect("the temporary folder has a name that is text")
    }

    /// Writes a file in it, and returns the file's place.
    ///
    /// # Panics
    ///
    /// If the folder cannot be written to.
    pub fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("the temporary folder can be written to");
        path.to_str().expect("the temporary folder has a name that is text").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
