//! The figures as a picture: an SVG that needs nothing but itself.

mod axis;

use axis::Axis;

use super::conclusions::{ChunkAdvice, ENOUGH};
use super::measurement::{Characterization, Leg, Measurement, SIZES};
use super::operation::{MeasuredOperation, Sides};
use super::words;
use crate::{Anchor, Svg};

/// The size of the whole picture, and where its parts lie, in pixels.
const WIDTH: f64 = 980.0;
const HEADER: f64 = 118.0;
const ROW: f64 = 308.0;
const FOOTER: f64 = 34.0;
const MARGIN: f64 = 40.0;

/// One plot, without its labels.
const PLOT_WIDTH: f64 = 370.0;
const PLOT_HEIGHT: f64 = 200.0;
/// Where the two plots of a row begin.
const COLUMNS: [f64; 2] = [84.0, 576.0];
/// How far below the top of its row a plot begins.
const PLOT_TOP: f64 = 44.0;

const TEXT: &str = "#1f2933";
const FAINT: &str = "#66727f";
const GRID: &str = "#e4e8ec";
const FRAME: &str = "#aab4be";

/// Colours that are told apart by everybody, one family for each direction.
fn colour(operation: MeasuredOperation) -> &'static str {
    match operation {
        MeasuredOperation::Read => "#0072b2",
        MeasuredOperation::Ask => "#4aa8e0",
        MeasuredOperation::Write => "#c2410c",
        MeasuredOperation::Send => "#e69f00",
    }
}

/// What is drawn of a measurement.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quantity {
    Bandwidth,
    Latency,
}

impl Quantity {
    fn of(self, one: &Measurement) -> f64 {
        match self {
            Self::Bandwidth => one.bandwidth / 1e9,
            Self::Latency => one.latency_ns / 1e3,
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Bandwidth => "bandwidth (GB/s)",
            Self::Latency => "latency, median (µs)",
        }
    }
}

/// Draws everything: a row for each daemon and link, bandwidth and latency beside each other.
pub fn chart(characterization: &Characterization) -> String {
    let legs = Leg::all(&characterization.measurements);
    let height = HEADER + ROW * legs.len() as f64 + FOOTER;
    let mut svg = Svg::new(WIDTH, height);
    header(&mut svg, characterization);
    for (number, leg) in legs.iter().enumerate() {
        let top = HEADER + ROW * number as f64;
        svg.heading(MARGIN, top + 22.0, 15.0, TEXT, &leg.title());
        let advised = characterization
            .conclusions
            .chunks
            .iter()
            .find(|chunk| (chunk.party, chunk.link) == (leg.party, leg.link));
        plot(&mut svg, leg, Quantity::Bandwidth, (COLUMNS[0], top + PLOT_TOP), advised);
        plot(&mut svg, leg, Quantity::Latency, (COLUMNS[1], top + PLOT_TOP), None);
    }
    svg.text(MARGIN, height - 14.0, 11.0, FAINT, Anchor::Start, &characterization.environment.summary());
    svg.finish()
}

fn header(svg: &mut Svg, characterization: &Characterization) {
    let title = "What the links between an application and its daemons carry";
    svg.heading(MARGIN, 38.0, 20.0, TEXT, title);
    let several = Leg::all(&characterization.measurements).iter().any(|leg| leg.nodes().len() > 1);
    let where_best = if several { ", buffers on the memory node where they are best" } else { "" };
    let subtitle =
        format!("by operation and size of a transfer; one-sided drawn through, two-sided dashed{where_best}");
    svg.text(MARGIN, 60.0, 13.0, FAINT, Anchor::Start, &subtitle);
    for (number, operation) in MeasuredOperation::ALL.into_iter().enumerate() {
        let (x, y) = (MARGIN + 226.0 * number as f64, 92.0);
        svg.line((x, y), (x + 34.0, y), colour(operation), 2.2, is_dashed(operation));
        svg.mark((x + 17.0, y), colour(operation), is_dashed(operation));
        svg.text(x + 42.0, y + 4.0, 12.5, TEXT, Anchor::Start, meaning(operation));
    }
}

