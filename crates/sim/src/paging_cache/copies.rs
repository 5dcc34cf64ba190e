//! A worker of an agent that a test drives step by step in virtual time: the test decides when the memory server does what it
//! has heard. So every order of writing, reading and answering can be forced.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use outboard_agent::{Gate, RegionStore, StoreConfig};
use outboard_driver::{LinkId, Outbox};
use outboard_link::loopback::{FaultPlan, LoopbackLink, Network};
use outboard_link::memory::Buffer;
use outboard_link::{Disposition, Exports, Frame, Identity, Link, RemoteMemory};
use outboard_paging::agent::cache::{CacheConfig, Forwarding};
use outboard_paging::agent::{AgentPagingConfig, PagingWorker, STAGE_LEN, SharedPaging};
use outboard_paging::server::{self, Home};
use outboard_wire::control::{ControlAnswer, Question, RegionName, RegionSharing};
use outboard_wire::paging::{
    AttachRegion, CacheMode, Fence, Fetch, PagingReply, PagingRequest, PagingStatus, Urgency, WriteBack,
};
use outboard_wire::{FrameHead, Grant, Incarnation, RegionDescriptor, Rights, Role, ServerId, Time};

use super::agent::Process;

/// Several readings of a copy.
const REGION: usize = 1 << 20;
const PAGE: usize = 4096;
/// How much of it is fetched at once.
const PIECE: usize = 64 << 10;
/// So many rounds without a movement are the end of everything that can happen by itself.
const QUIET: u32 = 4;

/// A link of the agent, with the peer's end of it and what the peer has heard.
struct Wire {
    id: LinkId,
    link: LoopbackLink,
    peer: LoopbackLink,
    heard: Vec<(FrameHead, Vec<u8>)>,
    next_tag: u32,
}

/// Bytes that differ wherever they are.
fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let word = |index: usize| (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed;
    (0..len.div_ceil(8)).flat_map(|index| word(index).to_le_bytes()).take(len).collect()
}

/// An agent with one worker, its memory server, and applications.
struct Stage {
    network: Network,
    worker: PagingWorker,
    exports: Arc<Exports>,
    now: Time,
    /// The bytes that the memory server has.
    store: RegionStore,
    descriptor: RegionDescriptor,
    outbox: Outbox,
    /// The memory server's is the first.
    wires: Vec<Wire>,
}

const SERVER: usize = 0;

impl Stage {
    fn new() -> Self {
        let config = AgentPagingConfig {
            workers: 1,
            slots: 0,
            cache: CacheConfig::default(),
            forwarding: Forwarding::Pipelined,
            static_max: 4 * REGION as u64,
        };
        let (exports, server) = (Exports::new(), Exports::new());
        let process = Process {
            exports: Arc::clone(&exports),
            woken: Arc::default(),
            lent: Arc::<AtomicUsize>::default(),
        };
        let memory = Buffer::allocate(config.memory_len().unwrap()).unwrap();
        let shared = SharedPaging::new(config, memory, process);
        let store = StoreConfig {
            server: ServerId(1),
            incarnation: Incarnation(1),
            capacity: REGION as u64,
            regions_max: 1,
            linger: Duration::ZERO,
        };
        let mut store = RegionStore::new(store, Arc::clone(&server));
        let (owner, name, sharing) = (Incarnation(2), RegionName::new("region"), RegionSharing::Leased);
        store.link_opened(Time::ZERO, owner, 1, "an application");
        let reserve = Question::Reserve { size: REGION as u64, chunk_log2: 16, name, sharing };
        let ControlAnswer::Region(descriptor) = store.answer(Time::ZERO, owner, &reserve) else {
            panic!("no region")
        };
        let mut stage = Self {
            network: Network::new(1, FaultPlan::none()),
            worker: PagingWorker::new(0, Arc::new(shared)),
            exports,
            now: Time::ZERO,
            store,
            descriptor,
            outbox: Outbox::default(),
            wires: Vec::new(),
        };
        stage.gate().memory().window_mut(0, REGION).write(0, &pattern(REGION, 1));
        stage.connect(Role::MemoryServer, server);
        stage
    }

