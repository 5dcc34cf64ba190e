//! Every benchmark gives its figures by their names, and leaves nothing behind.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Runs the program.
fn outboard_bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_outboard-bench")).args(arguments).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a benchmark reports where it only shows that it works.
#[track_caller]
fn bench(name: &str) -> Value {
    let output = outboard_bench(&[name, "--tiny", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(output.stderr.is_empty(), "no progress bar without a terminal");
    serde_json::from_slice(&output.stdout).expect("one object")
}

#[test]
fn wrong_usage_ends_with_code_two_and_a_picture_of_nothing_with_one() {
    for (arguments, code, word) in [
        (&["lnk"][..], 2, "link"),
        (&["--fast", "link"], 2, "--fast"),
        (&[], 2, "NAME"),
        (&["link", "--tiny", "--plot", "x.svg"], 1, "leave out --plot"),
        (&["link", "--tiny", "--gap", "gapbs"], 1, "leave out --gap"),
        (&["peer", "echo"], 1, "there is no benchmark"),
    ] {
        let output = outboard_bench(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(word), "{arguments:?}: {}", text(&output.stderr));
    }
}

#[test]
fn a_second_process_that_was_started_by_hand_says_so() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outboard-bench"));
    let output = command.args(["peer", "link.shm.frames_64B"]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    assert!(
        message.starts_with("outboard: ") && message.contains("started by `outboard bench`"),
        "{message}"
    );
}

/// The names that scripts rely on, with which way is better.
const FIGURES: &[(&str, &str)] = &[
    ("link.shm.frames_64B.rate", "higher"),
    ("link.shm.roundtrip_64KiB.p50", "lower"),
    ("link.shm.read_64KiB.p50", "lower"),
    ("link.tcp.stream_64KiB.bandwidth", "higher"),
    ("link.tcp.roundtrip_64KiB.p50", "lower"),
];

#[test]
fn bench_link_prints_one_object_with_the_agreed_figures() {
    let json = bench("link");
    assert_eq!(json["bench"], "link");
    assert!(json["environment"]["cores"].as_u64().unwrap() > 0);
    let figures = json["figures"].as_array().unwrap();
    for (name, better) in FIGURES {
        let figure = figures.iter().find(|figure| figure["name"] == *name).unwrap();
        for field in ["value", "ratio"] {
            assert!(figure[field].as_f64().unwrap() > 0.0, "{figure}");
        }
        assert!(figure["versus"].as_str().unwrap().contains(better), "{figure}");
        assert!(figure["unit"].is_string());
        let known = ["best", "median", "name", "ratio", "unit", "value", "versus"];
        assert!(figure.as_object().unwrap().keys().all(|key| known.contains(&key.as_str())), "{figure}");
    }
}

#[test]
fn bench_paging_gives_every_figure_beside_its_yardstick() {
    let json = bench("paging");
    let figures = json["figures"].as_array().unwrap();
    for name in [
        "paging.fault_64KiB.shm.readonly.p50",
        "paging.fault_64KiB.shm.writable_read.p50",
        "paging.fault_64KiB.shm.write.p50",
        "paging.fault_64KiB.tcp.readonly.p50",
        "paging.fault_4KiB.shm.readonly.p50",
        "paging.fault_4KiB.shm.unbound.p50",
        "paging.fault_64KiB.shm.unbound.p50",
        "paging.scan.tcp.bandwidth",
        "paging.faults.4threads.rate",
        "paging.faults.8threads.rate",
    ] {
        let figure = figures.iter().find(|figure| figure["name"] == name).expect(name);
        for field in ["value", "ratio"] {
            assert!(figure[field].as_f64().is_some_and(|number| number > 0.0), "{figure}");
        }
    }
}

#[test]
fn bench_far_gives_every_figure_or_says_why_not() {
    let json = bench("far");
    let figures = json["figures"].as_array().unwrap();
    for name in [
        "far.fits.random",
        "far.fits.scan",
        "far.near_fit.random",
        "far.first_touch",
        "far.random_4KiB.third.shm",
        "far.random_4KiB.third.shm.over_hand_over",
        "far.scan.third.shm",
        "far.pagerank_like.third",
    ] {
        let figure = figures.iter().find(|figure| figure["name"] == name).expect(name);
        for field in ["value", "ratio"] {
            assert!(figure[field].as_f64().is_some_and(|number| number > 0.0), "{figure}");
        }
    }
    let written_back = figures.iter().find(|figure| figure["name"] == "far.fits.written_back").unwrap();
    assert!(written_back["value"].is_number() && written_back["unit"] == "bytes", "{written_back}");
    let (figures, notes) = (json["figures"].to_string(), json["environment"]["notes"].to_string());
    for (figure, rival) in [("over_swap", "a swap file"), ("over_zram", "zram")] {
        let is_skipped = notes.contains("skipped") && notes.contains(rival);
        assert!(figures.contains(figure) != is_skipped, "{figure}: {json}");
    }
    for entry in std::fs::read_dir("/var/tmp").into_iter().flatten().flatten() {
        let name = entry.file_name().into_string().unwrap_or_default();
        let owner = name.strip_prefix("outboard-bench-swap-");
        let is_left = owner.is_some_and(|owner| !std::path::Path::new("/proc").join(owner).exists());
        assert!(!is_left, "{name} is left behind");
    }
}

#[test]
fn bench_link_prints_a_table_for_people() {
    let output = outboard_bench(&["link", "--tiny"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    for (name, _) in FIGURES {
        assert!(table.contains(name), "{table}");
    }
}

#[test]
fn bench_cluster_compares_a_link_with_itself_without_encryption() {
    let json = bench("cluster");
    let figure = &json["figures"][0];
    assert_eq!(figure["name"], "cluster.tls.overhead");
    assert!(figure["ratio"].as_f64().unwrap() > 0.0, "{figure}");
    // Either it is measured, or it is said why not.
    let (figures, notes) = (json["figures"].to_string(), json["environment"]["notes"].to_string());
    for name in ["link.ofi_tcp.stream_64KiB", "link.ofi_shm.read_64KiB"] {
        assert!(figures.contains(name) != notes.contains(name), "{name}: {json}");
    }
}

#[test]
fn bench_protection_gives_the_time_to_return_and_the_cost_of_keeping() {
    let json = bench("protection");
    let names: Vec<_> =
        json["figures"].as_array().unwrap().iter().map(|figure| figure["name"].clone()).collect();
    assert_eq!(names, ["protection.restart_ms", "protection.keep.write_back.bandwidth"]);
}

#[test]
fn it_gives_every_figure_with_its_limit() {
    let report = bench("daemon");
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
}

#[test]
fn every_graph_application_has_its_figures_with_best_and_median() {
    // Memory cgroups are not to be had by everybody.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let report = bench("graph");
    let figures = report["figures"].as_array().unwrap();
    for application in ["bfs", "pagerank", "radii", "bc", "components"] {
        for what in [
            "far_over_mmap",
            "far_over_dram",
            "far_over_dram.shm",
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
    let saved = "graph.pagerank.static_cache.traffic_saved.of_all.sparse";
    assert!(figures.iter().any(|figure| figure["name"] == saved && figure["value"].is_number()));
    // GAP's source is nowhere on this machine.
    assert!(report["environment"]["notes"].to_string().contains("--gap"), "{report}");
}

#[test]
fn messages_have_figures_for_every_question_or_a_reason_why_not() {
    let report = bench("routing");
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
}

#[test]
fn calls_have_their_figures_and_memcached_is_named_if_it_is_missing() {
    let report = bench("calling");
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
}

#[test]
fn writing_has_all_its_figures_and_draws_them() {
    let file = std::env::temp_dir().join(format!("outboard-writing-{}.svg", std::process::id()));
    let arguments = ["writing", "--tiny", "--json", "--plot", file.to_str().expect("a plain path")];
    let output = outboard_bench(&arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let figures = report["figures"].as_array().expect("figures");
    for name in [
        "writing.model.skewed.adaptive_over_offload",
        "writing.model.zipf14.adaptive_over_best_fixed",
        "writing.model.phases.of_clairvoyant_gain",
        "writing.shm.cold.per_cpu_second",
        "writing.shm.hot.adaptive_over_offload",
        "writing.shm.hot.over_bare_link",
        "writing.shm.cold.over_bare_link",
        "writing.decision_ns",
    ] {
        assert!(figures.iter().any(|figure| figure["name"] == name), "{name} is missing");
    }
    let picture = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("clairvoyant"), "{picture}");
}
