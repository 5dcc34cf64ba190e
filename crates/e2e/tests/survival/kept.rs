//! A memory server that keeps its regions is killed and comes back.

mod files;
mod mixture;

use std::net::TcpListener;

use outboard::{AccessError, Address, AskError, Memory};
use outboard_e2e::{Daemon, Place, connect_memory, run_outboard};
use outboard_wire::{Rights, Role};

/// Where a server keeps its regions and listens, whichever process it is.
pub(super) struct Kept {
    pub(super) place: Place,
    at: String,
    port: u16,
    pub(super) folder: String,
}

impl Kept {
    pub(super) fn new() -> Self {
        let place = Place::new();
        // The server makes it.
        let folder = place.folder("kept").join("regions").to_str().unwrap().to_owned();
        // A port that was free a moment ago, for the next process is to listen where the last one did.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self { at: place.socket(), place, port, folder }
    }

    /// Starts the server, for the first time or again.
    pub(super) fn start(&self, more: &[&str]) -> Daemon {
        let port = format!("tcp:127.0.0.1:{}", self.port);
        let own = ["--listen", &self.at, "--listen", &port, "--capacity", "256MiB", "--keep", &self.folder];
        Daemon::start(&self.place, "memory", "proof-memory", &[&own, more].concat())
    }

    /// Nothing is left but the folder, and that goes too.
    pub(super) fn end(self) {
        std::fs::remove_dir_all(std::path::Path::new(&self.folder).parent().unwrap()).unwrap();
        self.place.assert_nothing_left();
    }

    /// The server's local or its other door.
    pub(super) fn door(&self, by_tcp: bool) -> Address {
        let door = if by_tcp { format!("tcp:127.0.0.1:{}", self.port) } else { self.at.clone() };
        door.parse().unwrap()
    }
}

/// A call that finds the server lost says so; the next one finds the one that has come.
#[track_caller]
fn is_lost(memory: &mut Memory) {
    let lost = memory.list().unwrap_err();
    assert!(matches!(lost, AskError::Lost(_)), "{lost}");
}

#[test]
fn a_region_with_a_name_is_there_again_with_all_that_it_had() {
    let kept = Kept::new();
    for (by_tcp, sync) in [(false, "1s"), (true, "always"), (true, "never")] {
        let server = kept.start(&["--keep-sync", sync]);
        let mut memory = connect_memory(&kept.door(by_tcp));
        let table = memory.reserve(1 << 20, Some("table")).unwrap();
        let count = memory.reserve_shared(4096, "count").unwrap();
        let sparse = memory.reserve_sparse(1 << 32, 16, Some("sparse")).unwrap();
        let unnamed = memory.reserve(4096, None).unwrap();
        memory.write(&table, 77, b"written").unwrap();
        memory.write_back(&table, 1 << 16, b"written back").unwrap();
        memory.write_back(&sparse, (1 << 32) - 4, b"last").unwrap();
        assert_eq!(memory.fetch_add(&count, 8, 5).unwrap(), 0);
        assert_eq!(memory.compare_swap(&count, 8, 5, 7).unwrap(), 5);
        let mut fenced = table.clone();
        let epoch = memory.fence(&mut fenced).unwrap();
        let mut listed = memory.list().unwrap();
        let life = memory.client().peer().incarnation();
        server.process.kill();
        is_lost(&mut memory);
        // While it is away that is told again.
        is_lost(&mut memory);

        let mut server = kept.start(&["--keep-sync", sync]);
        let mut bytes = [0; 12];
        memory.read(&table, 77, &mut bytes[..7]).unwrap();
        assert_eq!(&bytes[..7], b"written");
        assert_ne!(memory.client().peer().incarnation(), life, "it is another process, and says so");
        memory.read(&table, 1 << 16, &mut bytes).unwrap();
        assert_eq!(&bytes, b"written back");
        memory.read(&sparse, (1 << 32) - 4, &mut bytes[..4]).unwrap();
        assert_eq!(&bytes[..4], b"last");
        assert_eq!(memory.fetch_add(&count, 8, 1).unwrap(), 7);
        let gone = memory.read(&unnamed, 0, &mut bytes).unwrap_err();
        assert!(matches!(gone, AskError::Access(AccessError::NotOpen)), "{gone}");
        // What counts against the capacity is what was written of the sparse region, and all of the others.
        assert_eq!(server.number("used_bytes"), (1 << 20) + 4096 + (1 << 16));
        listed.retain(|region| region.name.is_some());
        assert_eq!(memory.list().unwrap(), listed, "names, sizes and owners");
        // The epoch that was begun before still stands, and the one before that does not.
        memory.write_back(&fenced, 0, b"in this epoch").unwrap();
        let stale = memory.write_back(&table, 0, b"late").unwrap_err();
        assert!(matches!(stale, AskError::StaleEpoch { now, .. } if now == epoch), "{stale}");
        // A region that was freed is gone for good, and a new one has no number that another had.
        memory.free(fenced).unwrap();
        let newer = memory.reserve(4096, Some("newer")).unwrap();
        assert!(newer.id() > sparse.id());
        server.process.kill();
        let server = kept.start(&[]);
        is_lost(&mut memory);
        let names: Vec<_> = memory.list().unwrap().into_iter().filter_map(|region| region.name).collect();
        assert_eq!(names, ["count", "sparse", "newer"]);
        for region in [count, sparse, newer] {
            memory.free(region).unwrap();
        }
        drop(memory);
        server.end();
    }
    kept.end();
}

