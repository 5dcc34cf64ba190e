//! Programs that use the library and meet an impostor. Whatever that answers, every call comes back, with an error or without.

use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use outboard::{
    Address, BufferSize, CallSite, CallerOptions, FarOptions, FunctionImage, FunctionOptions, Memory,
    Outboard, RegionOptions, Settings,
};
use outboard_link::Identity;
use outboard_wire::Role;

/// How long any call may take that is answered with anything. Its own limits are far below.
const BOUND: Duration = Duration::from_secs(20);
/// Such a limit.
const DEADLINE: Duration = Duration::from_millis(100);

/// A thread that uses the library.
pub(super) struct Victim {
    what: &'static str,
    thread: JoinHandle<()>,
    ended: Receiver<()>,
}

impl Victim {
    pub(super) fn start(what: &'static str, work: impl FnOnce() + Send + 'static) -> Self {
        let (sender, ended) = channel();
        let thread = std::thread::spawn(move || {
            work();
            let _ = sender.send(());
        });
        Self { what, thread, ended }
    }

    /// Waits until it has come back from every call, and tells if it has not.
    pub(super) fn come_back(self) {
        match self.ended.recv_timeout(BOUND) {
            Ok(()) => {}
            Err(_) if self.thread.is_finished() => crate::attacker::report(&format!("{} panics", self.what)),
            Err(_) => crate::attacker::report(&format!("{} never comes back", self.what)),
        }
    }
}

fn outboard(at: &Address) -> Outboard {
    let mut link = Settings::default().link;
    link.handshake_timeout = 2 * DEADLINE;
    let identity = Identity::new(Role::Application, "victim");
    Outboard::at(at.clone()).with_identity(identity).with_link(link).with_deadline(DEADLINE)
}

/// What an application does first.
pub(super) fn memory(at: &Address) {
    let Ok(client) = outboard(at).client() else { return };
    let mut memory = Memory::new(client);
    let _ = memory.client().echo(b"is anybody there?");
    let _ = memory.client().read_region(&outboard_agent::STATUS_GRANT);
    if let Ok(region) = memory.reserve(1 << 16, None) {
        let _ = memory.write(&region, 0, b"something");
        let _ = memory.read(&region, 1 << 15, &mut [0; 16]);
        let _ = memory.free(region);
    }
    let _ = memory.open_shared("honest", outboard::Rights::READ);
}

/// Far memory, read and written without signals: these would end the attacker.
pub(super) fn far_memory(at: &Address) {
    const WORDS: usize = 1 << 13;
    let mut options = FarOptions::default().with_chunk(4096).with_grace(DEADLINE);
    options.buffer = BufferSize::Bytes(FarOptions::buffer_min(4096));
    options.threads = Some(1);
    let Ok(far) = outboard(at).far_with(options) else { return };
    let region = RegionOptions::default().with_chunk(4096).with_deadline(DEADLINE);
    let Ok(mut words) = far.allocate_with::<u64>(WORDS, &region) else { return };
    for start in (0..WORDS).step_by(WORDS / 16) {
        let _ = words.try_write(start, &[7; 64], DEADLINE / 10);
        let _ = words.try_read(start, &mut [0; 64], DEADLINE / 10);
    }
    let _ = words.discard(0..WORDS / 2);
    let _ = words.flush();
}

/// Functions at the server.
pub(super) fn caller(at: &Address) {
    let options = CallerOptions::default().with_placement(CallSite::Server);
    let Ok(mut caller) = outboard(at).caller_with(options) else { return };
    let Ok(image) = FunctionImage::from_text("mov r0, 7\nexit", "main") else { return };
    let Ok(function) = caller.register(&image, FunctionOptions::default()) else { return };
    for _ in 0..8 {
        let _ = caller.call(function, b"arguments");
    }
}

/// Writes by either path.
pub(super) fn writer(at: &Address) {
    let Ok(mut memory) = outboard(at).memory() else { return };
    let Ok(region) = memory.reserve(1 << 16, None) else { return };
    let Ok(mut writer) = outboard(at).writer() else { return };
    let Ok(target) = writer.open(&region) else { return };
    for offset in (0..1 << 16).step_by(1 << 12) {
        let _ = writer.write(target, offset, &[5; 500]);
    }
    let _ = writer.flush();
    let _ = memory.free(region);
}
