//! How calls end: a status for programs, a text for people, and never a panic.

use std::any::Any;
use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use outboard::{
    AccessError, AddressError, AskError, BufferError, CallError, ControlFailure, FarError, ImageError,
    JobError, MessengerError, OpenError, PagingError, RegisterError, SendError, WriteError,
};

/// How a call has ended: OUTBOARD_OK, or one of the other numbers, of which outboard_last_error() has the reason as a text.
/// More can be added: take a number that you do not know as an error.
pub type outboard_status = i32;

/// It is done.
pub const OUTBOARD_OK: outboard_status = 0;
/// Nothing has ended within the deadline. No error.
pub const OUTBOARD_NOTHING: outboard_status = 1;
/// All bundles are under way: handle what has come, then try again. Ordinary back-pressure.
pub const OUTBOARD_FULL: outboard_status = 2;
/// An argument cannot be: NULL, no UTF-8, an option out of its range, a structure of the wrong size.
pub const OUTBOARD_INVALID: outboard_status = 3;
/// The handle was closed, or never was one of this kind.
pub const OUTBOARD_CLOSED: outboard_status = 4;
/// Another thread is in a call with this handle, or this thread is in a handler of it. Nothing was done.
pub const OUTBOARD_BUSY: outboard_status = 5;
/// A daemon or another rank cannot be reached.
pub const OUTBOARD_UNREACHABLE: outboard_status = 6;
/// A daemon was reached and said no.
pub const OUTBOARD_REFUSED: outboard_status = 7;
/// There is no region, file, rank, space, function or target of this name or number.
pub const OUTBOARD_NOT_THERE: outboard_status = 8;
/// The region was opened without this right, or bytes are protected.
pub const OUTBOARD_NO_RIGHT: outboard_status = 9;
/// The bytes are not inside the region, or a word is not aligned to 8 bytes.
pub const OUTBOARD_OUT_OF_BOUNDS: outboard_status = 10;
/// Not that much memory, or not that much of another bounded thing.
pub const OUTBOARD_NO_ROOM: outboard_status = 11;
/// The call has waited for as long as its deadline says. What it began may still happen.
pub const OUTBOARD_DEADLINE: outboard_status = 12;
/// A daemon or a rank is gone.
pub const OUTBOARD_LOST: outboard_status = 13;
/// Meanwhile another process has become the writer of the region.
pub const OUTBOARD_STALE: outboard_status = 14;
/// This machine cannot, or may not.
pub const OUTBOARD_UNSUPPORTED: outboard_status = 15;
/// A function did something that it must not, and was ended.
pub const OUTBOARD_TRAPPED: outboard_status = 16;
/// It is done, and what it gave is longer than the room for it, which has the first part.
pub const OUTBOARD_TOO_SHORT: outboard_status = 17;
/// A peer said something that makes no sense.
pub const OUTBOARD_NONSENSE: outboard_status = 18;
/// A mistake of the library. Please report the text.
pub const OUTBOARD_INTERNAL: outboard_status = 19;

/// The numbers above in their order, as texts.
const NAMES: [&CStr; 20] = [
    c"it is done",
    c"nothing has ended within the deadline",
    c"all bundles are under way",
    c"an argument cannot be",
    c"the handle was closed, or never was one",
    c"another call has the handle",
    c"a daemon or rank cannot be reached",
    c"refused",
    c"not there",
    c"no right",
    c"out of bounds",
    c"no room",
    c"the deadline has passed",
    c"a daemon or rank is gone",
    c"another process has become the writer",
    c"this machine cannot",
    c"the function was ended",
    c"the room is too short",
    c"nonsense from a peer",
    c"a mistake of the library",
];

/// Why a call did not do what was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: outboard_status,
    pub(crate) text: Cow<'static, str>,
}

impl Failure {
    pub(crate) fn new(status: outboard_status, text: impl Into<Cow<'static, str>>) -> Self {
        Self { status, text: text.into() }
    }

    /// An argument that cannot be.
    pub(crate) fn invalid(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(OUTBOARD_INVALID, text)
    }
}

/// The latest failure of a thread, as it was told and as C reads it.
struct Last {
    failure: Option<Cow<'static, str>>,
    text: Option<CString>,
}

thread_local! {
    static LAST: RefCell<Last> = const { RefCell::new(Last { failure: None, text: None }) };
}

/// Keeps the text of a failure for `outboard_last_error`.
pub(crate) fn remember(failure: Failure) -> outboard_status {
    // A thread that ends has no place for it any more.
    let _ = LAST.try_with(|last| last.borrow_mut().failure = Some(failure.text));
    failure.status
}

/// Runs the body of a function: its failure becomes a status, and so does a panic.
pub(crate) fn guard(work: impl FnOnce() -> Result<(), Failure>) -> outboard_status {
    let failure = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return OUTBOARD_OK,
        Ok(Err(failure)) => failure,
        Err(panic) => {
            let text = format!("a mistake of the library, please report it: {}", words(&*panic));
            Failure::new(OUTBOARD_INTERNAL, text)
        }
    };
    remember(failure)
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it said nothing")
}

