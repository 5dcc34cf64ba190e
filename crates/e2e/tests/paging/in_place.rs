//! Faults that are answered by the threads that make them, in a handler of SIGBUS.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use outboard::{FaultAnswer, Mover, Path, RegionOptions};
use outboard_e2e::{Daemon, Place, connect_memory, seed};
use rustix::process::Signal;

use super::caveats::{survives, user};
use super::mixture::{Run, play, play_all};
use super::user::{Act, TOLD_OF_SIGNALS, User};
use super::{FarSetup, acts, connect, not_known_to_be_zero, options};

/// Whether this machine cannot do it; says so.
fn is_impossible() -> bool {
    let is_impossible = !cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
    if is_impossible {
        println!("skipped: on this architecture a handler cannot tell loads from stores");
    }
    is_impossible
}

fn in_place(options: &mut FarSetup) {
    options.faults = FaultAnswer::Signal;
}

#[test]
fn it_is_said_who_answers_and_what_system_calls_lose() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let mut options = options(daemon.local(), 4096, 64 * 4096);
    options.faults = FaultAnswer::Threads;
    let by_threads = connect(&options).explain().join("\n");
    assert!(by_threads.contains("answered by fault threads"), "{by_threads}");
    in_place(&mut options);
    let explained = connect(&options).explain().join("\n");
    if is_impossible() {
        assert!(explained.contains("answered by fault threads: "), "{explained}");
    } else {
        let parts = ["answered by the thread that touches what is not here", "EFAULT"];
        assert!(parts.iter().all(|part| explained.contains(part)), "{explained}");
    }
    daemon.end();
    place.assert_nothing_left();
}

#[test]
fn without_settings_a_process_without_privilege_answers_its_own_faults() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let mut options = options(daemon.local(), 4096, 64 * 4096);
    assert_eq!(options.faults, FaultAnswer::Auto);
    options.is_unprivileged = true;
    let own = "answered by the thread that touches what is not here, for without privilege";
    let explained = connect(&options).explain().join("\n");
    assert!(is_impossible() || explained.contains(own), "{explained}");
    // Chunks come over a socket.
    let mut remote = FarSetup::new(daemon.remote(), 4096, 64 * 4096);
    remote.is_unprivileged = true;
    let explained = connect(&remote).explain().join("\n");
    assert!(explained.contains("answered by fault threads"), "{explained}");
    // It would be killed where it touched what is not here.
    let uninterrupted = outboard_driver::paging::Uninterrupted::new();
    let explained = connect(&options).explain().join("\n");
    drop(uninterrupted);
    assert!(explained.contains("answered by fault threads"), "{explained}");
    daemon.end();
    place.assert_nothing_left();
}

#[test]
fn one_thread_and_eight_keep_everything() {
    if !is_impossible() {
        let run = |chunk, threads| Run { threads, ..Run::new(chunk, 2) };
        play_all(&[run(4096, 1), run(4096, 8), run(65_536, 8)], in_place);
    }
}

#[test]
fn chunks_of_all_sizes_keep_everything() {
    if !is_impossible() {
        play_all(
            &[Run::new(4096, 1), Run::new(4096, 2), Run::new(65_536, 2), Run::new(1 << 20, 1)],
            in_place,
        );
    }
}

#[test]
fn other_chunks_are_kept_when_others_are_used() {
    if is_impossible() {
        return;
    }
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    const SEATS: usize = 64;
    let mut options = options(daemon.local(), 4096, SEATS * 4096);
    (options.threads, options.ahead) = (Some(1), 0);
    in_place(&mut options);
    let memory = connect(&options);
    let region = RegionOptions { chunk: 4096, path: Path::Direct, ..Default::default() };
    let array = not_known_to_be_zero(&memory, "turns", 4 * SEATS * 4096, &region);
    let pass = |chunks: std::ops::Range<usize>| {
        let before = memory.fetches();
        chunks.for_each(|chunk| _ = std::hint::black_box(array[chunk * 4096]));
        memory.fetches() - before
    };
    // What came first would stay for ever, if it were never seen that it is used no more.
    (0..4).for_each(|_| _ = pass(0..SEATS - 4));
    const OTHERS: usize = 48;
    let first = pass(2 * SEATS..2 * SEATS + OTHERS);
    assert_eq!(first, OTHERS as u64);
    (0..60).for_each(|_| _ = pass(2 * SEATS..2 * SEATS + OTHERS));
    let last: u64 = (0..10).map(|_| pass(2 * SEATS..2 * SEATS + OTHERS)).sum();
    assert!(last < 10 * OTHERS as u64 / 4, "{last} of {} were fetched again", 10 * OTHERS);
    drop(array);
    daemon.end();
    place.assert_nothing_left();
}

#[test]
fn pages_that_are_copied_keep_everything() {
    if !is_impossible() {
        play_all(&[Run::new(4096, 2), Run::new(65_536, 1)], |options| {
            options.mover = Some(Mover::Copy);
            in_place(options);
        });
    }
}

#[test]
fn the_smallest_buffer_is_large_enough() {
    if is_impossible() {
        return;
    }
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let seed = seed();
    for (way, at) in (0..).zip([daemon.local(), daemon.remote()]) {
        let run = Run { chunks: vec![4096; 2], seats: 4, steps: 60, ..Run::new(4096, 2) };
        let mut options = options(at, run.largest(), run.buffer());
        options.threads = Some(2);
        in_place(&mut options);
        play(&options, &run, seed + way, |_| {});
    }
    daemon.end();
    place.assert_nothing_left();
}

#[test]
fn other_handlers_may_touch_far_memory_whatever_they_interrupt() {
    if !is_impossible() {
        survives(Act::HandleInPlace, "handlers and calls got along");
    }
}

#[test]
fn system_calls_need_what_is_pinned() {
    if !is_impossible() {
        survives(Act::CallInPlace, "system calls failed and worked");
    }
}

#[test]
fn a_store_to_what_may_only_be_read_ends_like_in_any_read_only_memory() {
    if is_impossible() {
        return;
    }
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let mut owner = connect_memory(daemon.local());
    let bytes = (super::user::CHUNKS * super::user::CHUNK) as u64;
    let region = owner.reserve(bytes, Some(acts::NAME)).unwrap();
    owner.release(region).unwrap();
    let (status, said) = user(Act::StoreInPlace, &daemon).start(&place).exit();
    assert_eq!(status.code(), Some(TOLD_OF_SIGNALS), "{said:?}");
    assert!(said.contains(&"SIGSEGV at chunk 003".to_owned()), "{said:?}");
    daemon.end();
    place.assert_nothing_left();
}

#[test]
fn what_is_lost_for_good_kills_as_without_a_handler() {
    if is_impossible() {
        return;
    }
    let place = Place::new();
    for way in 0..2 {
        let daemon = Daemon::memory(&place, &place.socket(), &[]);
        let server = [daemon.local(), daemon.remote()][way].clone();
        let grace = Duration::from_millis(200);
        let mut user = User { act: Act::DieInPlace, server, agent: None, grace }.start(&place);
        user.await_line(["working"]);
        daemon.process.signal(Signal::KILL);
        user.tell("go");
        user.await_line(["what is here is as it was"]);
        let (status, said) = user.exit();
        assert_eq!(status.signal(), Some(libc::SIGBUS), "{said:?}");
        daemon.process.exit();
    }
    place.assert_nothing_left();
}
