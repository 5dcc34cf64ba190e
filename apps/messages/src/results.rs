//! Results of all ranks, brought together where they are compared.

use outboard::{Bundle, Messenger};

use crate::error::{AppError, array};
use crate::team::{Desk, RESULTS, Team};

/// How many words travel at once.
const CHUNK: usize = 1 << 13;

/// Brings the words of all ranks to rank 0, one part for each rank. Other ranks get nothing.
pub(crate) fn gather(team: &mut Team<'_>, words: Vec<u64>) -> Result<Vec<Vec<u64>>, AppError> {
    let lengths = team.exchange(words.len() as u64)?;
    let mut parts = Parts(Vec::new());
    if team.rank() == 0 {
        parts.0.push(words);
        for length in &lengths[1..] {
            parts.0.push(array(*length, 0)?);
        }
    } else {
        let mut message = Vec::with_capacity((CHUNK + 1) * 8);
        for (index, chunk) in words.chunks(CHUNK).enumerate() {
            message.clear();
            let begin = (index * CHUNK) as u64;
            message.extend([begin].iter().chain(chunk).flat_map(|word| word.to_le_bytes()));
            team.post_bytes(RESULTS, 0, &message, &mut parts)?;
        }
    }
    team.settle(&mut parts)?;
    team.meet()?;
    Ok(parts.0)
}

/// The words of each rank, as far as they have come.
struct Parts(Vec<Vec<u64>>);

impl Desk for Parts {
    const SPACES: (u8, u8) = (RESULTS, RESULTS + 1);

    fn handle(&mut self, _: &mut Messenger, _: u8, bundle: Bundle<'_>) -> Result<(), AppError> {
        let nonsense = || AppError::Nonsense { rank: bundle.source(), what: "a result without a question" };
        let part = self.0.get_mut(bundle.source() as usize).ok_or_else(nonsense)?;
        for message in bundle.messages() {
            let (words, rest) = message.map_err(|_| nonsense())?.as_chunks::<8>();
            let (begin, words) = words.split_first().filter(|_| rest.is_empty()).ok_or_else(nonsense)?;
            let begin = u64::from_le_bytes(*begin) as usize;
            let place = part.get_mut(begin..).and_then(|rest| rest.get_mut(..words.len()));
            for (place, word) in place.ok_or_else(nonsense)?.iter_mut().zip(words) {
                *place = u64::from_le_bytes(*word);
            }
        }
        Ok(())
    }
}
