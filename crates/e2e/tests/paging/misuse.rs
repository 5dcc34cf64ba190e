//! What becomes of a process that gives addresses of far memory to system calls which change mappings: every row of the
//! table in docs/far-memory.md, in a process of its own.

use std::io::Error;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use libc::{c_int, c_void};
use outboard::{Address, FarError, FarMapping, FarMemory, Mover, OnLoss, Path, RegionOptions};
use outboard_e2e::{Daemon, PATIENCE, Place, Process};

use super::user::{SURVIVED, say};
use super::{connect, options, words};

const VARIABLE: &str = "PROOF_MISUSE";
const PAGE: usize = 4096;
/// Of several pages, so that a call can concern a part of a chunk.
const CHUNK: usize = 4 * PAGE;
const CHUNKS: usize = 64;
const SEATS: usize = 16;
/// The chunk that the call concerns, and which page of it.
const VICTIM: usize = 3;
const AT: usize = VICTIM * CHUNK + PAGE;
/// What was written there last.
const NEWEST: u64 = 2000;
/// `MADV_GUARD_INSTALL` and `MADV_GUARD_REMOVE`, since Linux 6.13.
const GUARD: c_int = 102;
const UNGUARD: c_int = 103;

/// What a process does with far memory that it must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    DontNeed,
    Free,
    Remove,
    Guard,
    Unguard,
    NoAccess,
    ReadOnly,
    Lock,
    Unmap,
    /// A mapping of other memory in the place of the whole chunk.
    MapOver,
    Move,
    MoveAndKeep,
    Shrink,
    /// Enlarges the mapping where it is, and touches what is behind the region.
    Grow,
    /// Has children inherit far memory, and forks.
    Inherit,
}

/// What it does then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Read,
    Store,
    /// Uses so much else that the chunk has to leave, and reads it.
    Leave,
    Flush,
    TryRead,
    /// Nothing, until it is ended.
    Wait,
}

const MISTAKES: [Mistake; 15] = [
    Mistake::DontNeed,
    Mistake::Free,
    Mistake::Remove,
    Mistake::Guard,
    Mistake::Unguard,
    Mistake::NoAccess,
    Mistake::ReadOnly,
    Mistake::Lock,
    Mistake::Unmap,
    Mistake::MapOver,
    Mistake::Move,
    Mistake::MoveAndKeep,
    Mistake::Shrink,
    Mistake::Grow,
    Mistake::Inherit,
];
const THENS: [Then; 6] = [Then::Read, Then::Store, Then::Leave, Then::Flush, Then::TryRead, Then::Wait];

/// A process that makes a mistake.
#[derive(Clone, Debug)]
pub(crate) struct Misuse {
    mistake: Mistake,
    then: Then,
    server: Address,
    on_loss: OnLoss,
    mover: Option<Mover>,
    /// Whether the region may only be read when the mistake is made.
    is_frozen: bool,
}

impl Misuse {
    pub(crate) fn from_environment() -> Option<Self> {
        let text = std::env::var(VARIABLE).ok()?;
        let mut words = text.split(' ');
        let mut word = || words.next();
        let (mistake, then, server) = (word()?, word()?, word()?);
        let mistake = MISTAKES.into_iter().find(|known| format!("{known:?}") == mistake)?;
        let then = THENS.into_iter().find(|known| format!("{known:?}") == then)?;
        let on_loss = if word()? == "Exit" { OnLoss::Exit } else { OnLoss::Signal };
        let mover = (word()? == "Copy").then_some(Mover::Copy);
        Some(Self {
            mistake,
            then,
            server: server.parse().ok()?,
            on_loss,
            mover,
            is_frozen: word()? == "true",
        })
    }

    fn start(&self, place: &Place) -> Process {
        let Self { mistake, then, server, on_loss, mover, is_frozen } = self;
        let mover = mover.map_or_else(|| "best".to_owned(), |mover| format!("{mover:?}"));
        let text = format!("{mistake:?} {then:?} {server} {on_loss:?} {mover} {is_frozen}");
        let mut command = outboard_child::again();
        command.env(VARIABLE, text);
        place.mark(&mut command);
        Process::start_told(command)
    }

