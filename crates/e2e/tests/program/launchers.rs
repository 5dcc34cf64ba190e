//! Jobs that other launchers start: nothing is configured, and the ranks find each other.

use std::process::{Child, Command, Output, Stdio};

use outboard_e2e::{outboard, program};
use serde_json::Value;

const APP: [&str; 8] = ["app", "histogram", "--table", "1000", "--updates", "20K", "--check", "--json"];

fn rank() -> Command {
    let mut command = outboard(&APP);
    command.args(["--log-level", "warn"]);
    command
}

/// Exactly one of the ranks has printed what all have found.
#[track_caller]
fn assert_counted(printed: &[u8], ranks: u64) {
    let report: Value = serde_json::from_slice(printed).expect("one JSON object, printed by one rank");
    assert_eq!(report["ranks"], ranks, "{report}");
    assert_eq!(report["check"]["passed"], true, "{report}");
}

/// Starts one process for each of these environments, as a launcher would.
fn start(environments: &[Vec<(&str, String)>]) -> Vec<Output> {
    let start = |variables: &Vec<(&str, String)>| {
        let mut command = rank();
        command.envs(variables.iter().map(|(name, value)| (*name, value)));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<Child> = environments.iter().map(start).collect();
    children.into_iter().map(|child| child.wait_with_output().unwrap()).collect()
}

#[track_caller]
fn assert_meets(environments: &[Vec<(&str, String)>]) {
    let outputs = start(environments);
    for output in &outputs {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let printed: Vec<u8> = outputs.into_iter().flat_map(|output| output.stdout).collect();
    assert_counted(&printed, environments.len() as u64);
}

/// What no other test run at the same time has.
fn unique(test: u32) -> String {
    format!("{}{test}", std::process::id())
}

#[test]
fn mpirun_starts_ranks_without_any_configuration() {
    let mut command = Command::new("mpirun");
    command.args(["--allow-run-as-root", "--oversubscribe", "-n", "4", program()]);
    command.args(APP).args(["--config", "none", "--log-level", "warn"]);
    match command.output() {
        Err(error) => println!("skipped: mpirun cannot be started ({error}); apt-get install openmpi-bin"),
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            assert_counted(&output.stdout, 4);
        }
    }
}

#[test]
fn tasks_of_a_step_of_slurm_on_one_node_meet() {
    let task = |rank: u32| {
        vec![
            ("SLURM_PROCID", rank.to_string()),
            ("SLURM_STEP_NUM_TASKS", "3".to_owned()),
            ("SLURM_STEP_NUM_NODES", "1".to_owned()),
            ("SLURM_STEP_ID", "0".to_owned()),
            ("SLURM_JOB_ID", unique(1)),
            ("SLURM_STEP_NODELIST", "localhost".to_owned()),
        ]
    };
    assert_meets(&[task(0), task(1), task(2)]);
}

#[test]
fn tasks_of_slurm_on_several_nodes_meet_at_the_first() {
    let task = |rank: u32| {
        vec![
            ("SLURM_PROCID", rank.to_string()),
            ("SLURM_STEP_NUM_TASKS", "2".to_owned()),
            ("SLURM_STEP_NUM_NODES", "2".to_owned()),
            ("SLURM_STEP_ID", "0".to_owned()),
            ("SLURM_JOB_ID", unique(2)),
            ("SLURM_STEP_NODELIST", "127.0.0.1,other".to_owned()),
            ("OUTBOARD_JOB_SECRET", "a secret of this job".to_owned()),
        ]
    };
    assert_meets(&[task(0), task(1)]);
}

#[test]
fn workers_of_torchrun_meet() {
    let worker = |rank: u32| {
        vec![
            ("RANK", rank.to_string()),
            ("WORLD_SIZE", "2".to_owned()),
            ("LOCAL_WORLD_SIZE", "2".to_owned()),
            ("MASTER_ADDR", "127.0.0.1".to_owned()),
            ("MASTER_PORT", "29500".to_owned()),
            ("TORCHELASTIC_RUN_ID", unique(3)),
        ]
    };
    assert_meets(&[worker(0), worker(1)]);
}

#[test]
fn what_a_launcher_says_wrongly_is_named() {
    let output = start(&[vec![
        ("PMI_RANK", "first".to_owned()),
        ("PMI_SIZE", "2".to_owned()),
        ("MPI_LOCALNRANKS", "2".to_owned()),
    ]])
    .remove(0);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("PMI_RANK") && message.contains("job.rank"), "{message}");
}

#[test]
fn nodes_that_share_no_secret_are_told_to_have_one() {
    let task = vec![
        ("SLURM_PROCID", "0".to_owned()),
        ("SLURM_STEP_NUM_TASKS", "2".to_owned()),
        ("SLURM_STEP_NUM_NODES", "2".to_owned()),
        ("SLURM_STEP_ID", "0".to_owned()),
        ("SLURM_STEP_NODELIST", "127.0.0.1,other".to_owned()),
    ];
    let output = start(&[task]).remove(0);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("OUTBOARD_JOB_SECRET"), "{message}");
}

#[test]
fn a_rank_of_a_launcher_starts_no_others() {
    for flag in ["--ranks", "--agents"] {
        let mut command = rank();
        command.args([flag, "2"]);
        command.envs([("PMI_RANK", "0"), ("PMI_SIZE", "2"), ("MPI_LOCALNRANKS", "2")]);
        let output = command.output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(flag), "{message}");
    }
}
