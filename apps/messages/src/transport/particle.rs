//! A particle: all that is known of it, so that it can go on anywhere.

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::material::{GROUPS, bounded, group_of, speed_of};
use crate::random::{Random, mix};

/// A particle, as it travels.
#[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct Particle {
    id: u64,
    /// Where its own random numbers are: what becomes of it depends on no other particle.
    random: u64,
    /// In centimetres, which is the side of a cell.
    pub(crate) position: [f64; 3],
    pub(crate) direction: [f64; 3],
    /// In MeV.
    energy: f64,
    pub(crate) speed: f64,
    /// How far it still goes before it collides, in mean free paths.
    pub(crate) paths_left: f64,
    /// How long it still goes in this time step, in seconds.
    pub(crate) time_left: f64,
    pub(crate) cell: [u32; 3],
    pub(crate) group: u32,
    children: u64,
}

impl Particle {
    /// A new one, somewhere in a cell.
    pub(crate) fn born(id: u64, seed: u64, cell: [u32; 3], time: f64) -> Self {
        let mut random = Random::stream(seed, id);
        let position = cell.map(|at| f64::from(at) + random.fraction());
        Self::new(id, random, position, cell, time)
    }

    fn new(id: u64, mut random: Random, position: [f64; 3], cell: [u32; 3], time_left: f64) -> Self {
        let part = random.fraction();
        let energy = bounded(0.5 + 5.0 * part * part);
        let direction = any_direction(&mut random);
        let mut particle = Self {
            id,
            random: 0,
            position,
            direction,
            energy,
            speed: speed_of(energy),
            paths_left: 0.0,
            time_left,
            cell,
            group: group_of(energy),
            children: 0,
        };
        particle.draw_path(&mut random);
        particle.random = random.state();
        particle
    }

    /// The same with so much time to go.
    pub(crate) fn with_time(self, time_left: f64) -> Self {
        Self { time_left, ..self }
    }

    /// Another one that is set free where this one is.
    pub(crate) fn child(&mut self, seed: u64) -> Self {
        self.children += 1;
        let id = mix(self.id ^ mix(self.children));
        Self::new(id, Random::stream(seed, id), self.position, self.cell, self.time_left)
    }

    /// Goes on in another direction, with at least this part of its energy.
    pub(crate) fn scatter(&mut self, keeps: f64, random: &mut Random) {
        self.energy = bounded(self.energy * (keeps + (1.0 - keeps) * random.fraction()));
        self.speed = speed_of(self.energy);
        self.group = group_of(self.energy);
        self.direction = any_direction(random);
        self.draw_path(random);
    }

    fn draw_path(&mut self, random: &mut Random) {
        // Never the logarithm of zero.
        self.paths_left = -(1.0 - random.fraction()).ln();
    }

    /// Its random numbers, for as long as it needs them.
    pub(crate) fn with_random<R>(&mut self, work: impl FnOnce(&mut Self, &mut Random) -> R) -> R {
        let mut random = Random::at(self.random);
        let result = work(self, &mut random);
        self.random = random.state();
        result
    }

    /// Whether it can go on: what others send is not believed.
    pub(crate) fn is_sound(&self) -> bool {
        let Self { position, direction, energy, speed, paths_left, time_left, .. } = self;
        let numbers = position.iter().chain(direction).chain([energy, speed, paths_left, time_left]);
        numbers.copied().all(f64::is_finite)
            && *speed > 0.0
            && *time_left >= 0.0
            && direction.iter().any(|part| *part != 0.0)
            && (self.group as usize) < GROUPS
    }

    /// A number that depends on all that is known of it.
    pub(crate) fn fingerprint(&self) -> u64 {
        let words = self.as_bytes().as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        words.fold(0, |print, word| mix(print ^ word))
    }
}

fn any_direction(random: &mut Random) -> [f64; 3] {
    let height = 2.0 * random.fraction() - 1.0;
    let angle = std::f64::consts::TAU * random.fraction();
    let radius = (1.0 - height * height).sqrt();
    [radius * angle.cos(), radius * angle.sin(), height]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_particle_is_where_it_should_be_and_depends_on_its_number_alone() {
        let particle = Particle::born(7, 1, [3, 0, 9], 1.0);
        assert!(particle.is_sound());
        assert!((0..3).all(|axis| particle.position[axis].floor() == f64::from(particle.cell[axis])));
        let length: f64 = particle.direction.iter().map(|part| part * part).sum();
        assert!((length - 1.0).abs() < 1e-12);
        assert_eq!(particle, Particle::born(7, 1, [3, 0, 9], 1.0));
        assert_ne!(particle.fingerprint(), Particle::born(8, 1, [3, 0, 9], 1.0).fingerprint());
    }

    #[test]
    fn children_differ_from_each_other() {
        let mut parent = Particle::born(7, 1, [0, 0, 0], 1.0);
        let (one, other) = (parent.child(1), parent.child(1));
        assert_ne!((one.id, one.direction), (other.id, other.direction));
        assert_eq!((one.position, one.time_left), (parent.position, parent.time_left));
    }

    #[test]
    fn what_cannot_go_on_is_not_believed() {
        let sound = Particle::born(7, 1, [0, 0, 0], 1.0);
        let unsound = [
            Particle { speed: 0.0, ..sound },
            Particle { paths_left: f64::NAN, ..sound },
            Particle { direction: [0.0; 3], ..sound },
            Particle { group: GROUPS as u32, ..sound },
            Particle { position: [0.0, f64::INFINITY, 0.0], ..sound },
        ];
        assert!(unsound.iter().all(|particle| !particle.is_sound()));
    }
}
