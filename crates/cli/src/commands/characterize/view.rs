//! Figures and conclusions for people.

use std::time::Duration;

use comfy_table::{CellAlignment, Table};
use outboard_measure::characterize::{Characterization, Leg, MeasuredOperation, SIZES};

use crate::{numbers, terminal};

const LEGEND: &str = "← to the application, → from it. read and write are one-sided, send is a frame and its answer. \
                      Bandwidth with many transfers under way, median latency of one at a time.";

/// A table for each daemon and link, then the conclusions.
pub(super) fn to_text(found: &Characterization) -> String {
    let mut text = String::new();
    for leg in Leg::all(&found.measurements) {
        text += &format!("{}\n{}\n\n", leg.title(), table(&leg));
    }
    let width = usize::from(terminal::width());
    text += &wrapped(["", ""], LEGEND, width);
    text += "\nwhat follows\n";
    for sentence in found.sentences() {
        text += &wrapped(["- ", "  "], &sentence, width);
    }
    text + "\n" + wrapped(["", ""], &found.environment.summary(), width).trim_end()
}

/// A row for each size and memory node.
fn table(leg: &Leg<'_>) -> Table {
    let nodes = leg.nodes();
    let label = |operation: MeasuredOperation| operation.label();
    let [one, two, three, four] = MeasuredOperation::ALL.map(label);
    let mut table = match nodes.len() {
        1 => terminal::table(["size", one, two, three, four]),
        _ => terminal::table(["size", "node", one, two, three, four]),
    };
    for size in SIZES {
        for node in &nodes {
            let mut row = vec![numbers::bytes(size as u64)];
            if nodes.len() > 1 {
                row.push(node.map_or("any".to_owned(), |node| node.to_string()));
            }
            row.extend(MeasuredOperation::ALL.map(|operation| {
                let figure = leg
                    .measurements()
                    .find(|figure| (figure.operation, figure.size, figure.node) == (operation, size, *node));
                figure.map_or("–".to_owned(), |figure| {
                    let bandwidth = numbers::bandwidth(figure.bandwidth as u64, Duration::from_secs(1));
                    let latency = numbers::time(Duration::from_nanos(figure.latency_ns as u64));
                    format!("{bandwidth} {latency:>8}")
                })
            }));
            table.add_row(row);
        }
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// A sentence in lines of at most `width` letters, the first with another beginning than the rest.
fn wrapped([first, rest]: [&str; 2], sentence: &str, width: usize) -> String {
    let (mut text, mut line) = (String::new(), first.to_owned());
    let mut is_begun = false;
    for word in sentence.split(' ') {
        if is_begun && line.chars().count() + 1 + word.chars().count() > width {
            text += &format!("{line}\n");
            (line, is_begun) = (rest.to_owned(), false);
        }
        line += if is_begun { " " } else { "" };
        line += word;
        is_begun = true;
    }
    text + &format!("{line}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_broken_between_words() {
        let list = ["- ", "  "];
        assert_eq!(wrapped(list, "one two three", 10), "- one two\n  three\n");
        assert_eq!(wrapped(list, "unbreakableword", 5), "- unbreakableword\n");
        assert_eq!(wrapped(["", ""], "short words", 80), "short words\n");
    }
}