    /// Plays it; returns the exit code.
    pub(crate) fn run(&self) -> i32 {
        let mut options = options(&self.server, CHUNK, SEATS * CHUNK);
        (options.threads, options.ahead, options.on_loss) = (Some(2), 0, self.on_loss);
        options.mover = self.mover;
        let memory = connect(&options);
        let region = RegionOptions { chunk: CHUNK, path: Path::Direct, ..Default::default() };
        let reserve = || memory.reserve((CHUNKS * CHUNK) as u64, &region).expect("the server has room");
        // One that goes leaves room for the mapping of the next to grow.
        let neighbour = reserve();
        let mut mapping = reserve();
        let has_room = neighbour.as_ptr().as_ptr() == end_of(&mapping);
        drop(neighbour);
        (0..CHUNKS).for_each(|chunk| write(&mapping, chunk * CHUNK + PAGE, 1000 + chunk as u64));
        mapping.flush().expect("the server is there");
        write(&mapping, AT, NEWEST);
        if self.is_frozen {
            mapping = mapping.freeze().expect("the server is there");
            assert_eq!(read(&mapping, AT), NEWEST);
        }
        if self.mistake == Mistake::Grow && !has_room {
            say("skipped: there is something behind the region");
            return SURVIVED;
        }
        // SAFETY: what happens then is what the test is about.
        let returned = unsafe { self.mistake.make(&mapping) };
        say(&format!(
            "the call: {}",
            if returned { "done".to_owned() } else { Error::last_os_error().to_string() }
        ));
        self.go_on(&mapping, &memory)
    }

    fn go_on(&self, mapping: &FarMapping, memory: &FarMemory) -> i32 {
        match self.then {
            Then::Read => {}
            Then::Store => write(mapping, AT, NEWEST + 1),
            Then::Leave => {
                // What is kept leaves when it was found that it is not used, one chunk at a time.
                let before = memory.stats().evictions;
                while memory.stats().evictions < before + 40 * CHUNKS as u64 {
                    let others = (0..CHUNKS).filter(|chunk| *chunk != VICTIM);
                    others.for_each(|chunk| {
                        assert_eq!(read(mapping, chunk * CHUNK + PAGE), 1000 + chunk as u64, "chunk {chunk}");
                    });
                }
                say("others are right");
            }
            Then::Flush => mapping.flush().expect("the server is there"),
            Then::TryRead => {
                let tried = mapping.try_read(AT, &mut [0; 8], Duration::from_secs(20));
                say(&format!(
                    "tried: {}",
                    tried.map_or_else(|error| error.to_string(), |()| "done".to_owned())
                ));
                return SURVIVED;
            }
            Then::Wait => loop {
                std::thread::park();
            },
        }
        say(&format!("found {}", read(mapping, AT)));
        SURVIVED
    }
}

fn end_of(mapping: &FarMapping) -> *mut u8 {
    mapping.as_ptr().as_ptr().wrapping_add(mapping.len())
}

fn write(mapping: &FarMapping, at: usize, word: u64) {
    words(mapping).write(at, &word.to_ne_bytes());
}

fn read(mapping: &FarMapping, at: usize) -> u64 {
    let mut word = [0; 8];
    words(mapping).read(at, &mut word);
    u64::from_ne_bytes(word)
}

impl Mistake {
    /// Makes the call, and returns whether it was taken.
    unsafe fn make(self, mapping: &FarMapping) -> bool {
        let start = mapping.as_ptr().as_ptr().cast::<c_void>();
        let at = start.wrapping_byte_add(AT);
        // SAFETY: nothing but far memory is concerned, and the process is there to find out what that does.
        unsafe {
            let advise = |advice| libc::madvise(at, PAGE, advice) == 0;
            let protect = |rights| libc::mprotect(at, PAGE, rights) == 0;
            match self {
                Self::DontNeed => advise(libc::MADV_DONTNEED),
                Self::Free => free(at),
                Self::Remove => advise(libc::MADV_REMOVE),
                Self::Guard => advise(GUARD),
                Self::Unguard => advise(GUARD) && advise(UNGUARD),
                Self::NoAccess => protect(libc::PROT_NONE),
                Self::ReadOnly => protect(libc::PROT_READ),
                Self::Lock => libc::mlock(at, PAGE) == 0,
                Self::Unmap => libc::munmap(at, PAGE) == 0,
                Self::MapOver => {
                    let (first, rights) = (at.wrapping_byte_sub(PAGE), libc::PROT_READ | libc::PROT_WRITE);
                    let flags =
                        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_POPULATE;
                    libc::mmap(first, CHUNK, rights, flags, -1, 0) == first
                }
                Self::Move | Self::MoveAndKeep => move_away(start, self == Self::MoveAndKeep),
                Self::Shrink => libc::mremap(at, 2 * PAGE, PAGE, 0) == at,
                Self::Grow => {
                    let grown = libc::mremap(start, mapping.len(), mapping.len() + PAGE, 0) == start;
                    assert!(grown, "there is room behind it");
                    end_of(mapping).read_volatile();
                    say("read what is behind the region");
                    true
                }
                Self::Inherit => {
                    libc::madvise(start, mapping.len(), libc::MADV_DOFORK) == 0 && inherit(mapping)
                }
            }
        }
    }
}

