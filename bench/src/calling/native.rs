//! A server that does what functions of the table do, in Rust: one thread, one link, the same messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use outboard_kv::{Layout, TableOptions};
use outboard_link::memory::Window;
use outboard_link::shm::{ShmConfig, ShmLink, ShmListener};
use outboard_link::{
    Address, Clock, Disposition, Exports, Frame, FrameSendError, Identity, Link, LinkError, Waiter,
};
use outboard_wire::calling::{
    CALL, Call, REGISTER, REGISTERED, REPLY, Register, RegisterVerdict, Registered, ReplyHead,
};
use outboard_wire::{FrameHead, Role};
use serde::{Deserialize, Serialize};
use zerocopy::IntoBytes;

use super::native_table::{BAD_ARGUMENTS, DONE, NativeTable, Wanted};
use crate::BenchError;
use crate::error::Named;
use crate::pair::{Control, Cores, Order, Peer, PeerProgram, spin_until};

/// What the second process is told to play.
pub(super) const PART: &str = "calling.native";

/// Frames that are taken at once; as many as a memory server takes.
const FRAMES: usize = 64;
/// How long to look for calls before sleeping; as long as a memory server looks.
const SPIN: Duration = Duration::from_micros(20);

/// What the server is told.
#[derive(Debug, Serialize, Deserialize)]
struct Spec {
    core: Option<usize>,
    keys: u64,
    key_max: u64,
    value_max: u64,
}

/// The server in a process of its own. It ends when this is dropped.
pub(super) struct NativeHost {
    _peer: Peer,
    pub(super) address: Address,
}

impl NativeHost {
    /// Starts it with an empty table.
    pub(super) fn start(
        program: &PeerProgram,
        core: Option<usize>,
        table: &TableOptions,
    ) -> Result<Self, BenchError> {
        let peer = Peer::start(program, PART)?;
        let TableOptions { keys, key_max, value_max } = *table;
        peer.control.send(&Spec { core, keys, key_max, value_max })?;
        let address: String = peer.control.receive("the native server to listen")?;
        Ok(Self { _peer: peer, address: address.parse()? })
    }
}

/// The server's part.
pub(super) fn serve(control: &Control) -> Result<(), BenchError> {
    let Spec { core, keys, key_max, value_max } = control.receive("what to serve")?;
    Cores::settle(core)?;
    let layout = Layout::new(&TableOptions { keys, key_max, value_max })
        .map_err(|error| BenchError::Calls { why: error.to_string() })?;
    let table = NativeTable::new(&layout)?;
    let identity = Identity::new(Role::Tool, "bench calling");
    let address = Address::Abstract(format!("outboard-bench-native-{}", identity.incarnation));
    let listener = ShmListener::bind(&address, identity, Exports::new(), ShmConfig::default())?;
    control.send(&address.to_string())?;
    let over = Arc::new(AtomicBool::new(false));
    let is_over = Arc::clone(&over);
    let worker = move || -> Result<(), BenchError> {
        let link = accept(&listener)?;
        NativeServer::new(link, table).run(&is_over)
    };
    let worker = std::thread::Builder::new().name("native-server".to_owned()).spawn(worker).named("clone")?;
    while let Err(BenchError::Stalled { .. }) = control.receive::<Order>("the end of the benchmark") {}
    over.store(true, Ordering::Release);
    // A thread that panicked has said so.
    worker.join().unwrap_or(Ok(()))
}

fn accept(listener: &ShmListener) -> Result<ShmLink, BenchError> {
    let clock = Clock::start();
    let mut accepting = None;
    let link = spin_until("the client's link", || {
        let step = match &mut accepting {
            None => listener.accept(clock.now()).map(|new| {
                accepting = new;
                None
            }),
            Some(accepting) => accepting.poll(clock.now()),
        };
        step.transpose()
    })?;
    Ok(link?)
}

struct NativeServer {
    link: ShmLink,
    calls: Calls,
    waiter: Waiter,
}

/// What calls need, beside the link.
struct Calls {
    table: NativeTable,
    /// Which of the client's numbers is a put.
    puts: Option<u32>,
    arguments: Vec<u64>,
    found: Vec<u64>,
    /// Answers that are not sent yet: their heads, how long each is, and their bytes.
    heads: Vec<(FrameHead, usize)>,
    bytes: Vec<u8>,
}

