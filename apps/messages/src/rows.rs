//! Sparse rows, dealt out to ranks.

use outboard_graph_format::{Cleaning, GeneratorKind, Recipe, Skew};
use serde::{Deserialize, Serialize};

use crate::error::{AppError, array, require};

/// A graph or a sparse matrix that is made up by chance.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Shape {
    /// Both ends of every edge are any vertex; otherwise few vertices have very many edges (R-MAT).
    pub is_uniform: bool,
    /// There are 2 to the power of this many vertices, or rows.
    pub scale: u32,
    /// So many edges, or entries, are drawn for each.
    pub degree: u32,
    /// Which of the many that are so large.
    pub seed: u64,
}

impl Shape {
    /// Says whether it can be made.
    pub(crate) fn check(&self, scale_max: u32) -> Result<(), AppError> {
        require("the scale", self.scale.into(), 0, scale_max.into())
    }

    /// Makes it: each edge once, with its way back if `is_symmetric`, and none from a vertex to itself then.
    pub(crate) fn make(&self, is_symmetric: bool) -> Result<Rows, AppError> {
        let kind = match self.is_uniform {
            true => GeneratorKind::Uniform,
            false => GeneratorKind::Rmat { skew: Skew::default(), permuted: false },
        };
        let cleaning =
            Cleaning { both_directions: is_symmetric, drop_self_loops: is_symmetric, drop_duplicates: true };
        let recipe = Recipe { kind, scale: self.scale, degree: self.degree, seed: self.seed, cleaning };
        let graph = recipe.make(&())?;
        let (begins, columns) = graph.out().clone().into_parts();
        let total = begins.len() - 1;
        Ok(Rows { begins, columns, total })
    }
}

/// How rows are dealt out: like cards, so that those with many entries, which are close to each other, are with different
/// ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deal {
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
}

impl Deal {
    /// Who has a row, and which of its own it is there.
    #[inline(always)]
    pub(crate) fn find(self, row: u32) -> (u32, u32) {
        (row % self.ranks, row / self.ranks)
    }

    /// Which row one of this rank's own is.
    pub(crate) fn name(self, local: usize) -> u32 {
        local as u32 * self.ranks + self.rank
    }

    /// How many of so many rows this rank has.
    pub(crate) fn count(self, rows: usize) -> u64 {
        (rows as u64 + u64::from(self.ranks) - 1 - u64::from(self.rank)) / u64::from(self.ranks)
    }

    /// This rank's own among all rows.
    pub(crate) fn own(self, rows: usize) -> impl Iterator<Item = usize> {
        (self.rank as usize..rows).step_by(self.ranks as usize)
    }
}

/// The order in which ranks, one after the other, have their rows.
pub(crate) fn in_order_of_ranks(rows: usize, ranks: u32) -> impl Iterator<Item = usize> {
    (0..ranks).flat_map(move |rank| Deal { rank, ranks }.own(rows))
}

/// All rows, or a rank's own.
#[derive(Debug)]
pub(crate) struct Rows {
    /// Where each begins, and where the last ends.
    pub(crate) begins: Vec<u64>,
    pub(crate) columns: Vec<u32>,
    /// How many rows all ranks have.
    pub(crate) total: usize,
}

impl Rows {
    /// Takes a rank's own out of all rows.
    pub(crate) fn own(&self, deal: Deal) -> Result<Self, AppError> {
        let mine = || deal.own(self.len()).map(|row| self.row(row));
        let mut begins = array(deal.count(self.len()) + 1, 0)?;
        let mut end = 0;
        for (row, place) in mine().zip(&mut begins[1..]) {
            end += row.len() as u64;
            *place = end;
        }
        let mut columns = array(end, 0)?;
        let mut place = columns.iter_mut();
        mine().flatten().zip(&mut place).for_each(|(column, place)| *place = *column);
        Ok(Self { begins, columns, total: self.total })
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.begins.len() - 1
    }

    pub(crate) fn range(&self, local: usize) -> std::ops::Range<usize> {
        self.begins[local] as usize..self.begins[local + 1] as usize
    }

    /// The columns of a row.
    pub(crate) fn row(&self, local: usize) -> &[u32] {
        &self.columns[self.range(local)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_with_one_rank() {
        let shape = Shape { is_uniform: false, scale: 6, degree: 4, seed: 3 };
        let all = shape.make(true).unwrap();
        for ranks in [1, 2, 3, 7, 100] {
            let mut seen = vec![false; all.len()];
            for rank in 0..ranks {
                let deal = Deal { rank, ranks };
                let rows = all.own(deal).unwrap();
                assert_eq!(rows.len() as u64, deal.count(all.len()));
                for local in 0..rows.len() {
                    let name = deal.name(local);
                    assert_eq!(deal.find(name), (rank, local as u32));
                    assert_eq!(rows.row(local), all.row(name as usize));
                    assert!(!std::mem::replace(&mut seen[name as usize], true));
                }
            }
            assert!(seen.iter().all(|seen| *seen));
            assert_eq!(in_order_of_ranks(all.len(), ranks).count(), all.len());
        }
    }
}
