//! A worker of an agent that a test drives step by step, without threads and clocks: the test is the memory server, and
//! decides when it reads, writes and answers.

use std::sync::Arc;

use outboard_agent::{PagingConfig, PagingWorker, SharedPaging, StatusPage};
use outboard_driver::LinkId;
use outboard_link::loopback::{FaultPlan, LoopbackLink, Network};
use outboard_link::memory::Segment;
use outboard_link::{Export, Exports, Identity, Link, RemoteMemory};
use outboard_paging::cache::{CacheConfig, Forwarding};
use outboard_wire::paging::{Attach, CacheMode, Fetch, Reply, Request, Status, Urgency, WriteBack};
use outboard_wire::{FrameHead, Generation, Grant, RegionId, RegionKey, Rights, Role, Time};

use crate::support::{BOTH, pattern};

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

/// An agent with one worker, its memory server, and applications.
struct Stage {
    network: Network,
    worker: PagingWorker,
    exports: Arc<Exports>,
    /// What the memory server has.
    memory: Arc<Segment>,
    grant: Grant,
    epoch: u64,
    /// The memory server's is the first.
    wires: Vec<Wire>,
}

const SERVER: usize = 0;

impl Stage {
    fn new() -> Self {
        let config = PagingConfig {
            workers: 1,
            slots: 0,
            cache: CacheConfig::default(),
            forwarding: Forwarding::Pipelined,
            static_max: 4 * REGION as u64,
            has_room: |_| true,
        };
        let page = StatusPage::create(Role::Agent, "agent").unwrap();
        let exports = Exports::new();
        let shared = SharedPaging::new(config, Arc::clone(&exports), &page, None, |_| {}).unwrap();
        let memory = Arc::new(Segment::create(c"region", REGION).unwrap());
        memory.window_mut(0, REGION).write(0, &pattern(REGION, 1));
        let (region, generation, key) = (RegionId(1), Generation(1), RegionKey([7; 16]));
        let keys = vec![(key, Rights::ALL)];
        let server = Exports::new();
        server.add(Export { region, generation, memory: Arc::clone(&memory), keys });
        let mut stage = Self {
            network: Network::new(1, FaultPlan::none()),
            worker: PagingWorker::new(0, Arc::new(shared)),
            exports,
            memory,
            grant: Grant { region, generation, key, rights: Rights::ALL, size: REGION as u64 },
            epoch: 1,
            wires: Vec::new(),
        };
        stage.connect(Role::MemoryServer, server);
        stage
    }

    /// Somebody has a link to the agent. Returns its number.
    fn connect(&mut self, role: Role, theirs: Arc<Exports>) -> usize {
        let (agent, peer) = (Identity::new(Role::Agent, "agent"), Identity::new(role, "peer"));
        let ours = Arc::clone(&self.exports);
        let (link, peer) = self.network.connect(agent, ours, peer, theirs).unwrap();
        let id = LinkId(self.wires.len() as u64 + 1);
        self.worker.on_open(id, link.peer(), role == Role::MemoryServer);
        self.wires.push(Wire { id, link, peer, heard: Vec::new(), next_tag: 1 });
        self.wires.len() - 1
    }

    /// An application that has asked for a static copy, and may not have an answer.
    fn attach(&mut self) -> usize {
        let app = self.connect(Role::Application, Exports::new());
        let server = self.wires[SERVER].link.peer().incarnation();
        let (grant, mode, epoch) = (self.grant, CacheMode::Static, self.epoch);
        let attach = Attach { grant, server, chunk_log2: 16, rights: BOTH, mode, epoch };
        self.ask(app, &Request::Attach(attach), &[]);
        app
    }

    fn ask(&mut self, wire: usize, request: &Request, data: &[u8]) -> u32 {
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
        let Grant { region, generation, key, .. } = self.grant;
        let (epoch, offset, length) = (self.epoch, (page * PAGE) as u64, bytes.len() as u32);
        let back = WriteBack { region, generation, key, epoch, offset, length };
        self.ask(app, &Request::WriteBack(back), bytes);
    }

    /// One round: everybody says and hears what there is. One-sided reads of the agent are served. Returns whether
    /// anything moved.
    fn step(&mut self) -> bool {
        let (worker, now, mut moved) = (&mut self.worker, Time::ZERO, false);
        for Wire { id, link, peer, heard, .. } in &mut self.wires {
            moved |= peer.progress(now).unwrap();
            moved |= link.progress(now).unwrap();
            link.completions(|completion| {
                worker.on_completion(*id, &completion, now);
                moved = true;
            });
            moved |= link.receive(16, |frame| worker.on_frame(*id, frame, now)).unwrap() > 0;
            worker.on_delivery(now);
            moved |= worker.send(*id, link, now).unwrap();
            link.flush().unwrap();
            peer.receive(16, |frame| {
                heard.push((frame.head, frame.payload.to_vec()));
                moved = true;
                outboard_link::Disposition::Taken
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
        let server = &mut self.wires[SERVER];
        if server.heard.is_empty() {
            return false;
        }
        let (head, payload) = server.heard.remove(0);
        let fixed = Request::fixed_len(head.kind).unwrap();
        let request = Request::decode(head.kind, &payload[..fixed], payload.len() - fixed).unwrap();
        let Request::WriteBack(back) = request else { panic!("{request:?}") };
        let status = if back.epoch == self.epoch { Status::Done } else { Status::StaleEpoch };
        if status == Status::Done {
            let data = &payload[fixed..];
            self.memory.window_mut(back.offset as usize, data.len()).write(0, data);
        }
        let reply = Reply::Written { status, epoch: self.epoch };
        let head = FrameHead::new(reply.kind()).with_tag(head.tag);
        server.peer.send(head, reply.encode().as_bytes()).unwrap();
        server.peer.flush().unwrap();
        true
    }

    /// What the agent's copy has, for an application that has it attached.
    fn copied(&mut self, app: usize) -> Vec<u8> {
        let Grant { region, generation, .. } = self.grant;
        let mut bytes = Vec::new();
        for offset in (0..REGION as u64).step_by(PIECE) {
            let (length, urgency) = (PIECE as u32, Urgency::Demand);
            let fetch = Fetch { region, generation, offset, length, urgency };
            self.ask(app, &Request::Fetch(fetch), &[]);
            self.settle();
            let (_, payload) = self.wires[app].heard.pop().expect("it is answered");
            bytes.extend_from_slice(&payload[payload.len() - PIECE..]);
        }
        bytes
    }

    /// Whether an application's first question was answered by a copy.
    fn has_copy(&self, app: usize) -> bool {
        let Some((head, payload)) = self.wires[app].heard.first() else { return false };
        let reply = Reply::decode(head.kind, payload, 0).unwrap();
        matches!(reply, Reply::Attached { mode: CacheMode::Static, .. })
    }

    fn held(&self) -> Vec<u8> {
        self.memory.window(0, REGION).to_vec()
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
    stage.epoch += 1;
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
                    stage.epoch += 1;
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
