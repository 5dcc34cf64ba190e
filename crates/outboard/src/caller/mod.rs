//! Calls of functions that run where regions are.

mod connect;
mod error;
mod explain;
mod function;
mod future;
mod servers;

use std::time::Duration;

use outboard_calling::{Begin, CallBeginError, slot_of};
use outboard_wire::calling::SERVERS_MAX;

pub use error::{CallError, NoRoomBecause};
pub use function::{CallServer, FunctionHandle, FunctionOptions};
pub use future::{AsyncCaller, CallDriver, CallFuture};
pub use outboard_calling::{CallPlacement, FunctionImage, ImageError, RegisterError, SiteReport};
pub use outboard_steering::Site as CallSite;
pub use outboard_wire::calling::{FunctionName, RegisterRefusal, TrapReason};

use crate::error::OpenError;
use crate::outboard::Outboard;
use servers::Servers;

/// How a [`Caller`] works.
#[derive(Clone, Debug)]
pub struct CallerOptions {
    /// Calls that may be under way, at most 4096; default 256, each about 100 bytes here, and its arguments where it may have to
    /// begin again at another site. Rounded up to a power of two.
    pub under_way_max: usize,
    /// Where calls run; by default where the memory server's table says.
    pub placement: CallPlacement,
    /// Whether the memory server may move calls into this process as well: they run in the thread that calls, whenever it
    /// asks for what has ended. By default it may not, since only the application knows what else it has to do.
    pub also_here: bool,
}

impl Default for CallerOptions {
    fn default() -> Self {
        Self { under_way_max: 256, placement: CallPlacement::Steered, also_here: false }
    }
}

impl CallerOptions {
    /// Sets how many calls may be under way.
    pub fn with_under_way_max(self, under_way_max: usize) -> Self {
        Self { under_way_max, ..self }
    }

    /// Places calls in this way, or all at one [site](CallSite).
    pub fn with_placement(self, placement: impl Into<CallPlacement>) -> Self {
        Self { placement: placement.into(), ..self }
    }

    /// Lets the memory server move calls into this process as well.
    pub fn with_calls_here(self) -> Self {
        Self { also_here: true, ..self }
    }
}

/// Which call; numbers of one caller grow, those of calls that begin at different memory servers separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// The result of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallReply {
    /// The value that it returned.
    pub value: u64,
    /// The bytes that it replied.
    pub bytes: Vec<u8>,
}

/// A call that has ended.
#[derive(Clone, Debug)]
pub struct CallCompletion {
    /// Which.
    pub id: CallId,
    /// The function's result, or why there is none.
    pub result: Result<CallReply, CallError>,
}

/// Calls functions on the regions of a memory server, or of [several](Self::open_server).
///
/// A function is eBPF code that runs at the server, at an agent or in this process ([`CallSite`]), on regions to which the
/// caller that registers it has keys. Sites serve callers by turns, so that none waits because of another's long calls.
///
/// - A call that can write runs at most once. Its [error](CallError) says whether it may have run.
/// - Calls go where the memory server's table says for the slot of their key, or elsewhere if nothing is heard from there;
///   those that may go to different sites may overtake each other ([`CallPlacement`]).
/// - Functions of several callers run at the same time: what they share they must change by atomic operations.
///
/// A call goes on while any call of this caller is made; [`flush`](Self::flush), [`poll`](Self::poll) or
/// [`wait`](Self::wait) send what was begun.
///
/// A function comes as an object file that clang has made from C ([`FunctionImage::from_object`]), or in the text form of the
/// engine:
///
/// ```
/// # let _server = outboard_nearby::start();
/// use outboard::{FunctionImage, FunctionOptions, Outboard, Rights};
///
/// // Adds its argument to the first word of its first region, and returns what that was.
/// const COUNT: &str = "
///     ldxdw r3, [r1+0]
///     mov r1, 0
///     mov r2, 0
///     call region_fetch_add
///     exit";
///
/// let outboard = Outboard::find()?;
/// let (mut memory, mut caller) = (outboard.memory()?, outboard.caller()?);
/// let region = memory.reserve(4096, None)?;
/// let options = FunctionOptions::default().with_region(&region, Rights::ALL);
/// let count = caller.register(&FunctionImage::from_text(COUNT, "main")?, options)?;
/// assert_eq!(caller.call(count, &7u64.to_le_bytes())?.value, 0); // one call, waited for
/// for number in 1..=10u64 {
///     caller.begin(count, &number.to_le_bytes())?; // many at once, sent together
/// }
/// while let Some(ended) = caller.wait(std::time::Duration::from_secs(5)) {
///     ended.result?;
/// }
/// assert_eq!(caller.call(count, &0u64.to_le_bytes())?.value, 7 + 55);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Caller {
    site: Servers,
    deadline: Duration,
}

