//! Processes that use far memory and may die of it.

use std::io::{BufRead, Write};
use std::ops::Range;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use outboard::{Address, Advice, FarMapping, FarMemory, FaultAnswer, Path, RegionOptions};
use outboard_e2e::{PATIENCE, Place, Process};

use super::{acts, connect, options, words};

const VARIABLE: &str = "PROOF_FAR_USER";
pub(super) const CHUNK: usize = 4096;
pub(super) const CHUNKS: usize = 64;
/// How many chunks the buffer has room for.
const SEATS: usize = 16;
pub(super) const THREADS_MAX: usize = 2;
/// What the first word of a chunk is: its number and this, or more where it was changed last.
const BASE: u64 = 1000;

/// How it ends, as its exit code.
pub(super) const TOLD_OF_SIGNALS: i32 = 50;
pub(super) const SURVIVED: i32 = 51;

/// What such a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Waits to be told, looks at what is here, then touches what is not with as many threads, until all have got
    /// SIGBUS.
    Touch(usize),
    /// The same, without a handler.
    Die,
    /// The same, with faults answered by the thread that makes them.
    DieInPlace,
    /// Waits to be told, changes as much as the buffer has room for, then touches what is not here until it gets SIGBUS.
    Full,
    /// Stores to a region that it may only read; tells of the SIGSEGV if it has a handler.
    Store { has_handler: bool },
    /// Stores to a region that it may only read, and lives on; then loses its server.
    StoreAndLose,
    /// Forks again and again while its threads use far memory.
    Fork,
    /// Has far memory touched by a signal handler, whatever it is doing.
    Handle,
    /// The same, with faults answered by the thread that makes them.
    HandleInPlace,
    /// Stores to a region that it may only read, with faults answered likewise.
    StoreInPlace,
    /// Gives far memory to system calls, with faults answered likewise.
    CallInPlace,
    /// Gives far memory to system calls without the rights that this needs.
    Unprivileged,
}

impl Act {
    /// Whether the threads of the process answer their own faults.
    fn is_in_place(self) -> bool {
        matches!(self, Self::DieInPlace | Self::HandleInPlace | Self::StoreInPlace | Self::CallInPlace)
    }
}

/// A process that uses far memory.
#[derive(Clone, Debug)]
pub(crate) struct User {
    pub(super) act: Act,
    pub(super) server: Address,
    pub(super) agent: Option<Address>,
    pub(super) grace: Duration,
}

/// Where the region of this process begins, and how many threads are to get the signal.
static START: AtomicUsize = AtomicUsize::new(0);
pub(super) static EXPECTED: AtomicUsize = AtomicUsize::new(1);
static SEEN: AtomicUsize = AtomicUsize::new(0);

/// Tells where a signal came from, with nothing but what a handler may use.
extern "C" fn on_signal(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives what this signal is about.
    let address = unsafe { (*info).si_addr() } as usize;
    let mut line = *b"\nSIGBUS  at chunk 000\n";
    if signal == libc::SIGSEGV {
        line[1..8].copy_from_slice(b"SIGSEGV");
    }
    let chunk = address.wrapping_sub(START.load(Ordering::Relaxed)) / CHUNK;
    for (place, power) in [(18, 100), (19, 10), (20, 1)] {
        line[place] = b'0' + (chunk / power % 10) as u8;
    }
    let _ = rustix::io::write(rustix::stdio::stdout(), &line);
    if SEEN.fetch_add(1, Ordering::Relaxed) + 1 == EXPECTED.load(Ordering::Relaxed) {
        // SAFETY: ends this process at once.
        unsafe { libc::_exit(TOLD_OF_SIGNALS) };
    }
    loop {
        // SAFETY: waits for the others; the test does not wait for ever.
        unsafe { libc::pause() };
    }
}

/// From now on a signal is told of, with the chunk of a region that it is about.
pub(super) fn tell_of(signal: libc::c_int, mapping: &FarMapping) {
    START.store(mapping.as_ptr().as_ptr() as usize, Ordering::Relaxed);
    // SAFETY: the handler uses nothing that a handler must not use.
    unsafe {
        let mut action = core::mem::zeroed::<libc::sigaction>();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(signal, &raw const action, core::ptr::null_mut()), 0);
    }
}

