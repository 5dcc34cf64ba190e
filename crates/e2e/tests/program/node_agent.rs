//! The agent of a node, which the ranks of a job start for themselves: one for all, until the last of them is gone.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use outboard::{Address, Client, Job, Settings};
use outboard_e2e::{PATIENCE, program};
use outboard_link::Identity;
use outboard_settings::{AddressChoice, Secret};
use outboard_wire::{JobId, Rank, Role};

const SECRET: &str = "what the ranks of this job know";

/// What a rank of a job is told that nobody else has.
fn settings(size: u32) -> Settings {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let mut settings = Settings::default();
    let job = &mut settings.job;
    job.id = Some(JobId(u64::from(std::process::id()) << 20 | NUMBER.fetch_add(1, Ordering::Relaxed)));
    (job.size, job.secret, job.memory) =
        (Some(size), Some(Secret::new(SECRET).unwrap()), AddressChoice::None);
    (job.start_agent, job.agent_program) = (true, Some(program().into()));
    settings
}

/// All ranks, in threads of this process.
fn join_all(settings: &Settings) -> Vec<Job> {
    let join = |rank| {
        let mut settings = settings.clone();
        settings.job.rank = Some(Rank(rank));
        thread::spawn(move || Job::with_settings(&settings).unwrap())
    };
    let ranks: Vec<_> = (0..settings.job.size.unwrap()).map(join).collect();
    ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
}

/// Nothing where the user of this test has an agent already: it is used, and none is started.
fn is_there_another() -> bool {
    let is_there = Client::connect(
        &AddressChoice::Auto.address("agent").unwrap(),
        Identity::new(Role::Tool, "test"),
        &Settings::default().link,
    )
    .is_ok();
    if is_there {
        println!("skipped: an agent of this user runs, which is used instead");
    }
    is_there
}

/// Whether somebody listens at a socket of this machine.
fn is_open(address: &Address) -> bool {
    let name = address.to_string().replace("unix:@", "");
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
    sockets.lines().any(|line| line.ends_with(&format!(" @{name}")))
}

#[track_caller]
fn await_gone(address: &Address) {
    let began = Instant::now();
    while is_open(address) {
        assert!(began.elapsed() < PATIENCE, "the agent at {address} is still there");
        thread::park_timeout(Duration::from_millis(5));
    }
}

fn pid_of_agent(job: &mut Job) -> u32 {
    job.agent().unwrap().peer().intro().pid
}

#[test]
fn all_ranks_of_a_node_have_the_same_agent_until_the_last_is_gone() {
    if is_there_another() {
        return;
    }
    let settings = settings(6);
    let address = settings.job.own_agent().unwrap();
    let mut jobs = join_all(&settings);
    let agent = pid_of_agent(&mut jobs[0]);
    assert!(jobs.iter_mut().all(|job| pid_of_agent(job) == agent), "never two");
    let mut last = jobs.pop().unwrap();
    drop(jobs);
    last.agent().unwrap().echo(b"one is left").unwrap();
    drop(last);
    await_gone(&address);
}

#[test]
fn the_agent_outlives_the_rank_that_has_started_it() {
    if is_there_another() {
        return;
    }
    // The first is a process that is killed; it waits for the second, which never sends anything.
    let settings = settings(2);
    let address = settings.job.own_agent().unwrap();
    let mut first = settings.job.clone();
    first.rank = Some(Rank(0));
    let mut child = Command::new(program())
        .args(["app", "histogram", "--config", "none", "--log-level", "error"])
        .envs(first.variables())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut second = settings.clone();
    (second.job.rank, second.job.start_agent) = (Some(Rank(1)), false);
    let job = Job::with_settings(&second).unwrap();
    let began = Instant::now();
    let mut client = loop {
        match Client::connect(&address, Identity::new(Role::Application, "second"), &settings.link) {
            Ok(client) => break client,
            Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
        }
        thread::park_timeout(Duration::from_millis(5));
    };
    child.kill().unwrap();
    child.wait().unwrap();
    // Long enough for it to notice, if it ended for this.
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(400) {
        client.echo(b"still there").unwrap();
        thread::park_timeout(Duration::from_millis(10));
    }
    drop((client, job));
    await_gone(&address);
}

