//! Histogram: many ranks count things in a table that is spread over all of them.

use outboard::{Bundle, Messenger};
use serde::{Deserialize, Serialize};

use crate::application::{Application, NamedNumber, Part};
use crate::error::{AppError, array, require};
use crate::prefetch::prefetch;
use crate::random::{Random, pick};
use crate::team::{Desk, Team, values};
use crate::watch::Accesses;

/// How many messages ahead the table is fetched into the cache: about as many lines as a processor fetches at once.
pub(crate) const AHEAD: usize = 16;
/// The most entries a rank's part of a table can have: they are drawn by 32 bits.
pub(crate) const TABLE_MAX: u64 = 1 << 32;

/// How large a histogram is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Histogram {
    /// How many counters each rank has, of 8 bytes.
    pub table: u64,
    /// How many updates each rank sends.
    pub updates: u64,
    /// Which of the many sequences of updates.
    pub seed: u64,
}

/// Draws the places that one rank asks for: a rank, and a place in its part of the table.
#[derive(Clone)]
pub(crate) struct Places {
    random: Random,
    ranks: u64,
    table: u64,
}

impl Places {
    pub(crate) fn of(rank: u32, ranks: u32, table: u64, seed: u64) -> Self {
        Self { random: Random::stream(seed, rank.into()), ranks: ranks.into(), table }
    }

    #[inline(always)]
    pub(crate) fn draw(&mut self) -> (u32, u64) {
        let number = self.random.next();
        (pick((number >> 32) as u32, self.ranks) as u32, pick(number as u32, self.table))
    }
}

struct Table(Vec<u64>);

impl Desk for Table {
    fn handle(&mut self, _: &mut Messenger, _: u8, bundle: Bundle<'_>) -> Result<(), AppError> {
        let (table, mut has_stray) = (&mut self.0, false);
        values::<u64>(&bundle)?.for_each_with_later(AHEAD, |place, later| {
            if let Some(later) = later {
                prefetch(table, later as usize);
            }
            match table.get_mut(place as usize) {
                Some(counter) => *counter += 1,
                None => has_stray = true,
            }
        });
        if has_stray {
            return Err(AppError::Nonsense { rank: bundle.source(), what: "a place beyond the table" });
        }
        Ok(())
    }
}

fn part(work: u64, table: Vec<u64>) -> Part {
    let counted = table.iter().sum();
    let accesses = vec![Accesses::new(counted, table.len() as u64 * 8)];
    let figures = vec![("counted", counted)];
    Part { work, words: Box::new(|| table), figures, efforts: Vec::new(), accesses }
}

impl Application for Histogram {
    const NAME: &'static str = "histogram";
    const UNIT: &'static str = "updates";
    type Input = Vec<u64>;

    fn check(&self, _ranks: u32) -> Result<(), AppError> {
        require("the table", self.table, 1, TABLE_MAX)
    }

    fn prepare(&self, _rank: u32, _ranks: u32) -> Result<Vec<u64>, AppError> {
        array(self.table, 0)
    }

    fn run(&self, table: Vec<u64>, team: &mut Team<'_>) -> Result<Part, AppError> {
        let mut table = Table(table);
        let mut places = Places::of(team.rank(), team.ranks(), self.table, self.seed);
        for _ in 0..self.updates {
            let (rank, place) = places.draw();
            team.post(0, rank, place, &mut table)?;
        }
        team.settle(&mut table)?;
        Ok(part(self.updates, table.0))
    }

    fn serial(&self, _: Vec<u64>, ranks: u32) -> Result<Part, AppError> {
        let entries = self.table.saturating_mul(ranks.into());
        let mut table = array(entries, 0)?;
        for rank in 0..ranks {
            let mut places = Places::of(rank, ranks, self.table, self.seed);
            for _ in 0..self.updates {
                let (rank, place) = places.draw();
                table[(u64::from(rank) * self.table + place) as usize] += 1;
            }
        }
        Ok(part(self.updates * u64::from(ranks), table))
    }

    fn violation(&self, work: u64, figures: &[NamedNumber]) -> Option<String> {
        let counted: u64 = figures.iter().map(|figure| figure.value).sum();
        (counted != work).then(|| format!("{counted} of {work} updates were counted"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_update_is_counted_once_and_all_places_are_met() {
        let histogram = Histogram { table: 10, updates: 1000, seed: 1 };
        let part = histogram.serial(Vec::new(), 3).unwrap();
        let table = (part.words)();
        assert_eq!((table.len(), table.iter().sum::<u64>(), part.work), (30, 3000, 3000));
        assert!(table.iter().all(|count| (50..200).contains(count)), "{table:?}");
    }

    #[test]
    fn a_table_has_a_size() {
        let of = |table| Histogram { table, updates: 1, seed: 1 }.check(2);
        assert!(of(0).is_err() && of(TABLE_MAX + 1).is_err() && of(1).is_ok());
    }
}
