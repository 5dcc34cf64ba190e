//! The points of the list. Each is a function of texts, so that tests can give it wrong ones.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::workspace::Workspace;

/// What is looked at.
pub(super) struct Sources {
    /// The manifest of the workspace.
    pub(super) manifest: String,
    pub(super) changelog: String,
    /// The page that says what versions mean.
    pub(super) policy: String,
    /// What the wire says of its versions.
    pub(super) wire: String,
    pub(super) lock: String,
    /// What git says of the working tree.
    pub(super) status: String,
    /// The tags that there are.
    pub(super) tags: String,
    /// What cargo says of the packages that people install or depend on.
    pub(super) packages: Vec<Value>,
    /// The files of each of these packages.
    pub(super) contents: Vec<(String, Vec<String>)>,
}

/// The packages that people install or depend on. All others are parts of them.
const FOR_PEOPLE: [&str; 3] = ["outboard", "outboard-cli", "outboard-bench"];

/// The page that says what versions mean.
const POLICY: &str = "docs/versions.md";

impl Sources {
    pub(super) fn load(workspace: &Workspace) -> Result<Self> {
        let read = |path: &str| {
            std::fs::read_to_string(workspace.root.join(path)).with_context(|| format!("cannot read {path}"))
        };
        let cargo = |args: &[&str]| super::ask(workspace, "cargo", args);
        let metadata: Value =
            serde_json::from_str(&cargo(&["metadata", "--no-deps", "--format-version", "1"])?)?;
        let packages = metadata["packages"].as_array().context("cargo metadata names no packages")?;
        let is_for_people = |package: &&Value| FOR_PEOPLE.iter().any(|name| package["name"] == **name);
        let mut contents = Vec::new();
        for name in FOR_PEOPLE {
            let list = cargo(&["package", "--list", "--allow-dirty", "-p", name])?;
            contents.push((name.to_owned(), list.lines().map(str::to_owned).collect()));
        }
        Ok(Self {
            manifest: read("Cargo.toml")?,
            changelog: read("CHANGELOG.md")?,
            policy: read(POLICY).unwrap_or_default(),
            wire: read("crates/wire/src/versions.rs")?,
            lock: read("Cargo.lock")?,
            status: super::ask(workspace, "git", &["status", "--porcelain"])?,
            tags: super::ask(workspace, "git", &["tag", "--list", "v*"])?,
            packages: packages.iter().filter(is_for_people).cloned().collect(),
            contents,
        })
    }
}

/// A version of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version([u32; 3]);

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_number = |part: &&str| {
            *part == "0" || !part.starts_with('0') && part.bytes().all(|byte| byte.is_ascii_digit())
        };
        let parts: Vec<u32> =
            text.split('.').filter(is_number).filter_map(|part| part.parse().ok()).collect();
        match <[u32; 3]>::try_from(parts) {
            Ok(parts) if text.split('.').count() == 3 => Ok(Self(parts)),
            _ => Err(format!("`{text}` is no version: three numbers with dots between them, such as 0.2.0")),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.0;
        write!(f, "{major}.{minor}.{patch}")
    }
}

/// The version that all packages have.
pub(super) fn version_of_manifest(manifest: &str) -> Result<Version, String> {
    let section = manifest.split_once("[workspace.package]").map_or("", |(_, rest)| rest);
    let line =
        section.lines().take_while(|line| !line.starts_with('[')).find(|line| line.starts_with("version"));
    let text =
        line.and_then(|line| line.split('"').nth(1)).ok_or("Cargo.toml has no version for the workspace")?;
    text.parse()
}

/// The version is the manifest's, and is newer than every release.
pub(super) fn version(has: &Sources, version: Version) -> Result<String, String> {
    let own = version_of_manifest(&has.manifest)?;
    if own != version {
        return Err(format!("Cargo.toml says {own}: set version = \"{version}\" in [workspace.package]"));
    }
    let released =
        has.tags.lines().filter_map(|tag| tag.trim().strip_prefix('v')?.parse::<Version>().ok()).max();
    match released {
        Some(last) if last >= version => Err(format!("v{last} is released already: take a newer version")),
        Some(last) => Ok(format!("{version}, after {last}")),
        None => Ok(format!("{version}, the first release")),
    }
}

/// Something is told of the version: in its own section, or in the one that becomes its own.
pub(super) fn changelog(text: &str, version: Version) -> Result<String, String> {
    let section = |title: &str| {
        let (_, rest) = text.split_once(&format!("\n## {title}"))?;
        let body = rest.split("\n## ").next().unwrap_or_default();
        Some(body.lines().filter(|line| line.starts_with("- ")).count())
    };
    let (own, next) = (section(&format!("[{version}]")), section("[Unreleased]"));
    match (own, next) {
        (Some(0), _) => Err(format!("the section [{version}] of CHANGELOG.md is empty")),
        (Some(count), _) => Ok(format!("{count} entries under [{version}]")),
        (None, Some(0) | None) => Err("CHANGELOG.md tells of nothing under [Unreleased]".to_owned()),
        (None, Some(count)) => Ok(format!("{count} entries under [Unreleased], which becomes [{version}]")),
    }
}

