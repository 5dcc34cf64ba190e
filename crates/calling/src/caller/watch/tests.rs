use super::*;

fn at(micros: u64) -> Time {
    Time::ZERO + Duration::from_micros(micros)
}

const SERVER: usize = Site::Server as usize;

/// Looks at the clock every 100 µs, and says when the server became silent.
fn silent_at(watch: &mut Watch, from: u64, until: u64) -> Option<u64> {
    (from..=until).step_by(100).find(|micros| watch.look(at(*micros))[SERVER])
}

/// One call that takes so long.
fn call(watch: &mut Watch, number: u64, from: u64, micros: u64) {
    watch.begun(Site::Server, number);
    for now in (from..from + micros).step_by(100) {
        watch.look(at(now));
    }
    watch.heard(Site::Server, at(from + micros));
    watch.ended(Site::Server, number, Some(at(from + micros)));
    watch.look(at(from + micros));
}

/// A server that answers in 50 µs.
fn usual() -> Watch {
    let mut watch = Watch::default();
    call(&mut watch, 0, 0, 50);
    watch
}

#[test]
fn a_site_is_silent_that_has_something_to_answer_and_does_not() {
    let mut watch = Watch::default();
    assert_eq!(watch.look(at(0)), [false; 3]);
    watch.look(at(99_900));
    watch.begun(Site::Server, 1);
    assert_eq!(silent_at(&mut watch, 100_000, 110_000), Some(105_000), "it began only at 100 ms");
    assert_eq!(silent_at(&mut watch, 105_100, 110_000), None, "told once");
    assert!(watch.is_silent(Site::Server) && !watch.is_useless(Site::Server, at(110_000)));
    assert!(watch.is_useless(Site::Server, at(151_000)));
    watch.heard(Site::Server, at(110_000));
    watch.ended(Site::Server, 1, Some(at(110_000)));
    assert!(!watch.is_silent(Site::Server));
    let report = watch.report(Site::Server);
    assert_eq!((report.round_trip, report.detours), (Duration::from_millis(10), 1));
    watch.look(at(110_000));
    watch.begun(Site::Server, 2);
    assert_eq!(silent_at(&mut watch, 110_100, 250_000), Some(190_100), "answers take long here");
}

#[test]
fn who_did_not_listen_does_not_know_who_is_silent() {
    let mut watch = usual();
    watch.begun(Site::Server, 1);
    watch.look(at(100));
    assert!(!watch.look(at(9_000))[SERVER], "it was away for 9 ms");
    assert_eq!(silent_at(&mut watch, 9_100, 20_000), Some(9_300), "half of the patience was used up");
    watch.forgive();
    watch.look(at(9_600));
    // A caller that sleeps until it may be silent wakes up twice.
    let due = watch.next_deadline().unwrap();
    assert!(!watch.look(due)[SERVER]);
    assert!(watch.look(watch.next_deadline().unwrap())[SERVER]);
}

#[test]
fn a_site_that_falls_silent_again_and_again_is_left_alone_for_longer() {
    let mut watch = usual();
    let (mut now, mut holds) = (100, Vec::new());
    for number in 1..=8 {
        watch.begun(Site::Server, number);
        now = silent_at(&mut watch, now, now + 5_000).unwrap() + 100;
        // It answers, and has nothing to answer any more.
        watch.heard(Site::Server, at(now));
        watch.ended(Site::Server, number, None);
        let left_at = now;
        while watch.is_silent(Site::Server) {
            now += 100;
            watch.look(at(now));
        }
        holds.push((now - left_at).div_ceil(1_000));
    }
    assert_eq!(holds, [0, 1, 2, 4, 8, 8, 8, 8]);
    (10..40).for_each(|number| call(&mut watch, number, now + number * 200, 100));
    watch.begun(Site::Server, 99);
    now = silent_at(&mut watch, now + 8_200, now + 20_000).unwrap();
    watch.heard(Site::Server, at(now + 100));
    assert!(!watch.is_silent(Site::Server), "it was well for a while");
}

#[test]
fn an_answer_that_was_kept_back_for_long_does_not_change_what_is_usual() {
    let mut watch = Watch::default();
    (0..20).for_each(|number| call(&mut watch, number, number * 100, 50));
    call(&mut watch, 20, 2_000, 9_000);
    assert!(watch.report(Site::Server).round_trip < Duration::from_micros(60));
    (0..100).for_each(|number| call(&mut watch, 21 + number, 20_000 + number * 500, 400));
    assert!(watch.report(Site::Server).round_trip > Duration::from_micros(300), "it has become slower");
}

#[test]
fn what_went_elsewhere_is_told_with_how_long_it_had_waited() {
    let mut watch = usual();
    watch.take_seen(Site::Server, true, at(50));
    (1..=3).for_each(|number| watch.begun(Site::Server, number));
    assert_eq!(silent_at(&mut watch, 100, 5_000), Some(600));
    for number in 1..=3 {
        watch.left(Site::Server, at(600));
        watch.ended(Site::Server, number, None);
    }
    let seen = watch.take_seen(Site::Server, true, at(600));
    assert_eq!((seen.calls, seen.left, seen.left_ns, seen.oldest_ns), (0, 3, 1_500_000, 0));
    let again = watch.take_seen(Site::Server, true, at(600));
    assert_eq!((again.left, again.left_ns), (0, 0));
}

#[test]
fn a_site_without_calls_is_probed_now_and_then_and_the_more_rarely_the_slower_it_is() {
    let mut watch = Watch::default();
    let agent = Site::Agent;
    assert!(watch.is_probe_due(at(0)) && watch.wants_probe(agent, true, at(0)));
    watch.probe_begun(agent, 7, false, at(0));
    watch.look(at(0));
    assert!(!watch.wants_probe(agent, true, at(500_000)), "one at a time");
    watch.probe_answered(agent, 6, || at(50));
    watch.probe_answered(agent, 7, || at(100));
    let seen = watch.take_seen(agent, true, at(100));
    assert_eq!((seen.calls, seen.round_trips_ns), (1, 100_000));
    assert!(!watch.wants_probe(agent, true, at(4_000)) && watch.wants_probe(agent, true, at(4_100)));
    assert!(!watch.wants_probe(agent, false, at(4_100)), "the program waits for a call that may write");
    assert!(watch.wants_probe(agent, false, at(40_000)));
    watch.begun(agent, 8);
    assert!(!watch.wants_probe(agent, true, at(40_000)), "its calls tell enough");
    watch.ended(agent, 8, None);
    watch.probe_begun(agent, 9, false, at(100_000));
    watch.look(at(100_000));
    let seen = watch.take_seen(agent, true, at(600_000));
    assert_eq!((seen.calls, seen.oldest_ns), (0, 500_000_000), "no answer is also something");
    watch.look(at(1_200_000));
    assert!(watch.wants_probe(agent, true, at(1_200_000)), "it may have been lost");
}

#[test]
fn a_site_that_was_given_up_is_silent_however_slow_it_is_and_until_it_is_heard() {
    let mut watch = Watch::default();
    call(&mut watch, 0, 0, 100_000);
    watch.begun(Site::Server, 1);
    assert_eq!(silent_at(&mut watch, 100_100, 400_000), None, "it may take 800 ms");
    watch.given_up(Site::Server, at(400_000));
    watch.ended(Site::Server, 1, None);
    assert_eq!(silent_at(&mut watch, 400_100, 500_000), None);
    assert!(watch.is_silent(Site::Server));
    watch.heard(Site::Server, at(500_000));
    assert!(!watch.is_silent(Site::Server));
}
