//! A memory server behind shared memory that is stopped: whoever waits for it is told who it is, whichever limit comes first.

use std::time::{Duration, Instant};

use outboard::{CallError, CallSite, Caller, CallerOptions, FunctionHandle, FunctionOptions};
use outboard_kv::{Kv, KvError, KvTable, TableAnswer, TableOptions};
use outboard_settings::LinkSettings;

use crate::servers::futures::poll_until_all_end;
use crate::world::{Daemons, caller_by, caller_of, image, link_settings, memory, outboard_at};
use outboard_e2e::PATIENCE;

/// A limit that is reached here, and one that is not.
const SHORT: Duration = Duration::from_millis(300);
const NEVER: Duration = Duration::from_secs(90);

/// A caller at the server only, whose calls may take so long, and who takes so long a silence for the end of the server.
fn caller(daemons: &Daemons, patience: Duration, deadline: Duration) -> Caller {
    let link = LinkSettings { deadline, ..link_settings() };
    let options =
        CallerOptions { under_way_max: 1024, ..CallerOptions::default().with_placement(CallSite::Server) };
    caller_of(&outboard_at(&daemons.shm()).with_link(link).with_deadline(patience), options)
}

#[track_caller]
fn assert_names(daemons: &Daemons, error: &impl std::fmt::Display) {
    let (said, server) = (error.to_string(), daemons.shm().to_string());
    assert!(said.contains("memory server") && said.contains(&server), "{said}");
}

#[test]
fn whoever_uses_a_table_is_told_which_server_does_not_answer() {
    for (patience, deadline) in [(SHORT, NEVER), (NEVER, SHORT)] {
        let daemons = Daemons::start();
        let options = TableOptions { keys: 100, ..TableOptions::default() };
        let table = KvTable::create(&mut memory(&daemons.shm()), "table", &options).unwrap();
        // What is registered may take its time.
        let mut kv = Kv::new(caller(&daemons, NEVER, deadline), &table).unwrap().with_deadline(patience);
        kv.put(b"key", b"value").unwrap();
        daemons.stop();
        let ended = [kv.put(b"key", b"other"), kv.get(b"key").map(drop), kv.delete(b"key").map(drop)];
        for error in ended.map(Result::unwrap_err) {
            let KvError::Call(call) = &error else { panic!("{error}") };
            let is_late = matches!(call, CallError::Deadline { may_have_run: true, .. });
            let is_lost = matches!(call, CallError::Lost { may_have_run: true, .. });
            assert!(if patience == SHORT { is_late } else { is_lost }, "{error}");
            assert_names(&daemons, &error);
        }
    }
}

#[test]
fn whoever_has_many_operations_under_way_is_told_of_each() {
    let daemons = Daemons::start();
    let options = TableOptions { keys: 100, ..TableOptions::default() };
    let table = KvTable::create(&mut memory(&daemons.shm()), "table", &options).unwrap();
    let mut kv = Kv::new(caller(&daemons, NEVER, SHORT), &table).unwrap();
    daemons.stop();
    for number in 0..100u64 {
        kv.begin_put(&number.to_le_bytes(), b"value").unwrap();
    }
    let until = Instant::now() + PATIENCE;
    while kv.under_way() > 0 {
        assert!(Instant::now() < until, "{} have not ended", kv.under_way());
        kv.drain(|_, answer: Result<TableAnswer<'_>, KvError>| assert_names(&daemons, &answer.unwrap_err()));
    }
}

/// Arguments of which a link has room for some.
const LONG: [u8; 8000] = [1; 8000];

fn register(caller: &mut Caller) -> FunctionHandle {
    caller.register(&image("mov r0, r2\nexit"), FunctionOptions::default()).unwrap()
}

/// Begins calls until there is no room for more.
fn begin_until_error(caller: &mut Caller, function: FunctionHandle) -> CallError {
    let until = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < until, "there is no end of room: {:?}", caller.explain());
        if let Err(error) = caller.begin(function, &LONG) {
            return error;
        }
    }
}

#[test]
fn whoever_finds_no_room_is_told_where() {
    let daemons = Daemons::start();
    let mut impatient = caller(&daemons, NEVER, NEVER);
    let function = register(&mut impatient);
    let mut impatient = impatient.with_deadline(SHORT);
    daemons.stop();
    let error = begin_until_error(&mut impatient, function);
    assert!(matches!(error, CallError::NoRoom { .. }), "{error}");
    assert_names(&daemons, &error);
}

#[test]
fn room_that_a_stopped_server_does_not_make_is_not_waited_for() {
    let daemons = Daemons::start();
    let mut patient = caller(&daemons, NEVER, SHORT);
    let function = register(&mut patient);
    daemons.stop();
    for _ in 0..2 {
        let error = begin_until_error(&mut patient, function);
        assert!(matches!(error, CallError::Lost { may_have_run: false, .. }), "{error}");
        assert_names(&daemons, &error);
    }
    while let Some(ended) = patient.poll() {
        assert_names(&daemons, &ended.result.unwrap_err());
    }
    assert_eq!(patient.under_way(), 0);
    daemons.go_on();
    // It takes what is long over first.
    let until = Instant::now() + PATIENCE;
    while patient.call_within(function, &LONG, PATIENCE).map_or(0, |reply| reply.value) != LONG.len() as u64 {
        assert!(Instant::now() < until, "it works again");
    }
}

#[test]
fn futures_that_find_no_room_at_a_stopped_server_end() {
    let daemons = Daemons::start();
    let mut blocking = caller(&daemons, NEVER, SHORT);
    let function = register(&mut blocking);
    let caller = blocking.into_async();
    daemons.stop();
    let driver = caller.driver();
    let calls = (0..400).map(|_| caller.call(function, &LONG));
    let drive = || {
        driver.drive(Duration::from_millis(10));
    };
    poll_until_all_end(calls, drive, |result| assert_names(&daemons, &result.unwrap_err()));
}

#[test]
fn an_agent_that_does_not_answer_is_named() {
    let daemons = Daemons::start();
    let agent = daemons.agent(&daemons.shm());
    let mut caller = caller_by(&daemons.shm(), &agent.shm());
    let function = register(&mut caller);
    agent.stop();
    let error = caller.call_within(function, &[], SHORT).unwrap_err();
    assert!(matches!(error, CallError::Deadline { may_have_run: true, .. }), "{error}");
    let said = error.to_string();
    assert!(said.contains("agent") && said.contains(&agent.shm().to_string()), "{said}");
}
