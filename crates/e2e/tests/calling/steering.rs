//! Slots that move between a memory server and an agent while calls are made.

use std::time::{Duration, Instant};

use outboard::{CallSite, Caller, CallerOptions, FarRegion, FunctionHandle, FunctionOptions, Rights};

use crate::world::{Daemons, caller_of, caller_with, image, memory, outboard_at};
use outboard_e2e::{PATIENCE, outboard};

/// Adds one to a word of the first region.
const ADD: &str = "
    mov r1, 0
    mov r2, 16
    mov r3, 1
    call region_fetch_add
    mov r0, 7
    exit";

/// How long a daemon hangs, and how long it runs in between.
const HANGS: Duration = Duration::from_millis(40);
const RUNS: Duration = Duration::from_millis(4);

/// Calls for all kinds of keys.
struct Load {
    caller: Caller,
    add: FunctionHandle,
    key: u64,
    done: u64,
}

impl Load {
    fn new(mut caller: Caller, region: &FarRegion) -> Self {
        let options = FunctionOptions::default().with_region(region, Rights::ALL);
        let add = caller.register(&image(ADD), options).unwrap();
        Self { caller: caller.with_deadline(RUNS), add, key: 0, done: 0 }
    }

    /// Calls for a while.
    fn call_for(&mut self, span: Duration) {
        let until = Instant::now() + span;
        while Instant::now() < until {
            while self.caller.under_way() < 32 {
                self.key += 1;
                self.caller.begin_keyed(self.add, &self.key.to_le_bytes(), &[]).unwrap();
            }
            let done = &mut self.done;
            self.caller.drain(|_, result| {
                assert_eq!(result.unwrap().0, 7);
                *done += 1;
            });
        }
    }

    fn slots(&self, site: CallSite) -> usize {
        self.caller.slots()[site as usize]
    }

    /// Calls until a site has answered a call by which it was probed.
    fn call_until_probed(&mut self, site: CallSite) {
        let until = Instant::now() + PATIENCE;
        while self.caller.sites()[site as usize].answered == 0 {
            assert!(Instant::now() < until, "{:#?}", self.caller.explain());
            self.call_for(RUNS);
        }
    }

    /// Calls until a site has slots, while another daemon hangs again and again.
    fn call_until(&mut self, site: CallSite, slots: usize, hanging: &Daemons) {
        let until = Instant::now() + PATIENCE;
        while self.slots(site) < slots {
            assert!(Instant::now() < until, "{:#?}", self.caller.explain());
            hanging.stop();
            self.call_for(HANGS);
            hanging.go_on();
            self.call_for(RUNS);
        }
    }
}

#[test]
fn slots_leave_a_daemon_that_hangs_again_and_again_and_every_call_runs_once() {
    let daemons = Daemons::start();
    let agent = daemons.agent(&daemons.shm());
    let mut memory = memory(&daemons.shm());
    let region = memory.reserve(4096, None).unwrap();
    let caller = caller_of(&outboard_at(&daemons.shm()).with_agent(agent.shm()), CallerOptions::default());
    let mut load = Load::new(caller, &region);
    load.call_until_probed(CallSite::Agent);
    load.call_until(CallSite::Agent, 200, &daemons);
    load.call_until(CallSite::Server, 200, &agent);
    assert!(load.caller.explain_key(b"any")[0].contains("by the server's table of epoch"));
    while load.caller.under_way() > 0 {
        load.caller.wait(PATIENCE).expect("it ends").result.unwrap();
        load.done += 1;
    }
    assert_eq!(memory.fetch_add(&region, 16, 0).unwrap(), load.done);
}

#[test]
fn calls_are_moved_to_an_application_that_says_so() {
    let daemons = Daemons::start();
    let mut memory = memory(&daemons.shm());
    let region = memory.reserve(4096, None).unwrap();
    let mut load =
        Load::new(caller_with(&daemons.shm(), CallerOptions::default().with_calls_here()), &region);
    load.call_until_probed(CallSite::Application);
    load.call_until(CallSite::Application, 200, &daemons);
    while load.caller.under_way() > 0 {
        load.caller.wait(PATIENCE).expect("it ends").result.unwrap();
        load.done += 1;
    }
    assert!(load.caller.sites()[CallSite::Application as usize].answered > 0);
    assert_eq!(memory.fetch_add(&region, 16, 0).unwrap(), load.done);
}

#[test]
fn a_server_that_is_opened_later_may_move_calls_to_the_application_as_well() {
    let daemons = [Daemons::start(), Daemons::start()];
    let mut memory = memory(&daemons[1].shm());
    let region = memory.reserve(4096, None).unwrap();
    let mut caller = caller_with(&daemons[0].shm(), CallerOptions::default().with_calls_here());
    let there = daemons[1].shm();
    let server = caller.open_server(&outboard_at(&there), CallerOptions::default()).unwrap();
    let options = FunctionOptions::default().with_region(&region, Rights::ALL);
    let add = caller.register_at(server, &image(ADD), options).unwrap();
    let mut load = Load { caller: caller.with_deadline(RUNS), add, key: 0, done: 0 };
    // There are calls at the second only, so that it is the one that has moved slots.
    let has_slots = |line: &String| line.starts_with("application: ") && !line.contains(": 0 slots");
    let until = Instant::now() + PATIENCE;
    while !load.caller.explain().iter().any(has_slots) {
        assert!(Instant::now() < until, "{:#?}", load.caller.explain());
        daemons[1].stop();
        load.call_for(HANGS);
        daemons[1].go_on();
        load.call_for(RUNS);
    }
    while load.caller.under_way() > 0 {
        load.caller.wait(PATIENCE).expect("it ends").result.unwrap();
        load.done += 1;
    }
    assert_eq!(memory.fetch_add(&region, 16, 0).unwrap(), load.done, "each once");
}

#[test]
fn commands_say_where_calls_run_and_status_where_slots_are() {
    let server = Daemons::by(&["kv", "serve", "--keys", "100"]);
    let run = |arguments: &[&str]| {
        let output = outboard(arguments).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        (text(output.stdout), text(output.stderr))
    };
    let at = ["--server", &server.shm().to_string()];
    run(&[&["kv", "put", "greeting", "hello"], &at[..]].concat());
    let (value, why) = run(&[&["kv", "get", "greeting", "--explain"], &at[..]].concat());
    assert_eq!(value, "hello\n");
    assert!(why.starts_with("server: slot ") && why.contains("by the server's table of epoch 0"), "{why}");
    assert!(why.contains("server: 256 slots, 1 calls answered"), "{why}");
    let (status, _) = run(&["status", "--all", &server.shm().to_string()]);
    assert!(status.contains("slots: 256 at server, epoch 0"), "{status}");
}
