//! A reader and an owner, driven from one thread.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use outboard_link::memory::{Buffer, Segment};
use outboard_link::ofi::{OfiConfig, OfiDialing, OfiLink, OfiListener};
use outboard_link::{
    AccessError, AccessOutcome, Clock, Completion, Export, Exports, Identity, Link, OpenRegion, RemoteMemory,
    Token,
};
use outboard_wire::{Generation, Grant, RegionId, RegionKey, Rights, Role, Time};

const SIZE: usize = 1 << 18;
const KEY: RegionKey = RegionKey([7; 16]);

/// The providers that every machine has.
pub(crate) const PROVIDERS: [&str; 2] = ["tcp;ofi_rxm", "shm"];

/// A reader, and an owner of one region.
pub(crate) struct Pair {
    pub(crate) ada: OfiLink,
    pub(crate) ben: OfiLink,
    pub(crate) exports: Arc<Exports>,
    pub(crate) memory: Arc<Segment>,
    pub(crate) grant: Grant,
    pub(crate) clock: Clock,
}

impl Pair {
    /// `None` where libfabric is not installed.
    pub(crate) fn new(provider: &str, is_quiet: bool) -> Option<Self> {
        let config = OfiConfig { provider: Some(provider.to_owned()), ..OfiConfig::default() };
        Self::with(&config, is_quiet)
    }

    pub(crate) fn with(config: &OfiConfig, is_quiet: bool) -> Option<Self> {
        if let Err(why) = config.choose(Some(Ipv4Addr::LOCALHOST.into())) {
            println!("skipped: {why}");
            return None;
        }
        let memory = Arc::new(Segment::create(c"lending", SIZE).unwrap());
        memory.set_quiet(is_quiet);
        let keys = vec![(KEY, Rights::ALL)];
        let (region, generation) = (RegionId(1), Generation(1));
        let export = Export { region, generation, memory: Arc::clone(&memory), keys };
        let grant = export.grant(0).unwrap();
        let exports = Exports::new();
        exports.add(export);
        let config = || config.clone();
        let identity = |name| Identity::new(Role::Tool, name);
        let any = (Ipv4Addr::LOCALHOST, 0).into();
        let listener = OfiListener::bind(any, identity("ben"), Arc::clone(&exports), config()).unwrap();
        let mut dialing =
            OfiDialing::new(listener.address(), identity("ada"), Exports::new(), config(), Time::ZERO)
                .unwrap();
        let (mut ada, mut accepting, mut ben) = (None, None, None);
        let began = Instant::now();
        while ada.is_none() || ben.is_none() {
            assert!(began.elapsed() < Duration::from_secs(20), "no handshake");
            ada = ada.or_else(|| dialing.poll(Time::ZERO).unwrap());
            accepting = accepting.or_else(|| listener.accept(Time::ZERO).unwrap());
            if let Some(accepting) = accepting.as_mut().filter(|_| ben.is_none()) {
                ben = accepting.poll(Time::ZERO).unwrap();
            }
        }
        let (ada, ben) = (ada.unwrap(), ben.unwrap());
        Some(Self { ada, ben, exports, memory, grant, clock: Clock::start() })
    }

    pub(crate) fn run(
        &mut self,
        begin: impl FnOnce(&mut OfiLink) -> Result<(), AccessError>,
    ) -> Result<AccessOutcome, AccessError> {
        begin(&mut self.ada)?;
        let began = Instant::now();
        loop {
            self.ada.progress(self.clock.now()).unwrap();
            let mut ended = Vec::<Completion>::new();
            self.ada.completions(|completion| ended.push(completion));
            if let Some(completion) = ended.pop() {
                return completion.result;
            }
            self.ben.progress(self.clock.now()).unwrap();
            assert!(began.elapsed() < Duration::from_secs(20), "no completion");
        }
    }

    pub(crate) fn open(&mut self, rights: Rights) -> OpenRegion {
        let grant = self.grant;
        match self.run(|ada| ada.open(&grant, rights, Token(0))) {
            Ok(AccessOutcome::Opened(region)) => region,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn read(
        &mut self,
        region: OpenRegion,
        at: u64,
        into: &Buffer,
        len: usize,
    ) -> Result<AccessOutcome, AccessError> {
        self.run(|ada| ada.read(region, at, into, 8, len, Token(1)))
    }

    pub(crate) fn write(
        &mut self,
        region: OpenRegion,
        at: u64,
        data: &[u8],
    ) -> Result<AccessOutcome, AccessError> {
        self.run(|ada| ada.write(region, at, data.into(), Token(2)))
    }

    pub(crate) fn served(&self) -> u64 {
        self.ben.counters().accesses_served
    }
}
