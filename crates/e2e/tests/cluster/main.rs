//! Several nodes, with real daemons and ranks in each. `cargo xtask nodes 4 --debug -- cargo test -p outboard-e2e --test
//! cluster` sets them up; elsewhere these tests say that they were skipped.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod nodes;

use std::time::Duration;

use nodes::{Nodes, json, text};
use outboard_e2e::{Ended, Process, program};
use serde_json::Value;

/// Runs an application as two ranks on every node, and returns what it reports.
fn run_app(nodes: &Nodes, flags: &[&str], app: &[&str]) -> Value {
    let ranks = (nodes.count() * 2).to_string();
    let mut command = nodes.run(&["-n", &ranks, "--no-prefix"], flags);
    let output =
        command.args(["--", program(), "app"]).args(app).args(["--check", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report = json(&output.stdout);
    assert_eq!(report["ranks"], nodes.count() * 2, "{report}");
    assert_eq!(report["check"]["passed"], true, "{report}");
    report
}

#[test]
fn ranks_of_all_nodes_count_and_transpose() {
    let Some(nodes) = Nodes::find() else { return };
    for placement in ["inline", "agent"] {
        let placement = ["--messages-placement", placement];
        let counted = run_app(&nodes, &placement, &["histogram", "--table", "10000", "--updates", "100K"]);
        assert_eq!(counted["work"], nodes.count() * 2 * 100_000, "{counted}");
        run_app(&nodes, &placement, &["transpose", "--scale", "10", "--degree", "8"]);
    }
}

#[test]
fn ranks_that_mpirun_starts_on_all_nodes_need_a_place_to_meet_and_nothing_more() {
    let Some(nodes) = Nodes::find() else { return };
    let place = format!("tcp:{}:25017", nodes.address(0));
    let ranks = (0..nodes.count()).map(|rank| {
        let app = ["app", "histogram", "--table", "10000", "--updates", "100K", "--check", "--json"];
        let mut command = nodes.inside(rank, &app);
        command.env("OMPI_COMM_WORLD_RANK", rank.to_string());
        command.env("OMPI_COMM_WORLD_SIZE", nodes.count().to_string());
        command.env("OMPI_COMM_WORLD_LOCAL_SIZE", "1").env("PMIX_NAMESPACE", "cluster-test");
        command.env("OUTBOARD_JOB_SECRET", "a secret that only the ranks of this test know");
        command.env("OUTBOARD_JOB_RENDEZVOUS", &place).env("OUTBOARD_CONFIG", "none");
        Process::start(command)
    });
    let ranks: Vec<Process> = ranks.collect();
    let mut said = Vec::new();
    for rank in ranks {
        let Ended { code, out, err } = rank.ended_within(Duration::from_secs(120));
        assert!(code == Some(0), "{err}");
        said.push(out);
    }
    let report = json(said[0].as_bytes());
    assert_eq!(report["ranks"], nodes.count(), "{report}");
    assert_eq!(report["check"]["passed"], true, "{report}");
}

/// Open MPI itself, which is told how to get into a node; and a user who has no agent there.
#[test]
fn ranks_that_mpirun_starts_on_several_nodes_start_an_agent_on_each() {
    let Some(nodes) = Nodes::find() else { return };
    let all = nodes.count() * 2 - 1;
    let expected = format!("messages go by the agent to {all} of {all} ranks, as asked");
    // Ranks do not wait long for agents to find each other: on a busy machine another job has another chance.
    let has_reached_all = (0..5).any(|port| {
        let meeting = format!("tcp:{}:{}", nodes.address(0), 25020 + port);
        let Some((mut command, _shell)) = nodes.mpirun(&meeting) else { return true };
        let app = ["app", "histogram", "--table", "10000", "--updates", "200K", "--check", "--json"];
        let ranks = Process::start({
            command.arg(program()).args(app);
            command
        });
        let Ended { code, out, err } = ranks.ended_within(Duration::from_secs(120));
        assert!(code == Some(0), "{err}");
        let report = json(out.as_bytes());
        assert_eq!(report["check"]["passed"], true, "{report}");
        report["placement"] == expected.as_str()
    });
    assert!(has_reached_all, "agents of different nodes never carry messages to each other");
    for index in 0..nodes.count() {
        nodes.wait_until_no_socket(index, "outboard-65534-agent-");
    }
}

#[test]
fn an_agent_that_is_killed_in_the_middle_costs_no_update() {
    let Some(nodes) = Nodes::find() else { return };
    // Agents of this test alone.
    let mut agents: Vec<Process> = Vec::new();
    for index in 0..nodes.count() {
        let mut command = nodes.inside(index, &["agent", "--config", "none", "--listen", "unix:@victim"]);
        command.args(["--listen", &format!("tcp:{}:7502", nodes.address(index))]);
        for peer in 0..index {
            command.args(["--peers", &format!("tcp:{}:7502", nodes.address(peer))]);
        }
        agents.push(Process::start(command));
        nodes.wait_for(index, "unix:@victim");
    }
    let mut job = nodes.run(
        &["-n", &(nodes.count() * 2).to_string(), "--no-prefix"],
        &["--job-agent", "unix:@victim", "--messages-placement", "agent"],
    );
    job.args([
        "--",
        program(),
        "app",
        "histogram",
        "--table",
        "10000",
        "--updates",
        "2M",
        "--check",
        "--json",
    ]);
    let job = Process::start(job);
    // Whenever it happens, nothing is lost; but it should happen while messages are carried.
    nodes.wait_until(1, "unix:@victim", |status| status["numbers"]["routed_runs_total"].as_u64() > Some(10));
    drop(agents.remove(1));
    let Ended { code, out, err } = job.ended_within(Duration::from_secs(120));
    assert!(code == Some(0), "{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["check"]["passed"], true, "{report}");
    assert_eq!(report["work"], nodes.count() * 2 * 2_000_000, "{report}");
}

#[test]
fn a_table_is_used_from_every_node() {
    let Some(nodes) = Nodes::find() else { return };
    let server = format!("tcp:{}:7503", nodes.address(0));
    let serve = nodes.inside(0, &["kv", "serve", "--config", "none", "--listen", &server]);
    let _serving = Process::start(serve);
    nodes.wait_for(0, &server);
    for index in 0..nodes.count() {
        nodes.succeed(
            index,
            &["kv", "put", "--server", &server, &format!("key {index}"), &format!("value {index}")],
        );
    }
    for index in 0..nodes.count() {
        for key in 0..nodes.count() {
            let found = nodes.succeed(index, &["kv", "get", "--server", &server, &format!("key {key}")]);
            assert!(found.contains(&format!("value {key}")), "{found}");
        }
    }
}

#[test]
fn page_rank_is_the_same_over_the_memory_of_another_node() {
    let Some(nodes) = Nodes::find() else { return };
    let folder = std::env::temp_dir().join(format!("outboard-cluster-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let graph = folder.join("small.graph").display().to_string();
    nodes.succeed(0, &["graph", "generate", "--scale", "12", &graph]);
    let here = nodes.succeed(0, &["graph", "run", "pagerank", "--graph", &graph, "--json"]);
    let server = format!("tcp:{}:7401", nodes.address(1));
    let far =
        ["graph", "run", "pagerank", "--graph", &graph, "--memory", "far", "--server", &server, "--json"];
    let far = nodes.succeed(0, &far);
    let checksum = |report: &str| json(report.as_bytes())["result"]["checksum"].clone();
    assert!(!checksum(&here).is_null(), "{here}");
    assert_eq!(checksum(&here), checksum(&far));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Flow labels cross the network between the nodes, and the server's kernel reads them.
#[test]
fn connections_of_a_slot_are_served_by_one_worker() {
    let Some(nodes) = Nodes::find() else { return };
    let Some(server) = nodes.address_with_labels(0) else { return };
    let address = format!("tcp:[{server}]:7503");
    let mut command = nodes.inside(0, &["memory", "--config", "none", "--capacity", "1MiB"]);
    command.args(["--listen", "unix:@steered", "--listen", &address, "--workers", "2"]);
    let _server = Process::start(command);
    nodes.wait_for(0, "unix:@steered");
    // Slots are the workers' by turns.
    for (slots, worker) in [(["1", "3", "255"], 1), (["0", "4", "200"], 0)] {
        let agents = (1..nodes.count()).zip(slots).map(|(node, slot)| {
            let mut agent = nodes.inside(node, &["agent", "--config", "none", "--listen", "unix:@caller"]);
            // Each of its workers has a connection of its own.
            agent.args(["--workers", "3", "--memory-servers", &address]);
            agent.env("OUTBOARD_LINK_SLOT", slot);
            Process::start(agent)
        });
        let agents: Vec<Process> = agents.collect();
        let expected = 3 * agents.len() as u64;
        nodes.wait_until(0, "unix:@steered", |status| {
            let links = |worker| status["numbers"][format!("links_of_worker_{worker}")].as_u64().unwrap();
            // Whoever looks at the status has a link too, to one of them.
            let (right, wrong) = (links(worker), links(1 - worker));
            right >= expected && right + wrong == expected + 1
        });
        drop(agents);
        nodes.wait_until(0, "unix:@steered", |status| status["numbers"]["clients"] == 0);
    }
}

#[test]
fn page_rank_over_memory_striped_over_two_nodes_survives_its_agent() {
    let Some(nodes) = Nodes::find() else { return };
    let folder = std::env::temp_dir().join(format!("outboard-striped-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let graph = folder.join("small.graph").display().to_string();
    nodes.succeed(0, &["graph", "generate", "--scale", "12", &graph]);
    let work = ["graph", "run", "pagerank", "--graph", &graph, "--iterations", "100", "--json"];
    let here = nodes.succeed(0, &work);
    // An agent of this test alone.
    let servers = [1, 2].map(|index| format!("tcp:{}:7401", nodes.address(index))).join(",");
    let mut agent = nodes.inside(0, &["agent", "--config", "none", "--listen", "unix:@striped-victim"]);
    agent.args(["--memory-servers", &servers]);
    let agent = Process::start(agent);
    nodes.wait_until(0, "unix:@striped-victim", |status| status["numbers"]["memory_servers_connected"] == 2);
    let mut far = nodes.inside(0, &work);
    far.args(["--memory", "far", "--server", &servers, "--far-stripe", "64KiB", "--state", "far"]);
    far.args(["--path", "agent", "--agent", "unix:@striped-victim", "--cache", "dynamic"]);
    far.args(["--chunk", "4KiB", "--buffer", "1/8"]).env("OUTBOARD_CONFIG", "none");
    let far = Process::start(far);
    // Whenever it happens, the result is the same; but it should happen while pages come by it.
    nodes.wait_until(0, "unix:@striped-victim", |status| {
        let kinds = ["hit", "missed", "uncached"].map(|kind| format!("fetches_{kind}_total"));
        kinds.iter().filter_map(|kind| status["numbers"][kind].as_u64()).sum::<u64>() > 50
    });
    drop(agent);
    let Ended { code, out, err } = far.ended_within(Duration::from_secs(120));
    assert!(code == Some(0), "{err}");
    let far = json(out.as_bytes());
    assert_eq!(far["result"], json(here.as_bytes())["result"], "{far}");
    assert_eq!(far["far"]["servers"].as_array().map(Vec::len), Some(2), "{far}");
    assert!(far["far"]["agent_bytes"].as_u64() > Some(0), "{far}");
    assert!(far["far"]["agent_losses"].as_u64() > Some(0), "{far}");
    std::fs::remove_dir_all(&folder).unwrap();
}