pub(super) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = write!(out, "\n{line}\n").and_then(|()| out.flush());
}

/// Waits until the parent says something.
pub(super) fn hear() {
    std::io::stdin().lock().read_line(&mut String::new()).expect("the parent keeps it open");
}

/// Has nothing but changed chunks here when its server is gone, and wants another.
fn fill(memory: &FarMemory) -> i32 {
    let region = RegionOptions { chunk: CHUNK, path: Path::Direct, ..Default::default() };
    let reserve =
        |chunks: usize| memory.reserve((chunks * CHUNK) as u64, &region).expect("the server has room");
    let (wanted, full) = (reserve(CHUNKS), reserve(SEATS));
    (0..CHUNKS).for_each(|chunk| write(&wanted, chunk, BASE));
    wanted.flush().expect("the server is there");
    // The buffer has room for all chunks that are to be here, and has no use for others.
    wanted.advise(0..CHUNKS * CHUNK, Advice::DontNeed).expect("they are inside");
    (0..SEATS).for_each(|chunk| write(&full, chunk, BASE));
    say("working");
    hear();
    (0..SEATS).for_each(|chunk| write(&full, chunk, 2 * BASE));
    (0..SEATS).for_each(|chunk| check(&full, chunk, 2 * BASE));
    say("what is here is as it was");
    tell_of(libc::SIGBUS, &wanted);
    // By shared memory bytes can be had until the end of the server is noticed.
    (0..CHUNKS).cycle().take(1 << 20).for_each(|chunk| check(&wanted, chunk, BASE));
    say("survived");
    SURVIVED
}

impl User {
    /// Starts it: the test's own program, anew.
    pub(super) fn start(&self, place: &Place) -> Process {
        Process::start_told(self.command(place))
    }

    /// What starts it.
    pub(super) fn command(&self, place: &Place) -> Command {
        let mut command = outboard_child::again();
        command.env(VARIABLE, self.to_text());
        place.mark(&mut command);
        command
    }

    fn to_text(&self) -> String {
        let act = match self.act {
            Act::Touch(threads) => format!("touch-{threads}"),
            Act::Die => "die".to_owned(),
            Act::DieInPlace => "die-in-place".to_owned(),
            Act::HandleInPlace => "handle-in-place".to_owned(),
            Act::StoreInPlace => "store-in-place".to_owned(),
            Act::CallInPlace => "call-in-place".to_owned(),
            Act::Full => "full".to_owned(),
            Act::Store { has_handler } => format!("store-{has_handler}"),
            Act::StoreAndLose => "store-and-lose".to_owned(),
            Act::Handle => "handle".to_owned(),
            Act::Fork => "fork".to_owned(),
            Act::Unprivileged => "unprivileged".to_owned(),
        };
        let agent = self.agent.as_ref().map_or_else(|| "none".to_owned(), Address::to_string);
        format!("{act} {} {} {agent}", self.server, self.grace.as_millis())
    }

    /// What this process was started as, if it is one of these.
    pub(crate) fn from_environment() -> Option<Self> {
        let text = std::env::var(VARIABLE).ok()?;
        let mut words = text.split(' ');
        let act = match words.next()? {
            "die" => Act::Die,
            "die-in-place" => Act::DieInPlace,
            "handle-in-place" => Act::HandleInPlace,
            "store-in-place" => Act::StoreInPlace,
            "call-in-place" => Act::CallInPlace,
            "full" => Act::Full,
            "store-true" => Act::Store { has_handler: true },
            "store-false" => Act::Store { has_handler: false },
            "store-and-lose" => Act::StoreAndLose,
            "handle" => Act::Handle,
            "fork" => Act::Fork,
            "unprivileged" => Act::Unprivileged,
            touch => Act::Touch(touch.strip_prefix("touch-")?.parse().ok()?),
        };
        let server = words.next()?.parse().ok()?;
        let grace = Duration::from_millis(words.next()?.parse().ok()?);
        Some(Self { act, server, agent: words.next()?.parse().ok(), grace })
    }

