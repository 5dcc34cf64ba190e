//! `cargo xtask release`: the list of what has to hold before a release, as a command.

mod build;
mod checks;

use std::fmt::Write as _;

use anyhow::Result;

use crate::process;
use crate::step::Outcome;
use crate::workspace::Workspace;

/// Check everything that a release needs, and show what would be done
///
/// Looks at the version numbers, the changelog, the versions of the wire, the working tree, what the packages say of themselves and
/// which files they contain. Nothing is changed and nothing is published: the steps that make a release are shown, to be typed
/// by the person who makes it. The checks that take long are `cargo xtask ci --full`, which is the first of these steps.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask release --dry-run                     what is missing for a release of the version in Cargo.toml
  cargo xtask release --dry-run --version 0.2.0     the same for another version
  cargo xtask release --dry-run --build             builds everything anew too: how large it is, what that cost
  cargo xtask release --dry-run --deb               packs a Debian package too, which takes a build of minutes")]
pub(crate) struct Args {
    /// Only check and show, which is all that this command does: releasing is left to a person
    #[arg(long, required = true)]
    dry_run: bool,
    /// The version to be released; without it, the one in Cargo.toml
    #[arg(long, value_name = "X.Y.Z")]
    version: Option<checks::Version>,
    /// Build everything anew as well, and compare its size and the work of the build with the most that both may be
    #[arg(long)]
    build: bool,
    /// Pack a Debian package as well, as `cargo xtask deb` does
    #[arg(long)]
    deb: bool,
}

/// One line of the list: what was looked at, and what was found or is missing.
struct Line {
    what: &'static str,
    found: Result<String, String>,
}

/// Goes through the list, shows it, and shows what would be done.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<Outcome> {
    let has = checks::Sources::load(workspace)?;
    let version = match args.version {
        Some(version) => version,
        None => checks::version_of_manifest(&has.manifest).map_err(anyhow::Error::msg)?,
    };
    let mut lines = vec![
        Line { what: "version", found: checks::version(&has, version) },
        Line { what: "changelog", found: checks::changelog(&has.changelog, version) },
        Line { what: "wire", found: checks::wire(&has) },
        Line { what: "semver", found: checks::policy(&has.policy) },
        Line { what: "tree", found: checks::tree(&has.status) },
        Line { what: "metadata", found: checks::metadata(&has.packages) },
        Line { what: "address", found: checks::address(&has.packages) },
        Line { what: "lock file", found: checks::lock(&has.lock, version) },
        Line { what: "contents", found: checks::contents(&has.contents) },
    ];
    if args.build {
        let build::Findings { size, build } = build::check(workspace)?;
        lines.extend([Line { what: "size", found: size }, Line { what: "build", found: build }]);
    }
    if args.deb {
        let packed = crate::deb::run(workspace, &crate::deb::Args::release())?;
        let found = match packed {
            Outcome::Passed => Ok("target/debian".to_owned()),
            other => Err(other.reason().to_owned()),
        };
        lines.push(Line { what: "deb", found });
    }
    print!("{}", shown(&lines));
    let missing = lines.iter().filter(|line| line.found.is_err()).count();
    println!("\n{}", steps(version));
    Ok(match missing {
        0 => Outcome::Passed,
        _ => Outcome::Failed(format!("{missing} of {} points are not ready for {version}", lines.len())),
    })
}

fn shown(lines: &[Line]) -> String {
    let mut text = String::new();
    for Line { what, found } in lines {
        let (word, why) = match found {
            Ok(found) => ("ok", found),
            Err(missing) => ("MISSING", missing),
        };
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{what:<10}{word:<9}{}", why.replace('\n', "\n                   "));
    }
    text
}

/// What the person types who makes the release.
fn steps(version: checks::Version) -> String {
    format!(
        "Then, for {version}, in this order:
  cargo xtask ci --full                     every check there is; some hours
  date the section [{version}] of CHANGELOG.md, and begin a new [Unreleased]
  git commit -am 'Version {version}' && git tag -s v{version}
  cargo xtask deb                           target/debian/outboard_{version}_*.deb
  git push origin main v{version}"
    )
}

/// Asks git and cargo; used by [`checks::Sources::load`].
fn ask(workspace: &Workspace, program: &str, args: &[&str]) -> Result<String> {
    let mut command = std::process::Command::new(program);
    command.args(args).current_dir(&workspace.root);
    process::hide_this_package(&mut command);
    process::output(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_shows_what_is_there_and_what_is_missing() {
        let lines = [
            Line { what: "version", found: Ok("1.2.3".to_owned()) },
            Line { what: "tree", found: Err("two files\nare changed".to_owned()) },
        ];
        let text = shown(&lines);
        assert_eq!(
            text,
            "version   ok       1.2.3\ntree      MISSING  two files\n                   are changed\n"
        );
    }

    #[test]
    fn the_steps_name_the_version() {
        let version = "1.2.3".parse().unwrap();
        assert!(steps(version).contains("git tag -s v1.2.3"));
    }
}
