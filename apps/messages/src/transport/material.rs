//! What particles meet: two materials of several isotopes each, with made-up cross sections by energy.

use crate::random::Random;

/// How many ranges of energy are told apart.
pub(crate) const GROUPS: usize = 230;
const ISOTOPES: usize = 10;
/// The bounds of energies, in MeV.
const ENERGY_MIN: f64 = 1e-9;
const ENERGY_MAX: f64 = 20.0;
/// Cross sections of a whole material for scattering, absorption and fission, per centimetre.
const FUEL: [f64; 3] = [0.8, 0.08, 0.05];
const MODERATOR: [f64; 3] = [1.1, 0.05, 0.0];
/// How many cells share a material in each direction.
const PATCH: u32 = 4;

/// What can happen when a particle meets a nucleus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reaction {
    Scatter,
    Absorb,
    Fission,
}

const REACTIONS: [Reaction; 3] = [Reaction::Scatter, Reaction::Absorb, Reaction::Fission];

/// A kind of nucleus.
struct Isotope {
    /// The least part of its energy that a scattered particle keeps.
    keeps: f64,
    /// Cross sections for each reaction, by energy.
    sections: Vec<[f64; 3]>,
}

/// Isotopes in a mixture.
pub(crate) struct Material {
    isotopes: Vec<Isotope>,
    /// The sum of all cross sections, by energy.
    totals: Vec<f64>,
}

impl Material {
    fn draw(mixture: [f64; 3], random: &mut Random) -> Self {
        let isotopes: Vec<Isotope> = (0..ISOTOPES).map(|_| Isotope::draw(mixture, random)).collect();
        let total = |group: usize| isotopes.iter().flat_map(|isotope| isotope.sections[group]).sum();
        Self { totals: (0..GROUPS).map(total).collect(), isotopes }
    }

    /// How many collisions a centimetre brings.
    #[inline]
    pub(crate) fn total(&self, group: u32) -> f64 {
        self.totals[group as usize]
    }

    /// What happens in a collision, and which part of its energy a particle keeps at least.
    pub(crate) fn react(&self, group: u32, random: &mut Random) -> (Reaction, f64) {
        let mut left = random.fraction() * self.total(group);
        for isotope in &self.isotopes {
            for (reaction, section) in REACTIONS.iter().zip(isotope.sections[group as usize]) {
                left -= section;
                if left < 0.0 {
                    return (*reaction, isotope.keeps);
                }
            }
        }
        // Rounding left a little more than nothing.
        (Reaction::Scatter, 0.0)
    }
}

impl Isotope {
    fn draw(mixture: [f64; 3], random: &mut Random) -> Self {
        let mass = 1.0 + 237.0 * random.fraction();
        let keeps = ((mass - 1.0) / (mass + 1.0)).powi(2);
        let mut section = |reaction: usize, group: usize| {
            // Slow particles are absorbed more.
            let slowness = 1.0 - group as f64 / GROUPS as f64;
            let trend = if reaction == 0 { 1.0 } else { 0.5 + slowness };
            mixture[reaction] / ISOTOPES as f64 * trend * (0.7 + 0.6 * random.fraction())
        };
        let sections = (0..GROUPS).map(|group| [0, 1, 2].map(|reaction| section(reaction, group)));
        Self { keeps, sections: sections.collect() }
    }
}

/// All materials.
pub(crate) struct Materials([Material; 2]);

impl Materials {
    pub(crate) fn draw(seed: u64) -> Self {
        let mut random = Random::stream(seed, u64::MAX);
        Self([FUEL, MODERATOR].map(|mixture| Material::draw(mixture, &mut random)))
    }

    /// The material of a cell: patches of both, like a chessboard.
    #[inline]
    pub(crate) fn of(&self, cell: [u32; 3]) -> &Material {
        &self.0[(cell.iter().map(|at| at / PATCH).sum::<u32>() % 2) as usize]
    }
}

/// The range that an energy is in.
pub(crate) fn group_of(energy: f64) -> u32 {
    let part = (energy / ENERGY_MIN).ln() / (ENERGY_MAX / ENERGY_MIN).ln();
    ((part * GROUPS as f64) as u32).min(GROUPS as u32 - 1)
}

/// An energy that is not out of bounds.
pub(crate) fn bounded(energy: f64) -> f64 {
    energy.clamp(ENERGY_MIN, ENERGY_MAX)
}

/// How fast a neutron of this energy is, in centimetres per second.
pub(crate) fn speed_of(energy: f64) -> f64 {
    const MASS: f64 = 939.565;
    const LIGHT: f64 = 2.997_924_58e10;
    (2.0 * energy / MASS).sqrt() * LIGHT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energies_have_a_group_and_a_speed() {
        assert_eq!((group_of(ENERGY_MIN), group_of(ENERGY_MAX)), (0, GROUPS as u32 - 1));
        assert_eq!((bounded(0.0), bounded(1e9)), (ENERGY_MIN, ENERGY_MAX));
        assert!((1.3e9..1.5e9).contains(&speed_of(1.0)));
    }

    #[test]
    fn reactions_are_as_frequent_as_their_cross_sections() {
        let materials = Materials::draw(1);
        let mut random = Random::stream(1, 1);
        let mut counts = [0; 3];
        for _ in 0..20_000 {
            let (reaction, keeps) = materials.of([0, 0, 0]).react(100, &mut random);
            assert!((0.0..1.0).contains(&keeps));
            counts[reaction as usize] += 1;
        }
        let sum = |reaction: usize| -> f64 {
            materials.of([0, 0, 0]).isotopes.iter().map(|isotope| isotope.sections[100][reaction]).sum()
        };
        let total = materials.of([0, 0, 0]).total(100);
        for (reaction, count) in counts.iter().enumerate() {
            let expected = sum(reaction) / total * 20_000.0;
            assert!((f64::from(*count) - expected).abs() < 5.0 * expected.sqrt(), "{counts:?}, {expected}");
        }
        assert!((0..1000).all(|_| materials.of([4, 0, 0]).react(3, &mut random).0 != Reaction::Fission));
    }
}
