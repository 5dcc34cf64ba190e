//! A server that hangs while calls wait to go on there: they end, and are in nobody's way until then.

use std::time::{Duration, Instant};

use outboard::{CallError, CallSite, Caller, CallerOptions, FunctionHandle, NoRoomBecause};
use outboard_settings::LinkSettings;

use super::Place;
use super::futures::{poll_until_all_end, poll_until_ready};
use crate::world::{COUNT, caller_with, image, link_settings, outboard_at};
use outboard_e2e::PATIENCE;

/// Goes on as function 0 of server 1, with its arguments.
const PASS_ON: &str = "
    mov r3, r1
    mov r4, r2
    mov r1, 1
    mov r2, 0
    call forward_to
    exit";

/// After how long a server that takes nothing is given up: nobody waits for it here to be anything but silent.
const GIVEN_UP: Duration = Duration::from_millis(400);

struct Scene {
    caller: Caller,
    pass_on: FunctionHandle,
    /// At the first server only.
    count: FunctionHandle,
    places: [Place; 2],
}

impl Scene {
    /// Two servers, of which the second may be silent for so long.
    fn new(deadline: Duration) -> Self {
        let places = [Place::new(), Place::new()];
        let [one, other] = places.each_ref().map(|place| place.daemons.shm());
        let at_server = || CallerOptions::default().with_placement(CallSite::Server);
        let mut caller = caller_with(&one, at_server());
        let link = LinkSettings { deadline, ..link_settings() };
        let server = caller.open_server(&outboard_at(&other).with_link(link), at_server()).unwrap();
        let pass_on = caller.register(&image(PASS_ON), places[0].options()).unwrap();
        let count = caller.register(&image(COUNT), places[0].options()).unwrap();
        caller.register_at(server, &image("mov r0, r2\nexit"), places[1].options()).unwrap();
        assert_eq!(caller.call(pass_on, &[1; 100]).unwrap().value, 100);
        Self { caller, pass_on, count, places }
    }
}

fn assert_given_up(error: &CallError) {
    assert!(matches!(error, CallError::Lost { may_have_run: true, .. }), "{error}");
}

#[test]
fn calls_that_find_no_room_at_a_hung_server_end_as_those_that_do() {
    let Scene { mut caller, pass_on, count, places } = Scene::new(GIVEN_UP);
    for (calls, length) in [(120, 8000), (1000, 2000)] {
        places[1].daemons.stop();
        for _ in 0..calls {
            caller.begin(pass_on, &vec![1; length]).unwrap();
        }
        for _ in 0..calls {
            let ended = caller.wait(PATIENCE).expect("it ends");
            assert_given_up(&ended.result.unwrap_err());
        }
        assert_eq!(caller.under_way(), 0);
        assert!(caller.call(count, &1u64.to_le_bytes()).is_ok(), "the other works");
        places[1].daemons.go_on();
        // It takes what is long over first, and is silent meanwhile.
        let until = Instant::now() + PATIENCE;
        while caller.call(pass_on, &[1; 100]).map_or(0, |reply| reply.value) != 100 {
            assert!(Instant::now() < until, "it works again");
        }
    }
}

#[test]
fn whoever_waits_for_a_hung_server_keeps_nobody_from_others() {
    let Scene { caller, pass_on, count, places } = Scene::new(10 * PATIENCE);
    places[1].daemons.stop();
    let mut caller = caller.with_deadline(Duration::from_millis(50));
    let (until, mut begun) = (Instant::now() + PATIENCE, 0);
    let error = loop {
        assert!(Instant::now() < until, "there is no end of room: {:?}", caller.explain());
        match caller.begin(pass_on, &[1; 2000]) {
            Ok(_) => begun += 1,
            Err(error @ CallError::NoRoom { why: NoRoomBecause::Crossing { server: 1, .. }, .. }) => {
                break error;
            }
            // The first server has much to do.
            Err(error) => assert!(matches!(error, CallError::NoRoom { .. }), "{error}"),
        }
    };
    assert!(error.to_string().contains("wait to go on at memory server 1"), "{error}");
    let explained = caller.explain();
    assert!(explained.iter().any(|line| line.ends_with("calls wait to go on here")), "{explained:?}");
    let mut caller = caller.with_deadline(PATIENCE);
    assert!(caller.call(count, &1u64.to_le_bytes()).is_ok());
    assert_eq!(caller.under_way(), begun, "nobody has ended");
    places[1].daemons.go_on();
    for _ in 0..begun {
        assert_eq!(caller.wait(PATIENCE).expect("it ends").result.unwrap().value, 2000);
    }
    assert_eq!(caller.call(pass_on, &[1; 100]).unwrap().value, 100);
}

#[test]
fn futures_that_find_no_room_at_a_hung_server_end() {
    let Scene { caller, pass_on, count, places } = Scene::new(GIVEN_UP);
    let caller = caller.into_async();
    places[1].daemons.stop();
    let driver = caller.driver();
    let drive = || {
        driver.drive(Duration::from_millis(10));
    };
    let calls = (0..120).map(|_| caller.call(pass_on, &[1; 8000]));
    poll_until_all_end(calls, drive, |result| assert_given_up(&result.unwrap_err()));
    assert!(poll_until_ready(caller.call(count, &1u64.to_le_bytes()), drive).is_ok());
}
