//! What can be wrong with the folder of a server that keeps its regions.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use outboard::AskError;
use outboard_e2e::{Ended, connect_memory, run_outboard, socket};
use outboard_wire::Rights;

use super::Kept;

/// What a server says that cannot use the folder. It changes nothing there.
#[track_caller]
fn refused(folder: &str, why: &str) {
    let before = contents(folder);
    let Ended { code, err, .. } = run_outboard(&["memory", "--listen", &socket(), "--keep", folder]);
    assert!(code == Some(1) && err.contains(why), "{code:?}: {err}");
    assert!(contents(folder) == before, "{why}");
}

fn contents(folder: &str) -> Vec<(String, Vec<u8>)> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let file = |entry: std::fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
    };
    let mut files: Vec<_> = entries.flatten().map(file).filter(|(name, _)| name != "lock").collect();
    files.sort();
    files
}

#[test]
fn a_folder_that_will_not_do_is_refused_and_stays_as_it_is() {
    let kept = Kept::new();
    let server = kept.start(&[]);
    let mut memory = connect_memory(server.local());
    let table = memory.reserve(4096, Some("table")).unwrap();
    memory.write(&table, 0, b"kept").unwrap();
    let pid = format!("(process {})", server.process.pid());
    refused(&kept.folder, &pid);
    drop(memory);
    server.end();
    let journal = Path::new(&kept.folder).join("journal");
    let intact = std::fs::read(&journal).unwrap();

    std::fs::set_permissions(&kept.folder, PermissionsExt::from_mode(0o750)).unwrap();
    refused(&kept.folder, "chmod 700");
    std::fs::set_permissions(&kept.folder, PermissionsExt::from_mode(0o700)).unwrap();
    for (at, byte, why) in
        [(0, 0, "no journal"), (20, 0xff, "damaged at byte"), (intact.len() - 1, 0xff, "damaged at byte")]
    {
        let mut bytes = intact.clone();
        bytes[at] = byte;
        std::fs::write(&journal, bytes).unwrap();
        refused(&kept.folder, why);
    }
    std::fs::remove_file(&journal).unwrap();
    refused(&kept.folder, "files in it and no journal");
    std::fs::write(&journal, &intact).unwrap();
    let file = Path::new(&kept.folder).join("region-1");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..100]).unwrap();
    refused(&kept.folder, "has 100 bytes and not 4096");
    std::fs::remove_file(&file).unwrap();
    refused(&kept.folder, "“table” cannot be found again");
    std::fs::write(&file, bytes).unwrap();

    // A journal that was cut short by a crash is taken as far as it goes: without the last word it has not ended well.
    std::fs::write(&journal, &intact[..intact.len() - 5]).unwrap();
    let server = kept.start(&[]);
    let mut memory = connect_memory(server.local());
    let table = memory.open("table", Rights::READ).unwrap();
    let mut bytes = [0; 4];
    memory.read(&table, 0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"kept");
    drop(memory);
    server.end();
    kept.end();
}

/// A small file system of the test's own, until it is dropped.
struct Small(String);

impl Small {
    fn mount(folder: &str) -> Option<Self> {
        std::fs::create_dir_all(folder).unwrap();
        let arguments = ["-t", "tmpfs", "-o", "size=4m,mode=0700", "tmpfs", folder];
        let mounted = Command::new("mount").args(arguments).status();
        mounted.is_ok_and(|status| status.success()).then(|| Self(folder.to_owned()))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // What is still busy goes when it is not.
        let _ = Command::new("umount").args(["-l", &self.0]).status();
    }
}

#[test]
fn a_full_disk_refuses_what_is_new_and_loses_nothing() {
    let kept = Kept::new();
    let Some(small) = Small::mount(&kept.folder) else {
        println!("skipped: no file system can be mounted here");
        return;
    };
    let server = kept.start(&[]);
    for door in [server.local(), server.remote()] {
        let mut memory = connect_memory(door);
        let first = memory.reserve(1 << 20, Some("first")).unwrap();
        let sparse = memory.reserve_sparse(1 << 30, 16, Some("sparse")).unwrap();
        let refused = memory.reserve(8 << 20, Some("large")).unwrap_err().to_string();
        assert!(refused.contains("file system is full"), "{refused}");
        let chunk = vec![7; 32 << 10];
        let mut written = 0;
        let full = (0_u64..).map(|number| number << 16).find_map(|offset| {
            written = offset;
            memory.write_back(&sparse, offset, &chunk).err()
        });
        let full = full.unwrap();
        assert!(matches!(full, AskError::Access(_) | AskError::NoRoom { .. }), "{full:?}");
        assert!(written > 0);
        // What has room can still be written, and what was written is there.
        memory.write_back(&sparse, 0, &chunk).unwrap();
        memory.write(&first, 0, &vec![9; 1 << 20]).unwrap();
        let mut bytes = vec![0; chunk.len()];
        memory.read(&sparse, written - (1 << 16), &mut bytes).unwrap();
        assert_eq!(bytes, chunk);
        memory.free(sparse).unwrap();
        memory.free(first).unwrap();
    }
    server.end();
    drop(small);
    kept.end();
}
