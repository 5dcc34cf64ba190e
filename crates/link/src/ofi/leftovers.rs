//! Files that libfabric's provider for one machine leaves behind when a process is killed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Once;

/// Where they lie.
const FOLDER: &str = "/dev/shm";

/// Removes what dead processes of this user have left, once in the life of this one.
pub(super) fn remove_once() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        remove(Path::new(FOLDER));
    });
}

/// Removes files that are named `process:user:number` after a process that is gone. Returns how many.
fn remove(folder: &Path) -> usize {
    let user = rustix::process::geteuid().as_raw();
    let mut removed = 0;
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_ours = entry.metadata().is_ok_and(|facts| facts.is_file() && facts.uid() == user);
        let is_left = entry.file_name().to_str().and_then(owner).is_some_and(is_gone);
        // Another process may be at the same work.
        if is_ours && is_left && fs::remove_file(entry.path()).is_ok() {
            removed += 1;
        }
    }
    removed
}

/// The process after which such a file is named.
fn owner(name: &str) -> Option<u32> {
    let parts: Vec<u32> = name.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    match parts[..] {
        [process, _user, _number] => Some(process),
        _ => None,
    }
}

fn is_gone(process: u32) -> bool {
    !Path::new("/proc").join(process.to_string()).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_dead_processes_have_left_is_removed() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let (dead, alive) = (child.id(), std::process::id());
        child.wait().unwrap();
        let folder = std::env::temp_dir().join(format!("outboard-leftovers-{alive}"));
        fs::create_dir_all(&folder).unwrap();
        let others =
            [format!("{alive}:0:0"), format!("{dead}"), format!("{dead}:x:0"), "sem.name".to_owned()];
        for name in others.iter().chain([&format!("{dead}:0:0"), &format!("{dead}:0:17")]) {
            fs::write(folder.join(name), "").unwrap();
        }
        assert_eq!(remove(&folder), 2);
        assert!(others.iter().all(|name| folder.join(name).exists()));
        fs::remove_dir_all(&folder).unwrap();
    }
}
