//! The same updates with MPI_Alltoallv, gathered by hand: what people write who have nothing but MPI.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;
use std::{fs, io};

use crate::BenchError;
use crate::harness::Round;

const SOURCE: &str = include_str!("../../peers/alltoallv.c");
/// How many ranks it has.
const RANKS: u64 = 2;
/// How long its compiler, or a round, may say nothing.
const PATIENCE: Duration = Duration::from_secs(60);

/// The program, compiled for this machine.
pub(super) struct Alltoallv {
    folder: Folder,
}

/// A folder that is removed in the end.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // If something is in the way it stays in the folder for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Alltoallv {
    /// Compiles it and tries it once; otherwise says why there is none.
    pub(super) fn prepare() -> Result<Self, String> {
        let folder = std::env::temp_dir().join(format!("outboard-alltoallv-{}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let this = Self { folder: Folder(folder) };
        let source = this.folder.0.join("alltoallv.c");
        fs::write(&source, SOURCE).map_err(|error| format!("{}: {error}", source.display()))?;
        let mut compiler = Command::new("mpicc");
        run("mpicc", compiler.arg("-O3").arg("-o").arg(this.program()).arg(&source))?;
        this.try_round(1000, 1, 1000)?;
        Ok(this)
    }

    fn program(&self) -> PathBuf {
        self.folder.0.join("alltoallv")
    }

    /// One round: so many updates from each rank, of tables of so many words.
    pub(super) fn round(&self, items: u64, seed: u64, words: u64) -> Result<Round, BenchError> {
        let (made, seconds) =
            self.try_round(items, seed, words).map_err(|why| BenchError::PeerFailed { why })?;
        let expected = RANKS * items;
        if made != expected {
            let what = "the number of updates made with MPI_Alltoallv";
            return Err(BenchError::Changed { what, expected, found: made });
        }
        Ok(Round::rate(expected, seconds))
    }

    fn try_round(&self, items: u64, seed: u64, words: u64) -> Result<(u64, f64), String> {
        let mut command = Command::new("mpirun");
        // Open MPI wants to be told twice that it may run as root; others do not know these names.
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command.arg("-n").arg(RANKS.to_string()).arg(self.program());
        let said = run("mpirun", command.args([items, seed, words].map(|number| number.to_string())))?;
        result_in(&said).ok_or_else(|| format!("mpirun printed no result: {}", said.trim()))
    }
}

/// How many updates were made, and in how many seconds. Other lines are warnings of MPI.
fn result_in(said: &str) -> Option<(u64, f64)> {
    said.lines().rev().find_map(|line| {
        let (made, seconds) = line.trim().split_once(' ')?;
        Some((made.parse().ok()?, seconds.parse().ok()?))
    })
}

/// Runs a program to its end. Returns what it printed, or what went wrong.
fn run(name: &str, command: &mut Command) -> Result<String, String> {
    let (status, said) = match output(command) {
        Ok(result) => result,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(format!("{name} is not installed"));
        }
        Err(error) => return Err(format!("{name}: {error}")),
    };
    if status.success() { Ok(said) } else { Err(format!("{name} failed ({status}): {}", said.trim())) }
}

fn output(command: &mut Command) -> io::Result<(ExitStatus, String)> {
    let (mut ours, theirs) = UnixStream::pair()?;
    ours.set_read_timeout(Some(PATIENCE))?;
    let streams = [theirs.try_clone()?, theirs].map(|stream| Stdio::from(OwnedFd::from(stream)));
    let [out, err] = streams;
    let mut child = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn()?;
    // The command has copies of its ends, without which there would be no end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut said = Vec::new();
    let read = ours.read_to_end(&mut said);
    if read.is_err() {
        child.kill()?;
    }
    let status = child.wait()?;
    read?;
    Ok((status, String::from_utf8_lossy(&said).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_is_found_among_warnings() {
        assert_eq!(result_in("a warning\n16000000 0.040799294\n"), Some((16_000_000, 0.040799294)));
        assert_eq!(result_in("16000000 0.25\n[host:1] a late warning\n"), Some((16_000_000, 0.25)));
        assert_eq!(result_in("nothing to see"), None);
    }

    #[test]
    fn programs_are_missing_fail_or_print() {
        assert_eq!(
            run("ghost", &mut Command::new("/nonexistent/ghost")).unwrap_err(),
            "ghost is not installed"
        );
        let shell = |script| run("sh", Command::new("sh").args(["-c", script]));
        assert_eq!(shell("echo out; echo err >&2").unwrap(), "out\nerr\n");
        assert!(shell("echo broken; exit 3").unwrap_err().contains("broken"));
    }
}
