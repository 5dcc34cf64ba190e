//! What ranks print arrives whole, whatever it is and however slowly it is read.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use crate::support::{Folder, ends, run, shell};
use outboard_launch::{Console, End, JobOutcome, Launch, Stream, Style};
use rustix::pipe::{PipeFlags, pipe_with};

fn pipe() -> (OwnedFd, OwnedFd) {
    pipe_with(PipeFlags::CLOEXEC).unwrap()
}

/// Runs a job on a console and returns what its two outputs showed.
fn show(launch: Launch<'_>, style: Style) -> (JobOutcome, Vec<u8>, Vec<u8>) {
    let ((out, out_console), (err, err_console)) = (pipe(), pipe());
    let readers = [out, err].map(|fd| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            File::from(fd).read_to_end(&mut bytes).map(|_| bytes)
        })
    });
    let mut console = Console::on(out_console, err_console, style).unwrap();
    let outcome = launch.start().unwrap().wait(&mut console, None).unwrap();
    drop(console);
    let [out, err] = readers.map(|reader| reader.join().unwrap().unwrap());
    (outcome, out, err)
}

#[test]
fn every_line_shows_its_rank_and_keeps_its_stream() {
    let folder = Folder::new();
    let script = "echo out $RANK; echo err $RANK >&2; printf 'no newline'";
    let (outcome, out, err) = show(shell(script, 2, &folder), Style::Prefixed);
    assert!(outcome.is_success());
    let sorted = |bytes: Vec<u8>| {
        let mut lines: Vec<String> = String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert!(out.ends_with(b"\n"));
    assert_eq!(sorted(out), ["[0] no newline", "[0] out 0", "[1] no newline", "[1] out 1"]);
    assert_eq!(sorted(err), ["[0] err 0", "[1] err 1"]);
}

#[test]
fn lines_written_in_parts_by_many_ranks_never_mix() {
    let script = "i=0; while [ $i -lt 40 ]; do printf \"<$RANK\"; printf \" $i\"; echo '>'; i=$((i+1)); done";
    let (_, out, _) = show(shell(script, 8, &Folder::new()), Style::Prefixed);
    let text = String::from_utf8(out).unwrap();
    for rank in 0..8 {
        let prefix = format!("[{rank}] ");
        let own: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(&prefix)).collect();
        let expected: Vec<String> = (0..40).map(|i| format!("<{rank} {i}>")).collect();
        assert_eq!(own, expected);
    }
    assert_eq!(text.lines().count(), 8 * 40);
}

#[test]
fn a_very_long_line_comes_in_marked_pieces_without_loss() {
    const LEN: usize = 1_000_000;
    let script = format!("head -c {LEN} /dev/zero | tr '\\0' x; echo; echo after");
    let (_, out, _) = show(shell(&script, 2, &Folder::new()), Style::Prefixed);
    let text = String::from_utf8(out).unwrap();
    for rank in 0..2 {
        let own: Vec<&str> = text.lines().filter(|line| line.starts_with(&format!("[{rank}]"))).collect();
        let (first, rest) = own.split_first().unwrap();
        let (last, middle) = rest.split_last().unwrap();
        assert_eq!(*last, format!("[{rank}] after"));
        let goes_on = format!("[{rank}]+ ");
        let pieces = middle.iter().map(|line| line.strip_prefix(&goes_on).unwrap().len());
        assert_eq!(first.len() - "[0] ".len() + pieces.sum::<usize>(), LEN);
    }
}

#[test]
fn any_bytes_pass_unchanged() {
    let folder = Folder::new();
    let script = "head -c 400000 /dev/urandom | tee $DIR/$RANK";
    let (outcome, printed) = run(shell(script, 3, &folder));
    assert!(outcome.is_success());
    for rank in 0..3 {
        let expected = std::fs::read(folder.path().join(rank.to_string())).unwrap();
        assert!(printed.of(rank, Stream::Out) == expected, "rank {rank}");
    }
    let (_, out, _) = show(shell(script, 1, &folder), Style::Raw);
    assert!(out == std::fs::read(folder.path().join("0")).unwrap());
}

#[test]
fn without_prefixes_lines_are_still_whole() {
    let (_, out, _) = show(shell("printf $RANK; printf 'x\\ny'", 2, &Folder::new()), Style::Plain);
    let mut lines: Vec<&str> = std::str::from_utf8(&out).unwrap().lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0x", "1x", "y", "y"]);
}

#[test]
fn a_job_ends_although_no_process_reads_what_it_prints() {
    let ((out, out_console), (_err, err_console)) = (pipe(), pipe());
    let folder = Folder::with_gate();
    // What the other has printed by then fits into its own pipe, but not, with prefixes, into the console's.
    let script = "if [ $RANK = 1 ]; then read x < $DIR/go; exit 3; fi
        head -c 20000 /dev/zero | tr '\\0' '\\n'; echo > $DIR/go; exec yes $RANK";
    let running = shell(script, 2, &folder).grace(Duration::from_secs(600)).start().unwrap();
    let pids = running.pids();
    let reader = thread::spawn(move || {
        assert!(pids.into_iter().all(ends));
        let mut text = String::new();
        File::from(out).read_to_string(&mut text).map(|_| text)
    });
    let mut console = Console::on(out_console, err_console, Style::Prefixed).unwrap();
    let outcome = running.wait(&mut console, None).unwrap();
    drop(console);
    assert_eq!(outcome.to_string(), "rank 1 exited with code 3; ended rank 0");
    let text = reader.join().unwrap().unwrap();
    let empty = text.lines().take_while(|line| *line == "[0] ").count();
    assert_eq!(empty, 20_000);
    // The last line may have been cut by the end of the process that wrote it.
    let mut rest = text.lines().skip(empty).peekable();
    while let Some(line) = rest.next() {
        assert!(line == "[0] 0" || rest.peek().is_none(), "{line}");
    }
}

#[test]
fn a_reader_that_goes_away_is_felt_by_the_ranks() {
    let ((out, out_console), (_err, err_console)) = (pipe(), pipe());
    drop(out);
    let mut console = Console::on(out_console, err_console, Style::Prefixed).unwrap();
    let outcome = shell("exec yes", 1, &Folder::new()).start().unwrap().wait(&mut console, None).unwrap();
    assert_eq!(outcome.ranks[0].end, End::Signaled { signal: 13, core_dumped: false });
}

#[test]
fn both_streams_to_one_place_share_one_queue() {
    let (out, console) = pipe();
    let same = console.try_clone().unwrap();
    let mut console = Console::on(console, same, Style::Prefixed).unwrap();
    let script = "head -c 3000 /dev/zero | tr '\\0' x; echo; echo second >&2";
    let launch = shell(script, 1, &Folder::new());
    let reader = thread::spawn(move || {
        let mut text = String::new();
        File::from(out).read_to_string(&mut text).map(|_| text)
    });
    launch.start().unwrap().wait(&mut console, None).unwrap();
    console.say(Stream::Err, "the launcher's own");
    drop(console);
    let text = reader.join().unwrap().unwrap();
    let mut lens: Vec<usize> = text.lines().map(str::len).collect();
    lens.sort_unstable();
    assert_eq!(lens, ["[0] second".len(), "the launcher's own".len(), 3004]);
}
