//! `outboard advise` as people and scripts use it.

use outboard_e2e::{Ended, run_outboard};
use serde_json::Value;

fn advise(arguments: &[&str]) -> Ended {
    run_outboard(&[&["advise"], arguments].concat())
}

#[track_caller]
fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&advise(&[&["--json"], arguments].concat()).succeeded())
        .expect("the program prints JSON")
}

/// A program that says it handled so many bytes in a second with either placement.
fn program(inline: u32, agent: u32) -> String {
    format!(
        r#"
        case $OUTBOARD_MESSAGES_PLACEMENT in
            inline) rate={inline} ;;
            agent) rate={agent}; [ -n "$OUTBOARD_JOB_AGENT" ] || exit 9 ;;
        esac
        echo "{{\"placement\":\"$OUTBOARD_MESSAGES_PLACEMENT\",\"seconds\":1.0,\"bytes_sent\":$rate,\
        \"bytes_handled\":$rate,\"waited_seconds\":0.5,\"direct_bundles\":2,\"direct_bytes\":$rate}}" \
            > $OUTBOARD_REPORT/rank-0.json
        "#
    )
}

#[test]
fn the_faster_placement_is_advised() {
    for (inline, agent, best) in [(1000, 3000, "agent"), (3000, 1000, "inline"), (1000, 1001, "inline")] {
        let advice = json(&["--", "sh", "-c", &program(inline, agent)]);
        assert_eq!(advice["use"], best, "{advice}");
        let gain = advice["agent_over_inline"].as_f64().unwrap_or_default();
        assert!((gain - f64::from(agent) / f64::from(inline)).abs() < 1e-6, "{advice}");
        let [one, other] = [0, 1].map(|at| &advice["placements"][at]);
        assert_eq!((&one["placement"], &other["placement"]), (&"inline".into(), &"agent".into()));
        assert_eq!((&one["bytes_handled"], &one["waited"]), (&inline.into(), &0.5.into()));
        assert_eq!(one["hops"][0]["average"], inline / 2);
        assert_eq!((&one["runs"], &one["was_cut"]), (&3.into(), &false.into()));
    }
}

#[test]
fn a_program_without_end_is_ended_and_judged_by_how_far_it_came() {
    let endless = program(1000, 2000) + "exec sleep 1000";
    let advice = json(&["--seconds", "3", "--", "sh", "-c", &endless]);
    assert_eq!(
        (&advice["use"], &advice["placements"][0]["was_cut"]),
        (&"agent".into(), &true.into()),
        "{advice}"
    );
    assert_eq!(advice["placements"][0]["runs"], 1);
}

#[test]
fn a_placement_that_fails_is_not_advised() {
    let failing =
        program(1000, 2000) + "[ $OUTBOARD_MESSAGES_PLACEMENT = inline ] || { echo no way >&2; exit 3; }";
    let advice = json(&["--", "sh", "-c", &failing]);
    assert_eq!(advice["use"], "inline");
    let why = advice["why"].to_string();
    assert!(why.contains("exited with code 3") && why.contains("no way"), "{why}");
}

#[test]
fn programs_that_say_nothing_or_fail_have_no_advice() {
    for (script, part) in [("true", "has not used a Messenger"), ("echo broken >&2; exit 4", "broken")] {
        let ended = advise(&["--", "sh", "-c", script]);
        let message = ended.err;
        assert_eq!(ended.code, Some(1), "{message}");
        assert!(message.starts_with("outboard: ") && message.contains(part), "{message}");
    }
    assert_eq!(advise(&["--seconds", "0", "--", "true"]).code, Some(2));
}

#[test]
fn an_application_tells_what_it_fetches_and_sends() {
    let own = outboard_e2e::program();
    let app = [own, "app", "histogram", "--updates", "50K", "--table", "1Ki", "--config", "none"];
    let advice = json(&[&["--"], &app[..]].concat());
    let inline = &advice["placements"][0];
    assert_eq!((&inline["placement"], &inline["ranks"]), (&"inline".into(), &2.into()), "{advice}");
    assert!(inline["bytes_per_second"].as_f64().is_some_and(|rate| rate > 0.0), "{advice}");
    assert!(inline["network_utilisation"].as_f64().is_some_and(|share| share > 0.0), "{advice}");
    assert_eq!(advice["memory_is_measured"].is_null(), advice["memory_to_communication"].is_null());
    let table = advise(&[&["--"], &app[..]].concat()).out;
    for part in ["placement", "inline", "agent", "memory to communication", "\nuse "] {
        assert!(table.contains(part), "{part}: {table}");
    }
}