/// Why the latest call of this thread that did not end with OUTBOARD_OK did so: a sentence or two in UTF-8, which name the peer and
/// say what to do. Empty if none has. It stays until the next such call of this thread.
///
/// Threads: each has its own.
#[unsafe(no_mangle)]
pub extern "C" fn outboard_last_error() -> *const c_char {
    let text = LAST.try_with(|last| {
        let mut last = last.borrow_mut();
        if let Some(text) = last.failure.take() {
            let bytes: Vec<u8> = text.bytes().filter(|byte| *byte != 0).collect();
            last.text = CString::new(bytes).ok();
        }
        last.text.as_deref().map_or(c"".as_ptr(), CStr::as_ptr)
    });
    text.unwrap_or(c"".as_ptr())
}

/// A few words that say what a status means, for any number. They stay for ever.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn outboard_status_text(status: outboard_status) -> *const c_char {
    let known = usize::try_from(status).ok().and_then(|at| NAMES.get(at));
    known.copied().unwrap_or(c"a status that this build does not know").as_ptr()
}

/// The version of the library that is running, as "0.1.0".
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn outboard_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}

macro_rules! failures {
    ($($error:ty: $status:expr;)+) => {
        $(
            impl From<$error> for Failure {
                fn from(error: $error) -> Self {
                    let status: fn(&$error) -> outboard_status = $status;
                    Self::new(status(&error), format!("{error:?}"))
                }
            }
        )+
    };
}

failures! {
    AddressError: |_| OUTBOARD_INVALID;
    BufferError: |_| OUTBOARD_INVALID;
    ImageError: |_| OUTBOARD_INVALID;
    OpenError: of_open;
    JobError: of_job;
    AskError: of_ask;
    FarError: of_far;
    SendError: of_send;
    MessengerError: of_messenger;
    CallError: of_call;
    RegisterError: of_register;
    WriteError: of_write;
}

fn of_open(error: &OpenError) -> outboard_status {
    match error {
        OpenError::Settings(_) => OUTBOARD_INVALID,
        OpenError::TooManyServers { .. } => OUTBOARD_NO_ROOM,
        _ => OUTBOARD_UNREACHABLE,
    }
}

fn of_job(error: &JobError) -> outboard_status {
    match error {
        JobError::NotThere { .. } | JobError::NoMeeting { .. } => OUTBOARD_UNREACHABLE,
        JobError::Host(_) | JobError::Unreachable { .. } => OUTBOARD_UNSUPPORTED,
        JobError::Meeting(error) => of_ask(error),
        _ => OUTBOARD_INVALID,
    }
}

fn of_ask(error: &AskError) -> outboard_status {
    match error {
        AskError::Refused { failure, .. } => match failure {
            ControlFailure::NoCapacity | ControlFailure::TooManyJobs => OUTBOARD_NO_ROOM,
            ControlFailure::NoSuchRegion | ControlFailure::NoSuchFile | ControlFailure::NoFile => {
                OUTBOARD_NOT_THERE
            }
            ControlFailure::NoRight => OUTBOARD_NO_RIGHT,
            ControlFailure::RanksMissing => OUTBOARD_DEADLINE,
            _ => OUTBOARD_REFUSED,
        },
        AskError::Unexpected { .. } | AskError::Unreadable { .. } => OUTBOARD_NONSENSE,
        AskError::BadName { .. } | AskError::BadChunk { .. } => OUTBOARD_INVALID,
        AskError::StaleEpoch { .. } => OUTBOARD_STALE,
        AskError::NoRoom { .. } | AskError::TooManyRegions { .. } | AskError::NoMemory(_) => OUTBOARD_NO_ROOM,
        AskError::StartedAnew { .. } => OUTBOARD_NOT_THERE,
        AskError::Access(error) => of_access(error),
        AskError::Deadline { .. } => OUTBOARD_DEADLINE,
        AskError::Lost(_) => OUTBOARD_LOST,
        _ => OUTBOARD_REFUSED,
    }
}

fn of_access(error: &AccessError) -> outboard_status {
    match error {
        AccessError::OutOfBounds { .. } | AccessError::Misaligned { .. } => OUTBOARD_OUT_OF_BOUNDS,
        AccessError::NoRight { .. } => OUTBOARD_NO_RIGHT,
        AccessError::NotOpen => OUTBOARD_NOT_THERE,
        AccessError::OwnerLacksDescriptors | AccessError::OwnerLacksMemory => OUTBOARD_NO_ROOM,
        _ => OUTBOARD_UNSUPPORTED,
    }
}

fn of_far(error: &FarError) -> outboard_status {
    match error {
        FarError::Open(error) => of_open(error),
        FarError::Ask(error) => of_ask(error),
        FarError::Paging(error) => of_paging(error),
        FarError::Threads(_) => OUTBOARD_UNREACHABLE,
        FarError::NotFlushed { .. } | FarError::NotDiscarded { .. } | FarError::Deadline { .. } => {
            OUTBOARD_DEADLINE
        }
        FarError::NoRoom { .. } | FarError::TooMuchPinned { .. } => OUTBOARD_NO_ROOM,
        FarError::OutOfBounds { .. } => OUTBOARD_OUT_OF_BOUNDS,
        FarError::Lost { .. } | FarError::ThrownAway { .. } => OUTBOARD_LOST,
        FarError::OfParent { .. } => OUTBOARD_CLOSED,
        FarError::ReadOnly { .. } | FarError::Forbidden { .. } => OUTBOARD_NO_RIGHT,
        FarError::NotProtected { .. } => OUTBOARD_UNSUPPORTED,
        _ => OUTBOARD_INVALID,
    }
}

