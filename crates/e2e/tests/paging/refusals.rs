//! What cannot be is refused in words, before anything moves.

use outboard::{BufferSize, FarError, Path, RegionOptions};
use outboard_e2e::{Daemon, Place, Process};
use outboard_limits::show_size;

use super::{connect, options};

const CHUNK: usize = 4096;

fn region(chunk: usize) -> RegionOptions {
    RegionOptions { chunk, path: Path::Direct, ..Default::default() }
}

/// Asserts that it was refused, in words that have all of these parts.
#[track_caller]
fn refused<T>(result: Result<T, FarError>, parts: &[&str]) {
    let error = result.map(|_| ()).expect_err("it cannot be").to_string();
    for part in parts {
        assert!(error.contains(part), "no “{part}” in “{error}”");
    }
}

#[test]
fn chunks_and_buffers_that_make_no_sense_are_refused() {
    let place = Place::new();
    let folder = place.folder("data");
    std::fs::write(folder.join("graph"), [1; 8000]).unwrap();
    let mut daemon = Daemon::memory(&place, &place.socket(), &["--data-dir", folder.to_str().unwrap()]);
    let settings = options(daemon.local(), CHUNK, 64 * CHUNK);
    let memory = connect(&settings);
    for chunk in [0, 1, 3, 1000, 2048, 4095, 5000, 12_288, 4 << 20, 1 << 40] {
        let (number, rule) = (show_size(chunk as u64), "a power of two from 4 KiB to 2 MiB");
        refused(memory.reserve(1 << 20, &region(chunk)), &[&number, rule]);
        refused(memory.allocate_with::<u64>(1000, &region(chunk)), &[&number, rule]);
        refused(memory.open::<u64>("any", &region(chunk)), &[&number, rule]);
        refused(memory.open_writable::<u64>("any", &region(chunk)), &[&number, rule]);
        refused(memory.open_file::<u8>("graph", &region(chunk)), &[&number, rule]);
        refused(memory.open_file_writable::<u8>("graph", &region(chunk)), &[&number, rule]);
        let wrong = settings.clone().with(|options| options.chunk = chunk);
        refused(wrong.open(), &[&number, rule]);
    }
    refused(memory.open_file::<u8>("graph", &region(1 << 20)), &["too small", "enlarge the buffer"]);
    refused(memory.reserve(1 << 20, &region(1 << 20)), &["256 KiB", "1 MiB", "enlarge"]);
    refused(memory.reserve(0, &region(CHUNK)), &["at least one byte"]);
    refused(memory.allocate::<u64>(usize::MAX / 8), &["more than can be addressed"]);
    for buffer in [0, 1, 3 * CHUNK] {
        let small = settings.clone().with(|options| options.buffer = BufferSize::Bytes(buffer));
        refused(small.open(), &["too small", "16 KiB", "enlarge the buffer"]);
    }
    assert_eq!(daemon.number("used_bytes"), 0, "nothing was loaded for anybody who was refused");
    assert_eq!(memory.stats().traffic, Default::default());
    daemon.end();
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn one_region_more_than_can_be_open_is_refused_and_the_others_go_on() {
    let place = Place::new();
    let mut daemon = Daemon::memory(&place, &place.socket(), &[]);
    let addresses = daemon.listening.clone();
    assert_eq!(addresses.len(), 2);
    for address in addresses {
        let settings = options(&address, CHUNK, 64 * CHUNK).with(|options| options.threads = Some(1));
        let memory = connect(&settings);
        let reserve = || memory.reserve(CHUNK as u64, &region(CHUNK));
        let mut regions: Vec<_> = (0..1024).map(|_| reserve().unwrap()).collect();
        let used = daemon.number("used_bytes");
        refused(reserve(), &["1024 regions", "no more can be", "few large regions"]);
        assert_eq!(daemon.number("used_bytes"), used, "what cannot be reached is given back");
        regions.pop();
        regions.push(reserve().unwrap());
        let mut word = [0; 8];
        super::words(&regions[1023]).add(0, 7);
        super::words(&regions[1023]).read(0, &mut word);
        assert_eq!(word, 7u64.to_le_bytes());
    }
    daemon.end();
}

#[test]
fn regions_and_files_that_are_not_to_be_had_are_refused() {
    let place = Place::new();
    let folder = place.folder("data");
    std::fs::write(folder.join("graph"), [1; 8001]).unwrap();
    let secret = place.folder("secret").join("key");
    std::fs::write(&secret, "do not read").unwrap();
    std::os::unix::fs::symlink(&secret, folder.join("shortcut")).unwrap();
    let daemon = Daemon::memory(&place, &place.socket(), &["--data-dir", folder.to_str().unwrap()]);
    let settings = options(daemon.remote(), CHUNK, 64 * CHUNK);
    let (memory, other) = (connect(&settings), connect(&options(daemon.local(), CHUNK, 64 * CHUNK)));
    let at = region(CHUNK);
    refused(memory.reserve(1 << 40, &at.clone().with_guarantee()), &["refused", "1 TiB", "256 MiB"]);
    refused(memory.open::<u8>("nobody's", &at), &["refused", "nobody's"]);
    refused(memory.open_file::<u8>("missing", &at), &["refused", "missing"]);
    for path in ["../secret/key", "shortcut", secret.to_str().unwrap(), "./../secret/key", ""] {
        refused(memory.open_file::<u8>(path, &at), &["refused"]);
        refused(memory.open_file_writable::<u8>(path, &at), &["refused"]);
    }
    refused(memory.open_file::<u64>("graph", &at), &["8001 bytes", "elements of 8 B"]);
    // The one who was told so has it no longer.
    let file = other.open_file_writable::<u8>("graph", &at).unwrap();
    refused(other.open_file_writable::<u8>("graph", &at), &["open in this process already"]);
    refused(other.open_file::<u8>("graph", &at), &["open in this process already"]);
    refused(memory.open_file_writable::<u8>("graph", &at), &["in use for writing", "process"]);
    refused(memory.open_file::<u8>("graph", &at), &["in use for writing"]);
    drop(file);
    let named = RegionOptions { name: Some("table".to_owned()), ..at.clone() };
    let table = other.reserve(1 << 16, &named).unwrap();
    refused(memory.open_writable::<u8>("table", &at), &["in use for writing", "process"]);
    refused(memory.open::<u8>("table", &at), &["in use for writing"]);
    refused(memory.reserve(1 << 16, &named), &["refused", "table"]);
    // Nor can it be freed under whoever uses it.
    let server = daemon.local().to_string();
    let (status, said) =
        Process::start_told(place.outboard(&["memory", "free", "table", "--server", &server])).exit();
    assert!(status.code() == Some(1) && said.iter().any(|line| line.contains("in use")), "{said:?}");
    drop(table);
    let readers = (memory.open::<u8>("table", &at).unwrap(), other.open::<u8>("table", &at).unwrap());
    refused(memory.open_writable::<u8>("table", &at), &["in use for reading"]);
    drop(readers);
    drop(memory.open_writable::<u8>("table", &at).unwrap());
    daemon.end();
    std::fs::remove_dir_all(&folder).unwrap();
}
