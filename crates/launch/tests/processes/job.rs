//! Jobs of real processes: how they end, and what ends with them.

use std::time::Duration;

use crate::support::{Folder, ends, run, shell};
use outboard_launch::{End, LaunchError, RankFailure, StdinTo, Stream, allowed_cpus};

const LONG: Duration = Duration::from_secs(600);

fn failure(rank: u32, code: i32) -> Option<RankFailure> {
    Some(RankFailure { rank, end: End::Exited { code } })
}

#[test]
fn a_job_whose_ranks_all_succeed_succeeds() {
    let (outcome, printed) = run(shell("echo I am $RANK; echo and $RANK >&2", 3, &Folder::new()));
    assert!(outcome.is_success());
    assert_eq!(outcome.exit_code(), 0);
    for rank in 0..3 {
        assert_eq!(printed.text(rank), format!("I am {rank}\n"));
        assert_eq!(printed.of(rank, Stream::Err), format!("and {rank}\n").as_bytes());
    }
}

#[test]
fn one_rank_that_fails_ends_the_others_and_is_named() {
    let folder = Folder::with_gate();
    let script =
        "if [ $RANK = 1 ]; then read x < $DIR/go; exit 3; fi; [ $RANK = 0 ] && echo > $DIR/go; sleep 600";
    let (outcome, _) = run(shell(script, 3, &folder).grace(LONG));
    assert_eq!(outcome.first_failure, failure(1, 3));
    assert_eq!(outcome.to_string(), "rank 1 exited with code 3; ended ranks 0, 2");
    assert_eq!(outcome.exit_code(), 1);
    for rank in [0, 2] {
        let ended = outcome.ranks[rank];
        assert_eq!((ended.asked, ended.killed), (true, false));
        assert_eq!(ended.end, End::Signaled { signal: 15, core_dumped: false });
    }
}

#[test]
fn a_rank_that_ignores_the_request_is_killed() {
    let folder = Folder::with_gate();
    let script =
        "if [ $RANK = 1 ]; then read x < $DIR/go; exit 3; fi; trap '' TERM; echo > $DIR/go; sleep 600";
    let (outcome, _) = run(shell(script, 2, &folder).grace(Duration::from_millis(50)));
    assert_eq!(outcome.to_string(), "rank 1 exited with code 3; ended rank 0; had to kill rank 0");
    assert_eq!(outcome.ranks[0].end, End::Signaled { signal: 9, core_dumped: false });
}

#[test]
fn a_stopped_rank_is_ended_too() {
    let folder = Folder::with_gate();
    // The writer waits for a reader; once it got one, rank 0 is about to stop itself.
    let script =
        "if [ $RANK = 1 ]; then echo > $DIR/go; exit 3; fi; read x < $DIR/go; kill -STOP $$; sleep 600";
    let (outcome, _) = run(shell(script, 2, &folder).grace(Duration::from_secs(1)));
    assert_eq!(outcome.first_failure, failure(1, 3));
    assert!(outcome.ranks[0].asked);
}

#[test]
fn a_rank_that_dies_of_a_signal_is_named_with_it() {
    let script = "ulimit -c 0; [ $RANK = 0 ] && kill -SEGV $$; [ $RANK = 0 ] || sleep 600";
    let (outcome, _) = run(shell(script, 2, &Folder::new()).grace(LONG));
    assert_eq!(outcome.to_string(), "rank 0 was killed by SIGSEGV; ended rank 1");
}

#[test]
fn what_a_rank_started_ends_with_the_job() {
    // One keeps the rank's outputs open, the other does not.
    let script = "sleep 600 & echo $!; sleep 600 > /dev/null 2>&1 & echo $!
        [ $RANK = 0 ] && [ -p $DIR/go ] && echo > $DIR/go; [ $RANK = 1 ] && read x < $DIR/go; exit $RANK";
    for ranks in [1, 2] {
        let folder = if ranks == 2 { Folder::with_gate() } else { Folder::new() };
        let (outcome, printed) = run(shell(script, ranks, &folder));
        assert_eq!(outcome.exit_code(), u8::from(ranks == 2));
        let pids: Vec<u32> = printed.text(0).lines().map(|pid| pid.parse().unwrap()).collect();
        assert_eq!(pids.len(), 2);
        assert!(pids.into_iter().all(ends));
    }
}

#[test]
fn what_a_rank_started_has_its_grace_after_the_rank() {
    let folder = Folder::with_gate();
    let script = r#"
        if [ $RANK = 1 ]; then read x < $DIR/go; exit 3; fi
        sh -c 'trap "echo cleaned up; exit" TERM; echo > $DIR/go; while :; do sleep 0.01; done'
        echo not reached
    "#;
    let (outcome, printed) = run(shell(script, 2, &folder).grace(LONG));
    assert_eq!(outcome.first_failure, failure(1, 3));
    assert_eq!(printed.text(0), "cleaned up\n");
}

#[test]
fn dropping_a_job_kills_it() {
    let running = shell("trap '' TERM; sleep 600", 2, &Folder::new()).start().unwrap();
    let pids = running.pids();
    drop(running);
    assert!(pids.into_iter().all(ends));
}

#[test]
fn sixty_four_ranks_at_once() {
    let script = "i=0; while [ $i -lt 50 ]; do echo $RANK line $i; i=$((i+1)); done";
    let (outcome, printed) = run(shell(script, 64, &Folder::new()));
    assert!(outcome.is_success(), "{outcome}");
    for rank in 0..64 {
        let expected: String = (0..50).map(|line| format!("{rank} line {line}\n")).collect();
        assert_eq!(printed.text(rank), expected);
    }
}

#[test]
fn ranks_run_on_the_processors_they_are_given() {
    let cpu = *allowed_cpus().unwrap().last().unwrap();
    let script = "grep Cpus_allowed_list /proc/self/status";
    let (_, printed) = run(shell(script, 1, &Folder::new()).cpus(Some(vec![cpu])));
    assert_eq!(printed.text(0), format!("Cpus_allowed_list:\t{cpu}\n"));
}

#[test]
fn standard_input_is_empty_unless_asked_for() {
    let (outcome, printed) = run(shell("cat; echo end", 2, &Folder::new()));
    assert!(outcome.is_success());
    assert_eq!(printed.text(1), "end\n");
}

#[test]
fn what_cannot_be_started_is_refused_before_anything_is() {
    let folder = Folder::new();
    let message = |launch: outboard_launch::Launch<'_>| launch.start().unwrap_err().to_string();
    let missing = outboard_launch::Launch::new("no-such-program").ranks(4);
    assert_eq!(message(missing), "program `no-such-program` was not found in PATH");
    assert_eq!(message(shell("", 0, &folder)), "a job needs at least one rank");
    let stdin = shell("", 2, &folder).stdin(StdinTo::Rank(2));
    assert_eq!(message(stdin), "standard input cannot go to rank 2: the ranks are 0 to 1");
    let many = shell("", u32::MAX, &folder).start().unwrap_err();
    assert!(matches!(many, LaunchError::TooManyFiles { .. }), "{many}");
}

#[test]
fn a_program_that_the_system_refuses_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let path = folder.path().join("no-program");
    std::fs::write(&path, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    let error = outboard_launch::Launch::new(&path).ranks(2).start().unwrap_err();
    assert!(matches!(&error, LaunchError::Rank { rank: 0, program, .. } if *program == path), "{error}");
}
