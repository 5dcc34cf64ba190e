//! Everything that can be done wrong on purpose: one file for each service and each layer below them.
//!
//! An attack is an *episode*: it connects, does something wrong from its random numbers, and goes, in a bounded number of
//! steps. Whoever attacks repeats it until the time is up.

mod access;
mod answers;
mod calling;
mod control;
mod descriptors;
mod direct;
mod doors;
mod fabric;
mod forge;
mod impostors;
mod meeting;
mod metrics;
mod paging;
mod raw;
mod records;
mod rings;
mod routing;
mod shm;
mod tls;
mod victims;
mod writing;

use raw::Hung;

use crate::scene::Scene;
use outboard_e2e::Random;

/// How an episode ended: its victim may have hung up on it at any moment, which is what should happen.
type Episode = Result<(), Hung>;

/// One way of doing things wrong.
pub(crate) struct Attack {
    /// What it is called in reports.
    pub(crate) name: &'static str,
    /// What it does, for people.
    pub(crate) what: &'static str,
    run: fn(&Scene, &mut Random) -> Episode,
}

impl Attack {
    /// Plays it once.
    pub(crate) fn play(&self, scene: &Scene, random: &mut Random) {
        // To be hung up on is the fate of an attacker.
        let _ = (self.run)(scene, random);
    }

    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        ATTACKS.iter().find(|attack| attack.name == name)
    }
}

macro_rules! attacks {
    ($($room:ident :: $run:ident $what:literal),* $(,)?) => {
        &[$(Attack { name: concat!(stringify!($room), ".", stringify!($run)), what: $what, run: $room::$run }),*]
    };
}

/// All of them.
pub(crate) const ATTACKS: &[Attack] = attacks![
    doors::http "an HTTP request at a port, whose refusal is not read",
    doors::half_hello "a part of a hello, a byte at a time or at once",
    doors::wrong_hello "hellos with wrong versions, roles, sizes and names",
    doors::reset "connections that are reset at every stage",
    doors::crowd "many at once who say hello and nothing else",
    records::bad_marker "a record that is none, after a handshake in order",
    records::lengths "records whose length is a lie, cut off anywhere",
    records::never_listens "questions whose answers are never read",
    records::liveness "pings, pongs and goodbyes at the wrong time",
    records::nonsense "frames of any kind with any bytes",
    rings::indices "counts of a ring that jump, go back, wrap or are not aligned",
    rings::scribble "anything anywhere in the segment while frames flow",
    rings::headers "headers that change, or that claim more than there is",
    rings::doorbells "doorbells and flags by the thousand",
    rings::messages "messages beside the rings that mean nothing, or something else",
    rings::opens "regions opened by the thousand, the answers unread",
    descriptors::floods "as many descriptors as fit, with every message",
    descriptors::lingering "a TCP socket whose closing takes as long as its sender likes",
    descriptors::bundles "memory for messages that is a pipe, too short, not sealed, or shrinks",
    access::keys "openings with keys, generations and ids that were guessed",
    access::spans "reads, writes and atomics of forged slots, offsets and lengths",
    access::too_many "more operations at once than were agreed",
    control::questions "questions with sizes, ids, names and rights at the ends of their ranges",
    control::others "other people's regions: freed, released, populated, synced",
    control::pages "a thousand regions of one page, left behind",
    control::slow_work "what takes a while, asked for again and again, with paths that lead out",
    control::lives "the same incarnation by several links that end in different ways",
    paging::attach "attachments with larger grants, other chunks, other servers",
    paging::fetch "fetches and detachments of anything, with any length",
    paging::write_back "write-backs and fences of other epochs, lengths and places",
    paging::never_listens "fetches whose answers are never read",
    routing::ranks "attachments of ranks that are not, and runs of others",
    routing::deaf_rank "a rank that is sent messages and takes none",
    routing::announcements "an agent that reaches everybody in a thousand jobs",
    routing::flapping "an agent that reaches a rank and does not, all the time",
    routing::parcels "parcels whose runs are not there, and that nobody has asked for",
    calling::functions "functions that ask for −1 bytes, called twice",
    calling::registrations "registrations, code and calls with numbers that mean nothing",
    calling::resumed "calls that claim to have begun elsewhere",
    calling::lies "reports of load and of round trips with any number",
    calling::endless "functions that never end, called by many",
    writing::batches "batches, attempts and slots at the ends of their ranges",
    writing::crowd "more writers than there are places",
    writing::deaf_writer "a writer by an agent that takes no answer",
    meeting::alone "one client that is all ranks of a job",
    meeting::jobs "ranks of jobs that never meet",
    impostors::servers "a memory server that answers an agent with anything",
    impostors::agents "an agent that tells another agent anything",
    impostors::clients "clients that dial an impostor",
    impostors::far_memories "far memory whose server is an impostor",
    impostors::callers "functions for an impostor",
    impostors::writers "writes to an impostor",
    direct::ranks "a rank that keeps no rule on its link to another",
    metrics::slow "readers of the metrics that are slow, or go without their answer",
    metrics::garbage "bytes at the metrics that are no request",
    metrics::huge "requests for the metrics without an end",
    tls::strangers "bytes that are no TLS, or half of it",
    tls::members "a member of the cluster that does anything wrong",
    fabric::strangers "a fabric's port, spoken to wrongly",
    fabric::members "a member of the fabric that does anything wrong",
];
