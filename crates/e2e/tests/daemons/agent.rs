//! `outboard agent`: its settings reach it, and it tells of itself.

use std::io::{Read, Write};
use std::net::TcpStream;

use rustix::process::Signal;
use serde_json::Value;

use outboard_e2e::{Daemon, PATIENCE, Process, outboard, run_outboard, socket};

/// Looks until the agent's numbers are as wanted.
fn await_numbers(at: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let until = std::time::Instant::now() + PATIENCE;
    loop {
        let status = run_outboard(&["status", at, "--json"]).json();
        if wanted(&status[0]["numbers"]) {
            return status;
        }
        assert!(std::time::Instant::now() < until, "{status}");
    }
}

#[test]
fn it_finds_its_memory_server_and_finds_it_again() {
    let (at, memory) = (socket(), socket());
    let mut agent =
        Daemon::of(outboard(&["agent", "--listen", &at, "--memory-servers", &memory, "--workers", "1"]))
            .process;
    for life in 0..2_u32 {
        let server = Daemon::of(outboard(&["memory", "--listen", &memory])).process;
        agent.await_line("connected to memory server");
        await_numbers(&at, |numbers| numbers["memory_servers_connected"] == 1);
        server.signal(Signal::KILL);
        server.exit();
        let status = await_numbers(&at, |numbers| numbers["memory_servers_connected"] == 0);
        assert_eq!(status[0]["numbers"]["memory_servers_restarted_total"], life);
    }
    agent.signal(Signal::TERM);
    assert_eq!(agent.exit().0.code(), Some(0));
}

#[test]
fn its_numbers_are_there_for_prometheus() {
    let arguments = ["agent", "--listen", &socket(), "--memory-servers", "none", "--metrics", "127.0.0.1:0"];
    let mut agent = Daemon::of(outboard(&arguments)).process;
    let line = agent.await_line("metrics at http://");
    let address = line.rsplit_once("http://").unwrap().1.strip_suffix("/metrics").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains("clients"), "{answer}");
}

#[test]
fn it_says_what_slows_it_down() {
    let at = socket();
    let arguments =
        ["agent", "--listen", &at, "--memory-servers", "none", "--wire", "1gbit,50us", "--quota", "50%"];
    let mut agent = Process::start(outboard(&arguments));
    agent.await_line("50%");
    let line = agent.await_line("listens at");
    assert!(line.contains(&at) && line.contains("1gbit"), "{line}");
    agent.signal(Signal::TERM);
    assert_eq!(agent.exit().0.code(), Some(0));
}
