//! Single-source shortest paths by delta-stepping (Meyer and Sanders, 2003): vertices wait in buckets by their distance,
//! and the edges out of one bucket's vertices are followed all at once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use outboard::{Bundle, Messenger};
use serde::{Deserialize, Serialize};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::application::{Application, NamedNumber, Part};
use crate::error::{AppError, array, require};
use crate::random::mix;
use crate::rows::{Deal, Rows, Shape, in_order_of_ranks};
use crate::team::{Desk, Team, values};
use crate::watch::Accesses;

/// The longest an edge can be; the shortest is 1.
pub const LENGTH_MAX: u32 = 255;
/// The largest scale of a graph in which every distance has 32 bits, and one is left.
const SCALE_MAX: u32 = 24;
/// The distance of a vertex that no path has reached.
const FAR: u32 = u32::MAX;

/// Which paths are looked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ShortestPaths {
    /// The graph; edges have no direction and are from 1 to [`LENGTH_MAX`] long.
    pub graph: Shape,
    /// How many distances share a bucket.
    pub delta: u32,
    /// Where paths begin; otherwise at the first vertex that has an edge.
    pub source: Option<u32>,
}

/// One of the receiver's own vertices can be reached within a distance.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Offer {
    vertex: u32,
    distance: u32,
}

/// A rank's own vertices, with the lengths of the edges out of them: the short ones first.
pub(crate) struct Map {
    rows: Rows,
    lengths: Vec<u32>,
    source: u32,
}

/// What is known of a rank's own vertices.
struct Vertices {
    distances: Vec<u32>,
    /// At which distance each one's short edges were last followed.
    followed: Vec<u32>,
    /// Vertices by distance, round and round: no edge leads further than once around. Some have moved on since.
    buckets: Vec<Vec<u32>>,
    delta: u32,
}

impl Vertices {
    fn new(count: u64, delta: u32) -> Result<Self, AppError> {
        let around = LENGTH_MAX / delta + 2;
        Ok(Self {
            distances: array(count, FAR)?,
            followed: array(count, FAR)?,
            buckets: vec![Vec::new(); around as usize],
            delta,
        })
    }

    fn place(&self, bucket: u32) -> usize {
        bucket as usize % self.buckets.len()
    }

    /// Takes an offer if it is better than what is known.
    #[inline(always)]
    fn offer(&mut self, Offer { vertex, distance }: Offer) -> Option<()> {
        let known = self.distances.get_mut(vertex as usize)?;
        if distance < *known {
            *known = distance;
            let place = self.place(distance / self.delta);
            self.buckets[place].push(vertex);
        }
        Some(())
    }

    /// The vertices of a bucket whose short edges are still to be followed.
    fn take(&mut self, bucket: u32) -> Vec<u32> {
        let place = self.place(bucket);
        let mut taken = std::mem::take(&mut self.buckets[place]);
        taken.retain(|vertex| {
            let distance = self.distances[*vertex as usize];
            let is_due = distance / self.delta == bucket && self.followed[*vertex as usize] != distance;
            if is_due {
                self.followed[*vertex as usize] = distance;
            }
            is_due
        });
        taken
    }

    /// The first bucket with anything in it, from this one on.
    fn first(&self, from: u32) -> Option<u32> {
        (from..from + self.buckets.len() as u32).find(|bucket| !self.buckets[self.place(*bucket)].is_empty())
    }
}

impl Desk for Vertices {
    fn handle(&mut self, _: &mut Messenger, _: u8, bundle: Bundle<'_>) -> Result<(), AppError> {
        let stray =
            || AppError::Nonsense { rank: bundle.source(), what: "an offer to a vertex that is not here" };
        for offer in values::<Offer>(&bundle)?.iter() {
            self.offer(offer).ok_or_else(stray)?;
        }
        Ok(())
    }
}

impl ShortestPaths {
    /// The length of an edge, the same both ways.
    fn length(&self, one: u32, other: u32) -> u32 {
        let (low, high) = (one.min(other), one.max(other));
        let bits = mix(self.graph.seed ^ mix(u64::from(low) << 32 | u64::from(high)));
        1 + (bits % u64::from(LENGTH_MAX)) as u32
    }
}

