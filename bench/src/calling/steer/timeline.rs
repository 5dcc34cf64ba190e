//! Calls that each site answered, over time, as a picture.

use std::time::Duration;

use outboard::CallSite;

use outboard_measure::{Anchor, Svg};

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 110.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 50.0;
const GREY: &str = "#666666";

const SITES: [(CallSite, &str, &str); 3] = [
    (CallSite::Server, "server", "#2471a3"),
    (CallSite::Agent, "agent", "#c0392b"),
    (CallSite::Application, "application", "#1e8449"),
];

/// What was seen at one moment.
pub(super) struct Sample {
    pub(super) at: Duration,
    /// Calls that sites have answered so far, in the order of [`CallSite::ALL`].
    pub(super) answered: [u64; 3],
}

/// The rates between two samples each, in calls a second.
fn rates(samples: &[Sample], site: CallSite) -> Vec<(f64, f64)> {
    let rate = |pair: &[Sample]| {
        let span = (pair[1].at - pair[0].at).as_secs_f64().max(1e-9);
        let calls = pair[1].answered[site as usize].saturating_sub(pair[0].answered[site as usize]);
        (pair[1].at.as_secs_f64(), calls as f64 / span)
    };
    samples.windows(2).map(rate).collect()
}

/// Draws the rates of all sites, with the phases and their names.
pub(super) fn picture(samples: &[Sample], phases: &[(Duration, &str)]) -> String {
    let lines = SITES.map(|(site, ..)| rates(samples, site));
    let most = lines.iter().flatten().map(|(_, rate)| *rate).fold(1.0, f64::max);
    let end = samples.last().map_or(1.0, |sample| sample.at.as_secs_f64()).max(1e-3);
    let x = |seconds: f64| LEFT + seconds / end * (WIDTH - LEFT - RIGHT);
    let y = |rate: f64| HEIGHT - BOTTOM - rate / most * (HEIGHT - TOP - BOTTOM);
    let mut svg = Svg::new(WIDTH, HEIGHT);
    svg.heading(LEFT, 26.0, 15.0, "#222222", "Calls that each site answered");
    for step in 0..=4 {
        let rate = most * f64::from(step) / 4.0;
        svg.line((x(0.0), y(rate)), (x(end), y(rate)), "#dddddd", 1.0, false);
        svg.text(LEFT - 8.0, y(rate) + 4.0, 11.0, GREY, Anchor::End, &format!("{:.0} k", rate / 1e3));
    }
    for (began, name) in phases {
        let at = x(began.as_secs_f64());
        svg.line((at, TOP), (at, HEIGHT - BOTTOM), "#999999", 1.0, true);
        svg.text(at + 4.0, TOP - 8.0, 11.0, GREY, Anchor::Start, name);
    }
    svg.text(x(end / 2.0), HEIGHT - 14.0, 12.0, GREY, Anchor::Middle, &format!("{end:.1} seconds"));
    svg.upright(20.0, HEIGHT / 2.0, 12.0, GREY, "calls a second");
    for (number, (line, (_, name, colour))) in lines.iter().zip(SITES).enumerate() {
        let points: Vec<(f64, f64)> = line.iter().map(|(at, rate)| (x(*at), y(*rate))).collect();
        svg.path(&points, colour, false);
        svg.text(x(end) + 8.0, TOP + 16.0 * number as f64, 12.0, colour, Anchor::Start, name);
    }
    svg.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_site_has_its_line_and_every_phase_its_name() {
        let sample = |at, answered| Sample { at: Duration::from_millis(at), answered };
        let samples = [sample(0, [0; 3]), sample(10, [0, 5, 20]), sample(20, [0, 15, 20])];
        assert_eq!(rates(&samples, CallSite::Agent), [(0.01, 500.0), (0.02, 1000.0)]);
        let drawn = picture(&samples, &[(Duration::ZERO, "idle"), (Duration::from_millis(10), "busy")]);
        for word in ["server", "agent", "application", "idle", "busy", "</svg>"] {
            assert!(drawn.contains(word), "{word}");
        }
    }
}