#[test]
fn whoever_wants_none_gets_none() {
    let mut settings = settings(2);
    settings.job.start_agent = false;
    let mut jobs = join_all(&settings);
    if !is_there_another() {
        assert!(jobs.iter_mut().all(|job| job.agent().is_none()));
    }
    settings.job.start_agent = true;
    settings.job.agent = AddressChoice::None;
    assert_eq!(settings.job.own_agent(), None);
}

#[test]
fn an_agent_that_cannot_start_is_explained_and_done_without() {
    if is_there_another() {
        return;
    }
    for (program, word) in [("/bin/false", "job.start_agent"), ("/nowhere/outboard", "job.agent_program")] {
        let mut settings = settings(2);
        settings.job.agent_program = Some(program.into());
        for mut job in join_all(&settings) {
            assert!(job.agent().is_none());
            let lines = job.explain().join("\n");
            assert!(lines.contains(word) && lines.contains("going direct"), "{lines}");
        }
    }
}

#[test]
fn ranks_of_mpirun_have_an_agent_without_any_configuration() {
    if is_there_another() {
        return;
    }
    let mut command = Command::new("mpirun");
    command.args(["--allow-run-as-root", "--oversubscribe", "-n", "4", program(), "app", "histogram"]);
    command.args(["--table", "1000", "--updates", "20K", "--check", "--json", "--config", "none"]);
    // Without an agent this is an error.
    command.env("OUTBOARD_MESSAGES_PLACEMENT", "agent").stdin(Stdio::null());
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            return println!("skipped: mpirun cannot be started ({error}); apt-get install openmpi-bin");
        }
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("INFO"), "ranks that succeed are silent: {said}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["check"]["passed"], true, "{report}");
}

#[test]
fn tasks_of_slurm_have_an_agent_without_any_configuration() {
    if is_there_another() {
        return;
    }
    let task = |rank: u32| {
        let mut command = Command::new(program());
        command.args(["app", "histogram", "--table", "1000", "--updates", "20K", "--check", "--json"]);
        command.args(["--config", "none", "--messages-placement", "agent"]);
        command.env("SLURM_PROCID", rank.to_string()).env("SLURM_STEP_NUM_TASKS", "3");
        command.env("SLURM_STEP_NUM_NODES", "1").env("SLURM_STEP_ID", "0");
        command.env("SLURM_JOB_ID", format!("node-agent-{}", std::process::id()));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let tasks = [task(0), task(1), task(2)];
    for output in tasks.map(|task| task.wait_with_output().unwrap()) {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Whoever collects what it says, as `ssh` does, is not kept waiting until the agent ends.
#[test]
fn an_agent_in_the_background_lets_go_of_whoever_listens() {
    let socket = format!("unix:@outboard-background-{}", std::process::id());
    let mut starter = Command::new(program());
    starter.args(["agent", "--background", "--json", "--memory-servers", "", "--listen", &socket]);
    let (sender, said) = std::sync::mpsc::channel();
    let starter = starter.env("OUTBOARD_CONFIG", "none").stdin(Stdio::null());
    let starter = starter.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    thread::spawn(move || sender.send(starter.wait_with_output().unwrap()));
    let output = said.recv_timeout(PATIENCE).expect("nobody says any more");
    assert!(output.status.success(), "{output:?}");
    let started: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let pid = rustix::process::Pid::from_raw(started["pid"].as_i64().unwrap() as i32).unwrap();
    assert!(is_open(&socket.parse().unwrap()));
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let until = Instant::now() + PATIENCE;
    while is_open(&socket.parse().unwrap()) {
        assert!(Instant::now() < until, "it ends when it is asked to");
        thread::yield_now();
    }
}