impl Caller {
    pub(crate) fn start(outboard: &Outboard, options: CallerOptions) -> Result<Self, OpenError> {
        let first = connect::open(outboard, &options, 0)?;
        let mut site = Servers::new(first, outboard.link.deadline);
        if options.also_here {
            site.open_here();
        }
        Ok(Self { site, deadline: outboard.deadline })
    }

    /// Opens one more memory server, the one of `outboard`, with a placement of its own and with the agent of `outboard`,
    /// which has to know that server. Functions are [registered there](Self::register_at), and those of this caller's other
    /// servers can go on there: what a function says with `forward_to` comes back to this caller, which has the call go on
    /// there within its deadline.
    ///
    /// Each part of such a call runs at most once, and an error says that it may have run as soon as one of them may have.
    pub fn open_server(
        &mut self,
        outboard: &Outboard,
        options: CallerOptions,
    ) -> Result<CallServer, OpenError> {
        let number = self.site.count() as u32;
        if number >= SERVERS_MAX {
            return Err(OpenError::TooManyServers { max: SERVERS_MAX });
        }
        let opened = connect::open(outboard, &options, number)?;
        self.site.push(opened, outboard.link.deadline);
        Ok(CallServer(number))
    }

    /// Lets every call that has no deadline of its own wait for `deadline` at most.
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Makes a function known to the site, which is sent the code if it has not got it yet.
    pub fn register(
        &mut self,
        image: &FunctionImage,
        options: FunctionOptions,
    ) -> Result<FunctionHandle, RegisterError> {
        self.register_at(CallServer::FIRST, image, options)
    }

    /// Makes a function known at another of its memory servers, on regions there.
    pub fn register_at(
        &mut self,
        server: CallServer,
        image: &FunctionImage,
        options: FunctionOptions,
    ) -> Result<FunctionHandle, RegisterError> {
        let handle = self.site.register(server.0, image, options.into_wanted(), self.deadline)?;
        Ok(FunctionHandle::new(server, handle))
    }

    /// Calls a function and waits for what it gives.
    pub fn call(&mut self, function: FunctionHandle, arguments: &[u8]) -> Result<CallReply, CallError> {
        self.call_within(function, arguments, self.deadline)
    }

    /// Calls a function and waits for not longer than `deadline`. Other calls that end meanwhile are told by [`poll`](Self::poll).
    pub fn call_within(
        &mut self,
        function: FunctionHandle,
        arguments: &[u8],
        deadline: Duration,
    ) -> Result<CallReply, CallError> {
        let id = self.begin_within(function, arguments, deadline)?;
        self.await_end(id, deadline)
    }

    /// Calls a function for a key, and waits for what it gives. Calls of one key go to the same site, and those of other
    /// keys perhaps to others.
    pub fn call_keyed(
        &mut self,
        function: FunctionHandle,
        key: &[u8],
        arguments: &[u8],
    ) -> Result<CallReply, CallError> {
        self.call_keyed_within(function, key, arguments, self.deadline)
    }

    /// Calls a function for a key, and waits for not longer than `deadline`.
    pub fn call_keyed_within(
        &mut self,
        function: FunctionHandle,
        key: &[u8],
        arguments: &[u8],
        deadline: Duration,
    ) -> Result<CallReply, CallError> {
        let id = self.begin_keyed_within(function, key, arguments, deadline)?;
        self.await_end(id, deadline)
    }

    fn await_end(&mut self, id: CallId, deadline: Duration) -> Result<CallReply, CallError> {
        let mut aside = Vec::new();
        let result = loop {
            match self.poll() {
                Some(ended) if ended.id == id => break ended.result,
                Some(ended) => aside.push(ended),
                None => self.rest(self.site.clock().now() + deadline),
            }
        };
        self.site.put_back(aside);
        result
    }

    /// Begins a call, however long it takes; waits if too many are under way. Its end is told by
    /// [`poll`](Self::poll), [`wait`](Self::wait) or [`drain`](Self::drain).
    #[inline]
    pub fn begin(&mut self, function: FunctionHandle, arguments: &[u8]) -> Result<CallId, CallError> {
        self.begin_this(function.server, function.without_key(arguments, None))
    }

