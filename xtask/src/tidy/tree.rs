//! The files of the project, in memory.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;

/// All files that are committed or would be by `git add --all`.
pub(super) struct Tree {
    pub(super) files: Vec<File>,
}

/// One file.
pub(super) struct File {
    /// Relative to the workspace, with `/` between its parts.
    pub(super) path: String,
    pub(super) kind: Kind,
    pub(super) len_bytes: u64,
    /// Its contents, where they are text.
    pub(super) text: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Regular,
    /// Anything else: a symbolic link, a device, a repository inside this one.
    Special,
}

impl Tree {
    /// Asks git for the files and reads them.
    pub(super) fn load(root: &Path) -> Result<Self> {
        let mut command = Command::new("git");
        command.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root);
        let mut paths: Vec<String> =
            process::output(command)?.split_terminator('\0').map(str::to_owned).collect();
        paths.sort();
        paths.dedup();
        let mut files = Vec::new();
        for path in paths {
            // A file that is deleted but not yet committed as such is still listed.
            if let Ok(metadata) = root.join(&path).symlink_metadata() {
                files.push(File::load(root, path, &metadata)?);
            }
        }
        Ok(Self { files })
    }

    /// The file at `path`.
    pub(super) fn get(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Whether there is a file or a folder at `path`.
    pub(super) fn contains(&self, path: &str) -> bool {
        let inside = |file: &File| file.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
        path.is_empty() || self.files.iter().any(|file| file.path == path || inside(file))
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        Self { files: files.iter().map(|(path, text)| File::of(path, text)).collect() }
    }
}

impl File {
    fn load(root: &Path, path: String, metadata: &std::fs::Metadata) -> Result<Self> {
        if !metadata.is_file() {
            return Ok(Self { path, kind: Kind::Special, len_bytes: 0, text: None });
        }
        let bytes = std::fs::read(root.join(&path)).with_context(|| format!("could not read {path}"))?;
        let (len_bytes, text) = (metadata.len(), String::from_utf8(bytes).ok());
        Ok(Self { path, kind: Kind::Regular, len_bytes, text })
    }

    /// Whether it is Rust source.
    pub(super) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether all of it is built for tests alone: `tests.rs`, loom's `model.rs`, or in a folder of either.
    pub(super) fn is_test(&self) -> bool {
        let is_test_name = |name: &str| matches!(name, "tests" | "model");
        self.path.trim_end_matches(".rs").split('/').any(is_test_name)
    }

    #[cfg(test)]
    pub(super) fn of(path: &str, text: &str) -> Self {
        let (path, len_bytes) = (path.to_owned(), text.len() as u64);
        Self { path, kind: Kind::Regular, len_bytes, text: Some(text.to_owned()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_contained_by_whole_names() {
        let tree = Tree::of(&[("docs/guide/a.md", "")]);
        assert!(tree.contains("docs/guide") && tree.contains("docs") && tree.contains("docs/guide/a.md"));
        assert!(!tree.contains("docs/gui") && !tree.contains("doc"));
    }

    #[test]
    fn test_files_are_known_by_name_or_folder() {
        for path in ["crates/link/tests/shm.rs", "crates/link/src/ring/tests.rs", "crates/link/src/model.rs"]
        {
            assert!(File::of(path, "").is_test(), "{path}");
        }
        for path in ["crates/link/src/attests.rs", "crates/link/src/test_link.rs"] {
            assert!(!File::of(path, "").is_test(), "{path}");
        }
    }
}
