//! The benchmarks of daemons and of graphs work, and leave nothing.

use serde_json::Value;

use crate::place::Place;
use crate::process::{Process, outboard};

#[test]
fn it_gives_every_figure_with_its_limit() {
    let place = Place::new();
    let (status, said) = Process::start(outboard(&place, &["bench", "daemon", "--tiny", "--json"])).exit();
    assert_eq!(status.code(), Some(0), "{said:?}");
    let report: Value = serde_json::from_str(said.last().unwrap()).unwrap();
    for (name, unit, limit) in [
        ("daemon.idle.cpu", "cores", Some(0.01)),
        ("daemon.idle.tcp.cpu", "cores", Some(0.01)),
        ("daemon.attach.p50", "ms", Some(5.0)),
        ("daemon.attach.p99", "ms", Some(5.0)),
        ("daemon.attach.tcp.p50", "ms", Some(5.0)),
        ("daemon.echo.shm.p50", "ns", None),
        ("daemon.echo.tcp.p50", "ns", None),
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
    let (status, said) = Process::start(outboard(&place, &["bench", "graph", "--tiny", "--json"])).exit();
    assert_eq!(status.code(), Some(0), "{said:?}");
    let report: Value = serde_json::from_str(said.last().unwrap()).unwrap();
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
