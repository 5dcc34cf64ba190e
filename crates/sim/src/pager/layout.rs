//! The objects, how they are cut, and what differs from one run to the next.

use std::time::Duration;

use fastrand::Rng;
use outboard_paging::application::chunks::SizeClass;
use outboard_paging::application::{PagingConfig, Path, Stripes};
use outboard_wire::paging::CacheMode;
use outboard_wire::{Generation, Grant, RegionId, RegionKey, Rights};

use crate::silence::{self, Silence};

/// How many objects there are.
pub(super) const OBJECTS: usize = 2;
/// The bytes of a word of memory.
pub(super) const WORD: usize = 8;
/// The ways in which a region may be used.
pub(super) const RIGHTS: Rights = Rights::READ.and(Rights::WRITE);

/// An object as the application wants it.
pub(super) struct PagerPlan {
    pub(super) class: SizeClass,
    /// In bytes. It ends within the last chunk, and within a page.
    pub(super) size: usize,
    /// How long a stripe is, in bytes.
    stripe: u64,
}

/// Chunks of different sizes, so that they compete for the same memory.
pub(super) const PLANS: [PagerPlan; OBJECTS] = [
    PagerPlan { class: SizeClass(14), size: 12 * 16384 - 4232, stripe: 2 * 16384 },
    PagerPlan { class: SizeClass(12), size: 20 * 4096 - 24, stripe: 1 << 40 },
];

impl PagerPlan {
    pub(super) fn words(&self) -> usize {
        self.size / WORD
    }

    /// The parts of an object and their sizes, over so many servers.
    pub(super) fn parts(&self, servers: usize) -> Vec<(Stripes, u64)> {
        Stripes::divide(self.size as u64, self.stripe, servers as u32)
    }
}

/// The grant that opens a part of an object.
pub(super) fn grant(object: usize, part: u32, size: u64) -> Grant {
    let number = object as u8 * 16 + part as u8 + 1;
    Grant {
        region: RegionId(number.into()),
        generation: Generation(1),
        key: RegionKey([number; 16]),
        rights: RIGHTS,
        size,
    }
}

/// By which way the chunks of an object go, and what the agent does with them.
pub(super) fn draw_path(random: &mut Rng) -> (Path, CacheMode) {
    let path = [Path::Direct, Path::Agent, Path::Agent, Path::Auto][random.usize(..4)];
    let mode = [CacheMode::Off, CacheMode::Dynamic, CacheMode::Dynamic, CacheMode::Static];
    (path, mode[random.usize(..4)])
}

/// The choices that differ from one run to the next.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    /// How many memory servers there are.
    pub(super) servers: usize,
    /// Bytes of far memory that may be here at once, at first and at most.
    buffer: usize,
    pub(super) buffer_max: usize,
    /// Fault threads, each with links of its own.
    pub(super) lanes: usize,
    /// Threads that use the memory.
    pub(super) walkers: usize,
    /// Whether they answer their own faults.
    pub(super) in_place: bool,
    pub(super) is_writable: [bool; OBJECTS],
    /// Which objects are zero at first, and known to be.
    pub(super) is_fresh: [bool; OBJECTS],
    /// By which way the chunks of each object go at first, and what the agent does with them.
    pub(super) paths: [(Path, CacheMode); OBJECTS],
    /// Whether they go by another way when an object is mapped anew.
    pub(super) changes_paths: bool,
    /// How many bytes are read ahead at most.
    ahead: usize,
    /// How often the kernel holds pages that are to be moved: once in so many times, never if zero.
    pub(super) busy_one_in: u32,
    /// How long a server may stay away.
    grace: Duration,
    /// Whether one of the servers dies and takes along what it has.
    pub(super) loses_a_server: bool,
    /// Whether there is an agent.
    pub(super) has_agent: bool,
    /// When the agent falls silent though its links live, and for how long.
    pub(super) silence: Option<Silence>,
}

impl Shape {
    pub(super) fn draw(random: &mut Rng) -> Self {
        let has_agent = random.u8(..4) > 0;
        let loses_a_server = random.u8(..4) == 0;
        let paths = [draw_path(random), draw_path(random)];
        let is_writable = [true, random.u8(..4) > 0];
        let buffer = random.usize(16..=36) * 4096;
        Self {
            servers: random.usize(1..=2),
            buffer,
            // In one run of three it stays as it is.
            buffer_max: buffer * random.usize(1..=3),
            lanes: random.usize(1..=3),
            walkers: random.usize(1..=6),
            is_writable,
            is_fresh: is_writable.map(|is_writable| is_writable && random.bool()),
            paths,
            changes_paths: random.bool(),
            ahead: [0, 16384, 32768, 65536][random.usize(..4)],
            busy_one_in: [0, 0, 8, 64][random.usize(..4)],
            grace: Duration::from_millis(if loses_a_server { random.u64(10..150) } else { 60_000 }),
            loses_a_server,
            has_agent,
            silence: if has_agent { silence::draw(random) } else { None },
            in_place: random.bool(),
        }
    }

    /// Many threads in little memory.
    #[cfg(test)]
    pub(super) fn press(&mut self) {
        (self.lanes, self.walkers, self.buffer) = (3, 6, 16 * 4096);
        self.buffer_max = self.buffer;
        (self.has_agent, self.silence) = (false, None);
    }

    /// One of the servers dies.
    #[cfg(test)]
    pub(super) fn lose_a_server(&mut self) {
        (self.loses_a_server, self.grace) = (true, Duration::from_millis(50));
    }

    /// At which server a part of an object lies.
    pub(super) fn server_of(&self, object: usize, part: u32) -> usize {
        (object + part as usize) % self.servers
    }

    pub(super) fn config(&self) -> PagingConfig {
        PagingConfig {
            servers: self.servers,
            chunk: 4096,
            ahead: self.ahead,
            grace: self.grace,
            snapshots: true,
            buffer_max: self.buffer_max,
            ..PagingConfig::new(self.buffer, self.lanes)
        }
    }
}
