//! What a link carries by itself where many chunks are under way at once.

use std::time::Instant;

use fastrand::Rng;
use outboard_link::memory::Buffer;
use outboard_link::tcp::{self, TcpLink};
use outboard_link::{
    AccessOutcome, Address, Completion, Exports, Identity, Link, OpenRegion, RemoteMemory, Token,
};
use outboard_wire::{Rights, Role};

use crate::BenchError;
use crate::error::Named;
use crate::harness::Round;
use crate::link::Pump;
use crate::pair::Waits;

/// A link over TCP that reads chunks of a region, without far memory.
pub(super) struct LinkReads {
    pump: Pump<TcpLink>,
    region: OpenRegion,
    chunks: u64,
    /// Where chunks go that are under way.
    buffer: Buffer,
    chunk_len: usize,
    random: Rng,
}

impl LinkReads {
    /// Opens the region of this name, with room for so many chunks at once.
    pub(super) fn start(
        server: &Address,
        name: &str,
        (chunk_len, depth): (usize, usize),
    ) -> Result<Self, BenchError> {
        let far = outboard::Outboard::at(server.clone()).memory()?.open(name, Rights::READ)?;
        let Address::Tcp(address) = server else {
            return Err(BenchError::PeerFailed { why: format!("{server} is no TCP address") });
        };
        let identity = Identity::new(Role::Tool, "bench paging");
        let config = outboard::Settings::default().link.tcp();
        let mut pump = Pump::new(tcp::connect(*address, identity, Exports::new(), config)?);
        pump.link.open(&far.descriptor().grant, Rights::READ, Token(0))?;
        let mut opened = Vec::new();
        wait(&mut pump, "the region to open", &mut opened)?;
        let Some(Completion { result: Ok(AccessOutcome::Opened(region)), .. }) = opened.pop() else {
            return Err(BenchError::PeerGone { awaited: "the region to open" });
        };
        let buffer = Buffer::allocate(chunk_len * depth).named("mmap")?;
        let chunks = far.size() / chunk_len as u64;
        Ok(Self { pump, region, chunks, buffer, chunk_len, random: Rng::with_seed(1) })
    }

    /// Chunks per second, anywhere in the region; spinning and asleep, the better counts.
    pub(super) fn round(&mut self, count: u64) -> Result<Round, BenchError> {
        let mut best = Round::rate(0, 1.0);
        for waits in Waits::BOTH {
            self.pump.waits = waits;
            let began = Instant::now();
            self.read(count)?;
            best = best.better_rate(Round::rate(count, began.elapsed().as_secs_f64()));
        }
        Ok(best)
    }

    fn read(&mut self, count: u64) -> Result<(), BenchError> {
        let depth = (self.buffer.len() / self.chunk_len) as u64;
        let mut asked = depth.min(count);
        (0..asked).try_for_each(|place| self.ask(place))?;
        self.pump.link.flush()?;
        let (mut done, mut ended) = (0, Vec::new());
        while done < count {
            wait(&mut self.pump, "a chunk", &mut ended)?;
            for completion in ended.drain(..) {
                completion.result?;
                done += 1;
                if asked < count {
                    asked += 1;
                    self.ask(completion.token.0)?;
                }
            }
            self.pump.link.flush()?;
        }
        Ok(())
    }

    fn ask(&mut self, place: u64) -> Result<(), BenchError> {
        let (len, at) = (self.chunk_len, place as usize * self.chunk_len);
        let offset = self.random.u64(..self.chunks) * len as u64;
        Ok(self.pump.link.read(self.region, offset, &self.buffer, at, len, Token(place))?)
    }
}

/// Waits until operations have ended.
fn wait(
    pump: &mut Pump<TcpLink>,
    awaited: &'static str,
    ended: &mut Vec<Completion>,
) -> Result<(), BenchError> {
    pump.until(awaited, |link| {
        link.completions(|completion| ended.push(completion));
        Ok((!ended.is_empty()).then_some(()))
    })
}
