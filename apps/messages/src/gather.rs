//! Index-gather: many ranks read from a table that is spread over all of them. Requests travel in one message space,
//! replies in another, and every reply goes into the place that it was asked for.

use outboard::{Bundle, Messenger};
use serde::{Deserialize, Serialize};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::application::{Application, NamedNumber, Part};
use crate::error::{AppError, array, require};
use crate::histogram::{AHEAD, Places, TABLE_MAX};
use crate::prefetch::prefetch;
use crate::random::mix;
use crate::team::{Desk, Team, values};
use crate::watch::Accesses;

const REQUESTS: u8 = 0;
const REPLIES: u8 = 1;
/// How many requests a rank sends before it looks whether others have come. Replies are longer than requests: if requests
/// were answered only when there is no room for more, there would be none for their replies either.
const LOOK_EVERY: u64 = 1024;

/// How large an index-gather is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IndexGather {
    /// How many elements of 8 bytes each rank has.
    pub table: u64,
    /// How many elements each rank asks for.
    pub requests: u64,
    /// Which of the many sequences of requests.
    pub seed: u64,
}

/// What is wanted, and where the asker wants it.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Request {
    place: u32,
    slot: u32,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Reply {
    slot: u64,
    value: u64,
}

/// What a rank has before it asks.
pub(crate) struct Tables {
    /// This rank's part of the table.
    table: Vec<u64>,
    /// Where what it asks for goes.
    gathered: Vec<u64>,
    /// How many replies have come.
    replies: u64,
}

impl Tables {
    fn answer(&mut self, messenger: &mut Messenger, bundle: &Bundle<'_>) -> Result<(), AppError> {
        let (source, table) = (bundle.source(), &self.table);
        let stray = || AppError::Nonsense { rank: source, what: "a request beyond the table" };
        let mut result = Ok(());
        values::<Request>(bundle)?.for_each_with_later(AHEAD, |Request { place, slot }, later| {
            if let Some(later) = later {
                prefetch(table, later.place as usize);
            }
            match table.get(place as usize) {
                Some(&value) => {
                    let reply = Reply { slot: slot.into(), value };
                    if let Err(error) = messenger.send_value_in(REPLIES, source, reply) {
                        result = Err(error.into());
                    }
                }
                None => result = Err(stray()),
            }
        });
        result
    }

    fn put(&mut self, bundle: &Bundle<'_>) -> Result<(), AppError> {
        let stray = || AppError::Nonsense { rank: bundle.source(), what: "a reply without a request" };
        let replies = values::<Reply>(bundle)?;
        self.replies += replies.len() as u64;
        for Reply { slot, value } in replies.iter() {
            *self.gathered.get_mut(slot as usize).ok_or_else(stray)? = value;
        }
        Ok(())
    }
}

impl Desk for Tables {
    const SPACES: (u8, u8) = (REQUESTS, REPLIES + 1);

    fn handle(&mut self, messenger: &mut Messenger, space: u8, bundle: Bundle<'_>) -> Result<(), AppError> {
        if space == REQUESTS { self.answer(messenger, &bundle) } else { self.put(&bundle) }
    }
}

impl IndexGather {
    /// What is in a place of a rank's table.
    fn element(&self, rank: u32, place: u64) -> u64 {
        mix(self.seed ^ mix(u64::from(rank) << 32 | place))
    }
}

impl Application for IndexGather {
    const NAME: &'static str = "index-gather";
    const UNIT: &'static str = "requests";
    type Input = Tables;

    fn check(&self, _ranks: u32) -> Result<(), AppError> {
        require("the table", self.table, 1, TABLE_MAX)?;
        require("the number of requests", self.requests, 0, 1 << 32)
    }

    fn prepare(&self, rank: u32, _ranks: u32) -> Result<Tables, AppError> {
        let mut table = array(self.table, 0)?;
        table.iter_mut().zip(0..).for_each(|(element, place)| *element = self.element(rank, place));
        Ok(Tables { table, gathered: array(self.requests, 0)?, replies: 0 })
    }

    fn run(&self, mut tables: Tables, team: &mut Team<'_>) -> Result<Part, AppError> {
        let mut places = Places::of(team.rank(), team.ranks(), self.table, self.seed);
        for slot in 0..self.requests {
            let (rank, place) = places.draw();
            let request = Request { place: place as u32, slot: slot as u32 };
            team.post(REQUESTS, rank, request, &mut tables)?;
            if (slot + 1) % LOOK_EVERY == 0 {
                team.look(&mut tables)?;
            }
        }
        team.settle(&mut tables)?;
        let figures = vec![("replies", tables.replies)];
        // As many are asked for here as elsewhere. Replies come in nearly the order of the requests.
        let accesses = vec![
            Accesses::new(self.requests, self.table * 8),
            Accesses::pass(tables.gathered.len() as u64 * 8),
        ];
        let words = Box::new(|| tables.gathered);
        Ok(Part { work: self.requests, words, figures, efforts: Vec::new(), accesses })
    }

    fn serial(&self, _: Tables, ranks: u32) -> Result<Part, AppError> {
        let work = self.requests.saturating_mul(ranks.into());
        let mut words = array(work, 0)?;
        let mut gathered = words.iter_mut();
        for rank in 0..ranks {
            let mut places = Places::of(rank, ranks, self.table, self.seed);
            for word in gathered.by_ref().take(self.requests as usize) {
                let (rank, place) = places.draw();
                *word = self.element(rank, place);
            }
        }
        let figures = vec![("replies", work)];
        Ok(Part { work, words: Box::new(|| words), figures, efforts: Vec::new(), accesses: Vec::new() })
    }

    fn violation(&self, work: u64, figures: &[NamedNumber]) -> Option<String> {
        let replies: u64 = figures.iter().map(|figure| figure.value).sum();
        (replies != work).then(|| format!("{replies} of {work} requests were answered"))
    }
}
