//! A server that keeps its data in memory, and saves them by a child that it forks.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use outboard_e2e::{Folder, Process, await_state, outboard};

use crate::{has, skipped};

const PATIENCE: Duration = Duration::from_secs(60);

/// How the server is started: it is reached by a socket in a folder, where it also saves.
fn arguments(folder: &Path) -> Vec<String> {
    let folder = folder.display();
    let options = format!(
        "--port 0 --unixsocket {folder}/socket --dir {folder} --enable-debug-command local --daemonize no --save"
    );
    options.split(' ').map(str::to_owned).chain([String::new()]).collect()
}

/// What the server answers.
fn ask(folder: &Path, question: &str) -> Result<String, String> {
    let mut command = Command::new("redis-cli");
    command.arg("-s").arg(folder.join("socket")).args(question.split(' '));
    let ended = command.output().map_err(|error| error.to_string())?;
    let out = String::from_utf8_lossy(&ended.stdout).trim().to_owned();
    if ended.status.success() && !out.starts_with("ERR") { Ok(out) } else { Err(format!("{out} {ended:?}")) }
}

fn await_answer(folder: &Path) {
    await_state("the server to answer", || match ask(folder, "ping") {
        Ok(answer) if answer == "PONG" => Ok(()),
        other => Err(format!("{other:?}")),
    });
}

#[test]
fn redis_saves_what_it_had_by_a_child() {
    if skipped() || !has("redis-server") || !has("redis-cli") {
        return;
    }
    let place = Folder::new();
    let folder = place.path();
    let mut command = outboard(&["far", "--quiet", "--buffer", "16MiB", "--", "redis-server"]);
    command.args(arguments(folder));
    let server = Process::start(command);
    await_answer(folder);
    ask(folder, "debug populate 20000 key 1000").expect("the server is filled");
    let digest = ask(folder, "debug digest").expect("the server reads all it has");
    ask(folder, "bgsave").expect("the server forks");
    // What its child has to save is what there was.
    ask(folder, "debug populate 20000 other 1000").expect("the server goes on");
    await_state("the child to have saved", || {
        let told = ask(folder, "info persistence")?;
        let is_saved =
            told.contains("rdb_bgsave_in_progress:0") && told.contains("rdb_last_bgsave_status:ok");
        if is_saved { Ok(()) } else { Err(told) }
    });
    // It closes the connection before it answers.
    let _ = ask(folder, "shutdown nosave");
    let (status, said) = server.exit_within(PATIENCE);
    assert!(status.success(), "{status}: {said:?}");

    let mut plain = Command::new("redis-server");
    plain.args(arguments(folder));
    let plain = Process::start(plain);
    await_answer(folder);
    assert_eq!(ask(folder, "dbsize").as_deref(), Ok("20000"));
    assert_eq!(ask(folder, "debug digest"), Ok(digest));
    let _ = ask(folder, "shutdown nosave");
    plain.exit_within(PATIENCE);
}
