//! `outboard run`: ranks, prefixes, deaths, agents.

use rustix::process::Signal;
use serde_json::Value;

use outboard_e2e::{
    Daemon, Ended, Folder, Process, await_end, outboard, program, run_outboard, socket, socket_exists,
};

/// Runs a shell script as several ranks.
fn ranks(count: &str, flags: &[&str], script: &str) -> Ended {
    run_outboard(&[&["run", "-n", count], flags, &["--", "sh", "-c", script]].concat())
}

#[test]
fn every_rank_is_told_its_place_and_its_lines_are_marked() {
    let script = "echo $OUTBOARD_JOB_RANK of $OUTBOARD_JOB_SIZE $OUTBOARD_JOB_ID ${#OUTBOARD_JOB_SECRET} \
                  $OUTBOARD_JOB_RENDEZVOUS; echo problem >&2";
    let ended = ranks("3", &[], script);
    let mut ids = Vec::new();
    for rank in 0..3 {
        let start = format!("[{rank}] {rank} of 3 ");
        let line = ended.out.lines().find(|line| line.starts_with(&start)).expect(&start);
        let [id, secret_len, rendezvous] = line[start.len()..].split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        assert!(secret_len.parse::<u32>().unwrap() >= 16 && rendezvous.starts_with("unix:@"), "{line}");
        ids.push((id.to_owned(), rendezvous.to_owned()));
        assert!(ended.err.contains(&format!("[{rank}] problem")), "{ended:?}");
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "one job: {ids:?}");
    assert!(!socket_exists(&ids[0].1.replace("unix:", "")), "the meeting is over");
    assert_ne!(ranks("3", &[], script).succeeded(), ended.succeeded(), "every job has an id of its own");
}

#[test]
fn lines_can_go_unmarked_and_input_reaches_one_rank() {
    assert_eq!(ranks("2", &["--no-prefix"], "echo same").succeeded(), "same\nsame\n");
    let folder = Folder::new();
    let input = folder.write("input", "hello\n");
    let mut command = outboard(&["run", "-n", "2", "--stdin", "1", "cat"]);
    let output = command.stdin(std::fs::File::open(input).unwrap()).output().unwrap();
    assert_eq!(Ended::from(output).succeeded(), "[1] hello\n");
}

#[test]
fn the_rank_that_fails_is_named_and_the_others_are_ended() {
    let ended = ranks("3", &["--json"], "[ $OUTBOARD_JOB_RANK = 1 ] && exit 7; exec sleep 600");
    ended.failed(1, &["rank 1 exited with code 7", "ended ranks 0, 2"]);
    let json: Value = serde_json::from_str(ended.out.lines().last().unwrap()).unwrap();
    assert_eq!((&json["success"], &json["failed_rank"]), (&false.into(), &1.into()));
    assert_eq!((&json["ranks"][1]["code"], &json["ranks"][2]["signal"]), (&7.into(), &"SIGTERM".into()));
    ranks("2", &[], "[ $OUTBOARD_JOB_RANK = 0 ] && kill -9 $$; exec sleep 600")
        .failed(1, &["rank 0 was killed by SIGKILL"]);
}

#[test]
fn success_is_summed_up_for_programs() {
    let json = ranks("2", &["--json", "--agent", "none"], "echo $OUTBOARD_JOB_AGENT").json();
    assert_eq!((&json["success"], &json["agent"]), (&true.into(), &Value::Null));
    assert_eq!(json["ranks"].as_array().unwrap().len(), 2);
}

#[test]
fn a_program_that_is_not_there_is_named() {
    run_outboard(&["run", "no-such-program"]).failed(1, &["no-such-program"]);
    run_outboard(&["run", "-n", "2"]).failed(2, &["PROGRAM"]);
}

#[test]
fn an_interrupt_ends_all_ranks() {
    let mut job = Process::start(outboard(&["run", "-n", "2", "sh", "-c", "echo $$; exec sleep 600"]));
    let pids: Vec<u32> =
        (0..2).map(|_| job.await_line("] ").split_once("] ").unwrap().1.parse().unwrap()).collect();
    job.signal(Signal::INT);
    let (status, lines) = job.exit();
    assert_eq!(status.code(), Some(1), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("interrupted by SIGINT")), "{lines:?}");
    pids.into_iter().for_each(await_end);
}

#[test]
fn an_agent_is_started_where_asked_and_ends_with_the_job() {
    let at = socket();
    let flags = ["--agent", "same-cores", "--agent-listen", &at, "--agent-memory-servers", "none", "--json"];
    let ended = ranks("2", &flags, "echo $OUTBOARD_JOB_AGENT");
    assert!(
        ended.err.contains("started an agent") && ended.err.contains("the agent on the same"),
        "{ended:?}"
    );
    assert!(ended.out.contains(&format!("[0] {at}\n")), "{ended:?}");
    let json = ended.json();
    assert_eq!((&json["agent"]["started"], &json["agent"]["address"]), (&true.into(), &at.clone().into()));
    assert!(!socket_exists(&at.replace("unix:", "")));
}

#[test]
fn an_agent_that_runs_already_is_used_and_left_running() {
    let at = socket();
    let agent = Daemon::of(outboard(&["agent", "--listen", &at, "--memory-servers", "none"])).process;
    let ended = ranks("1", &["--agent", "same-cores", "--agent-listen", &at, "--json"], "true");
    assert!(ended.err.contains("runs already") && ended.err.contains(&at), "{ended:?}");
    assert_eq!(ended.json()["agent"]["started"], false);
    run_outboard(&["status", &at]).succeeded();
    agent.signal(Signal::TERM);
    assert_eq!(agent.exit().0.code(), Some(0));
}

#[test]
fn an_agent_can_be_held_to_a_share_of_a_processor() {
    let at = socket();
    let agent = ["--agent", "same-cores", "--agent-listen", &at, "--agent-memory-servers", "none"];
    let flags = [&agent[..], &["--agent-quota", "30%", "--wire", "10gbit,5us", "--json"]].concat();
    let json = ranks("1", &flags, "true").json();
    assert!(json["agent"]["limit"].as_str().unwrap().contains("30%"), "{json}");
}

/// The demo's ranks join by what `run` tells them.
#[test]
fn ranks_that_use_the_library_meet() {
    let (memory, agent) = (socket(), socket());
    let _memory = Daemon::of(outboard(&["memory", "--listen", &memory])).process;
    let _agent = Daemon::of(outboard(&["agent", "--listen", &agent, "--memory-servers", &memory])).process;
    let flags = ["--job-agent", &agent, "--job-memory", &memory];
    let rank = [program(), "app", "histogram", "--updates", "1000", "--check"];
    let out = run_outboard(&[&["run", "-n", "3"], &flags[..], &["--"], &rank].concat()).succeeded();
    assert!(out.contains("3 ranks") && out.contains("passed"), "{out}");
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ended = outboard(&["run", "-n", "1", "--", "echo", "hi"]).stdout(full).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("output is lost"), "{said}");
}
