//! The least that a page fault can cost: the thread that faults answers it itself, in a handler of SIGBUS.
//!
//! No other thread takes part, so nothing is handed over and no core is woken. The handler throws the oldest chunk away and
//! copies the new one from memory of this process, or of another that has handed it over, into its place. There is no lock,
//! and one thread is all it can serve. System calls on absent pages fail with it, which is why it is a yardstick.

use std::io;
use std::mem::{MaybeUninit, zeroed};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use outboard_link::memory::{Buffer, Segment};
use outboard_userfaultfd::{FaultWatch, Features, Stopped, Userfaultfd, Wake};
use rustix::io::Errno;
use rustix::mm::{Advice, madvise};

use super::Shape;
use crate::BenchError;
use crate::error::Named;

/// What the handler works on. There is one at a time in a process.
struct State {
    userfaultfd: Userfaultfd,
    start: *mut u8,
    shape: Shape,
    source: Segment,
    /// Chunks in the order in which they came; the oldest is at `oldest` once there is no room for more.
    resident: Vec<usize>,
    oldest: usize,
    faults: Arc<AtomicU64>,
}

static STATE: AtomicPtr<State> = AtomicPtr::new(std::ptr::null_mut());

type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

/// The handler that there was before, which far memory may have installed; zero if there was none.
static BEFORE: AtomicUsize = AtomicUsize::new(0);

/// A region whose faults are answered by the thread that touches it.
pub(crate) struct HandOver {
    memory: Buffer,
    state: *mut State,
    faults: Arc<AtomicU64>,
    before: libc::sigaction,
}

impl HandOver {
    /// A region of this shape with the bytes of `source`, as much of it resident as there is room for.
    pub(crate) fn start(shape: Shape, source: Segment) -> Result<Self, BenchError> {
        let footprint = shape.footprint();
        assert!(
            source.len() >= footprint && shape.buffer >= 1,
            "a source for all of it, and room for a chunk"
        );
        let memory = Buffer::allocate(footprint).named("mmap")?;
        let start = memory.window_mut().as_mut_ptr();
        // SAFETY: a mapping of our own that holds nothing yet.
        unsafe { madvise(start.cast(), footprint, Advice::LinuxNoHugepage) }.named("madvise")?;
        let (userfaultfd, _) = Userfaultfd::open_best().named("userfaultfd")?;
        userfaultfd.agree(Features::SIGBUS).named("userfaultfd with SIGBUS")?;
        // SAFETY: memory that was mapped just now, which no thread has touched.
        unsafe { userfaultfd.register(start.addr(), footprint, FaultWatch::Missing) }
            .named("UFFDIO_REGISTER")?;
        let resident = Vec::with_capacity(shape.buffer);
        let faults = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&faults);
        let state = State { userfaultfd, start, shape, source, resident, oldest: 0, faults: counted };
        let state = Box::into_raw(Box::new(state));
        let taken = STATE.compare_exchange(std::ptr::null_mut(), state, Ordering::AcqRel, Ordering::Acquire);
        assert!(taken.is_ok(), "one at a time");
        // SAFETY: all zeros are a value of this struct.
        let mut action: libc::sigaction = unsafe { zeroed() };
        action.sa_sigaction = answer as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        let mut before = MaybeUninit::uninit();
        // SAFETY: the handler does only what a handler may do; the old action is written to its place.
        let set = unsafe { libc::sigaction(libc::SIGBUS, &action, before.as_mut_ptr()) };
        if set != 0 {
            return Err(io::Error::last_os_error()).named("sigaction");
        }
        // SAFETY: written by the call that succeeded.
        let before = unsafe { before.assume_init() };
        let is_handler = before.sa_flags & libc::SA_SIGINFO != 0;
        BEFORE.store(if is_handler { before.sa_sigaction } else { 0 }, Ordering::Release);
        let region = Self { memory, state, faults, before };
        for chunk in 0..shape.buffer.min(shape.chunks) {
            // SAFETY: a byte of the region, whose fault the handler answers.
            unsafe { region.region().add(chunk * shape.chunk_len).read_volatile() };
        }
        Ok(region)
    }

    /// Where the region begins. One thread may touch it.
    pub(crate) fn region(&self) -> *mut u8 {
        self.memory.window_mut().as_mut_ptr()
    }

    /// How many faults have been answered.
    pub(crate) fn faults(&self) -> u64 {
        self.faults.load(Ordering::Relaxed)
    }
}

impl Drop for HandOver {
    fn drop(&mut self) {
        // SAFETY: the action that there was before. No thread touches the region any more.
        unsafe { libc::sigaction(libc::SIGBUS, &self.before, std::ptr::null_mut()) };
        STATE.store(std::ptr::null_mut(), Ordering::Release);
        // SAFETY: made from a box by `start`; the handler cannot find it any more.
        drop(unsafe { Box::from_raw(self.state) });
    }
}

extern "C" fn answer(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let state = STATE.load(Ordering::Acquire);
    // SAFETY: the kernel hands over what it says of this signal.
    let address = unsafe { (*info).si_addr() }.addr();
    // SAFETY: the thread that touches the region is the only one that comes here while the state lives.
    if let Some(state) = unsafe { state.as_mut() }
        && let Some(offset) = address.checked_sub(state.start.addr())
        && offset < state.shape.footprint()
        && state.answer(offset / state.shape.chunk_len).is_ok()
    {
        return;
    }
    let before = BEFORE.load(Ordering::Acquire);
    if before != 0 {
        // SAFETY: the address of such a handler, as the kernel has told.
        return unsafe { std::mem::transmute::<usize, Handler>(before) }(signal, info, context);
    }
    // The instruction is tried again, and ends the process as it would without us.
    // SAFETY: a plain system call.
    unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
}

impl State {
    fn answer(&mut self, chunk: usize) -> Result<(), Errno> {
        let len = self.shape.chunk_len;
        let place = |chunk: usize| self.start.wrapping_add(chunk * len);
        if self.resident.len() < self.shape.buffer {
            self.resident.push(chunk);
        } else {
            let gone = core::mem::replace(&mut self.resident[self.oldest], chunk);
            self.oldest = (self.oldest + 1) % self.resident.len();
            // SAFETY: a chunk of the region, of which the source has a copy.
            unsafe { madvise(place(gone).cast(), len, Advice::LinuxDontNeed) }?;
        }
        let from = self.source.start().as_ptr().wrapping_add(chunk * len);
        self.faults.fetch_add(1, Ordering::Relaxed);
        // SAFETY: both are mapped and that long; a place that is not absent is refused.
        match unsafe { self.userfaultfd.copy(from.addr(), place(chunk).addr(), len, false, Wake::Later) } {
            Ok(()) => Ok(()),
            Err(Stopped { errno, .. }) => Err(errno),
        }
    }
}
