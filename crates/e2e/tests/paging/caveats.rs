//! What programs do with memory besides loading and storing.

use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::time::Duration;

use outboard::{Advice, FarMapping, FarMemory, Path, RegionOptions};
use outboard_e2e::{Daemon, Place, Process, Random, connect_memory, seed};
use outboard_paging::application::chunks::{Event, State};
use outboard_wire::Rights;

use super::acts::NAME;
use super::mixture::{Run, play};
use super::user::{Act, SURVIVED, TOLD_OF_SIGNALS, User};
use super::{FarSetup, await_edge, connect, not_known_to_be_zero, options, words};

const NOBODY: u32 = 65_534;
const CHUNK: usize = 4096;
const GRACE: Duration = Duration::from_secs(60);

pub(super) fn user(act: Act, daemon: &Daemon) -> User {
    User { act, server: daemon.remote().clone(), agent: None, grace: GRACE }
}

/// Bytes of far memory as a system call is given them.
fn slice(mapping: &mut FarMapping, start: usize, len: usize) -> &mut [u8] {
    assert!(start + len <= mapping.len());
    // SAFETY: inside the region, and nothing else uses these bytes while a test has the slice.
    unsafe { core::slice::from_raw_parts_mut(mapping.as_ptr().as_ptr().add(start), len) }
}

#[test]
fn a_store_to_what_may_only_be_read_ends_like_in_any_read_only_memory() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let mut owner = connect_memory(daemon.local());
    let region = owner.reserve((super::user::CHUNKS * CHUNK) as u64, Some(NAME)).unwrap();
    owner.write(&region, 0, &[9; 8]).unwrap();
    owner.release(region).unwrap();
    for _ in 0..5 {
        let (status, said) = user(Act::Store { has_handler: true }, &daemon).start(&place).exit();
        assert_eq!(status.code(), Some(TOLD_OF_SIGNALS), "{said:?}");
        assert!(said.contains(&"SIGSEGV at chunk 003".to_owned()), "{said:?}");
        let (status, said) = user(Act::Store { has_handler: false }, &daemon).start(&place).exit();
        assert_eq!(status.signal(), Some(libc::SIGSEGV), "{said:?}");
    }
    let mut bytes = vec![0; 8 * CHUNK];
    let region = owner.open(NAME, Rights::READ).unwrap();
    owner.read(&region, 0, &mut bytes).unwrap();
    assert!(bytes[8..].iter().all(|byte| *byte == 0) && bytes[..8] == [9; 8]);
    daemon.end();
    place.assert_nothing_left();
}

#[test]
fn what_must_not_be_written_is_lost_like_anything_else() {
    let place = Place::new();
    for _ in 0..3 {
        let daemon = Daemon::memory(&place, &place.socket(), &[]);
        let mut owner = connect_memory(daemon.local());
        let region = owner.reserve((super::user::CHUNKS * CHUNK) as u64, Some(NAME)).unwrap();
        owner.release(region).unwrap();
        let act = Act::StoreAndLose;
        let grace = Duration::from_millis(100);
        let mut user = User { act, server: daemon.remote().clone(), agent: None, grace }.start(&place);
        user.await_line(["SIGSEGV at chunk 005"]);
        daemon.process.kill();
        user.tell("go");
        let (status, said) = user.exit();
        assert_eq!(status.code(), Some(TOLD_OF_SIGNALS), "{said:?}");
        assert!(said.contains(&"SIGBUS  at chunk 006".to_owned()), "{said:?}");
    }
    place.assert_nothing_left();
}

/// Asserts that a process lives through it, and says so.
pub(super) fn survives(act: Act, line: &str) {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let (status, said) = user(act, &daemon).start(&place).exit();
    assert_eq!(status.code(), Some(SURVIVED), "{said:?}");
    assert!(said.contains(&line.to_owned()), "{said:?}");
    daemon.end();
    place.assert_nothing_left();
}

#[test]
fn a_fork_costs_nothing() {
    survives(Act::Fork, "forked and kept everything");
}

#[test]
fn handlers_may_touch_far_memory_whatever_they_interrupt() {
    survives(Act::Handle, "handlers and calls got along");
}

#[test]
fn without_rights_system_calls_need_what_is_pinned() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can play another user");
        return;
    }
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let mut command = user(Act::Unprivileged, &daemon).command(&place);
    command.uid(NOBODY).gid(NOBODY).current_dir("/");
    let (status, said) = Process::start_told(command).exit();
    assert_eq!(status.code(), Some(SURVIVED), "{said:?}");
    if said.iter().any(|line| line.starts_with("privileged")) {
        println!("skipped: here everybody may have faults of the kernel handled");
        return;
    }
    assert!(said.contains(&"system calls failed and worked".to_owned()), "{said:?}");
    daemon.end();
    place.assert_nothing_left();
}

