//! One writer or many readers of a region, whoever dies; and files that regions are written back to.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;

use outboard::{Address, AskError, Memory};
use outboard_e2e::{Daemon, PATIENCE, Place, Process, await_state, connect_memory};
use outboard_wire::Rights;
use outboard_wire::control::{ControlFailure, RegionSharing};

use crate::tenant::{Act, ENDED_WHEN_ASKED, Tenant};

const BOTH: Rights = Rights::READ.and(Rights::WRITE);

/// Asserts that it was refused for this reason, and returns what people are told.
#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, AskError>, expected: ControlFailure) -> String {
    match result {
        Err(AskError::Refused { failure, detail, .. }) if failure == expected => detail,
        other => panic!("expected {expected:?}, got {other:?}"),
    }
}

fn doors(daemon: &Daemon) -> [Address; 2] {
    [daemon.local().clone(), daemon.remote().clone()]
}

#[test]
fn the_lease_of_a_killed_process_is_free_and_that_of_a_living_one_is_not() {
    let place = Place::new();
    // By tcp the death of a process cannot be told from the loss of its link.
    let memory = Daemon::memory(&place, &place.socket(), &["--linger", "0s"]);
    for (seed, at) in doors(&memory).iter().enumerate() {
        let tenant = Tenant::new(Act::Lease, None, Some(at), seed as u64);
        let name = tenant.region_name();
        let mut holder = tenant.start(&place);
        holder.await_line(["working"]);
        let mut observer = connect_memory(at);
        for rights in [BOTH, Rights::READ] {
            let detail = refused(observer.open(&name, rights), ControlFailure::InUse);
            assert!(detail.contains(&format!("(process {})", holder.pid())), "{detail}");
            assert!(detail.contains("in use for writing"), "{detail}");
        }
        refused(observer.open_shared(&name, Rights::READ), ControlFailure::InUse);
        holder.kill();
        let region = await_state("the lease of a dead process", || {
            observer.open(&name, BOTH).map_err(|error| error.to_string())
        });
        observer.free(region).unwrap();
    }
    memory.end();
    place.assert_nothing_left();
}

#[test]
fn what_cannot_be_reserved_is_refused_with_numbers() {
    let place = Place::new();
    let memory = Daemon::memory(&place, &place.socket(), &[]);
    let mut client = connect_memory(memory.remote());
    client.reserve(64 << 20, None).unwrap();
    let detail = refused(client.reserve(512 << 20, None), ControlFailure::NoCapacity);
    for size in ["512 MiB", "256 MiB", "64 MiB", "192 MiB"] {
        assert!(detail.contains(size), "{detail}");
    }
    for chunk_log2 in [0, 11, 31, 255] {
        let error =
            client.reserve_chunks(4096, chunk_log2, None, RegionSharing::Leased).unwrap_err().to_string();
        assert!(error.contains(&format!("2^{chunk_log2} bytes: choose 2^12 to 2^30")), "{error}");
    }
    client.reserve_chunks(4096, 12, None, RegionSharing::Leased).unwrap();
    memory.end();
}

#[test]
fn what_is_released_is_free_at_once() {
    let place = Place::new();
    let memory = Daemon::memory(&place, &place.socket(), &[]);
    let (mut one, mut other) = (connect_memory(memory.local()), connect_memory(memory.remote()));
    let region = one.reserve(4096, Some("graph")).unwrap();
    one.write(&region, 0, b"kept").unwrap();
    one.release(region).unwrap();
    let readers = [one.open("graph", Rights::READ).unwrap(), other.open("graph", Rights::READ).unwrap()];
    let detail = refused(one.open("graph", BOTH), ControlFailure::InUse);
    assert!(detail.contains("in use for reading"), "{detail}");
    let error = one.write(&readers[0], 0, b"no").unwrap_err().to_string();
    assert!(error.contains("no right to write"), "{error}");
    let [mine, yours] = readers;
    other.release(yours).unwrap();
    let region = one.open("graph", BOTH).unwrap();
    let mut bytes = [0; 4];
    one.read(&region, 0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"kept");
    one.release(mine).unwrap();
    refused(other.open("graph", Rights::READ), ControlFailure::InUse);
    one.free(region).unwrap();
    let tenant = Tenant::new(Act::Lease, None, Some(memory.local()), 9);
    let mut holder = tenant.start(&place);
    holder.await_line(["working"]);
    holder.close_stdin();
    assert_eq!(holder.exit().0.code(), Some(ENDED_WHEN_ASKED));
    await_state("the lease of one that has ended", || {
        other.open(&tenant.region_name(), BOTH).map_err(|error| error.to_string())
    });
    memory.end();
}

