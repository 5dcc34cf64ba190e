//! Figures of more and more nodes, as one small table.

use std::fmt;

use comfy_table::{CellAlignment, Table, presets};

use super::{Figure, Unit};

/// What follows the number of nodes in the name of a time.
const TIME: &str = "_over_1";

/// Figures by the names `room.SUBJECT.weak_scaling.NODES_over_1` and `room.SUBJECT.weak_scaling.NODES.WHAT`: a row for each
/// subject and number of nodes.
pub(super) struct Growth<'a>(Vec<Row<'a>>);

struct Row<'a> {
    subject: &'a str,
    nodes: &'a str,
    cells: Vec<(&'a str, &'a Figure)>,
}

impl<'a> Growth<'a> {
    /// The subject, the number of nodes and the rest of the name of a figure, if it belongs to such a table.
    pub(super) fn place(name: &str) -> Option<(&str, &str, &str)> {
        let (subject, rest) = name.split_once(".weak_scaling.")?;
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).filter(|digits| *digits > 0)?;
        let (nodes, what) = rest.split_at(digits);
        Some((subject.rsplit('.').next().unwrap_or(subject), nodes, what.trim_start_matches('.')))
    }

    /// Those among these figures; none if there are none.
    pub(super) fn of(figures: &'a [Figure]) -> Option<Self> {
        let mut rows: Vec<Row<'a>> = Vec::new();
        for figure in figures {
            let Some((subject, nodes, what)) = Self::place(&figure.name) else { continue };
            match rows.iter_mut().find(|row| (row.subject, row.nodes) == (subject, nodes)) {
                Some(row) => row.cells.push((what, figure)),
                None => rows.push(Row { subject, nodes, cells: vec![(what, figure)] }),
            }
        }
        (!rows.is_empty()).then_some(Self(rows))
    }

    /// What is told beside the times, in the order in which it first appears.
    fn others(&self) -> Vec<&'a str> {
        let mut others = Vec::new();
        for (what, _) in self.0.iter().flat_map(|row| &row.cells) {
            if *what != TIME && !others.contains(what) {
                others.push(*what);
            }
        }
        others
    }
}

impl fmt::Display for Growth<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        let others = self.others();
        let heads = others.iter().map(|what| what.replace('_', " "));
        table.set_header(
            ["weak scaling", "nodes", "time", "over one node"].map(str::to_owned).into_iter().chain(heads),
        );
        for Row { subject, nodes, cells } in &self.0 {
            let find =
                |wanted: &str| cells.iter().find(|(what, _)| *what == wanted).map(|(_, figure)| figure);
            let time = find(TIME).map(|figure| figure.unit.show(figure.value)).unwrap_or_default();
            let ratio = find(TIME).map(|figure| Unit::Slowdown.show(figure.ratio)).unwrap_or_default();
            let rest = others.iter().map(|what| {
                find(what).map_or_else(|| "–".to_owned(), |figure| figure.unit.show(figure.value))
            });
            let first = [(*subject).to_owned(), (*nodes).to_owned(), time, ratio];
            table.add_row(first.into_iter().chain(rest));
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        write!(f, "{}", table.trim_fmt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_and_numbers_of_nodes_are_rows() {
        let time = |name: &str, value| Figure::new(name, Unit::Milliseconds, value, 10.0, "one node");
        let bundle = |name: &str, value| Figure::new(name, Unit::BytesPerBundle, value, 1.0, "two nodes");
        let figures = [
            time("cluster.tls.overhead", 1.0),
            time("cluster.sum.weak_scaling.1_over_1", 10.0),
            bundle("cluster.sum.weak_scaling.1.bundle_to_ranks", 8000.0),
            time("cluster.sum.weak_scaling.8_over_1", 25.0),
            bundle("cluster.sum.weak_scaling.8.bundle_between_agents", 30_000.0),
            bundle("cluster.sum.weak_scaling.8.bundle_to_ranks", 9000.0),
        ];
        let text = Growth::of(&figures).unwrap().to_string();
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["sum", "1", "10.00", "ms", "1.00", "8.00", "kB", "–"], "{text}");
        assert_eq!(lines[2], ["sum", "8", "25.00", "ms", "2.50", "9.00", "kB", "30.00", "kB"], "{text}");
        assert!(Growth::of(&figures[..1]).is_none());
        assert_eq!(Growth::place("cluster.sum.weak_scaling.over_1"), None);
    }
}