#[test]
fn with_rights_system_calls_read_and_write_far_memory() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let memory = connect(&options(daemon.remote(), CHUNK, 16 * CHUNK));
    if memory.explain()[0].contains("EFAULT") {
        println!("skipped: this process may not have faults of the kernel handled");
        return;
    }
    let region = RegionOptions { chunk: CHUNK, path: Path::Direct, ..Default::default() };
    let mut mapping = memory.reserve(64 * CHUNK as u64, &region).unwrap();
    let bytes = Random::new(seed()).bytes(50 * CHUNK);
    let folder = place.folder("files");
    let (source, copy) = (folder.join("source"), folder.join("copy"));
    std::fs::write(&source, &bytes).unwrap();
    let file = std::fs::File::open(&source).unwrap();
    // Three times what there is room for, and at no border of anything.
    assert_eq!(rustix::io::read(file.as_fd(), slice(&mut mapping, 1001, bytes.len())), Ok(bytes.len()));
    assert!(slice(&mut mapping, 1001, bytes.len()) == bytes);
    let target = std::fs::File::create(&copy).unwrap();
    assert_eq!(rustix::io::write(target.as_fd(), slice(&mut mapping, 1001, bytes.len())), Ok(bytes.len()));
    assert!(std::fs::read(&copy).unwrap() == bytes);
    let part = slice(&mut mapping, 40 * CHUNK + 5, 3 * CHUNK);
    assert_eq!(rustix::io::pread(file.as_fd(), part, 777), Ok(3 * CHUNK));
    assert!(slice(&mut mapping, 40 * CHUNK + 5, 3 * CHUNK) == &bytes[777..][..3 * CHUNK]);
    mapping.free().unwrap();
    daemon.end();
    std::fs::remove_dir_all(&folder).unwrap();
    place.assert_nothing_left();
}

/// What the machine does about huge pages, which is put back in the end.
struct HugePages {
    before: String,
}

impl HugePages {
    const SETTING: &'static str = "/sys/kernel/mm/transparent_hugepage/enabled";

    fn always() -> Option<Self> {
        let text = std::fs::read_to_string(Self::SETTING).ok()?;
        let (_, rest) = text.split_once('[')?;
        let (before, _) = rest.split_once(']')?;
        std::fs::write(Self::SETTING, "always").ok()?;
        Some(Self { before: before.to_owned() })
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        let _ = std::fs::write(Self::SETTING, &self.before);
    }
}

#[test]
fn huge_pages_do_no_harm() {
    let Some(_huge) = HugePages::always() else {
        println!("skipped: huge pages cannot be asked for here");
        return;
    };
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let seed = seed();
    // Large enough for huge pages, if anybody put one there.
    for (number, (chunk, at)) in (0..).zip([(65_536, daemon.local()), (1 << 20, daemon.remote())]) {
        let run = Run::new(chunk, 2);
        play(&options(at, run.largest(), run.buffer()), &run, seed + number, |_| {});
    }
    daemon.end();
    place.assert_nothing_left();
}

fn one_region(options: &FarSetup, chunks: usize) -> (FarMemory, FarMapping) {
    let memory = connect(options);
    let region = RegionOptions { chunk: CHUNK, path: Path::Direct, ..Default::default() };
    let mapping = memory.reserve((chunks * CHUNK) as u64, &region).unwrap();
    (memory, mapping)
}

#[test]
fn what_is_pinned_stays_and_what_is_asked_for_comes() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    // Many parts of the buffer, each of which has a limit.
    let mut settings = options(daemon.local(), CHUNK, 256 * CHUNK);
    (settings.threads, settings.ahead) = (Some(4), 0);
    let (memory, mut mapping) = one_region(&settings, 2048);
    mapping.pin(0..100 * CHUNK).unwrap();
    let error = mapping.pin(100 * CHUNK..2048 * CHUNK).unwrap_err().to_string();
    assert!(error.contains("enlarge the buffer"), "{error}");
    // One part alone cannot be filled with pins, or nobody else would find room there.
    let far_apart = (0..64).map(|step| mapping.pin((128 + 8 * step) * CHUNK..(129 + 8 * step) * CHUNK));
    assert!(far_apart.filter(Result::is_err).count() > 0);
    (0..2048).for_each(|chunk| words(&mapping).write(chunk * CHUNK, &[1]));
    let before = memory.stats();
    (0..100).for_each(|chunk| words(&mapping).touch(chunk * CHUNK));
    assert_eq!(memory.stats().faults_fetched, before.faults_fetched);
    assert_eq!(memory.stats().faults_rescued, before.faults_rescued);
    mapping.unpin();
    mapping.pin(1000 * CHUNK..1100 * CHUNK).unwrap();
    mapping.unpin();
    // Prefaulted chunks are here, and need no fault.
    mapping.prefault(200 * CHUNK..250 * CHUNK).unwrap();
    let before = memory.stats();
    (200..250).for_each(|chunk| words(&mapping).touch(chunk * CHUNK));
    assert_eq!(memory.stats().faults_fetched, before.faults_fetched);
    for (start, end) in [(0, 2049 * CHUNK), (5, 4)] {
        let span = start..end;
        let error = mapping.prefault(span.clone()).unwrap_err().to_string();
        assert!(error.contains("outside a region") && error.contains(&end.to_string()), "{error}");
        assert!(mapping.pin(span.clone()).is_err() && mapping.advise(span, Advice::WillNeed).is_err());
    }
    drop(mapping);
    daemon.end();
    place.assert_nothing_left();
}

