//! The objects, how they are cut, and what differs from one run to the next.

use std::time::Duration;

use fastrand::Rng;
use outboard_paging::application::chunks::SizeClass;
use outboard_paging::application::{PagingConfig, Path, Stripes};
use outboard_wire::paging::CacheMode;
use outboard_wire::{Generation, Grant, RegionId, RegionKey, Rights};

/// How many objects there are.
pub(super) const OBJECTS: usize = 2;
/// What a word of memory takes, in bytes.
pub(super) const WORD: usize = 8;
/// What may be done with a region.
pub(super) const RIGHTS: Rights = Rights::READ.and(Rights::WRITE);

/// An object as the application wants it.
pub(super) struct Plan {
    pub(super) class: SizeClass,
    /// In bytes. It ends within the last chunk, and within a page.
    pub(super) size: usize,
    /// How long a stripe is, in bytes.
    stripe: u64,
}

/// Chunks of different sizes, so that they compete for the same memory.
pub(super) const PLANS: [Plan; OBJECTS] = [
    Plan { class: SizeClass(14), size: 12 * 16384 - 4232, stripe: 2 * 16384 },
    Plan { class: SizeClass(12), size: 20 * 4096 - 24, stripe: 1 << 40 },
];

impl Plan {
    pub(super) fn words(&self) -> usize {
        self.size / WORD
    }

    /// The parts of an object and their sizes, over so many servers.
    pub(super) fn parts(&self, servers: usize) -> Vec<(Stripes, u64)> {
        Stripes::divide(self.size as u64, self.stripe, servers as u32)
    }
}

/// What opens a part of an object.
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

/// What differs from one run to the next.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    /// How many memory servers there are.
    pub(super) servers: usize,
    /// Bytes of far memory that may be here at once.
    buffer: usize,
    /// Fault threads, each with links of its own.
    pub(super) lanes: usize,
    /// Threads that use the memory.
    pub(super) walkers: usize,
    pub(super) is_writable: [bool; OBJECTS],
    /// By which way the chunks of each object go, and what the agent does with them.
    pub(super) paths: [(Path, CacheMode); OBJECTS],
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
    pub(super) silence: Option<(Duration, Duration)>,
}

impl Shape {
    pub(super) fn draw(random: &mut Rng) -> Self {
        let has_agent = random.u8(..4) > 0;
        let loses_a_server = random.u8(..4) == 0;
        let mut path = || {
            let path = [Path::Direct, Path::Agent, Path::Agent, Path::Auto][random.usize(..4)];
            let mode = [CacheMode::Off, CacheMode::Dynamic, CacheMode::Dynamic, CacheMode::Static];
            (path, mode[random.usize(..4)])
        };
        let paths = [path(), path()];
        Self {
            servers: random.usize(1..=2),
            buffer: random.usize(16..=36) * 4096,
            lanes: random.usize(1..=3),
            walkers: random.usize(1..=6),
            is_writable: [true, random.u8(..4) > 0],
            paths,
            ahead: [0, 16384, 32768, 65536][random.usize(..4)],
            busy_one_in: [0, 0, 8, 64][random.usize(..4)],
            grace: Duration::from_millis(if loses_a_server { random.u64(10..150) } else { 60_000 }),
            loses_a_server,
            has_agent,
            silence: (has_agent && random.u8(..4) == 0).then(|| {
                let spans = [Duration::from_millis(random.u64(1..300)), Duration::from_secs(60)];
                (Duration::from_millis(random.u64(5..100)), spans[random.usize(..2)])
            }),
        }
    }

    /// Many threads in little memory.
    #[cfg(test)]
    pub(super) fn press(&mut self) {
        (self.lanes, self.walkers, self.buffer) = (3, 6, 16 * 4096);
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
            ..PagingConfig::new(self.buffer, self.lanes)
        }
    }
}