/// Says that a page is free, which goes when the kernel wants memory, and asks it to take the page at once. It does not while
/// another processor has the page on a list of its own.
unsafe fn free(page: *mut c_void) -> bool {
    let until = Instant::now() + PATIENCE / 10;
    let mut is_there = 1;
    while is_there & 1 == 1 {
        // SAFETY: as above; the last call writes one byte, for one page.
        let asked = unsafe {
            libc::madvise(page, PAGE, libc::MADV_FREE) == 0
                && libc::madvise(page, PAGE, libc::MADV_PAGEOUT) == 0
                && libc::mincore(page, PAGE, &raw mut is_there) == 0
        };
        assert!(asked, "the kernel does not know what is free");
        if Instant::now() > until {
            say("skipped: the kernel keeps what is free");
            std::process::exit(SURVIVED);
        }
    }
    true
}

/// Moves what begins at `start` elsewhere, and reads there what was not here.
unsafe fn move_away(start: *mut c_void, is_kept: bool) -> bool {
    let len = CHUNKS * CHUNK;
    // SAFETY: as above.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let target = libc::mmap(core::ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0);
        let kept = if is_kept { libc::MREMAP_DONTUNMAP } else { 0 };
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | kept;
        if libc::mremap(start, len, len, flags, target) != target {
            return false;
        }
        for chunk in 0..CHUNKS {
            let word = target.wrapping_byte_add(chunk * CHUNK + PAGE).cast::<u64>().read_volatile();
            if word == 0 {
                say("zeros in place of what was there");
            }
        }
        true
    }
}

/// A child reads a chunk that is here and one that is not.
unsafe fn inherit(mapping: &FarMapping) -> bool {
    let (here, absent) = (words(mapping), (VICTIM + CHUNKS / 2) * CHUNK + PAGE);
    // SAFETY: the child only reads and writes to the standard output.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let mut found = [[0; 8]; 2];
            here.read(AT, &mut found[0]);
            here.read(absent, &mut found[1]);
            let is_as_told = found.map(u64::from_ne_bytes) == [NEWEST, 0];
            let tried = mapping.try_read(AT, &mut [0; 8], Duration::ZERO);
            let is_refused = matches!(tried, Err(FarError::OfParent { .. }));
            libc::_exit(if is_as_told && is_refused { 7 } else { 8 });
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        say(&format!("child: {}", libc::WEXITSTATUS(status)));
        child > 0
    }
}

/// How such a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Signal(c_int),
    Code(i32),
}

#[track_caller]
fn expect(place: &Place, misuse: &Misuse, end: End, parts: &[&str]) {
    let (status, said) = misuse.start(place).exit();
    let said = said.join("\n");
    if said.contains("skipped: ") || (misuse.mistake == Mistake::Guard && said.contains("the call: Invalid"))
    {
        println!("skipped: {misuse:?}: {said}");
        return;
    }
    let ended = status.signal().map_or_else(|| End::Code(status.code().unwrap_or(-1)), End::Signal);
    assert_eq!(ended, end, "{misuse:?}: {said}");
    for part in parts {
        assert!(said.contains(part), "{misuse:?}: no “{part}” in {said}");
    }
    for never in ["zeros in place", "read what is behind", "found 0"] {
        assert!(!said.contains(never), "{misuse:?}: {said}");
    }
}

const BUS: End = End::Signal(libc::SIGBUS);
const SEGV: End = End::Signal(libc::SIGSEGV);
const ABORT: End = End::Signal(libc::SIGABRT);
const LIVES: End = End::Code(SURVIVED);