/// A rank at work.
struct Walk<'a, 'b> {
    map: &'a Map,
    deal: Deal,
    vertices: Vertices,
    team: &'a mut Team<'b>,
    offers: u64,
    /// How often all ranks waited for each other.
    phases: u64,
}

impl Walk<'_, '_> {
    /// Follows the short or the long edges out of some vertices, until everybody knows what came of it. Returns the first
    /// bucket that any rank has something in.
    fn follow(&mut self, from: &[u32], is_short: bool, bucket: u32) -> Result<Option<u32>, AppError> {
        for vertex in from {
            let range = self.map.rows.range(*vertex as usize);
            let lengths = &self.map.lengths[range.clone()];
            let short = lengths.partition_point(|length| *length <= self.vertices.delta);
            let part = if is_short { 0..short } else { short..lengths.len() };
            let ends = &self.map.rows.columns[range][part.clone()];
            let begin = self.vertices.distances[*vertex as usize];
            self.offers += ends.len() as u64;
            for (end, length) in ends.iter().zip(&lengths[part]) {
                let (rank, vertex) = self.deal.find(*end);
                let offer = Offer { vertex, distance: begin + length };
                self.team.post(0, rank, offer, &mut self.vertices)?;
            }
        }
        self.team.settle(&mut self.vertices)?;
        self.phases += 1;
        self.first(bucket)
    }

    fn first(&mut self, from: u32) -> Result<Option<u32>, AppError> {
        let own = self.vertices.first(from).map_or(u64::MAX, u64::from);
        let first = self.team.exchange(own)?.into_iter().min();
        Ok(first.and_then(|first| u32::try_from(first).ok()))
    }

    fn run(&mut self) -> Result<(), AppError> {
        let (rank, source) = self.deal.find(self.map.source);
        if rank == self.deal.rank {
            self.vertices.offer(Offer { vertex: source, distance: 0 });
        }
        let mut next = self.first(0)?;
        while let Some(bucket) = next {
            let mut done = Vec::new();
            while next == Some(bucket) {
                let taken = self.vertices.take(bucket);
                next = self.follow(&taken, true, bucket)?;
                done.extend(taken);
            }
            // Vertices whose distance became less within the bucket are there more than once.
            done.sort_unstable();
            done.dedup();
            next = self.follow(&done, false, bucket + 1)?;
        }
        Ok(())
    }
}

fn figures(distances: &[u64]) -> Vec<(&'static str, u64)> {
    let reached = || distances.iter().filter(|distance| **distance != u64::from(FAR));
    vec![("reached vertices", reached().count() as u64), ("sum of distances", reached().sum())]
}

impl Application for ShortestPaths {
    const NAME: &'static str = "sssp";
    const UNIT: &'static str = "edges";
    type Input = Map;

    fn check(&self, _ranks: u32) -> Result<(), AppError> {
        self.graph.check(SCALE_MAX)?;
        require("delta", self.delta.into(), 1, LENGTH_MAX.into())?;
        let source = self.source.unwrap_or(0);
        require("the source", source.into(), 0, (1 << self.graph.scale) - 1)
    }

    fn prepare(&self, rank: u32, ranks: u32) -> Result<Map, AppError> {
        let (graph, deal) = (self.graph.make(true)?, Deal { rank, ranks });
        let mut rows = graph.own(deal)?;
        let mut lengths = array(rows.columns.len() as u64, 0)?;
        for local in 0..rows.len() {
            let (range, name) = (rows.range(local), deal.name(local));
            let ends = &mut rows.columns[range.clone()];
            ends.sort_unstable_by_key(|end| (self.length(name, *end), *end));
            ends.iter().zip(&mut lengths[range]).for_each(|(end, place)| *place = self.length(name, *end));
        }
        let first = || (0..graph.len()).find(|vertex| !graph.row(*vertex).is_empty());
        let source = self.source.unwrap_or_else(|| first().unwrap_or(0) as u32);
        Ok(Map { rows, lengths, source })
    }