#[test]
fn a_process_that_leased_a_region_has_it_when_the_server_comes_back() {
    let kept = Kept::new();
    for by_tcp in [false, true] {
        let ends_well = by_tcp;
        let server = kept.start(&[]);
        let mut memory = connect_memory(&kept.door(by_tcp));
        let table = memory.reserve(4096, Some("table")).unwrap();
        if ends_well {
            server.end();
        } else {
            server.process.kill();
        }
        let server = kept.start(&[]);
        // Before we have come back ourselves.
        let mut other = connect_memory_as("other", &kept.door(by_tcp));
        let refused = other.open("table", Rights::READ).unwrap_err().to_string();
        let pid = format!("process {}", std::process::id());
        assert!(refused.contains("in use for writing by") && refused.contains(&pid), "{refused}");
        is_lost(&mut memory);
        memory.write_back(&table, 0, b"still ours").unwrap();
        memory.free(table).unwrap();
        drop((memory, other));
        server.end();
    }
    kept.end();
}

/// It may be in the middle of a store, which no server could refuse. One that is reached by a link is refused.
#[test]
fn a_process_that_has_mapped_a_region_keeps_it_as_long_as_it_lives() {
    let kept = Kept::new();
    for by_tcp in [false, true] {
        let server = kept.start(&[]);
        let mut memory = connect_memory(&kept.door(by_tcp));
        let table = memory.reserve(4096, Some("table")).unwrap();
        server.process.kill();
        let mut server = kept.start(&["--linger", "50ms"]);
        let mut other = connect_memory_as("other", &kept.door(by_tcp));
        other.list().unwrap();
        server.await_number("clients_awaited", 0);
        let opened = other.open("table", Rights::READ.and(Rights::WRITE));
        is_lost(&mut memory);
        let written = memory.write(&table, 0, b"late");
        if by_tcp {
            let refused = written.unwrap_err();
            assert!(matches!(refused, AskError::Access(AccessError::NotOpen)), "{refused}");
            other.free(opened.unwrap()).unwrap();
        } else {
            let refused = opened.unwrap_err().to_string();
            assert!(refused.contains("lives and may still write to it"), "{refused}");
            written.unwrap();
            memory.free(table).unwrap();
        }
        drop((memory, other));
        server.end();
    }
    kept.end();
}

fn connect_memory_as(name: &str, at: &Address) -> Memory {
    let identity = outboard_link::Identity::new(Role::Application, name);
    let outboard = outboard::Outboard::at(at.clone()).with_identity(identity);
    outboard.memory().unwrap().with_deadline(outboard_e2e::PATIENCE)
}

