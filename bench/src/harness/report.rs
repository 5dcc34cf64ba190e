//! What a benchmark hands back.

use std::fmt;

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::breakdown::Breakdown;
use super::growth::Growth;
use super::{Environment, Figure};

/// All figures of one benchmark. As JSON one object; displayed, a table for people.
#[derive(Clone, Debug, Serialize)]
pub struct BenchReport {
    /// Which benchmark.
    pub bench: &'static str,
    /// What it found.
    pub figures: Vec<Figure>,
    /// Where.
    pub environment: Environment,
}

impl BenchReport {
    /// One line of JSON.
    pub fn to_json(&self) -> String {
        // Strings as keys and finite numbers always serialise.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl fmt::Display for BenchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        table.set_header(["figure", "ours", "(best)", "yardstick", "(best)", "ratio", "versus"]);
        let mut notes: Vec<&str> = Vec::new();
        let breakdown = Breakdown::of(&self.figures);
        let growth = Growth::of(&self.figures);
        let is_elsewhere = |name: &str| Breakdown::place(name).is_some() || Growth::place(name).is_some();
        let others = self.figures.iter().filter(|figure| !is_elsewhere(&figure.name));
        for Figure { name, value, unit, versus, ratio, yardstick, best, .. } in others {
            let known = notes.iter().position(|note| note == versus);
            let note = known.unwrap_or_else(|| {
                notes.push(versus);
                notes.len() - 1
            });
            let [ours_best, best] = best.map(|both| both.map(|best| unit.show(best))).unwrap_or_default();
            let (ours, yardstick) = (unit.show(*value), unit.show(*yardstick));
            let (ratio, note) = (format!("{ratio:.2}"), format!("[{}]", note + 1));
            table.add_row([name.clone(), ours, ours_best, yardstick, best, ratio, note]);
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        writeln!(f, "{}\n", table.trim_fmt())?;
        for (number, note) in notes.iter().enumerate() {
            writeln!(f, " [{}] {note}", number + 1)?;
        }
        if let Some(breakdown) = breakdown {
            writeln!(f, "\n{breakdown}")?;
        }
        if let Some(growth) = growth {
            writeln!(f, "\n{growth}")?;
        }
        write!(f, "\n {}", self.environment.summary())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Effort, Unit};
    use super::*;

    #[test]
    fn json_has_exactly_the_agreed_fields() {
        let figures = vec![Figure::new("a.b.rate", Unit::BytesPerSecond, 3.0, 4.0, "a bare socket")];
        let environment = Environment::survey(Effort::Quick, 2, vec![0, 1]);
        let report = BenchReport { bench: "link", figures, environment };
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        let keys: Vec<_> = json.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["bench", "environment", "figures"]);
        assert_eq!(
            json["figures"][0],
            serde_json::json!({"name": "a.b.rate", "value": 3.0, "unit": "bytes/s",
                "versus": "a bare socket (higher is better)", "ratio": 0.75})
        );
        let measured =
            Figure::new("a.b.rate", Unit::BytesPerSecond, 3.0, 4.0, "a bare socket").with_best(3.5, 5.0);
        let json = serde_json::to_value(&measured).unwrap();
        assert_eq!((&json["best"], &json["median"]), (&3.5.into(), &3.0.into()));
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(json["environment"]["effort"], "quick");
        assert!(report.to_string().contains("a.b.rate"), "{report}");
    }
}
