//! Numbers with units, as people write them, read and shown exactly: the one reader for sizes, counts, times and rates.

/// Which part of a quantity was not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It does not begin with a decimal number.
    Number,
    /// The letters behind the number are none of the units.
    Unit,
    /// It is not a whole number of the smallest unit.
    Fraction,
    /// It is too large.
    Size,
}

/// The most digits that a number may have after its point.
const DECIMALS_MAX: usize = 18;

/// Reads a decimal number and its unit, each of which counts as many of the smallest as stand beside it. Units may be
/// written in small or capital letters.
pub fn parse(text: &str, units: &[(&str, u128)]) -> Result<u128, Part> {
    let text = text.trim();
    let number_end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(number_end);
    let (whole, decimals) = match number.split_once('.') {
        Some((_, "")) => return Err(Part::Number),
        Some((_, decimals)) if decimals.contains('.') => return Err(Part::Number),
        Some(parts) => parts,
        None => (number, ""),
    };
    if whole.is_empty() {
        return Err(Part::Number);
    }
    if decimals.len() > DECIMALS_MAX {
        return Err(Part::Fraction);
    }
    let is_it = |(name, _): &&(&str, u128)| name.eq_ignore_ascii_case(unit.trim_start());
    let (_, factor) = units.iter().find(is_it).ok_or(Part::Unit)?;
    let digits: u128 = format!("{whole}{decimals}").parse().map_err(|_| Part::Size)?;
    let scaled = digits.checked_mul(*factor).ok_or(Part::Size)?;
    let scale = 10u128.pow(decimals.len() as u32);
    if scaled.is_multiple_of(scale) { Ok(scaled / scale) } else { Err(Part::Fraction) }
}

/// Writes a quantity in the first unit of which it is a whole number.
pub fn show(quantity: u128, units: &[(&str, u128)]) -> String {
    match units.iter().find(|(_, factor)| quantity.is_multiple_of(*factor)) {
        Some((name, factor)) => format!("{}{name}", quantity / factor),
        None => quantity.to_string(),
    }
}
