//! Sparse matrix transpose: rows become columns, and entries move to the rank that has their column.
//!
//! First every rank tells the owners of columns how many entries they will get, so that these know where each column
//! begins; then the entries themselves travel.

use outboard::{Bundle, Messenger};
use serde::{Deserialize, Serialize};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::application::{Application, NamedNumber, Part};
use crate::error::{AppError, array};
use crate::random::mix;
use crate::rows::{Deal, Rows, Shape, in_order_of_ranks};
use crate::team::{Desk, Team, values};
use crate::watch::Accesses;

/// Which matrix is transposed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Transpose {
    /// The matrix.
    pub matrix: Shape,
}

/// An entry on its way to the rank that has its column.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Entry {
    /// Which of the receiver's own columns.
    column: u32,
    row: u32,
    value: f64,
}

/// A message for a column that another rank has.
fn stray(bundle: &Bundle<'_>) -> AppError {
    AppError::Nonsense { rank: bundle.source(), what: "an entry of a column that is not here" }
}

/// Counts the entries of each column.
struct Counter(Vec<u64>);

impl Desk for Counter {
    fn handle(&mut self, _: &mut Messenger, _: u8, bundle: Bundle<'_>) -> Result<(), AppError> {
        for column in values::<u32>(&bundle)?.iter() {
            *self.0.get_mut(column as usize).ok_or_else(|| stray(&bundle))? += 1;
        }
        Ok(())
    }
}

/// Puts entries where their columns are.
struct Placer {
    /// Where each column begins, and where the last ends.
    begins: Vec<u64>,
    /// Where the next entry of each column goes.
    next: Vec<u64>,
    entries: Vec<(u32, f64)>,
}

impl Placer {
    /// Columns with so many entries each.
    fn new(counts: &[u64]) -> Result<Self, AppError> {
        let mut begins = array(counts.len() as u64 + 1, 0)?;
        let mut end = 0;
        for (count, place) in counts.iter().zip(&mut begins[1..]) {
            end += count;
            *place = end;
        }
        let next = begins[..counts.len()].to_vec();
        Ok(Self { begins, next, entries: array(end, (0, 0.0))? })
    }

    fn put(&mut self, Entry { column, row, value }: Entry) -> Option<()> {
        let column = column as usize;
        let next = self.next.get_mut(column)?;
        let place = self.entries.get_mut(*next as usize).filter(|_| *next < self.begins[column + 1])?;
        *place = (row, value);
        *next += 1;
        Some(())
    }

    /// Column for column, sorted by rows: entries came in any order.
    fn words(mut self) -> Vec<u64> {
        let mut words = Vec::with_capacity(self.next.len() + 2 * self.entries.len());
        for ends in self.begins.windows(2) {
            let column = &mut self.entries[ends[0] as usize..ends[1] as usize];
            column.sort_unstable_by_key(|(row, _)| *row);
            write_down(column, &mut words);
        }
        words
    }
}

/// Writes a column down: how many entries, and each one's row and value.
fn write_down(column: &[(u32, f64)], words: &mut Vec<u64>) {
    words.push(column.len() as u64);
    words.extend(column.iter().flat_map(|(row, value)| [u64::from(*row), value.to_bits()]));
}

impl Desk for Placer {
    fn handle(&mut self, _: &mut Messenger, _: u8, bundle: Bundle<'_>) -> Result<(), AppError> {
        for entry in values::<Entry>(&bundle)?.iter() {
            self.put(entry).ok_or_else(|| stray(&bundle))?;
        }
        Ok(())
    }
}

impl Transpose {
    /// The value of an entry, other than zero.
    fn value(&self, row: u32, column: u32) -> f64 {
        let bits = mix(self.matrix.seed ^ mix(u64::from(row) << 32 | u64::from(column)));
        1.0 + (bits >> 12) as f64 / (1u64 << 52) as f64
    }
}

/// A rank's own rows, with the values of their entries.
pub(crate) struct Matrix {
    rows: Rows,
    values: Vec<f64>,
    deal: Deal,
}

impl Application for Transpose {
    const NAME: &'static str = "transpose";
    const UNIT: &'static str = "entries";
    type Input = Matrix;

    fn check(&self, _ranks: u32) -> Result<(), AppError> {
        self.matrix.check(outboard_graph_format::SCALE_MAX)
    }

    fn prepare(&self, rank: u32, ranks: u32) -> Result<Matrix, AppError> {
        let deal = Deal { rank, ranks };
        let rows = self.matrix.make(false)?.own(deal)?;
        let mut values = array(rows.columns.len() as u64, 0.0)?;
        for local in 0..rows.len() {
            let range = rows.range(local);
            for (value, column) in values[range.clone()].iter_mut().zip(&rows.columns[range]) {
                *value = self.value(deal.name(local), *column);
            }
        }
        Ok(Matrix { rows, values, deal })
    }

    fn run(&self, matrix: Matrix, team: &mut Team<'_>) -> Result<Part, AppError> {
        let Matrix { rows, values, deal } = matrix;
        let mut counter = Counter(array(deal.count(rows.total), 0)?);
        for column in &rows.columns {
            let (rank, column) = deal.find(*column);
            team.post(0, rank, column, &mut counter)?;
        }
        team.settle(&mut counter)?;
        team.meet()?;
        let mut placer = Placer::new(&counter.0)?;
        for local in 0..rows.len() {
            let row = deal.name(local);
            let range = rows.range(local);
            for (column, value) in rows.columns[range.clone()].iter().zip(&values[range]) {
                let (rank, column) = deal.find(*column);
                team.post(0, rank, Entry { column, row, value: *value }, &mut placer)?;
            }
        }
        team.settle(&mut placer)?;
        let moved = placer.next.iter().zip(&placer.begins).map(|(next, begin)| next - begin).sum();
        let figures = vec![("moved", moved)];
        // The rows are read twice and their values once; each entry counts its column, and finds it and a place in it.
        let (entries, columns) = (placer.entries.len() as u64, placer.next.len() as u64);
        let work = values.len() as u64;
        let accesses = vec![
            Accesses::pass(work * 16),
            Accesses::new(2 * entries, columns * 8),
            Accesses::new(entries, entries * 16),
        ];
        Ok(Part { work, words: Box::new(|| placer.words()), figures, efforts: Vec::new(), accesses })
    }

    fn serial(&self, matrix: Matrix, ranks: u32) -> Result<Part, AppError> {
        let Matrix { rows, values, .. } = matrix;
        let mut columns: Vec<Vec<(u32, f64)>> = vec![Vec::new(); rows.total];
        for row in 0..rows.len() {
            for (column, value) in rows.row(row).iter().zip(&values[rows.range(row)]) {
                columns[*column as usize].push((row as u32, *value));
            }
        }
        let words = move || {
            let mut words = Vec::new();
            in_order_of_ranks(rows.total, ranks).for_each(|column| write_down(&columns[column], &mut words));
            words
        };
        let work = values.len() as u64;
        let figures = vec![("moved", work)];
        Ok(Part { work, words: Box::new(words), figures, efforts: Vec::new(), accesses: Vec::new() })
    }

    fn violation(&self, work: u64, figures: &[NamedNumber]) -> Option<String> {
        let moved: u64 = figures.iter().map(|figure| figure.value).sum();
        (moved != work).then(|| format!("{moved} of {work} entries have a place"))
    }
}
