//! Counts the words of files, each at the rank that owns it.
//!
//!     cargo build --release -p outboard --examples
//!     outboard run -n 2 -- target/release/examples/word_count README.md
#![allow(clippy::print_stdout, reason = "a program speaks to people")]

use std::collections::HashMap;
use std::error::Error;
use std::hash::{DefaultHasher, Hash, Hasher};

use outboard::{Job, Messenger, SendError};

/// Sends bytes, and handles what has arrived while there is no room for them.
fn send(
    messenger: &mut Messenger,
    rank: u32,
    bytes: &[u8],
    handler: &mut impl FnMut(&mut Messenger, u32, &[u8]),
) -> Result<(), Box<dyn Error>> {
    while let Err(error) = messenger.send(rank, bytes) {
        match error {
            SendError::Full => _ = messenger.receive(0, &mut *handler)?,
            error => return Err(error.into()),
        }
    }
    Ok(())
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let job = Job::join()?;
    let mut messenger = job.messenger()?;
    let (rank, ranks) = (job.rank() as usize, job.size());
    let mut counts: HashMap<Vec<u8>, u64> = HashMap::new(); // of the words that this rank owns
    let mut count = |_: &mut Messenger, _: u32, word: &[u8]| *counts.entry(word.to_vec()).or_default() += 1;
    for file in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
        for line in text.lines().skip(rank).step_by(ranks as usize) {
            for word in line.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty()) {
                let mut hasher = DefaultHasher::new();
                word.hash(&mut hasher);
                let owner = (hasher.finish() % u64::from(ranks)) as u32;
                send(&mut messenger, owner, word.as_bytes(), &mut count)?;
            }
        }
    }
    messenger.quiesce(0, &mut count)?; // every word has been counted everywhere
    messenger.barrier()?; // every rank has another handler from here on
    let mut all = Vec::new();
    let mut gather =
        |_: &mut Messenger, _: u32, line: &[u8]| all.push(String::from_utf8_lossy(line).into_owned());
    for (word, count) in &counts {
        let line = format!("{count:8} {}", String::from_utf8_lossy(word));
        send(&mut messenger, 0, line.as_bytes(), &mut gather)?;
    }
    messenger.quiesce(0, &mut gather)?;
    all.sort_unstable_by(|one, other| other.cmp(one));
    all.iter().take(5).for_each(|line| println!("{line}")); // rank 0 alone has some
    Ok(())
}