/// A server that has kept nothing is not taken for one that has, nor the other way round.
#[test]
fn a_server_without_the_folder_or_with_an_older_copy_of_it_is_another_one() {
    let kept = Kept::new();
    let server = kept.start(&[]);
    let mut memory = connect_memory(&kept.door(true));
    let table = memory.reserve(4096, Some("table")).unwrap();
    memory.write(&table, 0, b"old").unwrap();
    server.end();
    let copy = format!("{}-copy", kept.folder);
    assert!(std::process::Command::new("cp").args(["-a", &kept.folder, &copy]).status().unwrap().success());
    let server = kept.start(&[]);
    is_lost(&mut memory);
    memory.write(&table, 0, b"new").unwrap();
    server.process.kill();
    std::fs::remove_dir_all(&kept.folder).unwrap();
    std::fs::rename(&copy, &kept.folder).unwrap();

    let server = kept.start(&[]);
    is_lost(&mut memory);
    let refused = memory.read(&table, 0, &mut [0; 3]).unwrap_err();
    assert!(matches!(refused, AskError::StartedAnew { .. }), "{refused}");
    // Its keys open nothing either, and its lease has ended; by name it is there as it was copied.
    assert!(memory.free(table).is_err());
    let again = memory.open("table", Rights::READ.and(Rights::WRITE)).unwrap();
    let mut bytes = [0; 3];
    memory.read(&again, 0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"old");
    server.process.kill();
    let away = std::path::Path::new(&kept.folder).with_extension("away");
    std::fs::rename(&kept.folder, &away).unwrap();
    let server = kept.start(&[]);
    is_lost(&mut memory);
    let refused = memory.read(&again, 0, &mut bytes).unwrap_err();
    assert!(matches!(refused, AskError::StartedAnew { .. }), "{refused}");
    assert!(memory.list().unwrap().is_empty());
    drop(memory);
    server.end();
    std::fs::remove_dir_all(away).unwrap();
    kept.end();
}

#[test]
fn a_region_is_saved_and_restored() {
    let kept = Kept::new();
    let server = kept.start(&[]);
    let at = server.remote().to_string();
    let folder = outboard_e2e::Folder::new();
    let file = folder.path().join("table.region").to_str().unwrap().to_owned();
    let mut memory = connect_memory(server.local());
    let table = memory.reserve((3 << 20) + 5, Some("table")).unwrap();
    for (offset, bytes) in [(0, &b"begin"[..]), (1 << 20, b"middle"), (3 << 20, b"ended")] {
        memory.write(&table, offset, bytes).unwrap();
    }
    let ask = |words: &[&str]| run_outboard(&[&["memory"], words, &["--server", &at]].concat());
    // A region that is written meanwhile would be saved torn.
    let busy = ask(&["save", "table", &file]);
    assert!(busy.code == Some(1) && busy.err.contains("in use for writing"), "{busy:?}");
    assert!(!std::path::Path::new(&file).exists());
    memory.release(table).unwrap();
    let saved = ask(&["save", "table", &file]);
    assert!(saved.code == Some(0) && saved.out.contains("of which 128 KiB are not zero"), "{saved:?}");
    assert!(std::fs::metadata(&file).unwrap().len() < 200 << 10, "zeros are left out");
    let twice = ask(&["save", "table", &file]);
    assert!(twice.code == Some(1) && twice.err.contains("--force"), "{twice:?}");
    assert_eq!(ask(&["save", "table", &file, "--force"]).code, Some(0));
    let taken = ask(&["restore", "table", &file]);
    assert!(taken.code == Some(1) && taken.err.contains("--force frees the region"), "{taken:?}");
    assert_eq!(ask(&["restore", "table", &file, "--force"]).code, Some(0));
    let sparse = ask(&["restore", "other", &file, "--sparse"]);
    assert_eq!(sparse.code, Some(0), "{sparse:?}");
    for name in ["table", "other"] {
        let again = memory.open(name, Rights::READ).unwrap();
        let mut bytes = vec![0; again.size() as usize];
        memory.read(&again, 0, &mut bytes).unwrap();
        let mut expected = vec![0; (3 << 20) + 5];
        expected[..5].copy_from_slice(b"begin");
        expected[1 << 20..(1 << 20) + 6].copy_from_slice(b"middle");
        expected[3 << 20..].copy_from_slice(b"ended");
        assert!(bytes == expected, "{name}");
        memory.release(again).unwrap();
    }
    // One that was damaged costs the region of that name nothing.
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let damaged = ask(&["restore", "table", &file, "--force"]);
    assert!(damaged.code == Some(1) && damaged.err.contains("damaged at byte"), "{damaged:?}");
    assert_eq!(memory.list().unwrap().len(), 2);
    drop(memory);
    server.end();
}
