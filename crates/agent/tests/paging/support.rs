//! A memory server, an agent and applications, never waited for longer than a deadline.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use outboard_agent::{Daemon, StatusView};
use outboard_link::memory::{Buffer, Window};
use outboard_link::shm::{self, ShmLink};
use outboard_link::tcp::{self, TcpLink};
use outboard_link::{
    AccessOutcome, Address, Disposition, Exports, Identity, Link, OpenRegion, RemoteMemory, Token, Waiter,
};
use outboard_settings::{ByteSize, Settings};
use outboard_wire::control::{ControlAnswer, Question, RegionSharing};
use outboard_wire::paging::{
    AttachRegion, CacheMode, DetachRegion, Fetch, FetchSource, PagingReply, PagingRequest, PagingStatus,
    Urgency, WriteBack,
};
use outboard_wire::{FrameHead, Grant, RegionDescriptor, Rights, Role, Text};

/// How long anything here may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
pub(crate) const BOTH: Rights = Rights::READ.and(Rights::WRITE);

pub(crate) fn socket() -> Address {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("unix:@outboard-paging-{}-{number}", std::process::id()).parse().unwrap()
}

/// Settings with sockets that no other test uses.
pub(crate) fn settings() -> Settings {
    let mut settings = Settings::default();
    let tcp: Address = "tcp:127.0.0.1:0".parse().unwrap();
    settings.memory.listen = vec![socket(), tcp.clone()];
    settings.agent.listen = vec![socket(), tcp];
    settings.agent.memory_servers = vec![settings.memory.listen[0].clone()];
    settings.agent.cache = ByteSize(8 << 20).into();
    settings
}

/// A memory server and an agent that uses it.
pub(crate) struct Cluster {
    pub(crate) memory: Option<Daemon>,
    pub(crate) agent: Daemon,
    pub(crate) settings: Settings,
}

impl Cluster {
    pub(crate) fn new(settings: Settings) -> Self {
        let memory = Daemon::memory(&settings).unwrap();
        let agent = Daemon::agent(&settings).unwrap();
        let cluster = Self { memory: Some(memory), agent, settings };
        cluster.await_agent(|view| view.get("memory_servers_connected") == Some(1));
        cluster
    }

    /// A cluster with the agent's link to the server and those to the agent over TCP.
    pub(crate) fn over_tcp(mut settings: Settings) -> Self {
        let memory = Daemon::memory(&settings).unwrap();
        settings.agent.memory_servers = vec![memory.listening()[1].clone()];
        let agent = Daemon::agent(&settings).unwrap();
        let cluster = Self { memory: Some(memory), agent, settings };
        cluster.await_agent(|view| view.get("memory_servers_connected") == Some(1));
        cluster
    }

    /// Waits until the agent's page shows something.
    pub(crate) fn await_agent(&self, is_so: impl Fn(&StatusView) -> bool) -> StatusView {
        await_some(|| Some(self.agent.page().view().unwrap()).filter(&is_so))
    }

    pub(crate) fn server(&self) -> App<ShmLink> {
        App::shm(&self.settings.memory.listen[0])
    }

    pub(crate) fn app(&self) -> App<ShmLink> {
        App::shm(&self.settings.agent.listen[0])
    }

    pub(crate) fn tcp_app(&self) -> App<TcpLink> {
        App::tcp(&self.agent.listening()[1])
    }
}

/// Tries again until there is something.
#[track_caller]
pub(crate) fn await_some<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "not within {PATIENCE:?}");
        std::thread::yield_now();
    }
}

/// A process that speaks to a daemon.
pub(crate) struct App<L> {
    pub(crate) link: L,
    waiter: Waiter,
    next_tag: u32,
}

impl App<ShmLink> {
    pub(crate) fn shm(address: &Address) -> Self {
        let identity = Identity::new(Role::Application, "test");
        let config = shm::ShmConfig { handshake_timeout: PATIENCE, ..Default::default() };
        Self::new(shm::connect(address, identity, Exports::new(), config).unwrap())
    }
}

