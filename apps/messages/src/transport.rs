//! Transport: particles fly through a mesh of cells, collide, are scattered, absorbed or set others free, and travel to
//! another rank as a message when they come to its cells. A proxy of Monte Carlo codes, after Quicksilver.
//!
//! Every particle has its own random numbers, and tallies are whole numbers: the result is the same for any number of
//! ranks, bit for bit.

mod material;
mod mesh;
mod particle;
mod walk;

use outboard::{Bundle, Messenger};
use serde::{Deserialize, Serialize};

use self::material::Materials;
use self::mesh::Mesh;
use self::particle::Particle;
use self::walk::{Cells, End, Tally, World};
use crate::application::{Application, NamedNumber, Part};
use crate::error::{AppError, require};
use crate::random::mix;
use crate::team::{Desk, Team, values};
use crate::watch::Accesses;

/// The most cells in each direction, and particles, so that none of them share a number.
const CELLS_MAX: u32 = 1 << 10;
const PARTICLES_MAX: u64 = 1 << 32;
const STEPS_MAX: u32 = 1 << 16;
/// How long a time step is, in seconds.
const STEP: f64 = 4e-9;
/// In later steps so many times fewer particles are born than in the first.
const LATER: u64 = 10;
/// How many particles a rank follows before it looks whether others have come.
const LOOK_EVERY: u32 = 256;

/// How large a transport problem is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Transport {
    /// How many cells in each direction.
    pub mesh: [u32; 3],
    /// How many particles are born in the first time step. In later ones, a tenth of them.
    pub particles: u64,
    /// How many time steps.
    pub steps: u32,
    /// Which of the many problems of this size.
    pub seed: u64,
}

impl Transport {
    fn world(&self, ranks: u32) -> Result<World, AppError> {
        let [x, y, z] = self.mesh;
        let mesh = Mesh::new(self.mesh, ranks).ok_or(AppError::Mesh { x, y, z, ranks })?;
        Ok(World { mesh, materials: Materials::draw(self.seed), seed: self.seed })
    }

    /// Begins a time step: who rests goes on, and others are born. They are spread over the mesh as evenly as can be.
    fn begin_step(&self, step: u32, domain: &mut Domain) {
        let [x, y, z] = self.mesh.map(u64::from);
        let (cells, particles) = (x * y * z, if step == 0 { self.particles } else { self.particles / LATER });
        let before = |cell: u64| (u128::from(particles) * u128::from(cell) / u128::from(cells)) as u64;
        let rested = domain.rested.drain(..);
        domain.moving.extend(rested.map(|particle| particle.with_time(STEP)));
        for cell in domain.cells.block.cells() {
            let number = (u64::from(cell[2]) * y + u64::from(cell[1])) * x + u64::from(cell[0]);
            for particle in before(number)..before(number + 1) {
                let id = mix(u64::from(step) << 32 ^ mix(particle));
                domain.moving.push(Particle::born(id, self.seed, cell, STEP));
                domain.born += 1;
            }
        }
    }
}

/// A rank's own part of the problem.
struct Domain {
    cells: Cells,
    /// Particles to follow, and those for which the time step is over.
    moving: Vec<Particle>,
    rested: Vec<Particle>,
    born: u64,
    travelled: u64,
}

impl Domain {
    fn new(world: &World, rank: u32) -> Result<Self, AppError> {
        let cells = Cells::new(world.mesh.block(rank))?;
        Ok(Self { cells, moving: Vec::new(), rested: Vec::new(), born: 0, travelled: 0 })
    }

    /// Follows the next particle. Returns it if it has come to another rank's cell.
    fn follow_one(&mut self, world: &World) -> Option<Particle> {
        let mut particle = self.moving.pop()?;
        match self.cells.walk(world, &mut particle, |child| self.moving.push(child)) {
            End::Rest => self.rested.push(particle),
            End::Away => return Some(particle),
            End::Gone => {}
        }
        None
    }

    /// Follows all particles, and sends those away that come to others.
    fn follow(&mut self, world: &World, team: &mut Team<'_>) -> Result<(), AppError> {
        let mut count = 0;
        while !self.moving.is_empty() {
            if let Some(particle) = self.follow_one(world) {
                self.travelled += 1;
                team.post(0, world.mesh.owner(particle.cell), particle, self)?;
            }
            count += 1;
            if count % LOOK_EVERY == 0 {
                team.look(self)?;
            }
        }
        Ok(())
    }

    fn part(self, words: impl FnOnce(Vec<Tally>) -> Vec<u64> + 'static) -> Part {
        let Self { cells, rested, born, travelled, .. } = self;
        let sum = |of: fn(&Tally) -> u64| cells.tallies.iter().map(of).sum::<u64>();
        let (absorbed, escaped) = (sum(|tally| tally.absorbed), sum(|tally| tally.escaped));
        let print = rested.iter().fold(0, |sum, particle| particle.fingerprint().wrapping_add(sum));
        let figures = vec![
            ("born", born),
            ("set free by fission", sum(|tally| tally.freed)),
            ("absorbed", absorbed),
            ("escaped", escaped),
            ("alive", rested.len() as u64),
            ("scattered", sum(|tally| tally.scattered)),
            ("fingerprint of the living", print),
        ];
        let (work, tallies) = (cells.segments, cells.tallies);
        // Every segment adds to a cell's tally.
        let accesses = vec![Accesses::new(work, size_of_val(&tallies[..]) as u64)];
        let efforts = vec![("travelled", travelled)];
        Part { work, words: Box::new(|| words(tallies)), figures, efforts, accesses }
    }
}

