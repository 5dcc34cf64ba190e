//! `outboard graph run` as people and scripts use it.

use std::fs;

use outboard_e2e::{Ended, Folder, outboard};
use serde_json::Value;

/// Two components: a path 3 – 1 – 0 – 2 with a triangle at its end, and an edge between 6 and 7.
const GRAPH: &str = "3 1\n1 0\n0 2\n2 4\n4 5\n5 2\n6 7\n";

/// A folder with a graph in it, in which the program runs.
struct Graphs(Folder);

impl Graphs {
    fn new() -> Self {
        let graphs = Self(Folder::new());
        graphs.0.write("list.el", GRAPH);
        graphs.done(&["convert", "list.el", "small.graph", "--symmetric"]);
        graphs
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        Ended::of(outboard(&["graph"]).args(arguments).current_dir(self.0.path()))
    }

    #[track_caller]
    fn done(&self, arguments: &[&str]) -> String {
        let ended = self.run(arguments);
        assert!(ended.err.is_empty(), "no progress bar without a terminal: {ended:?}");
        ended.succeeded()
    }

    #[track_caller]
    fn json(&self, application: &str, arguments: &[&str]) -> Value {
        let text = self.done(&[&["run", application, "--json", "--graph"], arguments].concat());
        serde_json::from_str(&text).expect("the program prints JSON")
    }

    #[track_caller]
    fn refused(&self, code: i32, arguments: &[&str], part: &str) {
        self.run(&[&["run"], arguments].concat()).refused(code, part);
    }
}

#[test]
fn every_application_says_what_it_came_to() {
    let folder = Graphs::new();
    let bfs = folder.json("bfs", &["small.graph", "--source", "3"]);
    assert_eq!((&bfs["result"]["reached"], &bfs["result"]["depth"]), (&6.into(), &4.into()), "{bfs}");
    assert_eq!((&bfs["vertices"], &bfs["edges"], &bfs["symmetric"]), (&8.into(), &14.into(), &true.into()));
    let ranks = folder.json("pagerank", &["small.graph", "--iterations", "3"]);
    assert_eq!((&ranks["result"]["iterations"], &ranks["result"]["top"][0][0]), (&3.into(), &2.into()));
    assert_eq!(ranks["edges_walked"], 3 * 14);
    let radii = folder.json("radii", &["small.graph"]);
    assert_eq!((&radii["result"]["largest"], &radii["result"]["reached"]), (&4.into(), &8.into()), "{radii}");
    let bc = folder.json("bc", &["small.graph", "--source", "3"]);
    assert_eq!(bc["result"]["top"][0], serde_json::json!([1, 4.0]), "{bc}");
    let components = folder.json("components", &["small.graph"]);
    assert_eq!(
        (&components["result"]["components"], &components["result"]["largest_size"]),
        (&2.into(), &6.into())
    );
}

#[test]
fn a_table_has_the_result_and_the_time() {
    let folder = Graphs::new();
    let table = folder.done(&["run", "components", "--graph", "small.graph", "--threads", "3"]);
    for part in [
        "components on small.graph: 8 vertices, 14 edges, symmetric (image)",
        "6 vertices, with vertex 0",
        "checksum",
        "dram, 3 threads",
        "time",
    ] {
        assert!(table.contains(part), "{part}: {table}");
    }
    let help = folder.done(&["run", "--help"]);
    assert!(help.contains("Examples:") && help.contains("betweenness"), "{help}");
}

#[test]
fn results_are_the_same_for_any_number_of_threads_and_format() {
    let folder = Graphs::new();
    folder.done(&["generate", "--scale", "10", "--seed", "3", "random.graph"]);
    folder.done(&["convert", "random.graph", "random.sg"]);
    for application in ["bfs", "pagerank", "radii", "bc", "components"] {
        let one = folder.json(application, &["random.graph", "--threads", "1"]);
        let many = folder.json(application, &["random.sg", "--threads", "7"]);
        assert_eq!((&one["threads"], &many["threads"]), (&1.into(), &7.into()));
        assert!(one["result"]["checksum"].is_string());
        assert_eq!(one["result"], many["result"], "{application}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = Graphs::new();
    folder.refused(
        1,
        &["bfs", "--graph", "small.graph", "--source", "8"],
        "no vertex 8 in a graph of 8 vertices",
    );
    folder.refused(1, &["bfs", "--graph", "none.graph"], "none.graph");
    for (arguments, part) in [
        (&["sort", "--graph", "small.graph"][..], "components"),
        (&["bfs"], "--graph"),
        (&["bfs", "--graph", "small.graph", "--threads", "0"], "--threads"),
        (&["bfs", "--graph", "small.graph", "--threads", "5000"], "4096"),
        (&["bfs", "--graph", "small.graph", "--iterations", "5"], "--iterations is for pagerank"),
        (&["components", "--graph", "small.graph", "--force"], "--output"),
        (&["bfs", "--graph", "small.graph", "--memory", "disk"], "dram"),
    ] {
        folder.refused(2, arguments, part);
    }
}

#[test]
fn a_source_that_is_not_needed_is_ignored_with_a_word() {
    let folder = Graphs::new();
    let ended = folder.run(&["run", "components", "--graph", "small.graph", "--source", "1", "--json"]);
    assert!(ended.code == Some(0) && ended.err.contains("--source is ignored"), "{ended:?}");
}

#[test]
fn values_of_vertices_go_to_a_file_or_to_the_standard_output() {
    let folder = Graphs::new();
    let levels = "2\n1\n3\n0\n4\n4\n-1\n-1\n";
    let run = |output: &str| {
        folder.done(&["run", "bfs", "--graph", "small.graph", "--source", "3", "--output", output])
    };
    assert!(run("levels.txt").contains("checksum"), "the report is there as well");
    assert_eq!(fs::read_to_string(folder.0.path().join("levels.txt")).unwrap(), levels);
    assert_eq!(run("-"), levels);
    run("levels.npy");
    let array = fs::read(folder.0.path().join("levels.npy")).unwrap();
    assert!(array.starts_with(b"\x93NUMPY") && array.len() == 128 + 8 * 8, "{} bytes", array.len());
    let again = ["bfs", "--graph", "small.graph", "--source", "3", "--output", "levels.npy"];
    folder.refused(1, &again, "replace it with --force");
    folder.done(&[&["run"], &again[..], &["--force"]].concat());
    folder.refused(
        1,
        &["bfs", "--graph", "small.graph", "--output", "none/levels"],
        "cannot write to none/levels",
    );
    folder.refused(1, &["bfs", "--graph", "missing.graph", "--output", "lost.txt"], "missing.graph");
    let left: Vec<_> =
        fs::read_dir(folder.0.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("lost")), "{left:?}");
}

#[test]
fn a_repeated_run_tells_all_times() {
    let folder = Graphs::new();
    let once = folder.json("pagerank", &["small.graph"]);
    let three = folder.json("pagerank", &["small.graph", "--repeat", "3"]);
    assert_eq!(three["seconds_each"].as_array().unwrap().len(), 3);
    assert_eq!((&three["result"], &three["edges_walked"]), (&once["result"], &once["edges_walked"]));
    let table = folder.done(&["run", "pagerank", "--graph", "small.graph", "--repeat", "3"]);
    assert!(table.contains("the median of 3"), "{table}");
}