#[test]
fn what_was_written_back_before_a_fence_or_another_writer_is_refused() {
    let place = Place::new();
    let mut memory = Daemon::memory(&place, &place.socket(), &[]);
    let mut stale = 0;
    for at in doors(&memory) {
        let (mut one, mut other) = (connect_memory(&at), connect_memory(&at));
        let mut region = one.reserve(1 << 20, Some("graph")).unwrap();
        assert_eq!(region.server(), one.client().peer().incarnation());
        let before = region.clone();
        let chunk = vec![7; 1 << 16];
        one.write_back(&region, 1 << 16, &chunk).unwrap();
        assert_eq!(one.fence(&mut region).unwrap(), before.epoch() + 1);
        let error = one.write_back(&before, 1 << 16, &vec![8; 1 << 16]).unwrap_err();
        assert!(matches!(error, AskError::StaleEpoch { .. }), "{error}");
        one.write_back(&region, 0, b"new").unwrap();
        let outside = one.write_back(&region, (1 << 20) - 1, b"xx").unwrap_err().to_string();
        assert!(outside.contains("outside a region of 1 MiB"), "{outside}");
        let mut read = vec![0; 1 << 16];
        one.read(&region, 1 << 16, &mut read).unwrap();
        assert!(read == chunk);
        let late = region.clone();
        one.release(region).unwrap();
        let mut reader = other.open("graph", Rights::READ).unwrap();
        let error = one.write_back(&late, 0, b"late").unwrap_err();
        assert!(matches!(error, AskError::StaleEpoch { .. }), "{error}");
        let no_right = other.fence(&mut reader).unwrap_err().to_string();
        assert!(no_right.contains("no right to write"), "{no_right}");
        let mut read = [0; 4];
        other.read(&reader, 0, &mut read).unwrap();
        assert_eq!(&read, b"new\0");
        other.release(reader).unwrap();
        let region = one.open("graph", BOTH).unwrap();
        one.free(region).unwrap();
        stale += 2;
        assert_eq!(memory.number("write_backs_stale_total"), stale);
        assert_eq!(memory.number("write_backs_total"), stale);
        assert_eq!(memory.number("write_back_bytes_total"), stale / 2 * ((1 << 16) + 3));
    }
    memory.end();
}

#[test]
fn a_region_is_written_to_its_file_and_loaded_again() {
    let place = Place::new();
    let folder = place.folder("data");
    let file = folder.join("web.bin");
    let bytes: Vec<u8> = (0..300_001u32).map(|i| (i % 251) as u8).collect();
    std::fs::write(&file, &bytes).unwrap();
    let memory = Daemon::memory(&place, &place.socket(), &["--data-dir", folder.to_str().unwrap()]);
    let (mut one, mut other) = (connect_memory(memory.local()), connect_memory(memory.remote()));
    let region = one.load("web.bin", BOTH, PATIENCE).unwrap();
    refused(other.load("web.bin", Rights::READ, PATIENCE), ControlFailure::InUse);
    refused(other.open("file:web.bin", BOTH), ControlFailure::InUse);
    one.write(&region, 300_000, b"!").unwrap();
    one.write_back(&region, 0, b"changed").unwrap();
    assert!(std::fs::read(&file).unwrap() == bytes, "not before it is asked for");
    assert_eq!(one.sync(&region, PATIENCE).unwrap(), 300_001);
    let mut expected = bytes.clone();
    expected[..7].copy_from_slice(b"changed");
    expected[300_000] = b'!';
    assert!(std::fs::read(&file).unwrap() == expected);
    one.free(region).unwrap();
    let again = other.load("web.bin", Rights::READ, PATIENCE).unwrap();
    let mut read = vec![0; 300_001];
    other.read(&again, 0, &mut read).unwrap();
    assert!(read == expected);
    let detail = refused(other.sync(&again, PATIENCE), ControlFailure::NoRight);
    assert!(detail.contains("right to write"), "{detail}");
    let plain = one.reserve(4096, Some("plain")).unwrap();
    let detail = refused(one.sync(&plain, PATIENCE), ControlFailure::NoFile);
    assert!(detail.contains("not loaded from a file"), "{detail}");
    for path in ["../data/web.bin", file.to_str().unwrap()] {
        refused(one.load(path, BOTH, PATIENCE), ControlFailure::NoSuchFile);
    }
    memory.end();
    std::fs::remove_dir_all(&folder).unwrap();
    place.assert_nothing_left();
}

/// A server that may read its data directory and not write it. Root may write everywhere, so it plays somebody else.
#[test]
fn a_read_only_data_directory_is_named() {
    const NOBODY: u32 = 65_534;
    let place = Place::new();
    let folder = place.folder("data");
    let file = folder.join("web.bin");
    std::fs::write(&file, "graph").unwrap();
    let set_mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode(&file, 0o444);
    set_mode(&folder, 0o555);
    let folder_name = folder.to_str().unwrap();
    let arguments = ["memory", "--listen", "tcp:127.0.0.1:0", "--data-dir", folder_name];
    let mut command = place.outboard(&arguments);
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let mut server = Process::start_told(command);
    let line = server.await_line(["listens at "]);
    let at = line.split(' ').find_map(|word| word.trim_end_matches(',').parse::<Address>().ok()).unwrap();
    let mut memory: Memory = connect_memory(&at);
    let region = memory.load("web.bin", BOTH, PATIENCE).unwrap();
    memory.write(&region, 0, b"GRAPH").unwrap();
    let detail = refused(memory.sync(&region, PATIENCE), ControlFailure::NotWritten);
    assert!(detail.contains("read-only") && detail.contains("web.bin"), "{detail}");
    assert_eq!(std::fs::read(&file).unwrap(), b"graph");
    server.kill();
    set_mode(&folder, 0o755);
}
