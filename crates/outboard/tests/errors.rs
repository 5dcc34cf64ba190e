//! The output of a program whose `main` returns one of the library's errors: a sentence with its causes, not the fields of
//! an enum.

use std::error::Error;
use std::path::Path;

use outboard::{
    Address, AskError, BufferSize, CallError, Configuration, FarError, FarOptions, FunctionImage, Inputs,
    JobError, MessengerError, NoRoomBecause, OpenError, Outboard, RegisterError, SendError,
};

/// Asserts that `{:?}` is the sentence, and has every cause in it.
#[track_caller]
fn readable(error: &dyn Error, sentence: &str) {
    let text = format!("{error:?}");
    assert!(text.starts_with(&error.to_string()), "{text} begins with {error}");
    assert!(text.contains(sentence), "{text} has “{sentence}”");
    let mut cause = error.source();
    while let Some(error) = cause {
        assert!(text.contains(&error.to_string()), "{text} tells its cause {error}");
        cause = error.source();
    }
    assert!(!text.contains(" { "), "{text} is prose");
}

#[test]
fn every_error_is_prose() {
    let nowhere: Address = "unix:@outboard-nothing-listens-here".parse().unwrap();
    let connect = Outboard::at(nowhere.clone()).far().err().unwrap();
    readable(&connect, "cannot reach unix:@outboard-nothing-listens-here");
    let find = OpenError::NotRunning { address: nowhere };
    readable(&find, "start one with `outboard up`");
    readable(&FarError::from(OpenError::NoServer), "job.memory is none");
    readable(&OpenError::NoServer, "OUTBOARD_JOB_MEMORY");
    readable(&JobError::NoSuchRank { rank: 3, size: 2 }, "rank 3 does not exist in a job of 2");
    readable(&AskError::BadChunk { chunk_log2: 90 }, "no region moves in chunks of 2^90 bytes");
    readable(&CallError::ArgumentsTooLong { max: 7 }, "longer than 7 B");
    readable(&NoRoomBecause::Learning, "learn the function again");
    readable(&RegisterError::NoAgent, "there is none");
    readable(&SendError::NoSuchRank { rank: 3, ranks: 2 }, "there is no rank 3");
    readable(&MessengerError::Send(SendError::Full), "all bundles are under way");
    readable(&MessengerError::System(std::io::ErrorKind::OutOfMemory.into()), "out of memory");
    readable(&FunctionImage::from_text("mov r0", "main").unwrap_err(), "the text cannot be used");
    readable(&"4/3".parse::<BufferSize>().unwrap_err(), "256MiB");
    let too_large = FarOptions::default().with_buffer(BufferSize::Bytes(1 << 60)).check_memory();
    readable(&too_large.unwrap_err(), "choose a smaller buffer");
    readable(&"nowhere".parse::<Address>().unwrap_err(), "nowhere");
    let settings =
        Configuration::load(&Inputs::empty().variable("OUTBOARD_LOG_LEVEL", "loud")).err().unwrap();
    readable(&settings, "$OUTBOARD_LOG_LEVEL: log.level: “loud” is no");
}

/// The errors that these rooms share with programs must not print their fields; a derived `Debug` does.
#[test]
fn no_public_error_derives_debug() {
    let rooms = ["calling", "driver", "link", "outboard", "rendezvous", "settings", "wire"];
    let mut folders: Vec<_> = rooms
        .iter()
        .map(|room| Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(room).join("src"))
        .collect();
    let (mut wrong, mut files) = (Vec::new(), 0);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files += 1;
                let text = std::fs::read_to_string(&path).unwrap();
                let derives =
                    text.lines().filter(|line| line.starts_with("#[derive(") && line.contains("Error)"));
                let derives = derives.filter(|line| line.contains("Debug"));
                wrong.extend(derives.map(|line| format!("{}: {line}", path.display())));
            }
        }
    }
    assert!(files > 100, "the sources are there");
    assert_eq!(wrong, [""; 0], "use outboard_wire::debug_with_causes");
}