#[test]
fn advice_is_taken() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let region = RegionOptions { chunk: CHUNK, path: Path::Direct, ..Default::default() };
    let scan = |advice: Advice| {
        let memory = connect(&options(daemon.remote(), CHUNK, 512 * CHUNK));
        let array = not_known_to_be_zero(&memory, &format!("{advice:?}"), 400 * CHUNK, &region);
        array.advise(0..array.len(), advice).unwrap();
        (0..400).for_each(|chunk| words(array.mapping()).touch(chunk * CHUNK));
        memory.stats()
    };
    let (random, normal) = (scan(Advice::Random), scan(Advice::Normal));
    assert_eq!((random.chunks_ahead, random.faults_fetched), (0, 400));
    assert!(normal.chunks_ahead > 200, "{normal:?}");
    let memory = connect(&options(daemon.remote(), CHUNK, 512 * CHUNK));
    let array = not_known_to_be_zero(&memory, "wanted", 400 * CHUNK, &region);
    array.advise(0..100 * CHUNK, Advice::WillNeed).unwrap();
    await_edge(&memory, State::Fetching, Event::Arrive, 100);
    let before = memory.stats();
    assert_eq!((before.chunks_ahead, before.faults_fetched), (100, 0));
    (0..100).for_each(|chunk| words(array.mapping()).touch(chunk * CHUNK));
    assert_eq!(memory.stats().faults_fetched, 0);
    daemon.end();
}

/// A pipe that is given pages and not bytes has them until somebody reads it: they must not move meanwhile.
#[test]
fn what_is_given_to_a_pipe_by_page_is_right_if_it_is_pinned() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let (_memory, mut mapping) = one_region(&options(daemon.local(), CHUNK, 64 * CHUNK), 512);
    let write_all = |mapping: &FarMapping| {
        (0..512).for_each(|chunk| words(mapping).write(chunk * CHUNK, &[chunk as u8; CHUNK]));
    };
    write_all(&mapping);
    mapping.pin(7 * CHUNK..8 * CHUNK).unwrap();
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    let start = slice(&mut mapping, 7 * CHUNK, CHUNK).as_mut_ptr();
    let pages = libc::iovec { iov_base: start.cast(), iov_len: CHUNK };
    // SAFETY: the page is mapped, and stays so.
    let given = unsafe { libc::vmsplice(writer.as_raw_fd(), &raw const pages, 1, 0) };
    assert_eq!(given, CHUNK as isize);
    // Every place in the buffer is used for others meanwhile.
    write_all(&mapping);
    let mut bytes = vec![0; CHUNK];
    assert_eq!(rustix::io::read(&reader, &mut bytes), Ok(CHUNK));
    assert_eq!(bytes, [7; CHUNK]);
    daemon.end();
}

/// The flags of all mappings of so many bytes in this process.
fn flags_of_mappings(bytes: usize) -> Vec<String> {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let size = format!("{} kB", bytes >> 10);
    let mut is_it = false;
    let mut flags = Vec::new();
    for line in maps.lines() {
        if let Some(found) = line.strip_prefix("Size:") {
            is_it = found.trim() == size;
        }
        if let Some(found) = line.strip_prefix("VmFlags:").filter(|_| is_it) {
            flags.push(found.trim().to_owned());
        }
    }
    flags
}

#[test]
fn core_dumps_have_neither_far_memory_nor_the_servers() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    // A size that no other mapping has.
    const PAGES: usize = 1237;
    let options = options(daemon.local(), CHUNK, 64 * CHUNK).with(|options| options.threads = Some(2));
    let (_memory, region) = one_region(&options, PAGES);
    words(&region).add(0, 1);
    let flags = flags_of_mappings(PAGES * CHUNK);
    // The region itself, and the server's at both fault threads and where questions are asked.
    assert_eq!(flags.len(), 4, "{flags:?}");
    for flags in &flags {
        assert!(flags.split(' ').any(|flag| flag == "dd"), "{flags}");
    }
    drop(region);
    daemon.end();
}