    fn gate(&self) -> Arc<Gate> {
        Arc::clone(self.store.gate(self.descriptor.grant.region).unwrap())
    }

    /// Begins a new write epoch, as an application does that has given up an agent.
    fn fence(&mut self) {
        let Grant { region, generation, key, .. } = self.descriptor.grant;
        let (status, epoch) = self.gate().fence(&Fence { region, generation, key });
        assert_eq!(status, PagingStatus::Done);
        self.descriptor.epoch = epoch;
    }

    /// Opens a link to the agent. Returns its number.
    fn connect(&mut self, role: Role, theirs: Arc<Exports>) -> usize {
        let (agent, peer) = (Identity::new(Role::Agent, "agent"), Identity::new(role, "peer"));
        let ours = Arc::clone(&self.exports);
        let (link, peer) = self.network.connect(agent, ours, peer, theirs).unwrap();
        let id = LinkId(self.wires.len() as u64 + 1);
        if role == Role::MemoryServer {
            self.worker.on_server(id, link.peer(), Buffer::allocate(STAGE_LEN).unwrap());
        }
        self.wires.push(Wire { id, link, peer, heard: Vec::new(), next_tag: 1 });
        self.wires.len() - 1
    }

    /// An application that has asked for a static copy, and may not have an answer.
    fn attach(&mut self) -> usize {
        let app = self.connect(Role::Application, Exports::new());
        let server = self.wires[SERVER].link.peer().incarnation();
        let RegionDescriptor { grant, epoch, .. } = self.descriptor;
        let (mode, rights) = (CacheMode::Static, Rights::READ.and(Rights::WRITE));
        let attach = AttachRegion { grant, server, chunk_log2: 16, rights, mode, epoch };
        self.ask(app, &PagingRequest::Attach(attach), &[]);
        app
    }

    fn ask(&mut self, wire: usize, request: &PagingRequest, data: &[u8]) -> u32 {
        let Wire { peer, next_tag, .. } = &mut self.wires[wire];
        let tag = *next_tag;
        *next_tag += 1;
        let payload = [request.encode().as_bytes(), data].concat();
        peer.send(FrameHead::new(request.kind()).with_tag(tag), &payload).unwrap();
        peer.flush().unwrap();
        tag
    }

    /// An application writes a page back in the present epoch.
    fn write_back(&mut self, app: usize, page: usize, bytes: &[u8]) {
        let Grant { region, generation, key, .. } = self.descriptor.grant;
        let (epoch, offset, length) = (self.descriptor.epoch, (page * PAGE) as u64, bytes.len() as u32);
        let back = WriteBack { region, generation, key, epoch, offset, length };
        self.ask(app, &PagingRequest::WriteBack(back), bytes);
    }

    /// One round: all say and hear what there is. One-sided reads of the agent are served. Returns whether
    /// anything moved.
    fn step(&mut self) -> bool {
        self.now += Duration::from_micros(1);
        self.network.advance(self.now);
        let (worker, now, mut moved) = (&mut self.worker, self.now, false);
        for Wire { id, link, peer, heard, .. } in &mut self.wires {
            moved |= peer.progress(now).unwrap();
            moved |= link.progress(now).unwrap();
            link.completions(|completion| {
                worker.on_completion(*id, &completion, now);
                moved = true;
            });
            moved |= link.receive(16, |frame| worker.on_frame(*id, frame, now)).unwrap() > 0;
            worker.on_delivery();
            moved |= worker.send(*id, link, now).unwrap();
            link.flush().unwrap();
            peer.receive(16, |frame| {
                heard.push((frame.head, frame.payload.to_vec()));
                moved = true;
                Disposition::Taken
            })
            .unwrap();
        }
        moved
    }

    /// Lets everything happen that does not need an answer of the memory server.
    fn settle(&mut self) {
        let mut quiet = 0;
        while quiet < QUIET {
            quiet = if self.step() { 0 } else { quiet + 1 };
        }
    }

