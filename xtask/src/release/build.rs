//! How large the programs are and what building them costs, beside the most that both may be.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process;
use crate::step::Outcome;
use crate::workspace::Workspace;

/// The most that the program which a node needs may have without symbols.
const SIZE_MAX: u64 = 15_000_000;
/// The most that a first build may take on two idle cores, the download of its sources aside.
const BUILD_MAX: Duration = Duration::from_secs(180);
/// How many cores' work two idle cores do in a first build: the first and the last packages leave one of them idle.
const CORES: f64 = 1.9;
/// In what the kernel counts the time of processes.
const TICK: Duration = Duration::from_millis(10);

/// The two findings: of the size and of the build.
pub(super) struct Findings {
    pub(super) size: Result<String, String>,
    pub(super) build: Result<String, String>,
}

/// Builds everything that a plain `cargo build --release` builds, in a folder of its own, and looks at it.
pub(super) fn check(workspace: &Workspace) -> Result<Findings> {
    let target = workspace.target_dir.join("release-trial");
    match fs::remove_dir_all(&target) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot empty {}", target.display()));
        }
        _ => {}
    }
    let folder = target.to_str().context("the target folder has no plain name")?;
    // What is downloaded is downloaded before.
    let outcome = process::run(process::cargo(workspace, &["fetch"]))?;
    let (before, began) = (processor_time()?, Instant::now());
    let build = process::cargo(workspace, &["build", "--release", "--target-dir", folder]);
    if let (Outcome::Failed(why), _) | (_, Outcome::Failed(why)) = (outcome, process::run(build)?) {
        bail!("{why}");
    }
    let (took, work) = (began.elapsed(), processor_time()?.saturating_sub(before));
    let sizes = ["outboard", "outboard-bench"].map(|name| stripped(&target.join("release"), name));
    let [program, benchmarks] = sizes;
    Ok(Findings { size: size(program?, benchmarks?), build: cost(work, took) })
}

/// How many bytes a program has without symbols.
fn stripped(folder: &Path, name: &str) -> Result<u64> {
    let (from, to) = (folder.join(name), folder.join(format!("{name}.stripped")));
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(&to).arg(&from);
    process::output(strip)?;
    Ok(fs::metadata(&to).with_context(|| format!("cannot look at {}", to.display()))?.len())
}

fn size(program: u64, benchmarks: u64) -> Result<String, String> {
    let text = format!(
        "outboard has {} stripped, of {} at most; outboard-bench {}",
        megabytes(program),
        megabytes(SIZE_MAX),
        megabytes(benchmarks)
    );
    if program <= SIZE_MAX {
        return Ok(text);
    }
    Err(format!(
        "{text}\n`nm -S --size-sort` shows what is large in it, and `cargo tree -p outboard-cli` what it drags"
    ))
}

fn cost(work: Duration, took: Duration) -> Result<String, String> {
    let idle = work.div_f64(CORES);
    let text = format!(
        "{} s of processor time, which two idle cores do in about {} s, of {} s at most; here and now it took {} s",
        work.as_secs(),
        idle.as_secs(),
        BUILD_MAX.as_secs(),
        took.as_secs()
    );
    if idle <= BUILD_MAX {
        return Ok(text);
    }
    Err(format!(
        "{text}\n`cargo build --release --timings` shows what takes it; a loaded machine counts more"
    ))
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// The processor time of the processes that this one has started and waited for, and that theirs have.
fn processor_time() -> Result<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").context("cannot read /proc/self/stat")?;
    children_time(&stat).context("/proc/self/stat does not say how long processes took")
}

/// User and system time of the children, the 16th and 17th field.
fn children_time(stat: &str) -> Option<Duration> {
    // The second field is a name, which may have spaces.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(13);
    let ticks: u32 = fields.next()?.parse::<u32>().ok()?.checked_add(fields.next()?.parse().ok()?)?;
    Some(TICK * ticks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_has_grown_is_told() {
        let found = size(14_260_000, 20_000_000).unwrap();
        assert_eq!(found, "outboard has 14.3 MB stripped, of 15.0 MB at most; outboard-bench 20.0 MB");
        assert!(size(SIZE_MAX + 1, 1).unwrap_err().contains("nm -S"));
    }

    #[test]
    fn a_build_is_judged_by_its_work_and_not_by_how_long_a_busy_machine_took() {
        let found = cost(Duration::from_secs(190), Duration::from_secs(1900)).unwrap();
        assert!(
            found.starts_with("190 s of processor time, which two idle cores do in about 100 s"),
            "{found}"
        );
        assert!(cost(Duration::from_secs(400), Duration::from_secs(100)).is_err());
    }

    #[test]
    fn the_time_of_children_is_found_behind_a_name_with_spaces() {
        let stat = "7 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 11 12 150 50 20 0 1";
        assert_eq!(children_time(stat), Some(Duration::from_secs(2)));
        assert_eq!(children_time("7 (a) S 1"), None);
        assert!(processor_time().is_ok());
    }
}