impl App<TcpLink> {
    pub(crate) fn tcp(address: &Address) -> Self {
        let Address::Tcp(socket) = address else { panic!("{address} is no TCP address") };
        let identity = Identity::new(Role::Application, "test");
        let mut config = tcp::TcpConfig::default();
        config.stream.handshake_timeout = PATIENCE;
        Self::new(tcp::connect(*socket, identity, Exports::new(), config).unwrap())
    }
}

impl<L: Link + RemoteMemory> App<L> {
    fn new(link: L) -> Self {
        Self { link, waiter: Waiter::new(), next_tag: 1 }
    }

    /// Sends a frame and returns its tag.
    pub(crate) fn send(&mut self, head: FrameHead, parts: &[&[u8]]) -> u32 {
        let tag = self.next_tag;
        self.next_tag += 1;
        let payload = parts.concat();
        let send = |link: &mut L| match link.send(head.with_tag(tag), &payload) {
            Ok(()) => Ok(Some(())),
            Err(outboard_link::FrameSendError::Full) => Ok(None),
            Err(error) => panic!("{error}"),
        };
        self.waiter.until(&mut self.link, PATIENCE, "room", send).unwrap();
        self.link.flush().unwrap();
        tag
    }

    pub(crate) fn request(&mut self, request: &PagingRequest, data: &[u8]) -> u32 {
        self.send(FrameHead::new(request.kind()), &[request.encode().as_bytes(), data])
    }