#[test]
fn what_is_thrown_away_is_never_taken_for_zeros() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let base = Misuse {
        mistake: Mistake::DontNeed,
        then: Then::Read,
        server: daemon.local().clone(),
        on_loss: OnLoss::Signal,
        mover: None,
        is_frozen: false,
    };
    for mover in [None, Some(Mover::Copy)] {
        let base = Misuse { mover, ..base.clone() };
        for mistake in [Mistake::DontNeed, Mistake::Free, Mistake::Unguard] {
            let base = Misuse { mistake, ..base.clone() };
            for then in [Then::Read, Then::Store] {
                expect(&place, &Misuse { then, ..base.clone() }, BUS, &["thrown away", "Advice::DontNeed"]);
                let exits = Misuse { then, on_loss: OnLoss::Exit, ..base.clone() };
                expect(&place, &exits, End::Code(1), &["thrown away", "ending"]);
            }
            for then in [Then::Leave, Then::Flush] {
                expect(&place, &Misuse { then, ..base.clone() }, ABORT, &["thrown away", "the process ends"]);
            }
            for on_loss in [OnLoss::Signal, OnLoss::Exit] {
                let tries = Misuse { then: Then::TryRead, on_loss, ..base.clone() };
                expect(&place, &tries, LIVES, &["tried: bytes 53248..53256", "thrown away by this process"]);
            }
            // What may only be read is the same at the server, and is fetched again.
            for then in [Then::Read, Then::Leave, Then::TryRead] {
                let frozen = Misuse { then, is_frozen: true, ..base.clone() };
                let found = if then == Then::TryRead { "tried: done" } else { "found 2000" };
                expect(&place, &frozen, LIVES, &[found]);
            }
        }
    }
    daemon.end();
    place.assert_nothing_left();
}

#[test]
fn what_is_unmapped_or_moved_ends_the_process_at_once() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    for server in [daemon.local(), daemon.remote()] {
        let cases = [
            (Mistake::Unmap, "were unmapped"),
            (Mistake::MapOver, "were unmapped"),
            (Mistake::Shrink, "were unmapped"),
            // What is moved is unmapped too, and either may be told first.
            (Mistake::Move, "mremap"),
            (Mistake::MoveAndKeep, "mremap"),
        ];
        for (mistake, told) in cases {
            let (server, on_loss, mover) = (server.clone(), OnLoss::Signal, None);
            let misuse = Misuse { mistake, then: Then::Wait, server, on_loss, mover, is_frozen: false };
            expect(&place, &misuse, ABORT, &[told, "far memory “region", "the process ends"]);
        }
    }
    daemon.end();
    place.assert_nothing_left();
}

#[test]
fn other_rights_hold_and_bytes_are_kept() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let told = &["cannot move a chunk of far memory", "other than mprotect", "the process ends"][..];
    let cases = [
        (Mistake::NoAccess, Then::Read, SEGV, &[][..]),
        (Mistake::NoAccess, Then::Leave, SEGV, &["others are right"]),
        (Mistake::NoAccess, Then::Flush, SEGV, &[]),
        (Mistake::ReadOnly, Then::Read, LIVES, &["found 2000"]),
        (Mistake::ReadOnly, Then::Store, SEGV, &[]),
        (Mistake::ReadOnly, Then::Leave, LIVES, &["others are right", "found 2000"]),
        (Mistake::ReadOnly, Then::Flush, LIVES, &["found 2000"]),
        (Mistake::Lock, Then::Read, LIVES, &["found 2000"]),
        (Mistake::Lock, Then::Leave, LIVES, &["others are right", "found 2000"]),
        (Mistake::Lock, Then::Flush, LIVES, &["found 2000"]),
        (Mistake::Guard, Then::Read, SEGV, &[]),
        (Mistake::Guard, Then::Leave, ABORT, told),
        (Mistake::Remove, Then::Leave, LIVES, &["the call: Invalid argument", "found 2000"]),
        (Mistake::Grow, Then::Wait, BUS, &[]),
        (Mistake::Inherit, Then::Leave, LIVES, &["child: 7", "others are right", "found 2000"]),
    ];
    for (mistake, then, end, parts) in cases {
        // By shared memory the server's regions are mapped too, and may lie behind ours.
        let (server, on_loss, mover) = (daemon.remote().clone(), OnLoss::Signal, None);
        let misuse = Misuse { mistake, then, server, on_loss, mover, is_frozen: false };
        expect(&place, &misuse, end, parts);
        // Where nothing can be moved, rights are no matter of their own.
        if matches!(mistake, Mistake::NoAccess | Mistake::ReadOnly | Mistake::Lock) {
            expect(&place, &Misuse { mover: Some(Mover::Copy), ..misuse }, end, parts);
        }
    }
    daemon.end();
    place.assert_nothing_left();
}