    fn run(&self, map: Map, team: &mut Team<'_>) -> Result<Part, AppError> {
        let deal = Deal { rank: team.rank(), ranks: team.ranks() };
        let vertices = Vertices::new(map.rows.len() as u64, self.delta)?;
        let mut walk = Walk { map: &map, deal, vertices, team, offers: 0, phases: 0 };
        walk.run()?;
        let Walk { vertices, offers, phases, .. } = walk;
        let words: Vec<u64> = vertices.distances.iter().map(|distance| u64::from(*distance)).collect();
        let phases = if deal.rank == 0 { phases } else { 0 };
        Ok(Part {
            work: edges_within(&map, &words),
            figures: figures(&words),
            words: Box::new(|| words),
            efforts: vec![("offers", offers), ("phases", phases)],
            // As many offers come as are made, each to a vertex; edges and their lengths are read in rows.
            accesses: vec![
                Accesses::new(offers, map.rows.len() as u64 * 4),
                Accesses { count: offers / 8, bytes: map.lengths.len() as u64 * 8 },
            ],
        })
    }

    fn serial(&self, map: Map, ranks: u32) -> Result<Part, AppError> {
        let distances = dijkstra(&map)?;
        let words: Vec<u64> = in_order_of_ranks(map.rows.total, ranks).map(|at| distances[at]).collect();
        let (work, figures) = (edges_within(&map, &distances), figures(&words));
        Ok(Part { work, words: Box::new(|| words), figures, efforts: Vec::new(), accesses: Vec::new() })
    }

    /// A path begins where it begins.
    fn violation(&self, _work: u64, figures: &[NamedNumber]) -> Option<String> {
        let reached = figures.first().map_or(0, |figure| figure.value);
        (reached == 0).then(|| "not even the source was reached".to_owned())
    }
}

/// How many edges lead out of the vertices that were reached.
fn edges_within(map: &Map, distances: &[u64]) -> u64 {
    let reached = distances.iter().enumerate().filter(|(_, distance)| **distance != u64::from(FAR));
    reached.map(|(vertex, _)| map.rows.range(vertex).len() as u64).sum()
}

fn dijkstra(map: &Map) -> Result<Vec<u64>, AppError> {
    let mut distances = array(map.rows.len() as u64, u64::from(FAR))?;
    let mut heap = BinaryHeap::from([Reverse((0, map.source))]);
    distances[map.source as usize] = 0;
    while let Some(Reverse((distance, vertex))) = heap.pop() {
        if distance > distances[vertex as usize] {
            continue;
        }
        let range = map.rows.range(vertex as usize);
        for (end, length) in map.rows.columns[range.clone()].iter().zip(&map.lengths[range]) {
            let through = distance + u64::from(*length);
            if through < distances[*end as usize] {
                distances[*end as usize] = through;
                heap.push(Reverse((through, *end)));
            }
        }
    }
    Ok(distances)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_edge_keeps_the_triangle_inequality_and_some_path_is_as_short() {
        let graph = Shape { is_uniform: false, scale: 8, degree: 4, seed: 5 };
        let paths = ShortestPaths { graph, delta: 16, source: None };
        let map = paths.prepare(0, 1).unwrap();
        let distances = dijkstra(&map).unwrap();
        for vertex in 0..map.rows.len() {
            let range = map.rows.range(vertex);
            let edges = || map.rows.columns[range.clone()].iter().zip(&map.lengths[range.clone()]);
            let through = |(end, length): (&u32, &u32)| distances[*end as usize] + u64::from(*length);
            let best = edges().map(through).min().unwrap_or(u64::MAX);
            let own = distances[vertex];
            let is_right = if vertex as u32 == map.source { own == 0 } else { own == best.min(FAR.into()) };
            assert!(is_right, "vertex {vertex}: {own}, {best} through its neighbours");
        }
    }

    #[test]
    fn buckets_are_found_in_order_and_what_moved_on_is_left_out() {
        let mut vertices = Vertices::new(4, 10).unwrap();
        for (vertex, distance) in [(0, 25), (1, 7), (2, 12), (1, 9), (0, 13)] {
            vertices.offer(Offer { vertex, distance }).unwrap();
        }
        assert!(vertices.offer(Offer { vertex: 4, distance: 1 }).is_none());
        assert_eq!((vertices.first(0), vertices.take(0)), (Some(0), vec![1]));
        assert_eq!((vertices.first(0), vertices.take(1)), (Some(1), vec![2, 0]));
        assert_eq!((vertices.first(1), vertices.take(2)), (Some(2), vec![]));
        assert_eq!(vertices.first(2), None);
        assert_eq!(vertices.distances, [13, 7, 12, FAR]);
    }
}
