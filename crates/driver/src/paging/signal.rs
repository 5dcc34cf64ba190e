//! The handler of SIGBUS by which a thread answers the page faults that it makes itself.
//!
//! It runs on the stack of that thread, in the middle of whatever it was doing, with all other signals held off. It takes only
//! locks that threads of the application hold while signals wait ([`Uninterrupted`]), and it allocates nothing.
//! Signals that are not about far memory go to the handler that was there before.

use std::mem::MaybeUninit;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::{io, ptr};

use outboard_paging::application::{Cause, Fault, InPlace, ProcessAddress};

use super::ProcessPages;
use super::uninterrupted::Uninterrupted;

/// All far memory whose faults are answered here.
static ALL: RwLock<Vec<Arc<ProcessPages>>> = RwLock::new(Vec::new());
/// The former handling of SIGBUS.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Whether the handler can tell loads from stores on this architecture.
pub(super) const IS_POSSIBLE: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

/// Faults of a far memory are answered by the threads that make them, until this is dropped.
pub(super) struct Attendance(Arc<ProcessPages>);

impl Attendance {
    /// Installs the handler, if that was not done before.
    pub(super) fn begin(pages: &Arc<ProcessPages>) -> io::Result<Self> {
        let _uninterrupted = Uninterrupted::new();
        let mut all = ALL.write().unwrap_or_else(PoisonError::into_inner);
        if BEFORE.get().is_none() {
            // Before the handler is there that looks for it.
            // SAFETY: only asks for the action, and a zeroed action is one.
            let mut before: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
            // SAFETY: as above.
            if unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut before) } != 0 {
                return Err(io::Error::last_os_error());
            }
            let _ = BEFORE.set(before);
            // SAFETY: as above.
            let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            // A handler that interrupted this one and touched far memory would wait for itself.
            // SAFETY: a set of our own.
            unsafe { libc::sigfillset(&raw mut action.sa_mask) };
            // SAFETY: the handler does only what a handler may do.
            if unsafe { libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        all.push(Arc::clone(pages));
        Ok(Self(Arc::clone(pages)))
    }
}

impl Drop for Attendance {
    fn drop(&mut self) {
        let _uninterrupted = Uninterrupted::new();
        ALL.write().unwrap_or_else(PoisonError::into_inner).retain(|pages| !Arc::ptr_eq(pages, &self.0));
    }
}

extern "C" fn on_signal(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel hands over both, and this thread's number of the last error.
    let (code, address, errno) =
        unsafe { ((*info).si_code, (*info).si_addr().addr(), libc::__errno_location()) };
    // SAFETY: this thread's own.
    let error = unsafe { *errno };
    // Pages that are poisoned have another code: those are lost, and are a matter of the program.
    let is_answered = code == libc::BUS_ADRERR && answer(ProcessAddress::new(address), cause(context));
    // SAFETY: as above.
    unsafe { *errno = error };
    if !is_answered {
        // SAFETY: what the kernel has handed over.
        unsafe { pass_on(signal, info, context) };
    }
}

/// Answers a fault if it is one of far memory that can be answered. Then the thread touches the memory again.
fn answer(address: ProcessAddress, cause: Cause) -> bool {
    let all = ALL.read().unwrap_or_else(PoisonError::into_inner);
    let Some(pages) = all.iter().find(|pages| pages.space().is_here() && pages.has(address)) else {
        return false;
    };
    let so_far = pages.space().arrivals_so_far();
    match pages.answer_in_place(Fault { address, cause }) {
        InPlace::Again => true,
        InPlace::Wait => {
            pages.space().wait_for_arrival(so_far);
            true
        }
        InPlace::Lost => false,
    }
}

#[cfg(target_arch = "x86_64")]
fn cause(context: *mut libc::c_void) -> Cause {
    const WRITE: libc::greg_t = 2;
    // SAFETY: the kernel's third argument is such a context.
    let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    if registers[libc::REG_ERR as usize] & WRITE != 0 { Cause::Write } else { Cause::Read }
}

#[cfg(target_arch = "aarch64")]
fn cause(context: *mut libc::c_void) -> Cause {
    /// At its end the machine's context has room for records, which begin at a multiple of 16 bytes.
    const RECORDS: usize = 4096;
    // SAFETY: the kernel's third argument is such a context.
    let machine = unsafe { &raw const (*context.cast::<libc::ucontext_t>()).uc_mcontext };
    let start = machine.cast::<u8>().wrapping_add(size_of::<libc::mcontext_t>() - RECORDS);
    // SAFETY: the last bytes of that context, which the kernel has filled and nothing changes meanwhile.
    super::syndrome::cause(unsafe { core::slice::from_raw_parts(start, RECORDS) })
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn cause(_context: *mut libc::c_void) -> Cause {
    Cause::Read
}

/// Does what would have been done without us.
///
/// # Safety
/// The arguments are those of a handler.
unsafe fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let before = BEFORE.get();
    match before.map(|before| before.sa_sigaction) {
        None | Some(libc::SIG_DFL | libc::SIG_IGN) => {
            // SAFETY: plain system calls. The signal comes again when this handler has ended: the instruction raises it, or
            // the process that has sent it did.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
                if (*info).si_code <= 0 {
                    libc::raise(signal);
                }
            }
        }
        Some(handler) => {
            // It may touch far memory, and leave by a jump.
            // SAFETY: the kernel's third argument is such a context.
            unsafe {
                let mask = &raw const (*context.cast::<libc::ucontext_t>()).uc_sigmask;
                libc::pthread_sigmask(libc::SIG_SETMASK, mask, ptr::null_mut());
            }
            if before.is_some_and(|before| before.sa_flags & libc::SA_SIGINFO != 0) {
                // SAFETY: the program has installed this address as such a handler.
                let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                    unsafe { std::mem::transmute(handler) };
                handler(signal, info, context);
            } else {
                // SAFETY: as above.
                let handler: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(handler) };
                handler(signal);
            }
        }
    }
}
