//! `outboard memory`: the server and its clients.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::thread;

use outboard::{Client, Settings};
use outboard_link::Identity;
use outboard_wire::{Role, Versions};
use rustix::process::Signal;

use outboard_e2e::{Daemon, Ended, Folder, Process, outboard, run_outboard, socket, socket_exists};

/// A user without rights.
const NOBODY: u32 = 65_534;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn regions_are_reserved_listed_and_freed() {
    let at = socket();
    let _server = Daemon::of(outboard(&["memory", "--listen", &at, "--capacity", "8MiB"])).process;
    let ask = |arguments: &[&str]| run_outboard(&[&["memory"], arguments, &["--server", &at]].concat());
    assert_eq!(ask(&["list"]).succeeded(), "no regions\n");
    assert!(ask(&["reserve", "table", "--size", "1MiB"]).succeeded().contains("1 MiB"));
    assert!(ask(&["list"]).succeeded().contains("table"));
    let list = ask(&["list", "--json"]).json();
    assert_eq!((&list[0]["name"], &list[0]["size_bytes"]), (&"table".into(), &(1 << 20).into()));
    ask(&["reserve", "--name", "table", "--size", "1MiB"]).failed(1, &["table"]);
    ask(&["reserve", "huge", "--size", "1GiB"]).failed(1, &["refused"]);
    let populated = ["reserve", "whole", "--size", "4MiB", "--populate", "--json"];
    assert!(ask(&populated).json()["large_bytes"].as_u64().is_some_and(|large| large <= 4 << 20));
    ask(&["free", "whole"]).succeeded();
    assert_eq!(ask(&["free", "table", "--json"]).json()["size_bytes"], 1 << 20);
    ask(&["free", "table"]).failed(1, &["table", "outboard memory list"]);
    assert_eq!(ask(&["list", "--json"]).json(), serde_json::json!([]));
}

#[test]
fn it_ends_cleanly_when_asked_by_either_signal() {
    for signal in [Signal::TERM, Signal::INT] {
        let at = socket();
        let server = Daemon::of(outboard(&["memory", "--listen", &at])).process;
        server.signal(signal);
        let (status, lines) = server.exit();
        assert_eq!(status.code(), Some(0), "{lines:?}");
        assert!(lines.last().unwrap().contains("has ended"), "{lines:?}");
        assert!(!socket_exists(&at.replace("unix:", "")));
    }
}

#[test]
fn a_program_of_another_release_and_the_daemon_both_name_both_versions() {
    let at = socket();
    let server = Daemon::of(outboard(&["memory", "--listen", &at])).process;
    let connect = |versions| {
        let identity = Identity { versions, ..Identity::new(Role::Tool, "visitor") };
        Client::connect(&at.parse().unwrap(), identity, &Settings::default().link)
    };
    let next = Versions::up_to(Versions::NEWEST + 1);
    let mut neighbour = connect(next).unwrap();
    assert_eq!(neighbour.peer().version(), Versions::NEWEST);
    neighbour.echo(b"the same words").unwrap();
    let stranger = Versions::up_to(next.max + 1);
    let refused = connect(stranger).err().unwrap().to_string();
    let words = format!("the side that connects speaks {stranger}, the other {}", Versions::OURS);
    assert!(refused.contains(&words), "{refused}");
    drop(neighbour);
    server.signal(Signal::TERM);
    let (_, lines) = server.exit();
    assert!(lines.iter().any(|line| line.contains(&words)), "{lines:?}");
}

#[test]
fn a_second_one_at_the_same_address_fails_at_once() {
    let at = socket();
    let _first = Daemon::of(outboard(&["memory", "--listen", &at])).process;
    run_outboard(&["memory", "--listen", &at]).failed(1, &[&at, "already in use"]);
    run_outboard(&["agent", "--listen", &at]).failed(1, &[&at, "already in use"]);
}

#[test]
fn a_port_in_use_is_named() {
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = format!("127.0.0.1:{}", holder.local_addr().unwrap().port());
    let at = format!("tcp:{port}");
    run_outboard(&["memory", "--listen", &at]).failed(1, &[&at, "already in use"]);
    run_outboard(&["memory", "--listen", &socket(), "--metrics", &port]).failed(1, &[&port, "metrics"]);
}

#[test]
fn a_server_that_is_not_there_is_named() {
    for at in [socket(), "tcp:127.0.0.1:1".to_owned()] {
        run_outboard(&["memory", "list", "--server", &at]).failed(1, &[&at, "cannot reach"]);
    }
}

#[test]
fn a_port_that_speaks_another_protocol_is_told_from_a_server() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = format!("tcp:{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 64]);
            let body = "x".repeat(1000);
            let _ = stream.write_all(format!("HTTP/1.1 400 Bad Request\r\n\r\n{body}").as_bytes());
        }
    });
    run_outboard(&["memory", "list", "--server", &at]).failed(1, &[&at, "does not speak this protocol"]);
    run_outboard(&["status", &at]).failed(1, &[&at]);
}

#[test]
fn an_agent_is_not_taken_for_a_memory_server() {
    let at = socket();
    let _agent = Daemon::of(outboard(&["agent", "--listen", &at, "--memory-servers", "none"])).process;
    run_outboard(&["memory", "list", "--server", &at]).failed(1, &[&at, "is no memory server"]);
}

#[test]
fn a_place_without_permission_is_named() {
    let folder = Folder::new();
    let mut command = if is_root() {
        // The folder is root's, and open to nobody else.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(folder.path(), mode).unwrap();
        let mut command = outboard(&["memory", "--listen", &format!("unix:{}/s", folder.path().display())]);
        command.uid(NOBODY).gid(NOBODY);
        command
    } else {
        outboard(&["memory", "--listen", "unix:/proc/outboard-test"])
    };
    let output = Ended::from(command.output().unwrap());
    output.failed(1, &["unix:/"]);
}

/// Only root can play another user.
#[test]
fn another_user_is_turned_away_and_told_why() {
    if !is_root() {
        return;
    }
    let at = socket();
    let _server = Daemon::of(outboard(&["memory", "--listen", &at])).process;
    let mut command = outboard(&["memory", "list", "--server", &at]);
    command.uid(NOBODY).gid(NOBODY);
    Ended::from(command.output().unwrap()).failed(1, &[&at, "user"]);
    run_outboard(&["memory", "list", "--server", &at]).succeeded();
}

#[test]
fn logs_are_json_when_asked() {
    let mut command = outboard(&["memory", "--listen", &socket(), "--log-format", "json"]);
    command.env("OUTBOARD_MEMORY_NAME", "jason");
    let mut server = Process::start(command);
    let line: serde_json::Value = serde_json::from_str(&server.await_line("listens at")).unwrap();
    assert_eq!(line["level"], "INFO");
    assert!(line["message"].as_str().unwrap().contains("jason"), "{line}");
}

#[test]
fn it_serves_on_when_nobody_reads_its_log() {
    let at = socket();
    let mut command = outboard(&["memory", "--listen", &at, "--log-level", "trace"]);
    let mut server = command.stderr(Stdio::piped()).spawn().unwrap();
    BufReader::new(server.stderr.take().unwrap()).read_line(&mut String::new()).unwrap();
    let answers = [0; 4].map(|_| run_outboard(&["memory", "list", "--server", &at]));
    server.kill().unwrap();
    server.wait().unwrap();
    answers.into_iter().for_each(|answer| assert_eq!(answer.succeeded(), "no regions\n"));
}
