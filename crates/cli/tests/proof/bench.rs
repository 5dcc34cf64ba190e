//! The benchmark of the daemons works, and leaves nothing.

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
