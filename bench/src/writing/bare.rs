//! The least that a write over a link costs: no writer, no order, no signal, and completions taken by the 32 as
//! a writer does.

use std::time::{Duration, Instant};

use outboard::{FarRegion, Settings};
use outboard_link::memory::Window;
use outboard_link::shm::{self, ShmLink};
use outboard_link::{
    AccessError, AccessOutcome, Address, Disposition, Exports, Identity, Link, LinkError, Loss, OpenRegion,
    RemoteMemory, Token, Waiter,
};
use outboard_wire::{Rights, Role};

use super::shm::{SMALL, order};
use crate::BenchError;

/// How long a region may take to open.
const PATIENCE: Duration = Duration::from_secs(60);
/// Writes after which the link is asked for completions: asking after each is what the next one would have to wait for.
const UNCOLLECTED_MAX: u64 = 32;

/// A link with one region open, and the order in which it is written.
pub(super) struct Bare {
    link: ShmLink,
    open: OpenRegion,
    size: u64,
    random: fastrand::Rng,
}

impl Bare {
    /// With the whole region mapped and populated.
    pub(super) fn start(address: &Address, region: &FarRegion) -> Result<Self, BenchError> {
        let settings = Settings::default();
        let identity = Identity::new(Role::Tool, "bench writing");
        let mut link = shm::connect(address, identity, Exports::new(), settings.link.shm())?;
        link.open(&region.descriptor().grant, Rights::READ.and(Rights::WRITE), Token(0))?;
        let open = await_opening(&mut link)?;
        let mut bare = Self { link, open, size: region.size(), random: order("bare") };
        let bytes = [0; 4096];
        for page in 0..bare.size / 4096 {
            bare.write(page, page * 4096, &bytes)?;
        }
        bare.link.completions(|_| {});
        Ok(bare)
    }

    #[inline]
    fn write(&mut self, number: u64, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        self.link.write(self.open, offset, Window::from(bytes), Token(0))?;
        if number.is_multiple_of(UNCOLLECTED_MAX) {
            self.link.completions(|_| {});
        }
        Ok(())
    }

    /// So many small writes to random places. Returns how long they took in seconds.
    pub(super) fn round(&mut self, writes: u64) -> Result<f64, BenchError> {
        let bytes = [1; SMALL];
        let places = self.size / SMALL as u64;
        let began = Instant::now();
        for number in 0..writes {
            let offset = self.random.u64(..places) * SMALL as u64;
            self.write(number, offset, &bytes)?;
        }
        self.link.completions(|_| {});
        Ok(began.elapsed().as_secs_f64())
    }
}

fn await_opening(link: &mut ShmLink) -> Result<OpenRegion, AccessError> {
    let waiter = Waiter::new();
    let limit = waiter.clock.now() + PATIENCE;
    loop {
        let now = waiter.clock.now();
        link.progress(now)?;
        link.receive(16, |_| Disposition::Taken)?;
        let mut opened = None;
        link.completions(|completion| opened = Some(completion.result));
        match opened {
            Some(Ok(AccessOutcome::Opened(open))) => return Ok(open),
            Some(Err(error)) => return Err(error),
            Some(Ok(_)) => return Err(AccessError::NotOpen),
            None if now >= limit => {
                let loss = Loss::Stalled { silent: PATIENCE, awaited: "a region to open" };
                return Err(AccessError::Lost(LinkError { peer: link.peer().clone(), loss }));
            }
            None => std::hint::spin_loop(),
        }
    }
}
