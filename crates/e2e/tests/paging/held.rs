//! Pages that the kernel holds on to, and processes whose memory is locked.

use std::os::fd::{FromRawFd, OwnedFd};

use outboard::{Address, Advice, FarVec, RegionOptions};
use outboard_e2e::{Daemon, Place, Process};

use super::{connect, options};

const CHUNK: usize = 64 << 10;
/// How many chunks the buffer has room for, and how many the region has.
const SEATS: usize = 64;
const CHUNKS: usize = 256;
const WORDS: usize = CHUNK / 8;

fn write_all(array: &mut FarVec<u64>) {
    (0..CHUNKS).for_each(|chunk| array[chunk * WORDS] = chunk as u64 + 1);
}

#[track_caller]
fn check_all(array: &FarVec<u64>) {
    (0..CHUNKS).for_each(|chunk| assert_eq!(array[chunk * WORDS], chunk as u64 + 1, "chunk {chunk}"));
}

/// Has the kernel hold the pages of these bytes until the ring is closed; none if it has no io_uring for us.
fn hold(bytes: &[u64]) -> Option<OwnedFd> {
    let mut parameters = [0u64; 15];
    // SAFETY: the kernel fills the parameters, which are as long as it expects, and gives a descriptor.
    let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 4, parameters.as_mut_ptr()) } as i32;
    if ring < 0 {
        println!("skipped: no io_uring here: {}", std::io::Error::last_os_error());
        return None;
    }
    // SAFETY: a descriptor that nobody else owns.
    let owned = unsafe { OwnedFd::from_raw_fd(ring) };
    let span = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: size_of_val(bytes) };
    // SAFETY: registers buffers (operation 0) that the kernel never uses, for nothing is ever submitted.
    let registered = unsafe { libc::syscall(libc::SYS_io_uring_register, ring, 0, &raw const span, 1) };
    if registered != 0 {
        println!("skipped: the kernel holds no pages for us: {}", std::io::Error::last_os_error());
        return None;
    }
    Some(owned)
}

#[test]
fn chunks_that_the_kernel_holds_keep_no_others_from_moving() {
    let place = Place::new();
    let server = Daemon::memory(&place, &place.socket(), &[]);
    let far = connect(&options(server.local(), CHUNK, SEATS * CHUNK));
    let mut array = far.allocate::<u64>(CHUNKS * WORDS).unwrap();
    write_all(&mut array);
    if let Some(ring) = hold(&array[..SEATS / 4 * WORDS]) {
        // More than the buffer has room for beside those that cannot leave.
        (0..3).for_each(|_| check_all(&array));
        write_all(&mut array);
        assert!(far.stats().stuck > 0, "the kernel has let them go");
        drop(ring);
    }
    array.flush().unwrap();
    array.advise(0..array.len(), Advice::DontNeed).unwrap();
    check_all(&array);
    drop((array, far));
    server.end();
    place.assert_nothing_left();
}

const VARIABLE: &str = "PROOF_LOCKED";
const SKIPPED: i32 = 60;

/// A process that has locked all memory it will ever get, and uses far memory.
pub(crate) struct Locked(Address);

impl Locked {
    pub(crate) fn from_environment() -> Option<Self> {
        std::env::var(VARIABLE).ok()?.parse().ok().map(Self)
    }

    /// Plays it; returns the exit code.
    pub(crate) fn run(&self) -> i32 {
        // SAFETY: concerns memory that is mapped from now on, and none of its contents.
        let locked = unsafe { libc::mlockall(libc::MCL_FUTURE) };
        if locked != 0 || !rustix::process::geteuid().is_root() {
            return SKIPPED;
        }
        let far = connect(&options(&self.0, CHUNK, SEATS * CHUNK));
        let named = RegionOptions { name: Some("locked".to_owned()), ..RegionOptions::default() };
        let mut array = far.allocate_with::<u64>(CHUNKS * WORDS, &named).expect("the server has room");
        write_all(&mut array);
        drop(array);
        let array = far.open_writable::<u64>("locked", &RegionOptions::default()).expect("it has a name");
        check_all(&array);
        assert!(far.stats().evictions > 0, "all of it was here");
        0
    }
}

#[test]
fn locked_memory_is_not_taken_for_far_memory() {
    let place = Place::new();
    let server = Daemon::memory(&place, &place.socket(), &[]);
    let mut command = outboard_child::again();
    command.env(VARIABLE, server.local().to_string());
    place.mark(&mut command);
    let (status, said) = Process::start_told(command).exit();
    match status.code() {
        Some(0) => {}
        Some(SKIPPED) => println!("skipped: this user may not lock memory"),
        _ => panic!("{status}: {said:?}"),
    }
    server.end();
    place.assert_nothing_left();
}
