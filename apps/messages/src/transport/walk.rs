//! The way of a particle through cells, from one event to the next.

use super::material::{Materials, Reaction};
use super::mesh::{Block, Mesh};
use super::particle::Particle;
use crate::error::{AppError, array};

/// How many particles a fission sets free, on average.
const FREED: f64 = 2.4;
/// Lengths are added up as whole numbers, so that their sum does not depend on the order: this many to a centimetre.
const LENGTH_UNIT: f64 = (1u64 << 24) as f64;

/// What all ranks know.
pub(crate) struct World {
    pub(crate) mesh: Mesh,
    pub(crate) materials: Materials,
    pub(crate) seed: u64,
}

/// What happened in a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// How far particles went, in [`LENGTH_UNIT`]s.
    pub(crate) length: u64,
    pub(crate) scattered: u64,
    pub(crate) absorbed: u64,
    /// How many were set free.
    pub(crate) freed: u64,
    /// How many left the mesh from here.
    pub(crate) escaped: u64,
}

impl Tally {
    pub(crate) fn words(&self) -> [u64; 5] {
        [self.length, self.scattered, self.absorbed, self.freed, self.escaped]
    }
}

/// Where a particle's way has led.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The time step is over.
    Rest,
    /// It is in a cell of another rank.
    Away,
    /// It was absorbed, or has left the mesh.
    Gone,
}

/// Where a segment of its way ends.
enum Event {
    Rest,
    Collision,
    /// Through the wall in this direction.
    Facet(usize),
}

/// A rank's own cells.
pub(crate) struct Cells {
    pub(crate) block: Block,
    pub(crate) tallies: Vec<Tally>,
    /// How many segments particles went here.
    pub(crate) segments: u64,
}

impl Cells {
    pub(crate) fn new(block: Block) -> Result<Self, AppError> {
        let tallies = array(block.len() as u64, Tally::default())?;
        Ok(Self { block, tallies, segments: 0 })
    }

    /// Follows a particle, which is in one of these cells. `free` gets those that it sets free.
    pub(crate) fn walk(
        &mut self,
        world: &World,
        particle: &mut Particle,
        mut free: impl FnMut(Particle),
    ) -> End {
        loop {
            let tally = &mut self.tallies[self.block.index(particle.cell)];
            let material = world.materials.of(particle.cell);
            let (distance, event) = next_event(particle, material.total(particle.group));
            tally.length += (distance * LENGTH_UNIT) as u64;
            self.segments += 1;
            particle.time_left -= distance / particle.speed;
            particle.paths_left -= distance * material.total(particle.group);
            (0..3).for_each(|axis| particle.position[axis] += particle.direction[axis] * distance);
            match event {
                Event::Rest => {
                    particle.time_left = 0.0;
                    return End::Rest;
                }
                Event::Facet(axis) => {
                    if !cross(particle, axis, world.mesh.cells()[axis]) {
                        tally.escaped += 1;
                        return End::Gone;
                    }
                    if !self.block.contains(particle.cell) {
                        return End::Away;
                    }
                }
                Event::Collision => {
                    if !collide(world, particle, tally, &mut free) {
                        return End::Gone;
                    }
                }
            }
        }
    }
}

/// How far a particle goes, and what happens there.
fn next_event(particle: &Particle, total: f64) -> (f64, Event) {
    let mut nearest = (particle.time_left.max(0.0) * particle.speed, Event::Rest);
    let collision = particle.paths_left.max(0.0) / total;
    if collision < nearest.0 {
        nearest = (collision, Event::Collision);
    }
    for axis in 0..3 {
        let (direction, low) = (particle.direction[axis], f64::from(particle.cell[axis]));
        let wall = if direction > 0.0 { low + 1.0 } else { low };
        // A particle may be a hair's breadth behind the wall that it came through.
        let distance = ((wall - particle.position[axis]) / direction).max(0.0);
        if direction != 0.0 && distance < nearest.0 {
            nearest = (distance, Event::Facet(axis));
        }
    }
    nearest
}

/// Moves to the next cell. Returns false if there is none.
fn cross(particle: &mut Particle, axis: usize, cells: u32) -> bool {
    let cell = particle.cell[axis];
    let next = if particle.direction[axis] > 0.0 { Some(cell + 1) } else { cell.checked_sub(1) };
    let Some(next) = next.filter(|next| *next < cells) else { return false };
    // Exactly at the wall, whatever was rounded on the way.
    particle.position[axis] = f64::from(cell.max(next));
    particle.cell[axis] = next;
    true
}

/// Returns whether the particle goes on.
fn collide(
    world: &World,
    particle: &mut Particle,
    tally: &mut Tally,
    free: &mut impl FnMut(Particle),
) -> bool {
    let material = world.materials.of(particle.cell);
    let (reaction, freed) = particle.with_random(|particle, random| {
        let (reaction, keeps) = material.react(particle.group, random);
        match reaction {
            Reaction::Scatter => particle.scatter(keeps, random),
            Reaction::Absorb => {}
            Reaction::Fission => return (reaction, (FREED + random.fraction()) as u64),
        }
        (reaction, 0)
    });
    if reaction == Reaction::Scatter {
        tally.scattered += 1;
        return true;
    }
    tally.absorbed += 1;
    tally.freed += freed;
    (0..freed).for_each(|_| free(particle.child(world.seed)));
    false
}
