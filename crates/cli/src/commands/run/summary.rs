//! The end of a job, for programs.

use std::time::Duration;

use outboard_launch::{End, JobOutcome, RankEnd, signal_name};
use outboard_wire::JobId;
use serde_json::{Value, json};

/// One object in one line.
pub(super) fn to_json(id: JobId, outcome: &JobOutcome, agent: Value, took: Duration) -> String {
    let ranks: Vec<Value> = (outcome.first..).zip(&outcome.ranks).map(rank).collect();
    json!({
        "job": format!("{:016x}", id.0),
        "success": outcome.is_success(),
        "failed_rank": outcome.first_failure.map(|failure| failure.rank),
        "interrupted_by": outcome.interrupted_by.map(signal_name),
        "seconds": took.as_secs_f64(),
        "agent": agent,
        "ranks": ranks,
    })
    .to_string()
}

fn rank((number, rank): (u32, &RankEnd)) -> Value {
    let (code, signal) = match rank.end {
        End::Exited { code } => (Some(code), None),
        End::Signaled { signal, .. } => (None, Some(signal_name(signal))),
        End::Stuck | End::Lost => (None, None),
    };
    json!({
        "rank": number, "end": rank.end.to_string(), "code": code, "signal": signal,
        "ended_with_the_job": rank.asked, "killed": rank.killed,
    })
}

#[cfg(test)]
mod tests {
    use outboard_launch::RankFailure;

    use super::*;

    #[test]
    fn programs_learn_which_rank_failed_and_how() {
        let end = End::Signaled { signal: 9, core_dumped: false };
        let done = RankEnd { end: End::Exited { code: 0 }, asked: true, killed: false };
        let outcome = JobOutcome {
            first: 0,
            ranks: vec![done, RankEnd { end, asked: false, killed: false }],
            first_failure: Some(RankFailure { rank: 1, end }),
            interrupted_by: None,
        };
        let text = to_json(JobId(7), &outcome, Value::Null, Duration::from_millis(1500));
        let json: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&json["success"], &json["failed_rank"]), (&json!(false), &json!(1)));
        assert_eq!((&json["ranks"][1]["signal"], &json["ranks"][0]["code"]), (&json!("SIGKILL"), &json!(0)));
        assert_eq!((&json["seconds"], &json["job"]), (&json!(1.5), &json!("0000000000000007")));
    }
}
