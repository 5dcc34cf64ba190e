//! Calls of functions that run where regions are.

mod connect;
mod error;
mod explain;
mod function;
mod future;
mod servers;

use std::time::Duration;

use outboard_calling::{Begin, CallBeginError, slot_of};
use outboard_link::{Address, ConnectError, Identity};
use outboard_settings::{LinkSettings, Settings};
use outboard_wire::calling::SERVERS_MAX;

pub use error::{CallError, CallerError, NoRoomBecause};
pub use function::{CallServer, FunctionHandle, FunctionOptions};
pub use future::{AsyncCaller, CallDriver, CallFuture};
pub use outboard_calling::{
    FunctionImage, ImageError, Placement as CallPlacement, RegisterError, SiteReport,
};
pub use outboard_steering::Site as CallSite;
pub use outboard_wire::calling::{FunctionName, RegisterRefusal, TrapReason};

use crate::find::{FindError, Found};
use crate::job::Job;
use servers::{AnyDispatcher, Servers};

/// How a [`Caller`] works.
#[derive(Clone, Debug)]
pub struct CallerOptions {
    /// Calls that may be under way, at most 4096; default 256, each about 100 bytes here, and its arguments where it may have to
    /// begin again at another site. Rounded up to a power of two.
    pub under_way_max: usize,
    /// Where calls run; by default where the memory server's table says.
    pub placement: CallPlacement,
    /// An agent at which calls may run; by default the job's, if it has one.
    pub agent: Option<Address>,
}

impl Default for CallerOptions {
    fn default() -> Self {
        Self { under_way_max: 256, placement: CallPlacement::Steered, agent: None }
    }
}

impl CallerOptions {
    /// As configured: with the agent of the job, or of this user, if there is one.
    pub fn from_settings(settings: &Settings) -> Self {
        Self { agent: crate::far::agent_of(settings), ..Self::default() }
    }

    /// The same with all calls at this site.
    pub fn at(self, site: CallSite) -> Self {
        Self { placement: CallPlacement::Fixed(site), ..self }
    }

    /// The same with an agent.
    pub fn with_agent(self, agent: Option<Address>) -> Self {
        Self { agent, ..self }
    }
}

/// Which call; numbers of one caller grow, those of calls that begin at different memory servers separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// What a function gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallReply {
    /// What it returned.
    pub value: u64,
    /// What it replied.
    pub bytes: Vec<u8>,
}

/// A call that has ended.
#[derive(Clone, Debug)]
pub struct CallCompletion {
    /// Which.
    pub id: CallId,
    /// What the function gave, or why there is nothing.
    pub result: Result<CallReply, CallError>,
}

/// Calls functions on the regions of a memory server, or of [several](Self::open_server).
///
/// A function is eBPF code that runs at the server, at an agent or in this process ([`CallSite`]), on regions that whoever
/// registers it has keys to. Everybody's calls are served by turns, so that nobody waits because of others' long ones.
///
/// - A call that can write runs at most once. Its [error](CallError) says whether it may have run.
/// - Calls go where the memory server's table says for the slot of their key, or elsewhere if nothing is heard from there;
///   those that may go to different sites may overtake each other ([`CallPlacement`]).
/// - Functions of several callers run at the same time: what they share they must change by atomic operations.
///
/// A call goes on while any call of this caller is made; [`flush`](Self::flush), [`poll`](Self::poll) or
/// [`wait`](Self::wait) send what was begun.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use outboard::{Caller, CallerOptions, FunctionImage, FunctionOptions, Job, Rights};
///
/// let mut job = Job::join()?;
/// let mut caller = Caller::new(&mut job, CallerOptions::default())?;
/// let region = job.memory().expect("a memory server").reserve(1 << 20, None)?;
/// let image = FunctionImage::from_object(&std::fs::read("count-v3.o")?, "count")?;
/// let count = caller.register(&image, FunctionOptions::default().with_region(&region, Rights::ALL))?;
/// println!("{}", caller.call(count, &7u64.to_le_bytes())?.value);
/// # Ok(())
/// # }
/// ```
pub struct Caller {
    site: Servers,
    patience: Duration,
}

impl Caller {
    /// A caller at the memory server of a job, with a link of its own.
    pub fn new(job: &mut Job, mut options: CallerOptions) -> Result<Self, CallerError> {
        options.agent = options.agent.or_else(|| job.agent_address().cloned());
        let memory = job.memory().ok_or(CallerError::NoServer)?;
        let address = memory.client().peer().address().to_owned();
        let Ok(parsed) = address.parse() else { return Err(CallerError::BadAddress { address }) };
        Ok(Self::connect(&parsed, job.identity().clone(), job.link(), options)?)
    }

    /// A caller at the memory server of this process: the one that the configuration file or the environment names
    /// (`job.memory`), or else the one that this user has started by `outboard up` or `outboard memory`. Without an agent in
    /// the options it is the agent of the settings, or of this user, if there is one.
    pub fn find(mut options: CallerOptions) -> Result<Self, CallerError> {
        let found = Found::look()?;
        options.agent = options.agent.or_else(|| crate::far::agent_of(&found.settings));
        Self::connect(&found.address, found.identity(), &found.settings.link, options)
            .map_err(|error| FindError::new(&found.address, error).into())
    }

