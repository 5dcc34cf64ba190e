//! A little of each service over a fabric, between real processes: over verbs where `OUTBOARD_TEST_VERBS` names the
//! address of an RDMA device (`cargo xtask vm` does), and over libfabric's tcp elsewhere.
// Also outside test functions a test fails by panicking.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod world;

use outboard::{Client, Memory, Outboard, Settings, WriteOptions, WritePath};
use outboard_e2e::{PATIENCE, Process};
use outboard_link::Identity;
use outboard_wire::Role;
use serde_json::Value;
use world::Fabric;

/// Pages go straight to the memory server, and by an agent: what was computed in them is right either way.
#[test]
fn paging() {
    let Some(fabric) = Fabric::find() else { return };
    let graph = fabric.folder().join("small.graph").display().to_string();
    fabric.succeed(&["graph", "generate", "--scale", "9", &graph]);
    let here = json(&fabric.succeed(&["graph", "run", "pagerank", "--graph", &graph, "--json"]));
    assert!(here["result"]["checksum"].is_string() || here["result"]["checksum"].is_number(), "{here}");
    let memory = fabric.daemon(&["memory"]);
    let agent = fabric.daemon(&["agent", "--memory-servers", &memory.port]);
    let far = ["graph", "run", "pagerank", "--graph", &graph, "--memory", "far", "--json"];
    let place = [
        "--server",
        &memory.port,
        "--state",
        "far",
        "--chunk",
        "4KiB",
        "--buffer",
        "1/4",
        "--pager-threads",
        "1",
    ];
    for way in
        [["--path", "direct"].as_slice(), &["--path", "agent", "--agent", &agent.port, "--cache", "dynamic"]]
    {
        let report = json(&fabric.succeed(&[&far, place.as_slice(), way].concat()));
        assert_eq!(report["result"], here["result"], "{way:?}");
        assert!(report["far"]["faults"]["fetched"].as_u64() > Some(10), "{report}");
        assert!(report["far"]["write_back_bytes"].as_u64() > Some(0), "{report}");
        let by_agent = report["far"]["agent_bytes"].as_u64() > Some(0);
        assert_eq!(by_agent, way.contains(&"agent"), "{report}");
    }
}

/// Two ranks count in each other's tables by way of two agents, and every link there is goes over the fabric.
#[test]
fn routing() {
    let Some(fabric) = Fabric::find() else { return };
    let first = fabric.daemon(&["agent", "--memory-servers", "none"]);
    let second = fabric.daemon(&["agent", "--memory-servers", "none", "--peers", &first.port]);
    fabric.wait_until(&second, |numbers| numbers["peer_agents_connected"] == 1);
    let app = ["app", "histogram", "--table", "1000", "--updates", "20000", "--check", "--json"];
    let ranks: Vec<_> = [&first, &second]
        .into_iter()
        .enumerate()
        .map(|(rank, agent)| {
            let mut command = fabric.program(&app);
            command
                .env("OUTBOARD_JOB_ID", "1")
                .env("OUTBOARD_JOB_SECRET", "0123456789abcdef0123456789abcdef")
                .env("OUTBOARD_JOB_SIZE", "2")
                .env("OUTBOARD_JOB_RANK", rank.to_string());
            command.env("OUTBOARD_JOB_RENDEZVOUS", &first.socket);
            command.env("OUTBOARD_JOB_AGENT", &agent.port).env("OUTBOARD_JOB_LISTEN", fabric.any_port());
            command.env("OUTBOARD_MESSAGES_PLACEMENT", "agent");
            Process::start(command)
        })
        .collect();
    let finish = |rank: Process| rank.ended_within(PATIENCE).succeeded();
    let outputs: Vec<String> = ranks.into_iter().map(finish).collect();
    let report = json(&outputs[0]);
    assert_eq!((&report["check"]["passed"], &report["work"]), (&true.into(), &40_000.into()), "{report}");
    fabric.wait_until(&first, |numbers| numbers["parcels_to_agents_total"].as_u64() > Some(0));
}

/// Functions that run at the memory server keep a table there.
#[test]
fn calling() {
    let Some(fabric) = Fabric::find() else { return };
    let table = fabric.daemon(&["kv", "serve", "--keys", "1000"]);
    for value in ["hello", "good morning"] {
        fabric.succeed(&["kv", "put", "greeting", value, "--server", &table.port]);
    }
    let found = fabric.succeed(&["kv", "get", "greeting", "--server", &table.port]);
    assert_eq!(found.trim(), "good morning");
    let missing = fabric.program(&["kv", "get", "farewell", "--server", &table.port]).output().unwrap();
    let error = String::from_utf8_lossy(&missing.stderr);
    assert!(!missing.status.success() && error.contains("no key"), "{error}");
}

/// Writes take both paths, and overwrite each other in order.
#[test]
fn writing() {
    const SIZE: usize = 16 << 10;
    let Some(fabric) = Fabric::find() else { return };
    let server = fabric.daemon(&["memory"]);
    let address = server.port.parse().unwrap();
    let mut settings = Settings::default();
    settings.link.provider = Some(fabric.provider().to_owned());
    settings.link.allow_remote = true;
    let identity = || Identity::new(Role::Application, "fabric test");
    let client = Client::connect(&address, identity(), &settings.link).unwrap();
    let mut memory = Memory::new(client.with_deadline(PATIENCE));
    let region = memory.reserve(SIZE as u64, None).unwrap();
    let outboard = Outboard::at(address).with_link(settings.link).with_deadline(PATIENCE);
    let mut writer = outboard.writer().unwrap();
    let target = writer.open(&region).unwrap();
    let (mut expected, mut random) = (vec![0; SIZE], fastrand::Rng::with_seed(9));
    for number in 0..400_u32 {
        let len = random.usize(1..=if number % 20 == 0 { 4096 } else { 64 });
        let offset = random.usize(..=SIZE - len);
        let bytes: Vec<u8> = (0..len).map(|_| random.u8(..)).collect();
        let path = [WritePath::Offload, WritePath::Unload][random.usize(..2)];
        let options = WriteOptions { path: Some(path), ..WriteOptions::default() };
        writer.write_with(target, offset as u64, &bytes, options).unwrap();
        expected[offset..offset + len].copy_from_slice(&bytes);
    }
    writer.flush().unwrap();
    let counts = writer.stats();
    assert!(counts.offloaded > 50 && counts.unloaded > 50, "{counts:?}");
    let mut bytes = vec![0; SIZE];
    memory.read(&region, 0, &mut bytes).unwrap();
    let differs = bytes.iter().zip(&expected).position(|(found, expected)| found != expected);
    assert_eq!(differs, None, "the first byte that is not what was written last");
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}
