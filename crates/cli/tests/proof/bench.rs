//! The benchmarks of daemons, of graphs and of messages work, and leave nothing.

use serde_json::Value;

use crate::place::Place;
use crate::process::{PATIENCE, Process, outboard};

/// What a benchmark reports. It measures many things one after the other, and may be kept waiting for each.
#[track_caller]
fn bench(place: &Place, name: &str) -> Value {
    let process = Process::start(outboard(place, &["bench", name, "--tiny", "--json"]));
    let (status, said) = process.exit_within(PATIENCE * 20);
    assert_eq!(status.code(), Some(0), "{said:?}");
    serde_json::from_str(said.last().unwrap()).unwrap()
}

#[test]
fn it_gives_every_figure_with_its_limit() {
    let place = Place::new();
    let report = bench(&place, "daemon");
    for (name, unit, limit) in [
        ("daemon.idle.cpu", "cores", Some(0.01)),
        ("daemon.idle.tcp.cpu", "cores", Some(0.01)),
        ("daemon.attach.p50", "ms", Some(5.0)),
        ("daemon.attach.p99", "ms", Some(5.0)),
        ("daemon.attach.tcp.p50", "ms", Some(5.0)),
        ("daemon.echo.shm.p50", "ns", None),
        ("daemon.echo.tcp.p50", "ns", None),
        ("daemon.crowd.shm.client", "bytes", Some(65536.0)),
        ("daemon.crowd.shm.echo.p50", "ns", None),
        ("daemon.crowd.tcp.client", "bytes", Some(65536.0)),
        ("daemon.crowd.tcp.echo.p50", "ns", None),
    ] {
        let figures = report["figures"].as_array().unwrap();
        let figure = figures.iter().find(|figure| figure["name"] == name).expect(name);
        let (value, ratio) = (figure["value"].as_f64().unwrap(), figure["ratio"].as_f64().unwrap());
        assert!(figure["unit"] == unit && value >= 0.0, "{figure}");
        assert!(limit.is_none_or(|limit| (value / limit - ratio).abs() < 1e-6), "{figure}");
    }
    place.assert_nothing_left();
}

#[test]
fn every_graph_application_has_its_figures_with_best_and_median() {
    // Memory cgroups are not to be had by everybody.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let place = Place::new();
    let report = bench(&place, "graph");
    let figures = report["figures"].as_array().unwrap();
    for application in ["bfs", "pagerank", "radii", "bc", "components"] {
        for what in [
            "far_over_mmap",
            "far_over_dram",
            "agent_over_direct",
            "agent_over_direct.shaped",
            "dynamic_cache.hit_rate",
            "breakdown.base_proxy",
            "breakdown.aggregation",
            "breakdown.forwarding",
            "breakdown.static",
            "breakdown.dynamic",
        ] {
            let name = format!("graph.{application}.{what}");
            let figure = figures.iter().find(|figure| figure["name"] == *name).expect(&name);
            assert!(figure["best"].is_number() && figure["median"] == figure["value"], "{figure}");
        }
    }
    place.assert_nothing_left();
}

#[test]
fn messages_have_figures_for_every_question_or_a_reason_why_not() {
    let place = Place::new();
    let report = bench(&place, "routing");
    let figures = report["figures"].as_array().unwrap();
    let find = |name: &str| figures.iter().find(|figure| figure["name"] == name);
    let applications = ["histogram", "index_gather", "transpose", "triangles", "sssp", "transport"];
    let times = applications.map(|name| format!("routing.apps.{name}"));
    let speedups = applications.map(|name| format!("routing.apps.{name}.speedup"));
    let bundles = [4, 8, 16, 32, 64].map(|size| format!("routing.sweep.bundle.{size}KiB"));
    let buffers = [1, 2, 4, 8, 16].map(|count| format!("routing.sweep.buffers.{count}"));
    let others =
        ["histogram.inline.2ranks.small", "histogram.inline.2ranks.large", "histogram.inline.4ranks"];
    let others =
        others.into_iter().chain(["index_gather.inline.2ranks"]).map(|name| format!("routing.{name}"));
    for name in others.chain(times).chain(speedups).chain(bundles).chain(buffers) {
        let figure = find(&name).expect(&name);
        assert!(figure["value"].as_f64().is_some_and(|value| value > 0.0), "{figure}");
    }
    let notes = report["environment"]["notes"].to_string();
    let has_mpi = find("routing.histogram.inline.2ranks.small_over_alltoallv").is_some();
    assert!(has_mpi != notes.contains("MPI_Alltoallv"), "{notes}");
    place.assert_nothing_left();
}

#[test]
fn calls_have_their_figures_and_memcached_is_named_if_it_is_missing() {
    let place = Place::new();
    let report = bench(&place, "calling");
    let figures = report["figures"].as_array().unwrap();
    for (name, unit) in [
        ("calling.kv.ycsb_b.server.shm", "operations/s"),
        ("calling.kv.ycsb_b.server.shm.uniform", "operations/s"),
        ("calling.btree.lookup.server.shm", "operations/s"),
        ("calling.overhead", "ns"),
        ("calling.mix.p99_128_over_1", "ratio"),
        ("calling.mix.p99_512_over_1", "ratio"),
        ("calling.mix.p99_1024_over_1", "ratio"),
        ("calling.bad_input.p99_during_over_before", "ratio"),
    ] {
        let figure = figures.iter().find(|figure| figure["name"] == name).expect(name);
        assert!(figure["unit"] == unit && figure["value"].is_number(), "{figure}");
    }
    let is_beside = figures.iter().any(|figure| figure["name"] == "calling.kv.ycsb_b.tcp_versus_memcached");
    let notes = report["environment"]["notes"].to_string();
    assert!(is_beside || notes.contains("memcached"), "{notes}");
    place.assert_nothing_left();
}