    /// Connects to the memory server at `address`.
    pub fn connect(
        address: &Address,
        identity: Identity,
        settings: &LinkSettings,
        options: CallerOptions,
    ) -> Result<Self, ConnectError> {
        let first = AnyDispatcher::connect(address, identity, settings, (&options, 0))?;
        Ok(Self { site: Servers::new(first, settings.deadline), patience: settings.deadline })
    }

    /// Connects to one more memory server in the name of a job, with a placement of its own, and with an agent if the options
    /// name one that knows that server. Functions are [registered there](Self::register_at), and those of this caller's other
    /// servers can go on there: what a function says with `forward_to` comes back to this caller, which has the call go on
    /// there within its deadline.
    ///
    /// Each part of such a call runs at most once, and an error says that it may have run as soon as one of them may have.
    pub fn open_server(
        &mut self,
        job: &Job,
        address: &Address,
        options: CallerOptions,
    ) -> Result<CallServer, CallerError> {
        self.connect_server(address, job.identity().clone(), job.link(), options)
    }

    /// The same as [`connect`](Self::connect).
    pub fn connect_server(
        &mut self,
        address: &Address,
        identity: Identity,
        settings: &LinkSettings,
        options: CallerOptions,
    ) -> Result<CallServer, CallerError> {
        let number = self.site.count() as u32;
        if number >= SERVERS_MAX {
            return Err(CallerError::TooManyServers { max: SERVERS_MAX });
        }
        let opened = AnyDispatcher::connect(address, identity, settings, (&options, number))?;
        self.site.push(opened, settings.deadline);
        Ok(CallServer(number))
    }

    /// The same caller, waiting for `patience` at most in every call that has no limit of its own.
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The same caller, to which the memory server may move calls as well: they run in the thread that calls, whenever it
    /// asks for what has ended. Not so by default, since only the application knows what else it has to do.
    pub fn also_here(mut self) -> Self {
        self.site.open_here();
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

    /// The same at another of its memory servers, on regions there.
    pub fn register_at(
        &mut self,
        server: CallServer,
        image: &FunctionImage,
        options: FunctionOptions,
    ) -> Result<FunctionHandle, RegisterError> {
        let handle = self.site.register(server.0, image, options.into_wanted(), self.patience)?;
        Ok(FunctionHandle::new(server, handle))
    }

    /// Calls a function and waits for what it gives.
    pub fn call(&mut self, function: FunctionHandle, arguments: &[u8]) -> Result<CallReply, CallError> {
        self.call_within(function, arguments, self.patience)
    }

    /// The same, for not longer than `patience`. Other calls that end meanwhile are told by [`poll`](Self::poll).
    pub fn call_within(
        &mut self,
        function: FunctionHandle,
        arguments: &[u8],
        patience: Duration,
    ) -> Result<CallReply, CallError> {
        let id = self.begin_within(function, arguments, patience)?;
        self.await_end(id, patience)
    }

    /// Calls a function for a key, and waits for what it gives. Calls of one key go to the same site, and those of other
    /// keys perhaps to others.
    pub fn call_keyed(
        &mut self,
        function: FunctionHandle,
        key: &[u8],
        arguments: &[u8],
    ) -> Result<CallReply, CallError> {
        let patience = self.patience;
        let id =
            self.begin_this(function.server, function.in_slot(slot_of(key), arguments, Some(patience)))?;
        self.await_end(id, patience)
    }

    fn await_end(&mut self, id: CallId, patience: Duration) -> Result<CallReply, CallError> {
        let mut aside = Vec::new();
        let result = loop {
            match self.poll() {
                Some(ended) if ended.id == id => break ended.result,
                Some(ended) => aside.push(ended),
                None => self.rest(self.site.clock().now() + patience),
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

    /// The same for a key.
    #[inline]
    pub fn begin_keyed(
        &mut self,
        function: FunctionHandle,
        key: &[u8],
        arguments: &[u8],
    ) -> Result<CallId, CallError> {
        self.begin_this(function.server, function.in_slot(slot_of(key), arguments, None))
    }

    /// Begins a call that ends in an error when there is no answer within `patience`. One that has waited at the
    /// site for as long will not run; one that was on its way for longer may.
    pub fn begin_within(
        &mut self,
        function: FunctionHandle,
        arguments: &[u8],
        patience: Duration,
    ) -> Result<CallId, CallError> {
        self.begin_this(function.server, function.without_key(arguments, Some(patience)))
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
        let waited = begin.patience.unwrap_or(self.patience);
        let limit = self.site.clock().now() + waited;
        loop {
            let lacking = CallError::at_begin(error)?;
            if self.site.clock().now() >= limit {
                let why = self.why((server, begin.handle), lacking);
                return Err(CallError::NoRoom { peer: self.site.at(server).peer(), waited, why });
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
        self.site.turn(|id, result| {
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

    /// Waits for the next call that ends. `None` if `limit` has passed, or if none is under way.
    pub fn wait(&mut self, limit: Duration) -> Option<CallCompletion> {
        let until = self.site.clock().now() + limit;
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

    /// What this caller has seen of the sites of its first memory server, in the order of [`CallSite::ALL`].
    pub fn sites(&self) -> [SiteReport; 3] {
        self.site.first().sites()
    }

    /// The first memory server, for people.
    pub fn site(&self) -> String {
        self.site.first().peer().to_string()
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.site.close();
    }
}