fn of_paging(error: &PagingError) -> outboard_status {
    match error {
        PagingError::NoUserfaultfd(_) => OUTBOARD_UNSUPPORTED,
        PagingError::NoMemory { .. } => OUTBOARD_NO_ROOM,
        _ => OUTBOARD_INVALID,
    }
}

fn of_send(error: &SendError) -> outboard_status {
    match error {
        SendError::Full => OUTBOARD_FULL,
        SendError::NoSuchRank { .. } | SendError::NoSuchSpace { .. } => OUTBOARD_NOT_THERE,
        SendError::TooLong { .. } => OUTBOARD_INVALID,
        SendError::Departed { .. } => OUTBOARD_LOST,
        _ => OUTBOARD_UNSUPPORTED,
    }
}

fn of_messenger(error: &MessengerError) -> outboard_status {
    match error {
        MessengerError::Taken => OUTBOARD_BUSY,
        MessengerError::Memory(_) => OUTBOARD_NO_ROOM,
        MessengerError::System(_) => OUTBOARD_UNSUPPORTED,
        MessengerError::NotConnected { .. } => OUTBOARD_UNREACHABLE,
        MessengerError::Send(error) => of_send(error),
        MessengerError::Nonsense { .. } => OUTBOARD_NONSENSE,
        MessengerError::Unanswered { .. } => OUTBOARD_LOST,
        MessengerError::Deadline { .. } => OUTBOARD_DEADLINE,
        _ => OUTBOARD_INVALID,
    }
}

fn of_call(error: &CallError) -> outboard_status {
    match error {
        CallError::Trapped { .. } => OUTBOARD_TRAPPED,
        CallError::NoSuchFunction => OUTBOARD_NOT_THERE,
        CallError::ArgumentsTooLong { .. } => OUTBOARD_INVALID,
        CallError::Deadline { .. } => OUTBOARD_DEADLINE,
        CallError::Lost { .. } => OUTBOARD_LOST,
        CallError::NoRoom { .. } => OUTBOARD_NO_ROOM,
        _ => OUTBOARD_REFUSED,
    }
}

fn of_register(error: &RegisterError) -> outboard_status {
    match error {
        RegisterError::Refused { .. } => OUTBOARD_REFUSED,
        RegisterError::TooManyRegions { .. } | RegisterError::TooManyFunctions { .. } => OUTBOARD_NO_ROOM,
        RegisterError::NoServer { .. } => OUTBOARD_NOT_THERE,
        RegisterError::NoAgent => OUTBOARD_UNREACHABLE,
        RegisterError::Lost(_) => OUTBOARD_LOST,
        _ => OUTBOARD_REFUSED,
    }
}

pub(crate) fn of_write(error: &WriteError) -> outboard_status {
    match error {
        WriteError::Access(error) => of_access(error),
        WriteError::TooLong { .. } => OUTBOARD_INVALID,
        WriteError::NotPolled { .. } | WriteError::TooManyRegions => OUTBOARD_NO_ROOM,
        WriteError::Deadline { .. } => OUTBOARD_DEADLINE,
        WriteError::Lost(_) => OUTBOARD_LOST,
        _ => OUTBOARD_REFUSED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last() -> String {
        // SAFETY: a string that stays until the next failure of this thread.
        unsafe { CStr::from_ptr(outboard_last_error()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_panic_is_a_status_with_its_words() {
        assert_eq!(last(), "");
        let status = guard(|| panic!("the cat is on the keyboard"));
        assert_eq!(status, OUTBOARD_INTERNAL);
        assert!(last().contains("the cat is on the keyboard"), "{}", last());
        assert_eq!(guard(|| Ok(())), OUTBOARD_OK);
        assert!(last().contains("cat"), "a call that succeeds changes nothing");
    }

    #[test]
    fn texts_have_no_zeros_inside_and_each_thread_has_its_own() {
        assert_eq!(guard(|| Err(Failure::invalid("one\0two"))), OUTBOARD_INVALID);
        assert_eq!(last(), "onetwo");
        std::thread::spawn(|| assert_eq!(last(), "")).join().unwrap();
        assert_eq!(last(), "onetwo", "to ask changes nothing");
    }

    #[test]
    fn every_number_has_words() {
        for status in [OUTBOARD_OK, OUTBOARD_INTERNAL, OUTBOARD_INTERNAL + 1, -1, i32::MIN] {
            // SAFETY: a constant string.
            let text = unsafe { CStr::from_ptr(outboard_status_text(status)) }.to_str().unwrap();
            assert_eq!(text.contains("does not know"), !(0..=19).contains(&status), "{status}: {text}");
        }
    }
}
