//! `outboard characterize`: real figures of real daemons, and clear words when there are none.

use serde_json::Value;

use outboard_e2e::{Daemon, Folder, PATIENCE, Process, outboard, run_outboard, socket, socket_exists};

/// How often each party and link has been measured, for one node.
const POINTS: usize = 4 * 10;

#[test]
fn it_measures_daemons_of_its_own_and_leaves_none_behind() {
    let folder = Folder::new();
    let picture = folder.path().join("links.svg");
    let picture_name = picture.to_str().unwrap();
    let running = Process::start(outboard(&["characterize", "--quick", "--json", "--svg", picture_name]));
    let sockets = format!("-trial-{}-", running.pid());
    // It measures many things one after the other, and may be kept waiting for each.
    let (status, said) = running.exit_within(PATIENCE * 5);
    assert_eq!(status.code(), Some(0), "{said:?}");
    let json: Value = serde_json::from_str(said.last().unwrap()).unwrap();
    let measurements = json["measurements"].as_array().unwrap();
    for (party, link) in
        [("agent", "shm"), ("agent", "tcp"), ("memory_server", "shm"), ("memory_server", "tcp")]
    {
        let of_leg: Vec<&Value> =
            measurements.iter().filter(|one| one["party"] == party && one["link"] == link).collect();
        assert!(
            !of_leg.is_empty() && of_leg.len().is_multiple_of(POINTS),
            "{party} {link}: {}",
            of_leg.len()
        );
        for one in of_leg {
            assert!(one["bandwidth_bytes_per_s"].as_f64().unwrap() > 0.0, "{one}");
            assert!(one["latency_p50_ns"].as_f64().unwrap() > 0.0, "{one}");
        }
    }
    let conclusions = &json["conclusions"];
    for (kind, count) in [("chunks", 4), ("protocols", 8), ("caching", 4)] {
        assert_eq!(conclusions[kind].as_array().unwrap().len(), count, "{kind}: {conclusions}");
    }
    assert_eq!(json["agent_at_work"], Value::Null, "it has just been started");
    let drawn = std::fs::read_to_string(&picture).unwrap();
    assert!(drawn.starts_with("<svg ") && drawn.trim_end().ends_with("</svg>"), "{drawn}");
    assert_eq!(drawn.matches("<polyline").count(), 4 * 2 * 4);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "only the picture");
    assert!(!socket_exists(&sockets));
}

#[test]
fn people_get_tables_and_what_follows_for_the_daemons_they_name() {
    let place = socket();
    let _memory = Daemon::of(outboard(&["memory", "--listen", &place, "--capacity", "16MiB"])).process;
    let text = run_outboard(&["characterize", "--quick", "--memory", &place]).succeeded();
    for part in
        ["application – memory server over shm", "read ←", "send →", "2 MiB", "chunk size, memory server"]
    {
        assert!(text.contains(part), "“{part}” is not in {text}");
    }
    assert!(!text.contains("agent over"), "{text}");
}

#[test]
fn wrong_input_is_told_before_anything_is_measured() {
    run_outboard(&["characterize", "--agent", "nowhere"]).failed(2, &["--agent", "nowhere"]);
    let nobody = socket();
    run_outboard(&["characterize", "--agent", &nobody]).failed(1, &[&nobody, "cannot be characterised"]);
    let place = socket();
    let _memory = Daemon::of(outboard(&["memory", "--listen", &place, "--capacity", "16MiB"])).process;
    run_outboard(&["characterize", "--agent", &place]).failed(1, &["memory server", &place, "is no agent"]);
    let folder = Folder::new();
    let here = folder.path().to_str().unwrap();
    run_outboard(&["characterize", "--svg", here]).failed(1, &["--svg", "folder"]);
    let missing = folder.path().join("no/such/links.svg");
    run_outboard(&["characterize", "--svg", missing.to_str().unwrap()])
        .failed(1, &["--svg", "no file can be made"]);
}
