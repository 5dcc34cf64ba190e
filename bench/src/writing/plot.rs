//! Latency over the share of cold writes, as a picture.

use outboard_sim::nic::{Parameters, Steerer, Workload};
use outboard_writing::WritePath;

use super::model::plan;
use super::plays::Plays;
use crate::harness::Effort;
use outboard_measure::{Anchor, Svg};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 60.0;
const GREY: &str = "#666666";

const LINES: [(&str, &str, Steerer, bool); 4] = [
    ("offload", "#c0392b", Steerer::Fixed(WritePath::Offload), false),
    ("unload", "#2471a3", Steerer::Fixed(WritePath::Unload), false),
    ("adaptive", "#1e8449", Steerer::Adaptive, false),
    ("clairvoyant", "#7d3c98", Steerer::Clairvoyant, true),
];

/// Plays every share of cold writes under every policy and draws what came of it.
pub(super) fn picture(effort: Effort) -> String {
    let writes = if effort == Effort::Tiny { 2_000 } else { 400_000 };
    let shares: Vec<u32> =
        if effort == Effort::Tiny { vec![0, 100] } else { (0..=100).step_by(10).collect() };
    let plan = |steerer, share: &u32| plan(Parameters::default(), &Workload::Skewed(*share), steerer, writes);
    let plays = Plays::of(
        LINES.iter().flat_map(|(_, _, steerer, _)| shares.iter().map(|share| plan(*steerer, share))),
    );
    let lines = LINES.map(|(_, _, steerer, _)| {
        let mean = |share: &u32| plays.outcome(plan(steerer, share)).mean_ns / 1000.0;
        shares.iter().map(mean).collect::<Vec<f64>>()
    });
    let most = lines.iter().flatten().copied().fold(1.0, f64::max).ceil();
    draw(&shares, &lines, most)
}

fn draw(shares: &[u32], lines: &[Vec<f64>; 4], most: f64) -> String {
    let mut svg = Svg::new(WIDTH, HEIGHT);
    svg.heading(
        LEFT,
        28.0,
        15.0,
        "#222222",
        "Small remote writes: latency over the share of cold pages (model)",
    );
    let x = |share: f64| LEFT + share / 100.0 * (WIDTH - LEFT - RIGHT);
    let y = |us: f64| HEIGHT - BOTTOM - us / most * (HEIGHT - TOP - BOTTOM);
    for step in 0..=(most * 2.0) as u32 {
        let us = f64::from(step) / 2.0;
        svg.line((x(0.0), y(us)), (x(100.0), y(us)), "#dddddd", 1.0, false);
        svg.text(LEFT - 8.0, y(us) + 4.0, 11.0, GREY, Anchor::End, &format!("{us:.1}"));
    }
    for share in (0..=100).step_by(20) {
        svg.text(x(share.into()), HEIGHT - BOTTOM + 18.0, 11.0, GREY, Anchor::Middle, &format!("{share} %"));
    }
    svg.text(x(50.0), HEIGHT - 16.0, 12.0, GREY, Anchor::Middle, "writes to cold pages");
    svg.upright(20.0, HEIGHT / 2.0, 12.0, GREY, "mean latency, µs");
    let mut labels: Vec<(f64, usize)> =
        lines.iter().enumerate().map(|(at, line)| (y(line.last().copied().unwrap_or(0.0)), at)).collect();
    labels.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut lowest = 0.0_f64;
    for (line, (_, colour, _, is_dashed)) in lines.iter().zip(LINES) {
        let points: Vec<(f64, f64)> =
            shares.iter().zip(line).map(|(share, us)| (x(f64::from(*share)), y(*us))).collect();
        svg.path(&points, colour, is_dashed);
    }
    for (at_y, at) in labels {
        // Lines that end at the same place have their names below each other.
        lowest = at_y.max(lowest + 15.0);
        let (name, colour, ..) = LINES[at];
        svg.text(x(100.0) + 8.0, lowest + 4.0, 12.0, colour, Anchor::Start, name);
    }
    svg.finish()
}
