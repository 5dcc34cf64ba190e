//! `outboard graph` as people and scripts use it.

use std::fs;
use std::process::{Command, Stdio};

use outboard_e2e::{Ended, Folder, outboard};
use serde_json::Value;

/// An empty folder in which the program runs.
#[derive(Default)]
struct Graphs(Folder);

impl Graphs {
    fn file(&self, name: &str, text: &str) {
        self.0.write(name, text);
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = outboard(&["graph"]);
        command.args(arguments).current_dir(self.0.path());
        command
    }

    #[track_caller]
    fn done(&self, arguments: &[&str]) -> String {
        let ended = Ended::of(&mut self.command(arguments));
        assert!(ended.err.is_empty(), "no progress bar without a terminal: {ended:?}");
        ended.succeeded()
    }

    #[track_caller]
    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.done(&[arguments, &["--json"]].concat())).expect("the program prints JSON")
    }

    #[track_caller]
    fn refused(&self, code: i32, arguments: &[&str], part: &str) {
        Ended::of(&mut self.command(arguments)).refused(code, part);
    }
}

#[test]
fn help_has_examples_and_formats() {
    let folder = Graphs::default();
    for command in [&["--help"][..], &["generate", "--help"], &["convert", "--help"], &["info", "--help"]] {
        assert!(folder.done(command).contains("Examples:"), "{command:?}");
    }
    let help = folder.done(&["--help"]);
    for format in ["image", "snap", "matrix-market", "ligra", "ligra-binary", "el", "sg"] {
        assert!(help.contains(format), "{format}: {help}");
    }
}

#[test]
fn the_same_seed_makes_the_same_graph() {
    let folder = Graphs::default();
    let make = |name: &str, more: &[&str]| {
        folder.json(&[&["generate", "--scale", "8", "--degree", "4", name], more].concat())
    };
    let first = make("first.el", &[]);
    assert_eq!((&first["vertices"], &first["edges"]), (&256.into(), &1024.into()));
    assert_eq!((&first["format"], &first["symmetric"]), (&"el".into(), &false.into()));
    make("again.el", &["--seed", "1", "--kind", "rmat", "--skew", "0.57,0.19,0.19"]);
    make("other.el", &["--seed", "2"]);
    let read = |name: &str| fs::read(folder.0.path().join(name)).unwrap();
    assert_eq!(read("first.el"), read("again.el"));
    assert_ne!(read("first.el"), read("other.el"));
    make("permuted.el", &["--permute"]);
    assert_ne!(read("first.el"), read("permuted.el"));

    let even = make("even.graph", &["--kind", "uniform", "--symmetric"]);
    assert_eq!(even["symmetric"], true);
    let simple = make("simple.graph", &["--kind", "uniform", "--symmetric", "--simple"]);
    assert!(simple["edges"].as_u64() < even["edges"].as_u64());
    let said = folder.done(&["generate", "--scale", "3", "tiny.graph"]);
    assert!(said.starts_with("wrote tiny.graph: 8 vertices, 128 edges, directed (image), in "), "{said}");
}

#[test]
fn a_graph_goes_round_through_all_formats() {
    let folder = Graphs::default();
    let made = folder.json(&["generate", "--scale", "9", "--degree", "3", "begin.graph"]);
    let files = ["a.txt", "b.mtx", "c.adj", "d.config", "e.sg", "f.el", "end.graph"];
    let mut from = "begin.graph";
    for to in files {
        let converted = folder.json(&["convert", from, to]);
        assert_eq!(converted["edges"], made["edges"], "{to}");
        from = to;
    }
    for array in ["out.targets", "in.targets"] {
        let read = |name: &str| fs::read(folder.0.path().join(name).join(array)).unwrap();
        assert_eq!(read("begin.graph"), read("end.graph"), "{array}");
    }
    let info = folder.json(&["info", "begin.graph"]);
    assert_eq!(info["vertices"], 512);
    let arrays = info["arrays"].as_array().unwrap();
    assert_eq!(arrays.len(), 4);
    for array in arrays {
        let file = folder.0.path().join("begin.graph").join(array["name"].as_str().unwrap());
        assert_eq!(array["size_bytes"], fs::metadata(file).unwrap().len());
    }
}

