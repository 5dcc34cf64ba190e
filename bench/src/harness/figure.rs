//! A measured number beside what it is compared with.

use outboard_measure::Unit;
use serde::Serialize;

/// A measured number and how it compares.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// What was measured, for programs: `room.what.how`. Never changes its meaning.
    pub name: String,
    /// The number.
    pub value: f64,
    /// What it counts.
    pub unit: Unit,
    /// What it is compared with, and which way is better.
    pub versus: String,
    /// The number over that of the yardstick in the same run.
    pub ratio: f64,
    /// The yardstick's own number.
    #[serde(skip)]
    pub yardstick: f64,
    /// The best rounds of both, if the numbers are medians over rounds: far from them where something disturbed.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "ours")]
    pub best: Option<[f64; 2]>,
    /// The number once more, if it is the median over rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median: Option<f64>,
}

/// Programs are told our best round.
fn ours<S: serde::Serializer>(best: &Option<[f64; 2]>, serializer: S) -> Result<S::Ok, S::Error> {
    best.map(|[ours, _]| ours).serialize(serializer)
}

impl Figure {
    /// Compares `value` with what `yardstick` did at the same work.
    pub fn new(name: impl Into<String>, unit: Unit, value: f64, yardstick: f64, versus: &str) -> Self {
        let versus = format!("{versus} ({})", unit.better().words());
        let (name, ratio) = (name.into(), value / yardstick);
        Self { name, value, unit, versus, ratio, yardstick, best: None, median: None }
    }

    /// The number and the yardstick's are medians over rounds, of which these were the best.
    pub fn with_best(self, ours: f64, yardstick: f64) -> Self {
        Self { best: Some([ours, yardstick]), median: Some(self.value), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_ours_over_the_yardstick() {
        let figure = Figure::new("a.b", Unit::Nanoseconds, 3.0, 2.0, "memcpy");
        assert_eq!((figure.ratio, figure.versus.as_str()), (1.5, "memcpy (lower is better)"));
    }
}