    /// The memory server does the first write-back that it has heard of and not done, and says so. Returns whether there
    /// was one.
    fn acknowledge(&mut self) -> bool {
        if self.wires[SERVER].heard.is_empty() {
            return false;
        }
        let (head, payload) = self.wires[SERVER].heard.remove(0);
        let (frame, gate) = (Frame { head, payload: payload[..].into() }, self.gate());
        let Wire { id, peer, .. } = &mut self.wires[SERVER];
        server::on_frame(*id, &frame, &mut self.outbox, |_| Some(gate));
        assert!(self.outbox.send(*id, peer).unwrap());
        peer.flush().unwrap();
        true
    }

    /// The bytes of the agent's copy, for an application that has it attached.
    fn copied(&mut self, app: usize) -> Vec<u8> {
        let Grant { region, generation, .. } = self.descriptor.grant;
        let mut bytes = Vec::new();
        for offset in (0..REGION as u64).step_by(PIECE) {
            let (length, urgency) = (PIECE as u32, Urgency::Demand);
            let fetch = Fetch { region, generation, offset, length, urgency };
            self.ask(app, &PagingRequest::Fetch(fetch), &[]);
            self.settle();
            let (_, payload) = self.wires[app].heard.pop().expect("it is answered");
            bytes.extend_from_slice(&payload[payload.len() - PIECE..]);
        }
        bytes
    }

    /// Whether an application's first question was answered by a copy.
    fn has_copy(&self, app: usize) -> bool {
        let Some((head, payload)) = self.wires[app].heard.first() else { return false };
        let reply = PagingReply::decode(head.kind, payload, 0).unwrap();
        matches!(reply, PagingReply::Attached { mode: CacheMode::Static, .. })
    }

    fn held(&self) -> Vec<u8> {
        self.gate().memory().window(0, REGION).to_vec()
    }
}

/// A write-back of a new epoch is on its way to the server when an application of that epoch has the copy begun anew, and
/// the server reads for the new copy before it writes.
#[test]
fn a_copy_that_is_begun_anew_has_what_was_being_written_back_meanwhile() {
    let mut stage = Stage::new();
    let first = stage.attach();
    stage.settle();
    assert!(stage.has_copy(first));
    stage.fence();
    let new = pattern(PAGE, 2);
    stage.write_back(first, 5, &new);
    stage.settle();
    let second = stage.attach();
    stage.settle();
    assert!(stage.held()[5 * PAGE..6 * PAGE] != new, "the server has not written it");
    assert!(stage.acknowledge());
    stage.settle();
    assert!(stage.has_copy(second), "{:?}", stage.wires[second].heard);
    assert!(stage.held()[5 * PAGE..6 * PAGE] == new);
    assert!(stage.copied(second) == stage.held(), "the copy misses a write");
}

/// Attachments, new epochs, write-backs and acknowledgements in any order.
#[test]
fn whatever_is_written_while_copies_come_and_go_the_last_one_has_it() {
    for seed in 0..30 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut stage = Stage::new();
        let mut apps = vec![stage.attach()];
        for written in 0..40u64 {
            match random.u8(..8) {
                0 => {
                    stage.fence();
                    apps.push(stage.attach());
                }
                1 => apps.push(stage.attach()),
                2..5 => {
                    let app = apps[random.usize(..apps.len())];
                    stage.write_back(app, random.usize(..REGION / PAGE), &pattern(PAGE, written + 2));
                }
                5 => {
                    stage.acknowledge();
                }
                _ => {
                    (0..random.u8(..12)).for_each(|_| {
                        stage.step();
                    });
                }
            }
        }
        stage.settle();
        while stage.acknowledge() {
            stage.settle();
        }
        let last = stage.attach();
        stage.settle();
        assert!(stage.has_copy(last), "seed {seed}");
        assert!(stage.copied(last) == stage.held(), "seed {seed}: the copy misses a write");
    }
}

/// An agent that was given up has a write-back on its way when the next epoch begins.
#[test]
fn a_write_back_that_comes_after_a_fence_is_refused() {
    let mut stage = Stage::new();
    let app = stage.attach();
    stage.settle();
    let before = stage.held();
    stage.write_back(app, 5, &pattern(PAGE, 2));
    stage.settle();
    stage.fence();
    assert!(stage.acknowledge());
    stage.settle();
    assert!(stage.held() == before, "it was written in spite of the fence");
}
