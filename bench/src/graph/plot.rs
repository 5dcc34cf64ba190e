//! The five applications with a third of their arrays here, as a picture.

use outboard_measure::{Anchor, Svg};

const WIDTH: f64 = 720.0;
const LEFT: f64 = 110.0;
const RIGHT: f64 = 90.0;
const TOP: f64 = 70.0;
const BAR: f64 = 16.0;
const GROUP: f64 = 2.0 * BAR + 18.0;
const GREY: &str = "#666666";
const MAPPED: &str = "#c0392b";
const FAR: &str = "#1e8449";

/// What one application took, in seconds.
pub(super) struct Row {
    pub(super) application: &'static str,
    pub(super) mapped: f64,
    pub(super) far: f64,
}

/// Draws two bars for each application: the same files mapped into memory, and far memory.
pub(super) fn picture(rows: &[Row]) -> String {
    let height = TOP + GROUP * rows.len() as f64 + 12.0;
    let most = rows.iter().map(|row| row.mapped.max(row.far)).fold(f64::MIN_POSITIVE, f64::max);
    let width = |seconds: f64| seconds / most * (WIDTH - LEFT - RIGHT);
    let mut svg = Svg::new(WIDTH, height);
    let title = "Graph applications with a third of the memory they need (seconds, less is better)";
    svg.heading(16.0, 26.0, 15.0, "#222222", title);
    svg.text(LEFT, 50.0, 12.0, MAPPED, Anchor::Start, "before: files mapped into memory");
    svg.text(LEFT + 230.0, 50.0, 12.0, FAR, Anchor::Start, "after: far memory");
    for (at, row) in rows.iter().enumerate() {
        let y = TOP + GROUP * at as f64;
        svg.text(LEFT - 10.0, y + BAR + 4.0, 13.0, "#222222", Anchor::End, row.application);
        for (number, (seconds, colour)) in [(row.mapped, MAPPED), (row.far, FAR)].into_iter().enumerate() {
            let (y, width) = (y + BAR * number as f64, width(seconds));
            svg.bar((LEFT, y), (width, BAR - 2.0), colour);
            let faster =
                if number == 1 { format!(" ({:.1} ×)", row.mapped / row.far) } else { String::new() };
            let shown = format!("{seconds:.2} s{faster}");
            svg.text(LEFT + width + 6.0, y + BAR - 4.0, 12.0, GREY, Anchor::Start, &shown);
        }
    }
    svg.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_fits_and_the_gain_is_written_beside_it() {
        let rows = [Row { application: "bfs", mapped: 4.0, far: 2.0 }];
        let picture = picture(&rows);
        assert!(picture.contains("4.00 s<") && picture.contains("2.00 s (2.0 ×)<"), "{picture}");
        assert!(picture.contains(&format!("width=\"{:.1}\"", WIDTH - LEFT - RIGHT)), "{picture}");
    }
}