impl Desk for Domain {
    fn handle(&mut self, _: &mut Messenger, _: u8, bundle: Bundle<'_>) -> Result<(), AppError> {
        for particle in values::<Particle>(&bundle)?.iter() {
            if !self.cells.block.contains(particle.cell) || !particle.is_sound() {
                let what = "a particle that cannot be here";
                return Err(AppError::Nonsense { rank: bundle.source(), what });
            }
            self.moving.push(particle);
        }
        Ok(())
    }
}

impl Application for Transport {
    const NAME: &'static str = "transport";
    const UNIT: &'static str = "segments";
    type Input = World;

    fn check(&self, ranks: u32) -> Result<(), AppError> {
        for side in self.mesh {
            require("the side of the mesh", side.into(), 1, CELLS_MAX.into())?;
        }
        require("the number of particles", self.particles, 0, PARTICLES_MAX)?;
        require("the number of steps", self.steps.into(), 0, STEPS_MAX.into())?;
        self.world(ranks).map(|_| ())
    }

    fn prepare(&self, _rank: u32, ranks: u32) -> Result<World, AppError> {
        self.world(ranks)
    }

    fn run(&self, world: World, team: &mut Team<'_>) -> Result<Part, AppError> {
        let mut domain = Domain::new(&world, team.rank())?;
        for step in 0..self.steps {
            self.begin_step(step, &mut domain);
            team.settle_with(&mut domain, |team, domain| domain.follow(&world, team))?;
            // A particle of the next step must not come while this one is not over.
            team.meet()?;
        }
        Ok(domain.part(|tallies| tallies.iter().flat_map(Tally::words).collect()))
    }

    fn serial(&self, world: World, ranks: u32) -> Result<Part, AppError> {
        let mut domain = Domain::new(&world, 0)?;
        for step in 0..self.steps {
            self.begin_step(step, &mut domain);
            while !domain.moving.is_empty() {
                domain.follow_one(&world);
            }
        }
        let (whole, cut) = (domain.cells.block.clone(), self.world(ranks)?.mesh);
        Ok(domain.part(move |tallies| {
            let cells = (0..ranks).flat_map(|rank| cut.block(rank).cells());
            cells.flat_map(|cell| tallies[whole.index(cell)].words()).collect()
        }))
    }

    /// No particle appears from nowhere, and none is lost.
    fn violation(&self, _work: u64, figures: &[NamedNumber]) -> Option<String> {
        let count =
            |name: &str| figures.iter().find(|figure| figure.name == name).map_or(0, |figure| figure.value);
        let came = count("born") + count("set free by fission");
        let went = count("absorbed") + count("escaped") + count("alive");
        (came != went)
            .then(|| format!("{came} particles were born or set free, and {went} are accounted for"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serial(transport: &Transport) -> Part {
        transport.check(1).unwrap();
        transport.serial(transport.prepare(0, 1).unwrap(), 1).unwrap()
    }

    fn figure(part: &Part, name: &str) -> u64 {
        part.figures.iter().find(|(figure, _)| *figure == name).unwrap().1
    }

    #[test]
    fn particles_are_conserved_and_everything_happens() {
        let transport = Transport { mesh: [8, 8, 8], particles: 2000, steps: 3, seed: 1 };
        let part = serial(&transport);
        let of = |name| figure(&part, name);
        assert_eq!(of("born"), 2400);
        assert_eq!(of("born") + of("set free by fission"), of("absorbed") + of("escaped") + of("alive"));
        for name in ["set free by fission", "absorbed", "escaped", "alive", "scattered"] {
            assert!(of(name) > 50, "{name}: {:?}", part.figures);
        }
        assert!(part.work > of("born") + of("scattered"));
    }

    #[test]
    fn the_order_in_which_particles_are_followed_does_not_matter() {
        let transport = Transport { mesh: [5, 4, 3], particles: 500, steps: 1, seed: 9 };
        let world = transport.world(1).unwrap();
        let run = |reversed: bool| {
            let mut domain = Domain::new(&world, 0).unwrap();
            transport.begin_step(0, &mut domain);
            if reversed {
                domain.moving.reverse();
            }
            while !domain.moving.is_empty() {
                assert_eq!(domain.follow_one(&world), None, "there is no other particle");
            }
            let part = domain.part(|tallies| tallies.iter().flat_map(Tally::words).collect());
            (part.work, part.figures, (part.words)())
        };
        assert_eq!(run(false), run(true));
    }

    #[test]
    fn lost_particles_are_noticed() {
        let transport = Transport { mesh: [4, 4, 4], particles: 1, steps: 1, seed: 1 };
        let figure = |name: &str, value| NamedNumber { name: name.to_owned(), value };
        let mut figures = [figure("born", 5), figure("absorbed", 3), figure("alive", 2)];
        assert_eq!(transport.violation(0, &figures), None);
        figures[2].value = 1;
        assert!(transport.violation(0, &figures).is_some());
    }

    #[test]
    fn sizes_that_make_no_sense_are_refused() {
        let small = Transport { mesh: [2, 2, 2], particles: 1, steps: 1, seed: 1 };
        assert!(small.check(8).is_ok());
        assert!(matches!(small.check(9), Err(AppError::Mesh { ranks: 9, .. })));
        assert!(Transport { mesh: [0, 1, 1], ..small.clone() }.check(1).is_err());
        assert!(Transport { particles: PARTICLES_MAX + 1, ..small }.check(1).is_err());
    }
}
