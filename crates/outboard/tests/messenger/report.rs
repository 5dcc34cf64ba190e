//! The reports of ranks about themselves to other programs.

use serde_json::Value;

use crate::processes::{Act, Part};
use crate::team::Way;

/// Sends a message to each rank and comes to the end.
pub(crate) fn act(part: Part) {
    let (_job, messenger) = part.team().join(part.rank);
    let mut messenger = messenger.unwrap();
    (0..part.ranks).for_each(|rank| messenger.send(rank, &[7; 100]).unwrap());
    let mut heard = 0;
    messenger.quiesce(0, |_, _, _| heard += 1).unwrap();
    assert_eq!(heard, part.ranks);
}

#[test]
fn ranks_report_what_they_have_moved() {
    let folder = std::env::temp_dir().join(format!("outboard-report-{}", std::process::id()));
    let parts = Part::all(Act::SendALittle, 3, Way::Shm, 0);
    let start = |part: Part| part.start(&[("OUTBOARD_REPORT", &folder)]);
    let mut ranks: Vec<_> = parts.into_iter().map(start).collect();
    assert!(ranks.iter_mut().all(|rank| rank.exit().success()));
    for rank in 0..3 {
        let text = std::fs::read(folder.join(format!("rank-{rank}.json"))).unwrap();
        let report: Value = serde_json::from_slice(&text).unwrap();
        let numbers =
            ["rank", "ranks", "bundle_bytes", "own_bundles", "own_bytes", "direct_bundles", "direct_bytes"];
        let numbers = numbers.map(|name| report[name].as_u64().unwrap());
        assert_eq!(numbers, [rank, 3, 1024, 1, 104, 2, 208], "{report}");
        assert_eq!((&report["placement"], &report["is_over"]), (&"inline".into(), &true.into()));
        assert!(report["seconds"].as_f64() > report["waited_seconds"].as_f64(), "{report}");
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 3, "nothing else is left");
    std::fs::remove_dir_all(folder).unwrap();
}
