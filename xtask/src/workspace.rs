//! The workspace as `cargo metadata` describes it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process;

/// The workspace: where it lies and which packages it has.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target_dir: PathBuf,
    pub(crate) packages: Vec<Package>,
}

/// One package of the workspace. All paths are relative to the workspace, with `/` between their parts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// The folder it lies in, such as `crates/wire`.
    pub(crate) room: String,
    pub(crate) dependencies: Vec<Dependency>,
    /// The root files of its library and its binaries, such as `crates/wire/src/lib.rs`.
    pub(crate) roots: Vec<String>,
}

/// What a package depends on.
#[derive(Debug, Clone)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `normal`, `dev` or `build`.
    pub(crate) kind: String,
    /// The folder of the package meant, if it is one of the workspace's.
    pub(crate) room: Option<String>,
}

impl Workspace {
    /// Asks cargo.
    pub(crate) fn load() -> Result<Self> {
        let mut command = Command::new("cargo");
        command.args(["metadata", "--no-deps", "--format-version", "1"]);
        // The package's own folder, so that the workspace is found from wherever the command was given.
        command.current_dir(env!("CARGO_MANIFEST_DIR"));
        let metadata = serde_json::from_str(&process::output(command)?)?;
        Self::from_metadata(&metadata)
    }

    /// Reads what `cargo metadata --no-deps` printed.
    pub(crate) fn from_metadata(metadata: &Value) -> Result<Self> {
        let root = PathBuf::from(text(metadata, "workspace_root")?);
        let packages = metadata["packages"].as_array().context("cargo metadata names no packages")?;
        let packages = packages.iter().map(|package| Package::from_metadata(&root, package));
        Ok(Self {
            target_dir: PathBuf::from(text(metadata, "target_directory")?),
            packages: packages.collect::<Result<_>>()?,
            root,
        })
    }

    /// Whether there is a package of this name.
    pub(crate) fn has_package(&self, name: &str) -> bool {
        self.packages.iter().any(|package| package.name == name)
    }
}

impl Package {
    fn from_metadata(root: &Path, package: &Value) -> Result<Self> {
        let manifest = relative(root, text(package, "manifest_path")?);
        let mut dependencies = Vec::new();
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            dependencies.push(Dependency {
                name: text(dependency, "name")?.to_owned(),
                kind: dependency["kind"].as_str().unwrap_or("normal").to_owned(),
                room: dependency["path"].as_str().map(|path| relative(root, path)),
            });
        }
        let targets = package["targets"].as_array().into_iter().flatten();
        let roots = targets.filter(|target| is_lib_or_bin(target)).map(|target| text(target, "src_path"));
        Ok(Self {
            name: text(package, "name")?.to_owned(),
            room: manifest.trim_end_matches("Cargo.toml").trim_end_matches('/').to_owned(),
            dependencies,
            roots: roots.map(|path| Ok(relative(root, path?))).collect::<Result<_>>()?,
        })
    }
}

fn is_lib_or_bin(target: &Value) -> bool {
    let mut kinds = target["kind"].as_array().into_iter().flatten().filter_map(Value::as_str);
    kinds.any(|kind| matches!(kind, "lib" | "bin" | "cdylib" | "staticlib" | "rlib" | "proc-macro"))
}

fn relative(root: &Path, path: &str) -> String {
    let path = Path::new(path);
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/")
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value[key].as_str().with_context(|| format!("cargo metadata has no {key}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_packages_with_their_rooms_dependencies_and_roots() {
        let metadata = serde_json::json!({
            "workspace_root": "/w",
            "target_directory": "/t",
            "packages": [{
                "name": "outboard-link",
                "manifest_path": "/w/crates/link/Cargo.toml",
                "dependencies": [
                    {"name": "outboard-wire", "kind": null, "path": "/w/crates/wire"},
                    {"name": "proptest", "kind": "dev"},
                ],
                "targets": [
                    {"kind": ["lib"], "src_path": "/w/crates/link/src/lib.rs"},
                    {"kind": ["test"], "src_path": "/w/crates/link/tests/conformance.rs"},
                ],
            }],
        });
        let workspace = Workspace::from_metadata(&metadata).unwrap();
        assert!(workspace.has_package("outboard-link"));
        assert!(!workspace.has_package("outboard-wire"));
        let link = &workspace.packages[0];
        assert_eq!(link.room, "crates/link");
        assert_eq!(link.roots, ["crates/link/src/lib.rs"]);
        assert_eq!(link.dependencies[0].room.as_deref(), Some("crates/wire"));
        assert_eq!(link.dependencies[0].kind, "normal");
        assert_eq!(link.dependencies[1].room, None);
        assert_eq!(link.dependencies[1].kind, "dev");
    }
}
