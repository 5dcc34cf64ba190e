//! Daemons: awaited, stopped, and never left behind.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{PATIENCE, ends};
use outboard_launch::{DaemonConfig, DaemonError, DaemonProcess, End, Piece, Quota, allowed_cpus};

/// By path, since some shells redirect to numbers below 10 only.
const READY: &str = "echo listening on 7 > /proc/self/fd/$OUTBOARD_READY_FD;";

fn script(script: &str) -> DaemonConfig {
    let args = vec!["-c".into(), script.into()];
    DaemonConfig { args, ready_within: PATIENCE, ..DaemonConfig::new("agent", "sh") }
}

/// What a daemon printed, shared with the thread that keeps it.
#[derive(Clone, Default)]
struct Printed(Arc<Mutex<Vec<String>>>);

impl Printed {
    fn sink(&self) -> impl FnMut(Piece<'_>) + Send + 'static {
        let lines = Arc::clone(&self.0);
        move |piece: Piece<'_>| {
            let text = String::from_utf8_lossy(piece.bytes);
            lines.lock().unwrap().push(format!("{}: {text}", piece.from));
        }
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

#[test]
fn a_daemon_is_there_when_it_says_so_and_stops_when_asked() {
    let printed = Printed::default();
    let wait = "exec 2> /dev/null; while :; do sleep 0.01; done";
    let text = format!("echo starting; trap 'echo stopping; exit 0' TERM; {READY} {wait}");
    let daemon = DaemonProcess::start(script(&text), printed.sink()).unwrap();
    assert_eq!((daemon.name(), daemon.ready_line()), ("agent", "listening on 7"));
    assert_eq!((daemon.end(), daemon.limit(), daemon.warning()), (None, None, None));
    let pid = daemon.pid();
    assert_eq!(daemon.stop(Duration::from_secs(600)), End::Exited { code: 0 });
    assert!(ends(pid));
    assert_eq!(printed.lines(), ["agent: starting", "agent: stopping"]);
}

#[test]
fn a_daemon_that_does_not_stop_is_killed() {
    let daemon =
        DaemonProcess::start(script(&format!("trap '' TERM; {READY} sleep 600")), |_: Piece<'_>| ()).unwrap();
    assert_eq!(daemon.stop(Duration::from_millis(20)), End::Signaled { signal: 9, core_dumped: false });
}

#[test]
fn dropping_a_daemon_kills_it_and_what_it_started() {
    let printed = Printed::default();
    let text = format!("trap '' TERM; sleep 600 & echo $!; {READY} wait");
    let daemon = DaemonProcess::start(script(&text), printed.sink()).unwrap();
    let pid = daemon.pid();
    // The line was printed before the daemon was ready, but through another pipe.
    let until = std::time::Instant::now() + PATIENCE;
    while printed.lines().is_empty() {
        assert!(std::time::Instant::now() < until);
        std::thread::yield_now();
    }
    drop(daemon);
    let child = printed.lines()[0].strip_prefix("agent: ").unwrap().parse().unwrap();
    assert!(ends(pid) && ends(child));
}

#[test]
fn a_daemon_that_dies_too_early_is_named_with_its_last_words() {
    let text = "for i in $(seq 100); do echo word $i; done; echo cannot bind >&2; exit 4";
    let error = DaemonProcess::start(script(text), |_: Piece<'_>| ()).unwrap_err();
    let message = error.to_string();
    assert!(
        message.starts_with("agent exited with code 4 before it was ready; it printed last:\n"),
        "{message}"
    );
    assert!(message.contains("\n  cannot bind") && message.contains("\n  word 100"), "{message}");
    let DaemonError::Died { last_lines, .. } = error else { panic!("{error}") };
    assert_eq!(last_lines.len(), 16);
}

#[test]
fn a_daemon_that_is_never_ready_is_killed_and_named() {
    let config = DaemonConfig { ready_within: Duration::from_millis(50), ..script("exec sleep 600") };
    let message = DaemonProcess::start(config, |_: Piece<'_>| ()).unwrap_err().to_string();
    assert_eq!(message, "agent was not ready after 50ms and was killed; it printed nothing");
    // Less than a line is not to be ready.
    let text = "printf half > /proc/self/fd/$OUTBOARD_READY_FD; exec sleep 600";
    let config = DaemonConfig { ready_within: Duration::from_millis(50), ..script(text) };
    assert!(matches!(DaemonProcess::start(config, |_: Piece<'_>| ()), Err(DaemonError::NotReady { .. })));
}

#[test]
fn a_daemon_that_ends_by_itself_is_reported() {
    let printed = Printed::default();
    let daemon =
        DaemonProcess::start(script(&format!("{READY} ulimit -c 0; kill -ABRT $$")), printed.sink()).unwrap();
    assert!(ends(daemon.pid()));
    let until = std::time::Instant::now() + PATIENCE;
    while daemon.end().is_none() {
        assert!(std::time::Instant::now() < until);
        std::thread::yield_now();
    }
    assert_eq!(daemon.stop(Duration::ZERO), End::Signaled { signal: 6, core_dumped: false });
    assert_eq!(printed.lines(), ["agent: was killed by SIGABRT"]);
}

#[test]
fn processors_environment_and_quota_are_those_given() {
    let printed = Printed::default();
    let cpu = allowed_cpus().unwrap()[0];
    let text = format!("echo $COLOUR; grep Cpus_allowed_list /proc/self/status; {READY} exec sleep 600");
    let config = DaemonConfig {
        env: vec![("COLOUR".into(), "blue".into())],
        cpus: Some(vec![cpu]),
        quota: Quota::percent(30),
        ..script(&text)
    };
    let daemon = DaemonProcess::start(config, printed.sink()).unwrap();
    let limit = daemon.limit().unwrap().to_owned();
    assert_eq!(limit.contains("control group"), daemon.warning().is_none());
    let end = daemon.stop(Duration::from_secs(600));
    assert_eq!(end, End::Signaled { signal: 15, core_dumped: false });
    assert_eq!(printed.lines(), ["agent: blue".to_owned(), format!("agent: Cpus_allowed_list:\t{cpu}")]);
    if let Some((_, group)) = limit.split_once("control group ") {
        assert!(!std::path::Path::new(group).exists());
    }
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let error =
        DaemonProcess::start(DaemonConfig::new("memory", "no-such-program"), |_: Piece<'_>| ()).unwrap_err();
    assert_eq!(error.to_string(), "cannot start memory");
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(source, "program `no-such-program` was not found in PATH");
}