/// The wire says which version of itself is its newest, and the page about versions says the same.
pub(super) fn wire(has: &Sources) -> Result<String, String> {
    let number = has.wire.split_once("const NEWEST: u16 = ").and_then(|(_, rest)| rest.split_once(';'));
    let Some(newest) = number.and_then(|(number, _)| number.parse::<u16>().ok()) else {
        return Err(
            "crates/wire/src/versions.rs does not say which version is its newest (`NEWEST`)".to_owned()
        );
    };
    let said = format!("version {newest} of the wire");
    if has.policy.contains(&said) {
        Ok(said)
    } else {
        Err(format!("this build speaks {said}, which {POLICY} does not say in these words"))
    }
}

/// What versions mean is written down.
pub(super) fn policy(page: &str) -> Result<String, String> {
    let subjects = ["the library", "the command line", "the wire", "Rust"];
    let missing: Vec<&str> = subjects.into_iter().filter(|subject| !page.contains(subject)).collect();
    if missing.is_empty() {
        Ok(POLICY.to_owned())
    } else {
        Err(format!("{POLICY} does not speak of {}", missing.join(", ")))
    }
}

/// Nothing is changed that is not committed.
pub(super) fn tree(status: &str) -> Result<String, String> {
    match status.lines().count() {
        0 => Ok("everything is committed".to_owned()),
        count => Err(format!("{count} files are changed and not committed:\n{}", status.trim_end())),
    }
}

/// The packages for people say what they are.
pub(super) fn metadata(packages: &[Value]) -> Result<String, String> {
    let mut missing = Vec::new();
    for package in packages {
        let is_empty = |field: &str| match &package[field] {
            Value::String(text) => text.is_empty(),
            Value::Array(all) => all.is_empty(),
            _ => true,
        };
        let name = package["name"].as_str().unwrap_or_default();
        for field in ["description", "license", "readme", "keywords", "categories", "rust_version"] {
            if is_empty(field) {
                missing.push(format!("{name}: {field}"));
            }
        }
    }
    match missing.as_slice() {
        [] if packages.len() == FOR_PEOPLE.len() => Ok(FOR_PEOPLE.join(", ")),
        [] => Err(format!("not all of {} are there", FOR_PEOPLE.join(", "))),
        _ => Err(format!("these say too little of themselves:\n{}", missing.join("\n"))),
    }
}

/// Where the project can be found. A release can be made without a public address; then the list says that the packages name none.
pub(super) fn address(packages: &[Value]) -> Result<String, String> {
    let mut named: Vec<&str> =
        packages.iter().map(|package| package["repository"].as_str().unwrap_or_default()).collect();
    named.sort_unstable();
    named.dedup();
    match named.as_slice() {
        [] | [""] => {
            let when = "set `repository` in [workspace.package] and in each package when the project has one";
            Ok(format!("none: the packages name no public address; {when}"))
        }
        [one] if one.starts_with("https://") => Ok((*one).to_owned()),
        [one] => Err(format!("`repository` is {one}, which is no address that begins with https://")),
        several => Err(format!("`repository` differs between packages, or some have none: {several:?}")),
    }
}

/// The lock file was written with the version.
pub(super) fn lock(text: &str, version: Version) -> Result<String, String> {
    let is_own = |package: &&str| {
        package.trim_start().starts_with("name = \"outboard") && !package.contains("\nsource = ")
    };
    let own: Vec<&str> = text.split("[[package]]").filter(is_own).collect();
    let line = format!("version = \"{version}\"");
    match own.iter().filter(|package| !package.contains(&line)).count() {
        0 if own.is_empty() => Err("Cargo.lock names none of our packages".to_owned()),
        0 => Ok(format!("{} packages of {version}", own.len())),
        count => {
            Err(format!("{count} packages in Cargo.lock have another version: cargo update --workspace"))
        }
    }
}

/// A package contains its source and nothing that was left lying about.
pub(super) fn contents(packages: &[(String, Vec<String>)]) -> Result<String, String> {
    const MADE_BY_CARGO: [&str; 4] = [".cargo_vcs_info.json", "Cargo.lock", "Cargo.toml.orig", "README.md"];
    const KINDS: [&str; 7] = ["rs", "toml", "md", "o", "c", "h", "txt"];
    let mut wrong = Vec::new();
    for (name, files) in packages {
        if !files.iter().any(|file| file.starts_with("src/")) {
            wrong.push(format!("{name} has no source"));
        }
        let is_known = |file: &&String| {
            let kind = file.rsplit_once('.').map_or("", |(_, kind)| kind);
            MADE_BY_CARGO.contains(&file.as_str()) || KINDS.contains(&kind)
        };
        wrong.extend(files.iter().filter(|file| !is_known(file)).map(|file| format!("{name}: {file}")));
    }
    let count: usize = packages.iter().map(|(_, files)| files.len()).sum();
    if wrong.is_empty() {
        Ok(format!("{count} files in {} packages", packages.len()))
    } else {
        Err(format!("files that do not belong there:\n{}", wrong.join("\n")))
    }
}

#[cfg(test)]
mod tests;
