//! Who may listen where, and who may come in.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

use outboard_e2e::{Daemon, Place, Process, connect_memory};
use rustix::process::Signal;

/// Two users without rights.
const NOBODY: u32 = 65_534;
const SOMEBODY: u32 = 65_533;

#[test]
fn a_second_daemon_at_the_same_address_fails_at_once() {
    let place = Place::new();
    for at in [place.socket(), place.socket_file(), "tcp:127.0.0.1:0".to_owned()] {
        let first = Daemon::start(&place, "memory", "first", &["--listen", &at, "--capacity", "1MiB"]);
        let at = first.listening[0].to_string();
        for command in ["memory", "agent"] {
            let second = Process::start_told(place.outboard(&[command, "--listen", &at]));
            let (status, said) = second.exit();
            assert_eq!(status.code(), Some(1), "{said:?}");
            let clear = ["outboard: ", &at, "already in use", "stop it or choose another address"];
            assert!(said.iter().any(|line| clear.iter().all(|part| line.contains(part))), "{said:?}");
        }
        connect_memory(&first.listening[0]).reserve(4096, None).unwrap();
        first.end();
        // The address is free at once.
        Daemon::start(&place, "agent", "next", &["--listen", &at, "--memory-servers", "none"]).end();
    }
    place.assert_nothing_left();
}

#[test]
fn the_file_of_a_killed_daemon_is_taken_over() {
    let place = Place::new();
    let at = place.socket_file();
    let first = Daemon::start(&place, "memory", "first", &["--listen", &at]);
    first.process.kill();
    let second = Daemon::start(&place, "memory", "second", &["--listen", &at]);
    connect_memory(&second.listening[0]).reserve(4096, None).unwrap();
    second.end();
    place.assert_nothing_left();
}

/// Runs `outboard memory list` as a user; returns its exit code and what it said.
fn list_as(place: &Place, user: u32, at: &str) -> (Option<i32>, Vec<String>) {
    let mut command = place.outboard(&["memory", "list", "--server", at]);
    command.uid(user).gid(user).current_dir("/");
    let (status, said) = Process::start_told(command).exit();
    (status.code(), said)
}

#[test]
fn one_users_daemon_is_closed_to_another() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can play two users");
        return;
    }
    let place = Place::new();
    // A folder that everyone may use, so that the daemon has to be strict itself.
    let file = place.socket_file();
    let folder = std::path::Path::new(file.strip_prefix("unix:").unwrap()).parent().unwrap();
    std::fs::set_permissions(folder, PermissionsExt::from_mode(0o777)).unwrap();
    for at in [place.socket(), file] {
        let mut command = place.outboard(&["memory", "--listen", &at, "--capacity", "1MiB"]);
        command.uid(NOBODY).gid(NOBODY).current_dir("/");
        let mut server = Process::start_told(command);
        server.await_line(["listens at"]);
        for _ in 0..2 {
            let (code, said) = list_as(&place, SOMEBODY, &at);
            assert_eq!(code, Some(1), "{said:?}");
            let is_clear = |line: &String| line.contains("outboard: ") && line.contains(&at);
            assert!(said.iter().any(is_clear), "{said:?}");
        }
        let (code, said) = list_as(&place, NOBODY, &at);
        assert_eq!((code, said.last().map(String::as_str)), (Some(0), Some("no regions")), "{said:?}");
        // Root may come in, and is careful not to.
        let (code, said) = list_as(&place, 0, &at);
        assert!(code == Some(1) && said.iter().any(|line| line.contains("setting `users`")), "{said:?}");
        server.signal(Signal::TERM);
        assert_eq!(server.exit().0.code(), Some(0));
    }
    place.assert_nothing_left();
}