    /// Plays it; returns the exit code.
    pub(crate) fn run(&self) -> i32 {
        let mut options = options(&self.server, CHUNK, SEATS * CHUNK).with_agent(self.agent.clone());
        (options.threads, options.ahead, options.grace) = (Some(2), 0, self.grace);
        options.faults = if self.act.is_in_place() { FaultAnswer::Signal } else { FaultAnswer::Threads };
        let memory = connect(&options);
        match self.act {
            Act::Touch(_) | Act::Die | Act::DieInPlace => self.lose(&memory),
            Act::Full => fill(&memory),
            Act::Store { has_handler } => acts::store(&memory, has_handler),
            Act::StoreInPlace => acts::store(&memory, true),
            Act::StoreAndLose => acts::store_and_lose(&memory),
            Act::Handle | Act::HandleInPlace => acts::handle(&memory),
            Act::Fork => acts::fork(&memory),
            Act::Unprivileged | Act::CallInPlace => acts::unprivileged(&memory),
        }
    }

    /// Waits to lose its server.
    fn lose(&self, memory: &FarMemory) -> i32 {
        let path = if self.agent.is_some() { Path::Agent } else { Path::Direct };
        let name = Some("precious".to_owned());
        let region = RegionOptions { chunk: CHUNK, path, name, ..Default::default() };
        let mapping = memory.reserve((CHUNKS * CHUNK) as u64, &region).expect("the server has room");
        assert_eq!(memory.wait_for_agent(PATIENCE), self.agent.is_some());
        for chunk in 0..CHUNKS {
            words(&mapping).write(chunk * CHUNK, &(BASE + chunk as u64).to_ne_bytes());
        }
        mapping.flush().expect("the server is there");
        // What is used now stays here.
        (0..8).for_each(|chunk| check(&mapping, chunk, BASE));
        (8..12).for_each(|chunk| write(&mapping, chunk, 2 * BASE));
        say("working");
        hear();
        // Some of it is changed when there may be no server to tell, and set aside.
        (6..12).for_each(|chunk| write(&mapping, chunk, 3 * BASE));
        mapping.advise(8 * CHUNK..10 * CHUNK, Advice::DontNeed).expect("they are inside");
        (0..6).for_each(|chunk| check(&mapping, chunk, BASE));
        (6..12).for_each(|chunk| check(&mapping, chunk, 3 * BASE));
        say("what is here is as it was");
        self.touch_the_rest(&mapping);
        say("survived");
        SURVIVED
    }

    fn touch_the_rest(&self, mapping: &FarMapping) {
        let threads = match self.act {
            Act::Touch(threads) => {
                EXPECTED.store(threads, Ordering::Relaxed);
                tell_of(libc::SIGBUS, mapping);
                threads
            }
            _ => 1,
        };
        say("touching");
        thread::scope(|scope| {
            for thread in 0..threads {
                // By shared memory bytes can be had until the end of the server is noticed.
                scope.spawn(move || {
                    share(thread).cycle().take(1 << 20).for_each(|chunk| check(mapping, chunk, BASE))
                });
            }
        });
    }
}

/// The chunks that a thread touches, of which the buffer has no room for all.
pub(super) fn share(thread: usize) -> Range<usize> {
    let first = SEATS + thread * (CHUNKS - SEATS) / THREADS_MAX;
    first..first + (CHUNKS - SEATS) / THREADS_MAX
}

fn write(mapping: &FarMapping, chunk: usize, base: u64) {
    words(mapping).write(chunk * CHUNK, &(base + chunk as u64).to_ne_bytes());
}

#[track_caller]
fn check(mapping: &FarMapping, chunk: usize, base: u64) {
    let mut word = [0; 8];
    words(mapping).read(chunk * CHUNK, &mut word);
    assert_eq!(u64::from_ne_bytes(word), base + chunk as u64, "chunk {chunk}");
}
