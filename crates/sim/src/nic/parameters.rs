//! The numbers of the model.

use outboard_writing::WritePath;

/// The costs of the target's NIC and processor. Times are in nanoseconds.
///
/// Sources, all of them public measurements of hardware that is not at hand here:
///
/// - *Kalia*: Kalia, Kaminsky, Andersen, “Design Guidelines for High Performance RDMA Systems”, USENIX ATC 2016, and
///   “Using RDMA Efficiently for Key-Value Services”, SIGCOMM 2014: small one-sided writes complete in 1.6 to 2 µs; one
///   NIC takes about 35 million small writes per second.
/// - *Neugebauer*: Neugebauer et al., “Understanding PCIe performance for end host networking”, SIGCOMM 2018: a NIC's
///   read of a cache line in its host's memory takes 0.5 to 1 µs.
/// - *Dragojević*: Dragojević et al., “FaRM: Fast Remote Memory”, NSDI 2014: NICs keep translations of 4 KiB pages in a
///   cache that is far too small for the memory of a server.
/// - The processor's numbers are those of the shared-memory links in this repository (`outboard bench link`): a cache
///   line crosses cores in some 30 to 100 ns, and bytes are copied at 12 GB/s.
///
/// Two numbers have no public source and were set once so that offloading alone behaves as is known of it, twice the
/// latency and 40 % less throughput when every write misses: how many dependent reads a miss needs, and how many misses
/// are served at the same time. The number of entries is not published by any vendor; it is scaled up and down in the
/// benchmark, like everything else.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// Translations that the cache holds.
    pub entries: f64,
    /// How many places a translation may have.
    pub ways: f64,
    /// Bytes that one translation covers: 4 KiB (Dragojević).
    pub page_bytes: f64,
    /// A small one-sided write there and its acknowledgement back, everything at hand: 1.6 µs (Kalia).
    pub round_trip: f64,
    /// The time of each byte on the wire: 100 Gbit/s.
    pub per_byte: f64,
    /// How long the NIC is busy with one message: 35 million per second (Kalia).
    pub per_message: f64,
    /// One read of the NIC in its host's memory: 0.8 µs (Neugebauer).
    pub fetch: f64,
    /// Reads that one translation needs, one after the other; set so that a miss doubles the latency.
    pub fetches: f64,
    /// Misses that are served at the same time; set so that misses cost 40 % of the throughput.
    pub walkers: f64,
    /// Until a polling processor sees what has arrived in the ring.
    pub notice: f64,
    /// The processor's time for one entry, besides its bytes.
    pub per_entry: f64,
    /// The processor's time for each byte: 12 GB/s.
    pub copy_per_byte: f64,
    /// The processor's time to send one acknowledgement.
    pub acknowledge: f64,
    /// Writes that the application keeps under way.
    pub depth: f64,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            entries: 2048.0,
            ways: 8.0,
            page_bytes: 4096.0,
            round_trip: 1600.0,
            per_byte: 0.08,
            per_message: 28.0,
            fetch: 800.0,
            fetches: 2.0,
            walkers: 29.0,
            notice: 100.0,
            per_entry: 60.0,
            copy_per_byte: 0.083,
            acknowledge: 100.0,
            depth: 4.0,
        }
    }
}

impl Parameters {
    /// Every number by its name.
    pub const NAMES: [&str; 14] = [
        "entries",
        "ways",
        "page_bytes",
        "round_trip",
        "per_byte",
        "per_message",
        "fetch",
        "fetches",
        "walkers",
        "notice",
        "per_entry",
        "copy_per_byte",
        "acknowledge",
        "depth",
    ];

    /// These parameters with one number multiplied.
    ///
    /// # Panics
    /// If no number has this name.
    pub fn scaled(mut self, name: &str, factor: f64) -> Self {
        let number = match name {
            "entries" => &mut self.entries,
            "ways" => &mut self.ways,
            "page_bytes" => &mut self.page_bytes,
            "round_trip" => &mut self.round_trip,
            "per_byte" => &mut self.per_byte,
            "per_message" => &mut self.per_message,
            "fetch" => &mut self.fetch,
            "fetches" => &mut self.fetches,
            "walkers" => &mut self.walkers,
            "notice" => &mut self.notice,
            "per_entry" => &mut self.per_entry,
            "copy_per_byte" => &mut self.copy_per_byte,
            "acknowledge" => &mut self.acknowledge,
            "depth" => &mut self.depth,
            _ => panic!("no number of the model is called {name}"),
        };
        *number *= factor;
        self
    }

    /// These parameters with all numbers as usual that a write by this path never meets.
    pub(super) fn met_by(self, path: WritePath) -> Self {
        let usual = Self::default();
        match path {
            WritePath::Offload => {
                let Self { notice, per_entry, copy_per_byte, acknowledge, .. } = usual;
                Self { notice, per_entry, copy_per_byte, acknowledge, ..self }
            }
            WritePath::Unload => {
                let Self { entries, ways, page_bytes, fetch, fetches, walkers, .. } = usual;
                Self { entries, ways, page_bytes, fetch, fetches, walkers, ..self }
            }
        }
    }

    /// These parameters with one read for every translation, which takes as long as all that it needs.
    pub(super) fn plainest(self) -> Self {
        Self { fetch: self.walk(), fetches: 1.0, ..self }
    }

    /// How long a translation takes that is not at hand.
    pub fn walk(&self) -> f64 {
        self.fetch * self.fetches
    }

    /// The time that unloading adds to a small write when no other is in its way.
    pub fn unloading(&self, bytes: f64) -> f64 {
        self.notice + self.per_entry + self.acknowledge + bytes * self.copy_per_byte
    }
}
