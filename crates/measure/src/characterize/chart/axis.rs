//! From values to places, and where to put labels.

/// One axis of a plot.
pub(super) struct Axis {
    /// The values at both ends, as logarithms if it is logarithmic.
    range: (f64, f64),
    /// The places of both ends, in pixels.
    places: (f64, f64),
    is_logarithmic: bool,
    /// The distance between labels, on a linear axis.
    step: f64,
}

impl Axis {
    /// From zero to a round number not below any value.
    pub(super) fn linear(values: impl Iterator<Item = f64>, places: (f64, f64)) -> Self {
        let most = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        let most = if most > 0.0 { most } else { 1.0 };
        let step = round_step(most / 5.0);
        let top = (most / step).ceil() * step;
        Self { range: (0.0, top), places, is_logarithmic: false, step }
    }

    /// Whole powers of ten around all values.
    pub(super) fn decades(values: impl Iterator<Item = f64>, places: (f64, f64)) -> Self {
        let usable = values.filter(|value| value.is_finite() && *value > 0.0);
        let (least, most) =
            usable.fold((f64::INFINITY, 0.0_f64), |(least, most), value| (least.min(value), most.max(value)));
        let (least, most) = if most > 0.0 { (least, most) } else { (1.0, 10.0) };
        let (first, last) = (least.log10().floor(), most.log10().ceil());
        Self::logarithmic((10f64.powf(first), 10f64.powf(last.max(first + 1.0))), places)
    }

    /// Between two values above zero.
    pub(super) fn logarithmic((first, last): (f64, f64), places: (f64, f64)) -> Self {
        Self { range: (first.log10(), last.log10()), places, is_logarithmic: true, step: 0.0 }
    }

    /// Where a value lies; values outside of the range lie at its end.
    pub(super) fn at(&self, value: f64) -> f64 {
        let value = if self.is_logarithmic { value.max(f64::MIN_POSITIVE).log10() } else { value };
        let share = (value - self.range.0) / (self.range.1 - self.range.0);
        self.places.0 + share.clamp(0.0, 1.0) * (self.places.1 - self.places.0)
    }

    /// The values to label: round numbers, or powers of ten.
    pub(super) fn ticks(&self) -> Vec<f64> {
        let (first, last) = self.range;
        if self.is_logarithmic {
            let decades = first.ceil() as i32..=(last + 1e-9).floor() as i32;
            return decades.map(|decade| 10f64.powi(decade)).collect();
        }
        let count = (last / self.step).round() as usize;
        (0..=count).map(|number| number as f64 * self.step).collect()
    }
}

/// The next of 1, 2, 2.5, 5 times a power of ten that is not below `least`.
fn round_step(least: f64) -> f64 {
    let decade = 10f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
    steps.into_iter().map(|step| step * decade).find(|step| *step >= least * 0.999).unwrap_or(10.0 * decade)
}

/// A label without digits that say nothing.
pub(super) fn number(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        value if value >= 10.0 => format!("{value:.0}"),
        value => {
            let text = format!("{value:.2}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_axis_ends_at_a_round_number_above_all_values() {
        let axis = Axis::linear([1.0, 11.3].into_iter(), (100.0, 0.0));
        assert_eq!(axis.ticks(), [0.0, 2.5, 5.0, 7.5, 10.0, 12.5]);
        assert_eq!((axis.at(0.0), axis.at(12.5), axis.at(6.25)), (100.0, 0.0, 50.0));
        assert_eq!(axis.at(99.0), 0.0);
    }

    #[test]
    fn a_logarithmic_axis_has_decades() {
        let axis = Axis::decades([0.4, 30.0].into_iter(), (0.0, 300.0));
        assert_eq!(axis.ticks(), [0.1, 1.0, 10.0, 100.0]);
        assert!((axis.at(1.0) - 100.0).abs() < 1e-9);
    }

    #[test]
    fn values_that_say_nothing_do_no_harm() {
        for values in [vec![], vec![0.0], vec![f64::NAN, f64::INFINITY]] {
            for axis in [
                Axis::linear(values.iter().copied(), (0.0, 1.0)),
                Axis::decades(values.iter().copied(), (0.0, 1.0)),
            ] {
                assert!(axis.ticks().len() >= 2 && axis.at(0.5).is_finite());
            }
        }
    }

    #[test]
    fn labels_are_short() {
        let labels = [0.0, 0.01, 0.5, 2.5, 10.0, 1000.0].map(number);
        assert_eq!(labels, ["0", "0.01", "0.5", "2.5", "10", "1000"]);
    }
}