impl NativeServer {
    fn new(link: ShmLink, table: NativeTable) -> Self {
        let calls = Calls {
            table,
            puts: None,
            arguments: Vec::new(),
            found: Vec::new(),
            heads: Vec::new(),
            bytes: Vec::new(),
        };
        Self { link, calls, waiter: Waiter::new() }
    }

    fn run(mut self, is_over: &AtomicBool) -> Result<(), BenchError> {
        let mut busy_at = self.waiter.clock.now();
        while !is_over.load(Ordering::Acquire) {
            let now = self.waiter.clock.now();
            let moved = match self.turn(now) {
                Ok(moved) => moved,
                // The client has gone: that was all.
                Err(_) => return Ok(()),
            };
            if moved {
                busy_at = now;
            } else if now.since(busy_at) < SPIN && !Cores::is_single() {
                std::hint::spin_loop();
            } else {
                // A loss is found in the next turn.
                let _ = self.waiter.sleep(&mut self.link, now + Duration::from_millis(100));
                busy_at = self.waiter.clock.now();
            }
        }
        Ok(())
    }

    fn turn(&mut self, now: outboard_wire::Time) -> Result<bool, LinkError> {
        let Self { link, calls, .. } = self;
        let mut moved = link.progress(now)?;
        if calls.heads.is_empty() {
            moved |= link.receive(FRAMES, |frame| calls.take(frame))? > 0;
        }
        let mut at = 0;
        let frames = calls.heads.iter().map(|(head, length)| {
            at += length;
            (*head, &calls.bytes[at - length..at])
        });
        let sent = match link.send_batch(frames) {
            Ok(sent) => sent,
            Err(FrameSendError::Lost(error)) => return Err(error),
            Err(FrameSendError::Full | FrameSendError::TooLong { .. }) => 0,
        };
        let bytes: usize = calls.heads.drain(..sent).map(|(_, length)| length).sum();
        calls.bytes.drain(..bytes);
        link.flush()?;
        Ok(moved || sent > 0)
    }
}

impl Calls {
    #[inline]
    fn take(&mut self, frame: Frame<'_>) -> Disposition {
        match frame.head.kind {
            CALL => self.call(frame.payload),
            REGISTER => self.register(&frame.payload.to_vec()),
            _ => {}
        }
        Disposition::Taken
    }

    /// Whatever function is registered: there are two.
    fn register(&mut self, bytes: &[u8]) {
        let Ok(register) = Register::decode(bytes) else { return };
        if outboard_kv::image("kv_put").is_ok_and(|image| image.name() == register.name) {
            self.puts = Some(register.handle);
        }
        let before = self.bytes.len();
        let registered =
            Registered { handle: register.handle, verdict: RegisterVerdict::Ready, detail: String::new() };
        registered.encode(&mut self.bytes);
        self.answered(FrameHead::new(REGISTERED).with_tag(register.handle), before);
    }

    fn answered(&mut self, head: FrameHead, before: usize) {
        self.heads.push((head, self.bytes.len() - before));
    }

    #[inline]
    fn call(&mut self, payload: Window<'_>) {
        let Some(length) = payload.len().checked_sub(Call::LEN) else { return };
        let Ok(Call { call, handle, .. }) = Call::decode(payload.array::<{ Call::LEN }>(0)) else { return };
        self.arguments.resize(length / 8, 0);
        payload.part(Call::LEN, length / 8 * 8).read(0, self.arguments.as_mut_bytes());
        let before = self.bytes.len();
        self.bytes.extend_from_slice(&ReplyHead { call, value: DONE }.encode());
        let value = match Wanted::read(&mut self.arguments, self.table.slot_words()) {
            None => BAD_ARGUMENTS,
            Some(mut wanted) if Some(handle) == self.puts => self.table.put(&mut wanted, &mut self.found),
            Some(wanted) => self.table.get(&wanted, &mut self.found, &mut self.bytes),
        };
        if value != DONE {
            let reply = ReplyHead { call, value }.encode();
            self.bytes[before..before + reply.len()].copy_from_slice(&reply);
        }
        self.answered(FrameHead::new(REPLY).with_tag(call as u32), before);
    }
}
