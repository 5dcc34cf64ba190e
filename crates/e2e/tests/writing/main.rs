//! Writers over real links to real daemons, beside plain arrays: whatever path each write takes, and whoever dies
//! meanwhile, the region holds what was written.
// Also outside test functions a test fails by panicking, and prints the seed that repeats it.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod crowd;
mod errors;
mod kill;
mod world;

use std::time::Duration;

use outboard::{WriteError, WriteOptions, WritePath, WriterOptions};
use world::{Checker, Daemons};

#[test]
fn forced_switching_over_shm_and_tcp_gives_what_a_plain_array_holds() {
    let daemons = Daemons::start();
    for address in [daemons.shm(), daemons.tcp()] {
        let mut checker = Checker::new(&address, WriterOptions::default(), 11);
        checker.rounds(20, |_| {});
        let counts = checker.stats();
        assert!(counts.offloaded > 500 && counts.unloaded > 500, "{counts:?}");
    }
}

#[test]
fn several_writers_share_a_region_without_disturbing_each_other() {
    let daemons = Daemons::start();
    let mut first = Checker::new(&daemons.shm(), WriterOptions::default(), 21);
    let name = first.region_name().to_owned();
    let others: Vec<_> = [(daemons.tcp(), 1), (daemons.shm(), 2)]
        .into_iter()
        .map(|(address, part)| {
            let name = name.clone();
            std::thread::spawn(move || {
                let options = WriterOptions::default();
                Checker::beside(&address, options, 21 + part, &name, part).rounds(15, |_| {});
            })
        })
        .collect();
    first.rounds(15, |_| {});
    for other in others {
        other.join().expect("its region is as it wrote it");
    }
}

#[test]
fn completions_that_nobody_asks_for_are_bounded_whoever_moves_them() {
    const MOST: usize = 16384;
    let daemons = Daemons::start();
    for (flushes, closes) in [(true, false), (false, true), (false, false)] {
        // What is offloaded here ends at once; what is under way may come on top.
        let options = WriterOptions { path: Some(WritePath::Offload), ..WriterOptions::default() };
        let (mut memory, region, mut writer) = daemons.writer(&daemons.shm(), options);
        let target = writer.open(&region).unwrap();
        let other = memory.reserve(4096, None).unwrap();
        let mut begun = 0;
        let refused = loop {
            assert!(begun <= MOST, "{begun} completions are kept");
            if let Err(error) = writer.write_with_signal(target, 0, b"x") {
                break error;
            }
            begun += 1;
            if flushes && begun % 32 == 0 {
                writer.flush().unwrap();
            }
            if closes && begun % 512 == 0 {
                let other = writer.open(&other).unwrap();
                writer.close_region(other).unwrap();
            }
        };
        assert!(matches!(refused, WriteError::NotPolled { .. }) && begun == MOST, "{refused} after {begun}");
        writer.poll().expect("one of many").result.unwrap();
        writer.write_with_signal(target, 0, b"x").expect("there is room for one");
        assert!(matches!(writer.write(target, 0, b"x"), Err(WriteError::NotPolled { .. })));
        assert_eq!(std::iter::from_fn(|| writer.poll()).count(), MOST);
        writer.write(target, 0, b"x").expect("there is room again");
    }
}

#[test]
fn a_fixed_path_is_kept_and_told() {
    let daemons = Daemons::start();
    for path in [WritePath::Offload, WritePath::Unload] {
        let options = WriterOptions { path: Some(path), ..WriterOptions::default() };
        let (mut memory, region, mut writer) = daemons.writer(&daemons.shm(), options);
        let target = writer.open(&region).unwrap();
        let id = writer.write_with_signal(target, 100, b"signalled").unwrap();
        let told = writer.wait(outboard_e2e::PATIENCE).expect("it ends");
        assert!(told.id == id && told.path == path && told.result.is_ok(), "{told:?}");
        let mut bytes = [0; 9];
        memory.read(&region, 100, &mut bytes).unwrap();
        assert_eq!(&bytes, b"signalled", "visible when it is complete");
        assert!(writer.wait(Duration::from_secs(1)).is_none(), "nothing else is under way");
    }
}

#[test]
fn a_vectored_write_is_told_once_and_a_fence_orders_what_follows() {
    let daemons = Daemons::start();
    let (mut memory, region, mut writer) = daemons.writer(&daemons.tcp(), WriterOptions::default());
    let target = writer.open(&region).unwrap();
    let parts: Vec<(u64, &[u8])> = vec![(0, b"one"), (5000, b"two"), (9000, b"three")];
    let id = writer.write_vectored(target, &parts).unwrap();
    let told = writer.wait(outboard_e2e::PATIENCE).expect("it ends");
    assert!(told.id == id && told.result.is_ok(), "{told:?}");
    writer.fence();
    let over = WriteOptions { path: Some(WritePath::Unload), ..WriteOptions::default() };
    writer.write_with(target, 0, b"ONE", over).unwrap();
    writer.flush().unwrap();
    let mut bytes = [0; 3];
    memory.read(&region, 0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"ONE");
    let explained = writer.explain().join("\n");
    assert!(explained.contains("hot pages") && explained.contains("drained by memory"), "{explained}");
    assert!(writer.drained_by().contains("memory"), "{}", writer.drained_by());
}

#[test]
fn a_vectored_write_of_many_parts_is_told_when_the_link_was_full_meanwhile() {
    let daemons = Daemons::start();
    let options = WriterOptions { path: Some(WritePath::Offload), ..WriterOptions::default() };
    let (_memory, region, mut writer) = daemons.writer(&daemons.tcp(), options);
    let target = writer.open(&region).unwrap();
    let parts: Vec<(u64, &[u8])> = (0..600).map(|part| (part * 64, [7; 64].as_slice())).collect();
    for _ in 0..3 {
        let id = writer.write_vectored(target, &parts).unwrap();
        let told = writer.wait(outboard_e2e::PATIENCE).expect("it ends");
        assert!(told.id == id && told.result.is_ok(), "{told:?}");
        assert!(writer.wait(Duration::from_secs(1)).is_none(), "it is told once");
    }
}

#[test]
fn completions_that_nobody_asks_for_are_bounded_and_none_is_lost() {
    let daemons = Daemons::start();
    let (_memory, region, mut writer) = daemons.writer(&daemons.shm(), WriterOptions::default());
    let target = writer.open(&region).unwrap();
    let mut begun = 0_usize;
    let refused = loop {
        match writer.write_with_signal(target, 0, b"untold") {
            Ok(_) => begun += 1,
            Err(refused) => break refused,
        }
        assert!(begun < 100_000, "nothing bounds them");
    };
    assert!(matches!(refused, outboard::WriteError::NotPolled { .. }), "{refused}");
    writer.flush().unwrap();
    let told = std::iter::from_fn(|| writer.poll()).count();
    assert_eq!(told, begun);
    // The parts of a vectored write are told as one, however many they are.
    let parts: Vec<(u64, &[u8])> = (0..50_000).map(|_| (0, b"part".as_slice())).collect();
    writer.write_vectored(target, &parts).unwrap();
    writer.flush().unwrap();
    assert_eq!(std::iter::from_fn(|| writer.poll()).count(), 1);
}
