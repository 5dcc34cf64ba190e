//! `outboard graph run --memory far` as people and scripts use it.

use std::process::{Command, Output};

use outboard::Client;
use outboard_agent::{Daemon, STATUS_GRANT, StatusView};
use outboard_e2e::{Folder, outboard};
use outboard_link::{Address, Identity};
use outboard_settings::Settings;
use outboard_wire::Role;
use serde_json::Value;

use super::cluster::socket;

/// Where graphs are, and the program works.
pub(crate) struct Place(Folder);

impl Place {
    pub(crate) fn new() -> Self {
        let place = Self(Folder::new());
        place.done(&["generate", "--scale", "11", "--symmetric", "even.graph"]);
        place.done(&["generate", "--scale", "11", "--seed", "5", "directed.graph"]);
        place.done(&["convert", "directed.graph", "directed.el"]);
        place
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the program starts")
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = outboard(&[]);
        command.arg("graph").args(arguments).current_dir(self.0.path());
        // Whoever gets no processor for a while is not dead.
        command.env("OUTBOARD_LINK_DEADLINE", "30s").env("OUTBOARD_LINK_HANDSHAKE_TIMEOUT", "30s");
        command
    }

    #[track_caller]
    fn done(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        assert!(output.stderr.is_empty(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// The result of an application in memory.
    #[track_caller]
    pub(crate) fn in_dram(&self, application: &str, graph: &str) -> Value {
        let text = self.done(&["run", application, "--graph", graph, "--json"]);
        serde_json::from_str::<Value>(&text).expect("the program prints JSON")["result"].clone()
    }

    /// The same in far memory, with all that is said about it.
    #[track_caller]
    fn in_far(&self, application: &str, arguments: &str) -> Value {
        let words = ["run", application, "--memory", "far", "--json"].into_iter();
        let arguments: Vec<&str> = words.chain(arguments.split_ascii_whitespace()).collect();
        serde_json::from_str(&self.done(&arguments)).expect("the program prints JSON")
    }

    #[track_caller]
    fn refused(&self, code: i32, arguments: &str, part: &str) {
        let arguments: Vec<&str> =
            ["run", "bfs"].into_iter().chain(arguments.split_ascii_whitespace()).collect();
        let output = self.run(&arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
        assert!(message.starts_with("outboard: ") && message.contains(part), "{arguments:?}: {message}");
        assert!(output.stdout.is_empty());
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the program prints text")
}

#[test]
fn results_are_those_in_memory_whoever_serves_the_graph() {
    let place = Place::new();
    for application in ["bfs", "pagerank", "radii", "bc", "components"] {
        let far = place.in_far(application, "--graph even.graph --chunk 4KiB");
        assert_eq!(far["result"], place.in_dram(application, "even.graph"), "{application}");
        assert_eq!((&far["memory"], &far["far"]["graph"]), (&"far".into(), &"loaded".into()));
        assert!(far["far"]["faults"]["fetched"].as_u64() > Some(0), "{far}");
    }
    let far = place.in_far(
        "bc",
        "--graph directed.el --link tcp --path agent --cache static --state far --chunk 4KiB --buffer 1/4",
    );
    assert_eq!(far["result"], place.in_dram("bc", "directed.el"));
    let far = &far["far"];
    assert_eq!(
        (&far["graph"], &far["state"], &far["cache"]),
        (&"uploaded".into(), &"far".into(), &"static".into())
    );
    assert!(
        far["agent_copy_bytes"].as_u64() > Some(0) && far["write_back_bytes"].as_u64() > Some(0),
        "{far}"
    );
    assert!(far["server"].as_str().is_some_and(|server| server.starts_with("tcp:127.0.0.1:")), "{far}");
}

#[test]
fn results_are_those_in_memory_over_a_fabric() {
    if let Err(why) = outboard_link::ofi::choose(None, None) {
        println!("skipped: {why}");
        return;
    }
    let place = Place::new();
    for way in ["--path direct --state far", "--path agent --cache dynamic"] {
        let far =
            place.in_far("bc", &format!("--graph directed.el --link ofi --chunk 4KiB --buffer 1/4 {way}"));
        assert_eq!(far["result"], place.in_dram("bc", "directed.el"), "{way}");
        let server = far["far"]["server"].as_str();
        assert!(server.is_some_and(|server| server.starts_with("ofi:127.0.0.1:")), "{far}");
    }
}

/// What a memory server's processors have done for others.
fn served(server: &Address) -> u64 {
    let identity = Identity::new(Role::Tool, "test");
    let mut client = Client::connect(server, identity, &Default::default()).unwrap();
    let view = StatusView::read(&client.read_region(&STATUS_GRANT).unwrap()).unwrap();
    client.close("seen enough");
    view.get("accesses_served_total").unwrap()
}

#[test]
fn pages_come_past_the_server_over_a_fabric() {
    if let Err(why) = outboard_link::ofi::choose(None, None) {
        println!("skipped: {why}");
        return;
    }
    let place = Place::new();
    let mut settings = Settings::default();
    settings.memory.listen = vec![socket(), "ofi:127.0.0.1:0".parse().unwrap()];
    settings.memory.data_dir = Some(place.0.path().to_owned());
    let memory = Daemon::memory(&settings).unwrap();
    let fabric = memory.listening().iter().find(|address| matches!(address, Address::Ofi(_))).unwrap();
    let expected = place.in_dram("pagerank", "directed.graph");
    for way in ["--path direct", "--path agent --cache dynamic"] {
        let before = served(&settings.memory.listen[0]);
        let far = place.in_far(
            "pagerank",
            &format!("--server {fabric} --served directed.graph --chunk 4KiB --buffer 1/4 {way}"),
        );
        assert_eq!(far["result"], expected, "{way}");
        // Whether somebody waited for a chunk or it came ahead is a matter of luck.
        let bytes = ["demand_bytes", "background_bytes"].map(|name| far["far"][name].as_u64().unwrap());
        let chunks = bytes.iter().sum::<u64>() / 4096;
        let after = served(&settings.memory.listen[0]);
        // Only openings and closings of regions are left to be done there.
        assert!(chunks > 100 && after - before < 40, "{way}: {} served, {far}", after - before);
    }
    memory.stop("enough").unwrap();
}

#[test]
fn a_graph_is_striped_over_two_servers() {
    let place = Place::new();
    let servers = [0, 1].map(|_| {
        let mut settings = Settings::default();
        settings.memory.listen = vec![socket()];
        (settings.memory.listen[0].to_string(), Daemon::memory(&settings).unwrap())
    });
    let both = format!("{},{}", servers[0].0, servers[1].0);
    for way in ["--path direct", "--path agent --cache dynamic"] {
        let flags = "--chunk 4KiB --buffer 1/4 --state far --far-stripe 64KiB --explain";
        let far = place.in_far("pagerank", &format!("--graph directed.el --server {both} {flags} {way}"));
        assert_eq!(far["result"], place.in_dram("pagerank", "directed.el"), "{way}");
        let far = &far["far"];
        assert_eq!(far["servers"], serde_json::json!([servers[0].0, servers[1].0]));
        // Each server has a part of what is longer than a stripe, and is named.
        let lines: Vec<&str> =
            far["explanation"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        for (server, _) in &servers {
            let has_part =
                |line: &&str| line.contains(&format!("of 2 at {server}:")) && line.contains(" by ");
            assert!(lines.iter().any(has_part), "{lines:?}");
        }
    }
    for (_, daemon) in servers {
        daemon.stop("done").unwrap();
    }
}

#[test]
fn a_graph_that_a_server_has_is_opened_there() {
    let place = Place::new();
    let mut settings = Settings::default();
    settings.memory.listen = vec![socket()];
    settings.memory.data_dir = Some(place.0.path().to_owned());
    let memory = Daemon::memory(&settings).unwrap();
    let server = settings.memory.listen[0].to_string();
    let served = |name: &str| format!("--server {server} --served {name}");
    let far = place.in_far(
        "pagerank",
        &format!("{} --chunk 4KiB --path agent --cache dynamic", served("directed.graph")),
    );
    assert_eq!(far["result"], place.in_dram("pagerank", "directed.graph"));
    assert_eq!((&far["file"], &far["far"]["graph"]), (&"directed.graph".into(), &"served".into()));
    assert_eq!(far["far"]["demand_bytes"].as_u64().map(|bytes| bytes > 0), Some(true));
    assert!(far["far"]["agent_bytes"].as_u64() > Some(0), "{far}");
    assert!(far["far"]["agent_read_bytes"].as_u64() > Some(0), "{far}");
    assert_eq!(far["far"]["agent_ready"], true);
    let far = place.in_far("bfs", &format!("--server {server} --graph directed.el --path direct"));
    assert_eq!(far["result"], place.in_dram("bfs", "directed.el"));
    assert_eq!((&far["far"]["graph"], &far["far"]["agent"]), (&"uploaded".into(), &Value::Null));

    place.refused(1, &format!("--memory far {}", served("none.graph")), "serves no graph “none.graph”");
    place.refused(1, &format!("--memory far {}", served("../even.graph")), "leads out of the data directory");
    place.refused(1, &format!("--memory far --agent {server} {}", served("even.graph")), "is no agent");
    spoil(&place, "even.graph/out.targets");
    place.refused(
        1,
        &format!("--memory far --chunk 4KiB {}", served("even.graph")),
        "the graph that is served is broken",
    );
    place.done(&["generate", "--scale", "4", "tiny.graph"]);
    let description = "format = 1\nvertices = 9\nedges = 9\nsymmetric = false";
    std::fs::write(place.0.path().join("tiny.graph/graph.toml"), description).unwrap();
    place.refused(1, &format!("--memory far {}", served("tiny.graph")), "graph.toml says 9 vertices");
    memory.stop("done").unwrap();
}

/// Makes a neighbour of the first vertex one that does not exist.
fn spoil(place: &Place, file: &str) {
    let path = place.0.path().join(file);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[2] = 0xff;
    std::fs::write(&path, bytes).unwrap();
}

#[test]
fn a_table_tells_what_it_cost_and_why() {
    let place = Place::new();
    let arguments =
        ["--graph", "even.graph", "--memory", "far", "--chunk", "4KiB", "--path", "agent", "--explain"];
    let table = place.done(&[&["run", "components"][..], &arguments].concat());
    for part in [
        "components on even.graph: 2048 vertices",
        "checksum",
        "far, ",
        "page faults",
        "fetched",
        "read ahead",
        "on demand",
        "in the background",
        "written back",
        "from its copy",
        "agent's cache",
        "of faults hit",
        "here at once, chunks of 4 KiB",
        "out.targets: ",
        "agent: region ",
    ] {
        assert!(table.contains(part), "{part}: {table}");
    }
    assert!(!table.contains("state “"), "{table}");
    let table = place.done(&[&["run", "pagerank", "--state", "far"][..], &arguments].concat());
    for part in ["state “contributions”, region ", "8 KiB in chunks of 4 KiB, by the agent, as configured"]
    {
        assert!(table.contains(part), "{part}: {table}");
    }
}

#[test]
fn programs_find_every_figure_by_its_name() {
    let place = Place::new();
    let json = place.in_far("components", "--graph even.graph --path direct --wire 1gbit,3ms --explain");
    let far = &json["far"];
    assert!(json["seconds"].as_f64() > Some(0.003), "a wire has its latency: {json}");
    for name in [
        "agent",
        "agent_bytes",
        "agent_cache_rates",
        "agent_copy_bytes",
        "agent_losses",
        "agent_read_bytes",
        "agent_read_is_all",
        "agent_ready",
        "ahead_rate",
        "background_bytes",
        "buffer_bytes",
        "buffer_rates",
        "buffer_used_bytes",
        "cache",
        "chunk_bytes",
        "chunks_ahead",
        "demand_bytes",
        "evictions",
        "explanation",
        "faults",
        "footprint_bytes",
        "graph",
        "path",
        "server",
        "state",
        "stuck_chunks",
        "wire",
        "write_back_bytes",
        "write_backs",
    ] {
        assert!(far.get(name).is_some(), "{name}: {far}");
    }
    assert_eq!(
        (&far["wire"], &far["path"], &far["agent"]),
        (&"1gbit,3ms".into(), &"direct".into(), &Value::Null)
    );
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_moves() {
    let place = Place::new();
    for (arguments, part) in [
        ("--memory far", "--graph"),
        ("--graph even.graph --buffer 1/3", "--buffer is for --memory far"),
        ("--graph even.graph --far-ahead 1MiB", "--far-ahead is for --memory far"),
        ("--graph even.graph --memory far --buffer 4/3", "no amount of memory"),
        ("--graph even.graph --memory far --buffer 100KiB", "it needs at least 256 KiB"),
        ("--graph even.graph --memory far --chunk 5000", "a power of two"),
        ("--graph even.graph --memory far --chunk 4MiB", "to 2 MiB"),
        ("--graph even.graph --memory far --path direct --cache static", "leave out --cache or --path"),
        ("--graph even.graph --memory far --path direct --agent unix:@none", "goes without an agent"),
        ("--graph even.graph --memory far --agent unix:@none", "--agent needs --server"),
        ("--graph even.graph --memory far --server unix:@a --agent unix:@b --wire 1gbit,1us", "--dial-wire"),
        (
            "--graph even.graph --memory far --server unix:@a --agent unix:@b --link tcp",
            "--link is for daemons",
        ),
        (
            "--graph even.graph --memory far --server unix:@a --memory-capacity 1GiB",
            "is for a memory server that",
        ),
        ("--graph even.graph --memory far --path direct --agent-cache 1GiB", "is for an agent that"),
        ("--graph even.graph --memory far --wire fast", "no wire"),
        (
            "--graph not-even-looked-at --memory far --far-node 61",
            "no memory node 61 for the buffer: it has 0",
        ),
        ("--graph even.graph --memory far --pager-threads 0", "--pager-threads"),
        ("--memory far --served even.graph", "--served needs --server"),
        ("--memory far --served even.graph --graph even.graph", "cannot be used with"),
    ] {
        place.refused(2, arguments, part);
    }
    for (arguments, part) in [
        ("--graph none.graph --memory far", "none.graph"),
        ("--graph even.graph --memory far --buffer 1/9", "--buffer is a part of"),
        ("--graph even.graph --memory far --server unix:@outboard-nobody-is-here", "no memory server"),
        ("--graph even.graph --memory far --source 2048", "no vertex 2048"),
        ("--graph even.graph --memory far --memory-capacity 64KiB", "--memory-capacity"),
    ] {
        place.refused(1, arguments, part);
    }
    spoil(&place, "even.graph/out.targets");
    place.refused(
        1,
        "--graph even.graph --memory far",
        "even.graph/out.targets, byte 0: expected a vertex below 2048",
    );
}

#[test]
fn a_buffer_that_no_machine_has_is_warned_of() {
    let place = Place::new();
    // Nothing takes memory before it is used, so that this works here.
    let arguments = "run bfs --graph even.graph --memory far --path direct --buffer 64TiB";
    let output = place.run(&arguments.split(' ').collect::<Vec<_>>());
    let message = text(&output.stderr);
    assert!(message.starts_with("outboard: warning: a buffer of 64 TiB is more than the "), "{message}");
}

#[test]
fn a_graph_without_edges_has_a_place_too() {
    let place = Place::new();
    std::fs::write(place.0.path().join("empty.adj"), "AdjacencyGraph\n3\n0\n0\n0\n0\n").unwrap();
    place.done(&["convert", "empty.adj", "empty.graph"]);
    let far = place.in_far("components", "--graph empty.graph --state far");
    assert_eq!(far["result"], place.in_dram("components", "empty.graph"));
    assert_eq!((&far["result"]["components"], &far["far"]["graph"]), (&3.into(), &"uploaded".into()));
}
