//! Telling an application that a memory server is lost for good.

use std::fmt;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use outboard_driver::paging::{LossListener, LossReason, ServerLoss};
use outboard_link::Address;

use super::FarError;
use super::memory::{FarMemory, Shared};

/// Bytes that only a memory server had are lost for good: those of these objects that are not here.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FarLoss {
    /// The memory server's name for itself.
    pub name: String,
    /// Where it was.
    pub address: Address,
    /// The objects of which it had all or a part.
    pub objects: Vec<LostObject>,
    /// Why they are lost.
    pub why: LossReason,
}

/// An object of which a memory server had all or a part.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostObject {
    /// Its name for people, as [`FarMapping::name`](super::FarMapping::name) does.
    pub name: String,
    /// The addresses of all of it.
    pub addresses: Range<usize>,
    /// Which of its parts is lost, from 1.
    pub part: u32,
    /// How many parts it has: over so many memory servers it is striped.
    pub parts: u32,
}

impl FarLoss {
    fn new(loss: &ServerLoss, servers: &[Address]) -> Self {
        let name = loss.server.as_ref().map(|peer| peer.name().to_owned());
        let object = |region: &Arc<outboard_driver::paging::PagedRegion>| {
            let spec = region.spec();
            LostObject {
                name: spec.object.clone(),
                addresses: region.start().get()..region.addresses().end().get(),
                part: spec.stripes.part + 1,
                parts: spec.stripes.parts,
            }
        };
        Self {
            name: name.unwrap_or_default(),
            address: servers[loss.at].clone(),
            objects: loss.regions.iter().map(object).collect(),
            why: loss.why.clone(),
        }
    }
}

impl fmt::Display for FarLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, address, objects, why } = self;
        write!(f, "memory server “{name}” at {address} is lost: {why}; with it")?;
        for (number, LostObject { name, part, parts, .. }) in objects.iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            match parts {
                1 => write!(f, "{comma} “{name}”")?,
                _ => write!(f, "{comma} part {part} of {parts} of “{name}”")?,
            }
        }
        Ok(())
    }
}

/// The losses of far memory as they happen: each is heard of once, those from before it began to listen included (of many,
/// the last 32).
///
/// Its descriptor is an eventfd: `poll`, `epoll` and `select` find it readable while there is a loss that was not
/// [taken](Self::take) yet. Reading it gives the number of losses since it was last read, in eight bytes. Far memory does not
/// end before it is dropped.
pub struct FarLosses {
    listener: LossListener,
    /// It ends after those who listen to it.
    shared: Arc<Shared>,
}

impl FarLosses {
    /// The next loss, if there is one.
    pub fn take(&mut self) -> Option<FarLoss> {
        let loss = self.listener.take()?;
        Some(FarLoss::new(&loss, &self.shared.servers))
    }

    /// Waits for the next loss, for `deadline` at most.
    pub fn wait(&mut self, deadline: Duration) -> Option<FarLoss> {
        let begun = Instant::now();
        loop {
            let left = deadline.saturating_sub(begun.elapsed());
            let loss = self.take();
            if loss.is_some() || left.is_zero() {
                return loss;
            }
            self.listener.sleep(left);
        }
    }
}

impl AsFd for FarLosses {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl AsRawFd for FarLosses {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl FarMemory {
    /// Calls `callback` once for every loss of a memory server, on a thread that it starts for this. The callback may do
    /// what any code may: allocate, take locks, touch far memory. It is told of losses from before the call too, and is
    /// dropped when far memory ends. One that panics is not called again.
    ///
    /// A loss is declared when a server has been away for [`FarOptions::grace`](super::FarOptions::grace), was started anew,
    /// or does not give a region any more. While a program listens that happens even if no thread needs the server.
    ///
    /// ```
    /// # let server = outboard_nearby::start();
    /// use std::time::Duration;
    ///
    /// use outboard::Outboard;
    ///
    /// let outboard = Outboard::find()?;
    /// let far = outboard.far_with(outboard.far_options().with_grace(Duration::from_millis(100)))?;
    /// let counters = far.allocate::<u64>(1 << 20)?;
    /// let (sender, losses) = std::sync::mpsc::channel();
    /// far.when_lost(move |loss| {
    ///     let _ = sender.send(loss.to_string());
    /// })?;
    /// # drop(server);
    /// println!("{}", losses.recv()?); // memory server “…” at … is lost: …
    /// # drop(counters);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A program that goes on with what is here:
    // tidy: allow(no_run) it ends when its memory server is killed; crates/e2e/tests/paging/living_on.rs runs and kills
    #[doc = concat!("```no_run\n", include_str!("../../examples/living_on.rs"), "```")]
    pub fn when_lost(&self, mut callback: impl FnMut(&FarLoss) + Send + 'static) -> Result<(), FarError> {
        let mut listener = self.listen()?;
        // It must not keep far memory from ending.
        let servers = self.shared.servers.clone();
        let work = move || {
            loop {
                while let Some(loss) = listener.take() {
                    callback(&FarLoss::new(&loss, &servers));
                }
                if listener.is_over() {
                    return;
                }
                listener.sleep(Duration::MAX);
            }
        };
        let thread = std::thread::Builder::new().name("outboard-losses".to_owned()).spawn(work);
        thread.map(drop).map_err(FarError::of_threads)
    }

    /// The losses of memory servers, for those who wait for them with a descriptor of their own event loop.
    pub fn losses(&self) -> Result<FarLosses, FarError> {
        Ok(FarLosses { listener: self.listen()?, shared: Arc::clone(&self.shared) })
    }

    fn listen(&self) -> Result<LossListener, FarError> {
        let listener = LossListener::new(&self.shared.pages);
        let listener = listener.map_err(|errno| FarError::of_threads(std::io::Error::from(errno)))?;
        // A server may be away already, and is given up in time from now on.
        self.shared.threads.look();
        Ok(listener)
    }
}