#[test]
fn converted_graphs_are_cleaned_when_asked() {
    let folder = Graphs::default();
    folder.file("list.txt", "# hi\n5 5\n5 9\n5 9\n9 12 0.5\n");
    let plain = folder.json(&["convert", "list.txt", "plain.graph"]);
    assert_eq!((&plain["vertices"], &plain["edges"]), (&3.into(), &4.into()));
    let notes = plain["notes"].to_string();
    assert!(notes.contains("columns") && notes.contains("12"), "{notes}");
    let both = folder.json(&["convert", "list.txt", "both.graph", "--symmetric"]);
    assert_eq!((&both["edges"], &both["symmetric"]), (&7.into(), &true.into()));
    let simple = folder.json(&["convert", "list.txt", "simple.graph", "--symmetric", "--simple"]);
    assert_eq!((&simple["edges"], &simple["out_degree_max"]), (&4.into(), &2.into()));
    let said = folder.done(&["convert", "list.txt", "said.el"]);
    assert!(said.contains("note: "), "{said}");
    let table = folder.done(&["info", "plain.graph"]);
    for part in ["3 vertices, 4 edges, directed (image)", "out.offsets", "32 B", "in.targets", "16 B"] {
        assert!(table.contains(part), "{part}: {table}");
    }
}

#[test]
fn a_pipe_is_converted_like_a_file() {
    let folder = Graphs::default();
    folder.file("list.txt", "0 1\n1 2\n");
    let list = fs::File::open(folder.0.path().join("list.txt")).unwrap();
    let mut cat = Command::new("cat").stdin(list).stdout(Stdio::piped()).spawn().unwrap();
    let mut convert = folder.command(&["convert", "--from", "snap", "/dev/stdin", "list.graph"]);
    let status = convert.stdin(cat.stdout.take().unwrap()).stdout(Stdio::null()).status().unwrap();
    assert!(cat.wait().unwrap().success() && status.success());
    assert_eq!(folder.json(&["info", "list.graph"])["edges"], 2);
}

#[test]
fn nothing_is_replaced_without_force() {
    let folder = Graphs::default();
    folder.done(&["generate", "--scale", "3", "a.graph"]);
    folder.refused(1, &["generate", "--scale", "4", "a.graph"], "--force");
    folder.refused(1, &["convert", "a.graph", "a.graph"], "--force");
    assert_eq!(folder.json(&["info", "a.graph"])["vertices"], 8);
    folder.done(&["generate", "--scale", "4", "a.graph", "--force"]);
    assert_eq!(folder.json(&["info", "a.graph"])["vertices"], 16);
    fs::create_dir(folder.0.path().join("mine.graph")).unwrap();
    folder.file("mine.graph/letter.txt", "dear");
    folder.refused(1, &["generate", "--scale", "3", "mine.graph", "--force"], "no graph image");
}

#[test]
fn bad_input_is_told_with_its_place() {
    let folder = Graphs::default();
    folder.file("bad.el", "0 1\n0 x\n");
    folder.refused(1, &["info", "bad.el"], "bad.el, line 2: expected a vertex number, found `x`");
    folder.refused(1, &["convert", "none.el", "b.graph"], "none.el");
    folder.refused(1, &["info", "Cargo.toml"], "Cargo.toml");
    folder.file("what.dat", "0 1\n");
    folder.refused(1, &["info", "what.dat"], "cannot tell what format");
    folder.refused(1, &["generate", "--scale", "3", "missing/a.graph"], "missing/a.graph");
    for (arguments, part) in [
        (&["generate", "--scale", "32", "a.graph"][..], "32"),
        (&["generate", "--kind", "star", "a.graph"], "star"),
        (&["generate", "--skew", "0.9,0.9,0.1", "a.graph"], "0.9"),
        (&["generate", "--skew", "0.5", "a.graph"], "three numbers"),
        (&["generate"], "OUT"),
        (&["generate", "--scale", "3", "what"], "--to"),
        (&["generate", "--kind", "uniform", "--permute", "a.graph"], "--permute"),
        (&["generate", "--kind", "uniform", "--skew", "0.5,0.2,0.2", "a.graph"], "--skew"),
        (&["convert", "a.el", "b.el", "--from", "excel"], "matrix-market"),
    ] {
        folder.refused(2, arguments, part);
    }
    assert_eq!(fs::read_dir(folder.0.path()).unwrap().count(), 2, "nothing was written");
}
