//! Figures that add one thing after the other, as one small table.

use std::fmt;

use comfy_table::{CellAlignment, Table, presets};

use super::Figure;

/// Steps whose names say less than their heads should.
const SPOKEN: [(&str, &str); 3] =
    [("forwarding", "asynchronous forwarding"), ("static", "static cache"), ("dynamic", "dynamic cache")];

/// Figures by the names `room.SUBJECT.breakdown.STEP`: a row for each subject, a column for each step.
pub(super) struct Breakdown<'a> {
    versus: &'a str,
    steps: Vec<&'a str>,
    rows: Vec<(&'a str, Vec<&'a Figure>)>,
}

impl<'a> Breakdown<'a> {
    /// The subject and the step that a figure of this name is about, if it belongs to a breakdown.
    pub(super) fn place(name: &str) -> Option<(&str, &str)> {
        let (subject, step) = name.split_once(".breakdown.")?;
        Some((subject.rsplit('.').next().unwrap_or(subject), step))
    }

    /// Those among these figures; none if there are none.
    pub(super) fn of(figures: &'a [Figure]) -> Option<Self> {
        let mut breakdown: Option<Self> = None;
        for figure in figures {
            let Some((subject, step)) = Self::place(&figure.name) else { continue };
            let Figure { versus, .. } = figure;
            let it = breakdown.get_or_insert(Self { versus, steps: Vec::new(), rows: Vec::new() });
            if !it.steps.contains(&step) {
                it.steps.push(step);
            }
            match it.rows.iter_mut().find(|(known, _)| *known == subject) {
                Some((_, row)) => row.push(figure),
                None => it.rows.push((subject, vec![figure])),
            }
        }
        breakdown
    }
}

impl fmt::Display for Breakdown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        let spoken = |(number, step): (usize, &&str)| {
            let longer = SPOKEN.iter().find(|(name, _)| name == step).map(|(_, words)| (*words).to_owned());
            let step = longer.unwrap_or_else(|| step.replace('_', " "));
            if number == 0 { step } else { format!("+ {step}") }
        };
        let heads = self.steps.iter().enumerate().map(spoken);
        table.set_header(std::iter::once("breakdown".to_owned()).chain(heads));
        for (subject, row) in &self.rows {
            let cell = |step: &&str| {
                let is_it = |figure: &&&Figure| Self::place(&figure.name).is_some_and(|(_, is)| is == *step);
                row.iter().find(is_it).map(|figure| figure.unit.show(figure.value)).unwrap_or_default()
            };
            table.add_row(std::iter::once((*subject).to_owned()).chain(self.steps.iter().map(cell)));
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        writeln!(f, "{}", table.trim_fmt())?;
        write!(f, " versus {}", self.versus)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Unit;
    use super::*;

    #[test]
    fn subjects_are_rows_and_steps_are_columns() {
        let figure = |name: &str, value| Figure::new(name, Unit::Ratio, value, 1.0, "the first step");
        let figures = [
            figure("graph.bfs.other", 9.0),
            figure("graph.bfs.breakdown.base_proxy", 1.0),
            figure("graph.bfs.breakdown.aggregation", 1.25),
            figure("graph.radii.breakdown.base_proxy", 1.0),
            figure("graph.radii.breakdown.aggregation", 2.5),
        ];
        let text = Breakdown::of(&figures).unwrap().to_string();
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["breakdown", "base", "proxy", "+", "aggregation"], "{text}");
        assert_eq!(lines[1], ["bfs", "1.00", "1.25"], "{text}");
        assert_eq!(lines[2], ["radii", "1.00", "2.50"], "{text}");
        assert!(text.ends_with(" versus the first step (higher is better)"), "{text}");
        assert!(Breakdown::of(&figures[..1]).is_none());
    }
}
