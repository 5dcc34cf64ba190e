//! Triangle counting: for every two edges that meet, the rank that can know is asked whether a third one closes them.
//!
//! Vertices are numbered anew by how many edges they have, and every edge leads from its lower end to the higher one. So
//! vertices with very many edges have few of them left, and every triangle is found once, from its lowest corner.

use outboard::{Bundle, Messenger};
use serde::{Deserialize, Serialize};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::application::{Application, NamedNumber, Part};
use crate::error::{AppError, array};
use crate::rows::{Deal, Rows, Shape, in_order_of_ranks};
use crate::team::{Desk, Team, values};
use crate::watch::Accesses;

/// In which graph triangles are counted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Triangles {
    /// The graph; edges have no direction.
    pub graph: Shape,
}

/// Is there an edge from one of the receiver's own vertices to another one?
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Query {
    from: u32,
    to: u32,
}

/// Knows the edges out of its own vertices, and counts the triangles whose middle corner they are.
struct Corners<'a> {
    rows: &'a Rows,
    triangles: Vec<u64>,
}

impl Desk for Corners<'_> {
    fn handle(&mut self, _: &mut Messenger, _: u8, bundle: Bundle<'_>) -> Result<(), AppError> {
        let stray =
            AppError::Nonsense { rank: bundle.source(), what: "a query for a vertex that is not here" };
        for Query { from, to } in values::<Query>(&bundle)?.iter() {
            let Some(count) = self.triangles.get_mut(from as usize) else { return Err(stray) };
            *count += u64::from(self.rows.row(from as usize).binary_search(&to).is_ok());
        }
        Ok(())
    }
}

/// Numbers vertices by how many edges they have, and keeps each edge at its lower end.
fn upwards(graph: &Rows) -> Result<Rows, AppError> {
    let vertices = graph.len();
    let mut order: Vec<u32> = (0..vertices as u32).collect();
    order.sort_by_key(|vertex| graph.row(*vertex as usize).len());
    let mut names = array(vertices as u64, 0u32)?;
    order.iter().zip(0..).for_each(|(vertex, name)| names[*vertex as usize] = name);
    let mut begins = array(vertices as u64 + 1, 0u64)?;
    let mut ends = Vec::with_capacity(graph.columns.len() / 2);
    for (name, vertex) in order.iter().enumerate() {
        let begin = ends.len();
        let neighbours = graph.row(*vertex as usize).iter().map(|other| names[*other as usize]);
        ends.extend(neighbours.filter(|other| *other as usize > name));
        ends[begin..].sort_unstable();
        begins[name + 1] = ends.len() as u64;
    }
    Ok(Rows { begins, columns: ends, total: graph.total })
}

/// How many pairs there are of so many things.
fn pairs(count: usize) -> u64 {
    let count = count as u64;
    count * count.saturating_sub(1) / 2
}

impl Application for Triangles {
    const NAME: &'static str = "triangles";
    const UNIT: &'static str = "wedges";
    type Input = Rows;

    fn check(&self, _ranks: u32) -> Result<(), AppError> {
        self.graph.check(outboard_graph_format::SCALE_MAX)
    }

    fn prepare(&self, rank: u32, ranks: u32) -> Result<Rows, AppError> {
        upwards(&self.graph.make(true)?)?.own(Deal { rank, ranks })
    }

    fn run(&self, rows: Rows, team: &mut Team<'_>) -> Result<Part, AppError> {
        let deal = Deal { rank: team.rank(), ranks: team.ranks() };
        let mut corners = Corners { rows: &rows, triangles: array(rows.len() as u64, 0)? };
        let mut work = 0;
        for local in 0..rows.len() {
            let ends = rows.row(local);
            work += pairs(ends.len());
            for (index, middle) in ends.iter().enumerate() {
                let (rank, from) = deal.find(*middle);
                for to in &ends[index + 1..] {
                    team.post(0, rank, Query { from, to: *to }, &mut corners)?;
                }
            }
        }
        team.settle(&mut corners)?;
        let words = corners.triangles;
        let figures = vec![("triangles", words.iter().sum())];
        // As many questions come as are asked: each finds a vertex, and looks among its neighbours.
        let (vertices, edges) = (rows.len() as u64, rows.columns.len() as u64);
        let accesses = vec![Accesses::new(work, vertices * 8), Accesses::new(work, edges * 4)];
        Ok(Part { work, words: Box::new(|| words), figures, efforts: Vec::new(), accesses })
    }

    fn serial(&self, rows: Rows, ranks: u32) -> Result<Part, AppError> {
        let mut triangles = array(rows.len() as u64, 0)?;
        let mut work = 0;
        for vertex in 0..rows.len() {
            let ends = rows.row(vertex);
            work += pairs(ends.len());
            for middle in ends {
                triangles[*middle as usize] += common(ends, rows.row(*middle as usize));
            }
        }
        let words: Vec<u64> = in_order_of_ranks(rows.total, ranks).map(|vertex| triangles[vertex]).collect();
        let figures = vec![("triangles", words.iter().sum())];
        Ok(Part { work, words: Box::new(|| words), figures, efforts: Vec::new(), accesses: Vec::new() })
    }

    /// Every wedge closes one triangle at most.
    fn violation(&self, work: u64, figures: &[NamedNumber]) -> Option<String> {
        let triangles: u64 = figures.iter().map(|figure| figure.value).sum();
        (triangles > work).then(|| format!("{triangles} triangles of {work} wedges"))
    }
}

/// How many numbers are in both of two ascending lists.
fn common(mut one: &[u32], mut other: &[u32]) -> u64 {
    let mut count = 0;
    while let ([first, rest @ ..], [second, remaining @ ..]) = (one, other) {
        count += u64::from(first == second);
        (one, other) =
            (if first <= second { rest } else { one }, if second <= first { remaining } else { other });
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serial(edges: &[(u32, u32)], vertices: u32) -> Part {
        let mut lists = vec![Vec::new(); vertices as usize];
        for (one, other) in edges {
            lists[*one as usize].push(*other);
            lists[*other as usize].push(*one);
        }
        let mut begins = vec![0];
        for list in &mut lists {
            list.sort_unstable();
            begins.push(begins[begins.len() - 1] + list.len() as u64);
        }
        let rows = upwards(&Rows { begins, columns: lists.concat(), total: lists.len() }).unwrap();
        let shape = Shape { is_uniform: true, scale: 1, degree: 1, seed: 1 };
        Triangles { graph: shape }.serial(rows, 1).unwrap()
    }

    #[test]
    fn known_graphs_have_known_triangles() {
        let figures = |edges: &[(u32, u32)], vertices| serial(edges, vertices).figures[0].1;
        assert_eq!(figures(&[(0, 1), (1, 2), (2, 0)], 3), 1);
        assert_eq!(figures(&[(0, 1), (1, 2), (2, 3), (3, 0)], 4), 0, "a square");
        let complete: Vec<(u32, u32)> = (0..6).flat_map(|one| (0..one).map(move |two| (one, two))).collect();
        assert_eq!(figures(&complete, 6), 20);
        let wheel: Vec<(u32, u32)> = (0..5).flat_map(|at| [(at, (at + 1) % 5), (at, 5)]).collect();
        assert_eq!(figures(&wheel, 6), 5);
    }

    #[test]
    fn a_hub_has_few_edges_left() {
        let star: Vec<(u32, u32)> = (1..100).map(|leaf| (0, leaf)).collect();
        assert_eq!(serial(&star, 100).work, 0);
    }
}