fn meaning(operation: MeasuredOperation) -> &'static str {
    match operation {
        MeasuredOperation::Read => "read, to application",
        MeasuredOperation::Ask => "send, to application",
        MeasuredOperation::Write => "write, from application",
        MeasuredOperation::Send => "send, from application",
    }
}

/// One-sided operations are drawn through, two-sided ones dashed.
fn is_dashed(operation: MeasuredOperation) -> bool {
    operation.sides() == Sides::Two
}

fn plot(
    svg: &mut Svg,
    leg: &Leg<'_>,
    quantity: Quantity,
    (left, top): (f64, f64),
    advised: Option<&ChunkAdvice>,
) {
    let values = leg.measurements().map(|one| quantity.of(one));
    let vertical = match quantity {
        Quantity::Bandwidth => Axis::linear(values, (top + PLOT_HEIGHT, top)),
        Quantity::Latency => Axis::decades(values, (top + PLOT_HEIGHT, top)),
    };
    let ends = [SIZES[0], SIZES[SIZES.len() - 1]].map(|size| size as f64);
    // Half a step of room on both sides.
    let horizontal = Axis::logarithmic((ends[0] / 1.3, ends[1] * 1.3), (left, left + PLOT_WIDTH));
    frame(svg, (left, top), &horizontal, &vertical);
    svg.upright(left - 52.0, top + PLOT_HEIGHT / 2.0, 12.0, TEXT, quantity.label());
    svg.text(
        left + PLOT_WIDTH / 2.0,
        top + PLOT_HEIGHT + 38.0,
        12.0,
        TEXT,
        Anchor::Middle,
        "size of a transfer",
    );
    if let Some(advice) = advised {
        advise(svg, horizontal.at(advice.size_bytes as f64), top, advice);
    }
    for operation in MeasuredOperation::ALL {
        let figures = leg.best(operation);
        let place = |one: &&Measurement| (horizontal.at(one.size as f64), vertical.at(quantity.of(one)));
        let points: Vec<(f64, f64)> = figures.iter().map(place).collect();
        svg.path(&points, colour(operation), is_dashed(operation));
        for point in points {
            svg.mark(point, colour(operation), is_dashed(operation));
        }
    }
}

/// The grid with its labels.
fn frame(svg: &mut Svg, (left, top): (f64, f64), horizontal: &Axis, vertical: &Axis) {
    let (right, bottom) = (left + PLOT_WIDTH, top + PLOT_HEIGHT);
    for tick in vertical.ticks() {
        let y = vertical.at(tick);
        svg.line((left, y), (right, y), GRID, 1.0, false);
        svg.text(left - 8.0, y + 4.0, 11.0, FAINT, Anchor::End, &axis::number(tick));
    }
    for (number, size) in SIZES.into_iter().enumerate() {
        let x = horizontal.at(size as f64);
        svg.line((x, top), (x, bottom), GRID, 1.0, false);
        // All of them would not fit.
        if number % 2 == 0 {
            svg.text(x, bottom + 18.0, 11.0, FAINT, Anchor::Middle, &words::size(size));
        }
    }
    svg.line((left, top), (left, bottom), FRAME, 1.0, false);
    svg.line((left, bottom), (right, bottom), FRAME, 1.0, false);
}

/// Shows which size is large enough.
fn advise(svg: &mut Svg, x: f64, top: f64, advice: &ChunkAdvice) {
    svg.line((x, top), (x, top + PLOT_HEIGHT), FAINT, 1.2, true);
    let text = format!("{}: {:.0} % of the peak", words::size(advice.size_bytes), ENOUGH * 100.0);
    // On the side where there is more room.
    let (anchor, x) = match advice.size_bytes {
        size if size > 256 << 10 => (Anchor::End, x - 5.0),
        _ => (Anchor::Start, x + 5.0),
    };
    svg.text(x, top - 5.0, 11.0, FAINT, anchor, &text);
}

#[cfg(test)]
mod tests;
