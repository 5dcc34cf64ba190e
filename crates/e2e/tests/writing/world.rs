//! Daemons to write to, and a writer that is checked against a plain array.

use std::sync::atomic::{AtomicU32, Ordering};

use outboard::{
    Address, FarRegion, Hint, Memory, Outboard, WriteOptions, WritePath, WriteTarget, Writer, WriterOptions,
};
use outboard_link::Identity;
use outboard_settings::LinkSettings;
use outboard_wire::{Rights, Role};
use outboard_writing::WriterStats;

use outboard_e2e::{Daemon, PATIENCE, outboard, socket};

/// What one writer has of a region, in bytes.
pub(crate) const PART: usize = 64 << 10;

/// A memory server that listens at a socket and at a port.
pub(crate) struct Daemons(Daemon);

impl Daemons {
    pub(crate) fn start() -> Self {
        let at = format!("{},tcp:127.0.0.1:0", socket());
        Self(Daemon::of(outboard(&["memory", "--listen", &at])))
    }

    pub(crate) fn shm(&self) -> Address {
        self.0.local().clone()
    }

    pub(crate) fn tcp(&self) -> Address {
        self.0.remote().clone()
    }

    /// Stops the server, which then takes nothing any more.
    pub(crate) fn stop(&self) {
        self.0.process.stop();
    }

    /// A region of 64 KiB, whoever reads it, and a writer to it.
    pub(crate) fn writer(&self, address: &Address, options: WriterOptions) -> (Memory, FarRegion, Writer) {
        let mut memory = memory(address);
        let region = memory.reserve(PART as u64, None).unwrap();
        (memory, region, writer(address, options))
    }
}

pub(crate) fn identity() -> Identity {
    Identity::new(Role::Application, "writer test")
}

/// Links for a machine on which daemons get a processor late.
pub(crate) fn link_settings() -> LinkSettings {
    LinkSettings { handshake_timeout: PATIENCE, ..LinkSettings::default() }
}

/// The memory server at an address, patiently.
pub(crate) fn outboard_at(address: &Address) -> Outboard {
    let outboard = Outboard::at(address.clone()).with_identity(identity());
    outboard.with_link(link_settings()).with_deadline(PATIENCE)
}

pub(crate) fn memory(address: &Address) -> Memory {
    outboard_at(address).memory().unwrap()
}

pub(crate) fn writer(address: &Address, options: WriterOptions) -> Writer {
    outboard_at(address).writer_with(options).unwrap()
}

/// A writer, and what its part of the region must hold.
pub(crate) struct Checker {
    memory: Memory,
    region: FarRegion,
    name: String,
    pub(crate) writer: Writer,
    target: WriteTarget,
    base: u64,
    expected: Vec<u8>,
    random: fastrand::Rng,
}

/// How many writers a region has room for.
const PARTS: u64 = 4;

impl Checker {
    /// With a region of its own.
    pub(crate) fn new(address: &Address, options: WriterOptions, seed: u64) -> Self {
        Self::at(&outboard_at(address), options, seed)
    }

    /// The same with a given server and agent.
    pub(crate) fn at(outboard: &Outboard, options: WriterOptions, seed: u64) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("checked-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let mut memory = outboard.memory().unwrap();
        let region = memory.reserve_shared(PARTS * PART as u64, &name).unwrap();
        Self::with(memory, region, outboard.writer_with(options).unwrap(), (seed, name, 0))
    }

    /// With another part of a region that somebody else has made.
    pub(crate) fn beside(
        address: &Address,
        options: WriterOptions,
        seed: u64,
        name: &str,
        part: u64,
    ) -> Self {
        let mut memory = memory(address);
        let region = memory.open_shared(name, Rights::READ.and(Rights::WRITE)).unwrap();
        Self::with(memory, region, writer(address, options), (seed, name.to_owned(), part))
    }

    fn with(
        memory: Memory,
        region: FarRegion,
        mut writer: Writer,
        (seed, name, part): (u64, String, u64),
    ) -> Self {
        let target = writer.open(&region).unwrap();
        println!("seed {seed}");
        let random = fastrand::Rng::with_seed(seed);
        let (base, expected) = (part * PART as u64, vec![0; PART]);
        Self { memory, region, name, writer, target, base, expected, random }
    }

    pub(crate) fn region_name(&self) -> &str {
        &self.name
    }

    pub(crate) fn stats(&self) -> WriterStats {
        self.writer.stats()
    }

    /// So many times: random writes, a fence, and a look at every byte. `before` is called before every write.
    pub(crate) fn rounds(&mut self, rounds: u32, mut before: impl FnMut(&mut Writer)) {
        for round in 0..rounds {
            for number in 0..150 {
                before(&mut self.writer);
                self.write(round + number);
                if self.random.u8(..) < 8 {
                    self.writer.fence();
                }
            }
            self.check();
        }
    }

    fn write(&mut self, number: u32) {
        let len = match self.random.u8(..) {
            0..4 => self.random.usize(..20_000),
            4..60 => self.random.usize(..2000),
            _ => self.random.usize(..64),
        };
        // Half of all writes crowd in a small place, so that many overlap.
        let most = if self.random.bool() { 512 } else { PART - len };
        let offset = self.random.usize(..=most.min(PART - len));
        let bytes: Vec<u8> = (0..len).map(|_| self.random.u8(..)).collect();
        let path = match number % 3 {
            0 => Some(WritePath::Offload),
            1 => Some(WritePath::Unload),
            _ => None,
        };
        let hint = [Hint::None, Hint::Hot, Hint::Cold, Hint::Streaming][self.random.usize(..4)];
        let options = WriteOptions { path, hint, signal: self.random.bool() };
        self.writer.write_with(self.target, self.base + offset as u64, &bytes, options).unwrap();
        self.expected[offset..offset + len].copy_from_slice(&bytes);
    }

    fn check(&mut self) {
        self.writer.fence();
        self.writer.flush().unwrap();
        while let Some(told) = self.writer.poll() {
            told.result.expect("no write fails");
        }
        let mut bytes = vec![0; PART];
        self.memory.read(&self.region, self.base, &mut bytes).unwrap();
        let differs = bytes.iter().zip(&self.expected).position(|(found, expected)| found != expected);
        assert_eq!(differs, None, "the first byte that is not what was written last");
    }
}
