//! The settings of a memory server.

use std::path::PathBuf;
use std::time::Duration;

use outboard_link::Address;

use crate::section::section;
use crate::{ByteSize, Capacity, KeepSync, OrAuto, Percent, default_socket};

section! {
    /// The settings of a memory server.
    "memory" => pub struct MemorySettings {
        /// The name by which others speak of it; the first 32 bytes travel.
        pub name: String = "memory".to_owned(),
        /// Where it listens.
        pub listen: Vec<Address> where not_empty = vec![default_socket("memory")],
        /// How many bytes of regions it gives out at most: a size, or a share of the machine's memory (of what its
        /// control groups allow, where that is less). auto is half of it, or less where less is left. Memory is used as
        /// regions are written to, not before.
        pub capacity: OrAuto<Capacity> where some_capacity = OrAuto::Auto,
        /// How many threads serve its links and run functions for callers: as many as it has processors to itself. auto is
        /// 2, or 1 where affinity mask or processor quota allow no more.
        pub workers: OrAuto<usize> where some_workers = OrAuto::Auto,
        /// The folder below which clients may have files loaded into regions; none means that no files are loaded.
        /// A process that may connect can load any file below it that the server's user may read, and have any that it
        /// may write replaced (`sync`) by what they wrote: to protect files, give that user no right to write.
        pub data_dir: Option<PathBuf> = None,
        /// The folder in which named regions are kept for the server's next start; none means that they end with it.
        pub keep: Option<PathBuf> = None,
        /// When what is kept is brought to the disk, which matters when the machine crashes: always is before anything is
        /// acknowledged that a server is asked for (what clients store past it: every second), an interval such as 1s
        /// is that often, never leaves it to the kernel and to the end of the server. Each time costs a disk write.
        pub keep_sync: KeepSync = KeepSync::Every(Duration::from_secs(1)),
        /// How long a client whose links were lost is waited for, at most a day: meanwhile its regions stay, and
        /// no other client is given those that it leases. One that says goodbye, or whose death is certain, is not
        /// waited for; with 0s no client is.
        pub linger: Duration where a_day_at_most = Duration::from_secs(30),
    }
}

/// For daemons: one that listens nowhere has no clients.
#[expect(clippy::ptr_arg, reason = "a check is given the field as it is")]
pub(super) fn not_empty(listen: &Vec<Address>) -> Result<(), &'static str> {
    if listen.is_empty() { Err("a daemon must listen somewhere; write at least one address") } else { Ok(()) }
}

/// For daemons: one without threads serves no client, and every thread has its memory and its descriptors.
pub(super) fn some_workers(workers: &OrAuto<usize>) -> Result<(), &'static str> {
    match workers {
        OrAuto::Given(0) => Err("there must be at least one worker"),
        OrAuto::Auto | OrAuto::Given(1..=256) => Ok(()),
        OrAuto::Given(_) => Err("it must be at most 256"),
    }
}

fn some_capacity(capacity: &OrAuto<Capacity>) -> Result<(), &'static str> {
    match capacity {
        OrAuto::Given(Capacity::Bytes(ByteSize(..4096))) => Err(
            "a server with less than 4KiB can give out no region; write a size such as 4GiB, or a share such as 50%",
        ),
        OrAuto::Given(Capacity::Share(share)) if *share == Percent::default() => Err(
            "a server with no memory can give out no region; write a size such as 4GiB, or a share such as 50%",
        ),
        other => an_amount(other),
    }
}

/// For amounts of memory.
pub(super) fn an_amount(amount: &OrAuto<Capacity>) -> Result<(), &'static str> {
    amount.given().map_or(Ok(()), |capacity| capacity.check())
}

fn a_day_at_most(linger: &Duration) -> Result<(), &'static str> {
    if *linger <= Duration::from_secs(24 * 3600) { Ok(()) } else { Err("it must be at most 24h") }
}