    /// The next frame, with its tag.
    pub(crate) fn receive(&mut self) -> (FrameHead, Vec<u8>) {
        self.try_receive().unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn try_receive(&mut self) -> Result<(FrameHead, Vec<u8>), outboard_link::LinkError> {
        self.waiter.until(&mut self.link, PATIENCE, "an answer", |link| {
            let mut found = None;
            link.receive(1, |frame| {
                found = Some((frame.head, frame.payload.to_vec()));
                Disposition::Taken
            })?;
            Ok(found)
        })
    }

    /// The next reply about far memory, with its tag and its bytes.
    pub(crate) fn reply(&mut self) -> (u32, PagingReply, Vec<u8>) {
        let (head, payload) = self.receive();
        let len = PagingReply::fixed_len(head.kind).unwrap();
        let reply = PagingReply::decode(head.kind, &payload[..len], payload.len() - len).unwrap();
        (head.tag, reply, payload[len..].to_vec())
    }

    pub(crate) fn ask(&mut self, question: &Question) -> ControlAnswer {
        let mut payload = Vec::new();
        question.encode(&mut payload);
        self.send(FrameHead::new(question.kind()), &[&payload]);
        let (head, payload) = self.receive();
        ControlAnswer::decode(head.kind, &payload).unwrap()
    }

    pub(crate) fn reserve(&mut self, size: u64, name: &str) -> RegionDescriptor {
        let (name, sharing) = (Text::new(name), RegionSharing::Leased);
        match self.ask(&Question::Reserve { size, chunk_log2: 16, name, sharing }) {
            ControlAnswer::Region(descriptor) => descriptor,
            answer => panic!("{answer:?}"),
        }
    }

    /// Ends the operation that `begin` begins.
    fn operate(&mut self, begin: impl FnOnce(&mut L)) -> AccessOutcome {
        begin(&mut self.link);
        self.link.flush().unwrap();
        let ended = self.waiter.until(&mut self.link, PATIENCE, "an operation", |link| {
            let mut ended = None;
            link.completions(|completion| ended = Some(completion.result));
            Ok(ended)
        });
        ended.unwrap().unwrap()
    }

    pub(crate) fn open(&mut self, grant: &Grant, rights: Rights) -> OpenRegion {
        match self.operate(|link| link.open(grant, rights, Token(0)).unwrap()) {
            AccessOutcome::Opened(region) => region,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn read(&mut self, region: OpenRegion, offset: u64, len: usize) -> Vec<u8> {
        let into = Buffer::allocate(len).unwrap();
        self.operate(|link| link.read(region, offset, &into, 0, len, Token(0)).unwrap());
        into.window().part(0, len).to_vec()
    }

    pub(crate) fn write(&mut self, region: OpenRegion, offset: u64, bytes: &[u8]) {
        self.operate(|link| link.write(region, offset, Window::from(bytes), Token(0)).unwrap());
    }

    pub(crate) fn attach(&mut self, attach: AttachRegion) -> PagingReply {
        self.request(&PagingRequest::Attach(attach), &[]);
        self.reply().1
    }

    /// Attaches a region after answers to other requests, which are dropped.
    pub(crate) fn attach_after(&mut self, attach: AttachRegion) -> PagingReply {
        let asked = self.request(&PagingRequest::Attach(attach), &[]);
        loop {
            let (head, payload) = self.receive();
            if head.tag == asked {
                let len = PagingReply::fixed_len(head.kind).unwrap();
                return PagingReply::decode(head.kind, &payload[..len], payload.len() - len).unwrap();
            }
        }
    }

    pub(crate) fn detach(&mut self, grant: &Grant) {
        let detach = DetachRegion { region: grant.region, generation: grant.generation };
        self.request(&PagingRequest::Detach(detach), &[]);
    }

    /// Asks for bytes without waiting for them.
    pub(crate) fn begin_fetch(&mut self, grant: &Grant, offset: u64, length: u32) -> u32 {
        let Grant { region, generation, .. } = *grant;
        let fetch = Fetch { region, generation, offset, length, urgency: Urgency::Demand };
        self.request(&PagingRequest::Fetch(fetch), &[])
    }

    pub(crate) fn fetch(
        &mut self,
        grant: &Grant,
        offset: u64,
        length: u32,
    ) -> Result<(FetchSource, Vec<u8>), PagingStatus> {
        let tag = self.begin_fetch(grant, offset, length);
        match self.reply() {
            (to, PagingReply::Fetched { status: PagingStatus::Done, source, .. }, bytes) if to == tag => {
                Ok((source, bytes))
            }
            (to, PagingReply::Fetched { status, .. }, _) if to == tag => Err(status),
            other => panic!("{other:?}"),
        }
    }

    /// Writes bytes back without waiting for the acknowledgement.
    pub(crate) fn begin_write_back(
        &mut self,
        descriptor: &RegionDescriptor,
        offset: u64,
        bytes: &[u8],
    ) -> u32 {
        let Grant { region, generation, key, .. } = descriptor.grant;
        let (epoch, length) = (descriptor.epoch, bytes.len() as u32);
        let back = WriteBack { region, generation, key, epoch, offset, length };
        self.request(&PagingRequest::WriteBack(back), bytes)
    }

    pub(crate) fn write_back(
        &mut self,
        descriptor: &RegionDescriptor,
        offset: u64,
        bytes: &[u8],
    ) -> PagingStatus {
        let tag = self.begin_write_back(descriptor, offset, bytes);
        match self.reply() {
            (to, PagingReply::Written { status, .. }, _) if to == tag => status,
            other => panic!("{other:?}"),
        }
    }
}

/// What an application says to attach a region as it was given it.
pub(crate) fn attach(descriptor: &RegionDescriptor, mode: CacheMode) -> AttachRegion {
    AttachRegion {
        grant: descriptor.grant,
        server: descriptor.extents[0].incarnation,
        chunk_log2: descriptor.chunk_log2,
        rights: if descriptor.grant.rights.includes(Rights::WRITE) { BOTH } else { Rights::READ },
        mode,
        epoch: descriptor.epoch,
    }
}

/// Bytes that differ wherever they are.
pub(crate) fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let word = |index: usize| (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed;
    (0..len.div_ceil(8)).flat_map(|index| word(index).to_le_bytes()).take(len).collect()
}

/// A region full of a pattern.
pub(crate) fn filled(cluster: &Cluster, size: u64) -> (App<ShmLink>, RegionDescriptor, OpenRegion, Vec<u8>) {
    let mut server = cluster.server();
    let region = server.reserve(size, "");
    let bytes = pattern(size as usize, region.grant.region.0);
    let open = server.open(&region.grant, BOTH);
    for (index, part) in bytes.chunks(1 << 17).enumerate() {
        server.write(open, (index << 17) as u64, part);
    }
    (server, region, open, bytes)
}
