//! Small messages between ranks.
//!
//!     cargo build --release -p outboard --examples
//!     outboard run -n 2 -- target/release/examples/messenger
#![allow(clippy::print_stdout, reason = "a program speaks to people")]

use outboard::{Bundle, Job, Messenger, SendError};

/// How many places the table has, over all ranks.
const PLACES: u64 = 1 << 20;
const UPDATES: u64 = 200_000;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let job = Job::join()?; // which rank this is, of how many; one of one without `outboard run`
    let mut messenger = job.messenger()?;
    let ranks = u64::from(messenger.ranks());
    let mut counts = vec![0u64; (PLACES / ranks + 1) as usize]; // this rank's part of the table
    let mut count = |_: &mut Messenger, bundle: Bundle<'_>| {
        let Some(places) = bundle.values::<u64>() else { return };
        places.iter().for_each(|place| counts[(place / ranks) as usize] += 1);
    };
    for number in 0..UPDATES {
        let place = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % PLACES;
        let owner = (place % ranks) as u32; // any rank, this one included
        while let Err(error) = messenger.send_value(owner, place) {
            match error {
                SendError::Full => messenger.make_room(0, &mut count)?, // handle what has arrived, then try again
                error => return Err(error.into()),
            }
        }
    }
    messenger.quiesce_bundles(0, &mut count)?; // until everything that was sent anywhere is handled everywhere
    if job.rank() == 0 {
        println!(
            "rank 0 of {ranks} has counted {} of {} updates",
            counts.iter().sum::<u64>(),
            UPDATES * ranks
        );
    }
    Ok(())
}