    /// Begins a call for a key.
    #[inline]
    pub fn begin_keyed(
        &mut self,
        function: FunctionHandle,
        key: &[u8],
        arguments: &[u8],
    ) -> Result<CallId, CallError> {
        self.begin_this(function.server, function.in_slot(slot_of(key), arguments, None))
    }

    /// Begins a call that ends in an error when there is no answer within `deadline`. One that has waited at the
    /// site for as long will not run; one that was on its way for longer may.
    pub fn begin_within(
        &mut self,
        function: FunctionHandle,
        arguments: &[u8],
        deadline: Duration,
    ) -> Result<CallId, CallError> {
        self.begin_this(function.server, function.without_key(arguments, Some(deadline)))
    }

    /// Begins a call for a key that ends in an error when there is no answer within `deadline`, as
    /// [`begin_within`](Self::begin_within) does.
    pub fn begin_keyed_within(
        &mut self,
        function: FunctionHandle,
        key: &[u8],
        arguments: &[u8],
        deadline: Duration,
    ) -> Result<CallId, CallError> {
        self.begin_this(function.server, function.in_slot(slot_of(key), arguments, Some(deadline)))
    }

    #[inline]
    fn begin_this(&mut self, server: u8, begin: Begin<'_>) -> Result<CallId, CallError> {
        match self.site.begin(server, &begin) {
            Ok(number) => Ok(CallId(number)),
            Err(error) => self.begin_later(server, &begin, error),
        }
    }

    #[cold]
    fn begin_later(
        &mut self,
        server: u8,
        begin: &Begin<'_>,
        mut error: CallBeginError,
    ) -> Result<CallId, CallError> {
        let waited = begin.patience.unwrap_or(self.deadline);
        let limit = self.site.clock().now() + waited;
        loop {
            let lacking = CallError::at_begin(error)?;
            if self.site.clock().now() >= limit {
                let why = self.why((server, begin.handle), lacking);
                return Err(CallError::NoRoom {
                    peer: self.site.at(server).client().peer().clone(),
                    waited,
                    why,
                });
            }
            self.rest(limit);
            match self.site.begin(server, begin) {
                Ok(number) => return Ok(CallId(number)),
                Err(next) => error = next,
            }
        }
    }

    /// Sends what was begun.
    pub fn flush(&mut self) {
        self.site.flush();
    }

    /// Hands out every call that has ended, without keeping its reply. Returns how many there were.
    #[inline]
    pub fn drain(&mut self, mut tell: impl FnMut(CallId, Result<(u64, &[u8]), CallError>)) -> usize {
        let mut count = 0;
        self.site.turn(&mut |id, result| {
            count += 1;
            tell(id, result);
        });
        count
    }

    /// The next call that has ended.
    pub fn poll(&mut self) -> Option<CallCompletion> {
        self.site.next_kept().or_else(|| {
            self.site.turn_and_keep();
            self.site.next_kept()
        })
    }

    /// Waits for the next call that ends. `None` if `deadline` has passed, or if none is under way.
    pub fn wait(&mut self, deadline: Duration) -> Option<CallCompletion> {
        let until = self.site.clock().now() + deadline;
        loop {
            if let Some(completion) = self.poll() {
                return Some(completion);
            }
            if self.site.under_way() == 0 || self.site.clock().now() >= until {
                return None;
            }
            self.rest(until);
        }
    }

    /// Looks for answers for a while, then sleeps until there may be one, at most until `limit`.
    fn rest(&mut self, limit: outboard_wire::Time) {
        let clock = self.site.clock();
        let spun = clock.now() + self.site.spin();
        loop {
            if self.site.turn_and_keep() {
                return;
            }
            let now = clock.now();
            if now >= limit {
                return;
            }
            if now >= spun {
                break;
            }
            std::hint::spin_loop();
        }
        self.site.sleep(limit);
    }

    /// How many calls are under way, or have ended and were not told.
    pub fn under_way(&self) -> usize {
        self.site.under_way()
    }

    /// The sites of the first memory server as this caller has seen them, in the order of [`CallSite::ALL`].
    pub fn sites(&self) -> [SiteReport; 3] {
        self.site.first().client().sites()
    }

    /// The first memory server, for people.
    pub fn site(&self) -> String {
        self.site.first().client().peer().to_string()
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.site.close();
    }
}
