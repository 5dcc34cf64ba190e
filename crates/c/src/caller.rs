//! Functions that run where regions are.

use std::ffi::{c_char, c_void};

use outboard::{
    CallError, CallId, CallPlacement, CallReply, CallSite, Caller, CallerOptions, FunctionHandle,
};

use crate::arguments::{Promise, choice, deadline, duration, flags, size};
use crate::daemons::outboard_t;
use crate::handles::{self, Handle};
use crate::status::{
    Failure, OUTBOARD_NOT_THERE, OUTBOARD_NOTHING, OUTBOARD_OK, OUTBOARD_TOO_SHORT, outboard_status, remember,
};
use crate::structures::sized;

/// Calls functions on the regions of a memory server.
pub struct outboard_caller;

/// A caller, and what it has registered, by number.
pub(crate) struct Calls {
    pub(crate) caller: Caller,
    pub(crate) functions: Vec<FunctionHandle>,
}

impl Handle for outboard_caller {
    type Object = Calls;
    const NAME: &'static str = "outboard_caller";
}

/// The number of a function that a caller has registered.
pub type outboard_function = u32;

/// Calls run where the memory server's table says.
pub const OUTBOARD_SITE_STEERED: u32 = 0;
/// Calls run in this process.
pub const OUTBOARD_SITE_APPLICATION: u32 = 1;
/// Calls run at the agent.
pub const OUTBOARD_SITE_AGENT: u32 = 2;
/// Calls run at the memory server.
pub const OUTBOARD_SITE_SERVER: u32 = 3;

/// The memory server may move calls into this process as well: they run in the thread that calls.
pub const OUTBOARD_CALLER_HERE: u32 = 1;

/// How a caller works. All zero: the defaults.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct outboard_caller_options {
    /// sizeof(outboard_caller_options)
    pub size: usize,
    /// How many calls may be under way, at most 4096. 0: 256.
    pub under_way_max: u64,
    /// Where calls run: OUTBOARD_SITE_...
    pub site: u32,
    /// 0 or OUTBOARD_CALLER_HERE.
    pub flags: u32,
}

/// How one call is made. All zero: the defaults.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct outboard_call_options {
    /// sizeof(outboard_call_options)
    pub size: usize,
    /// Calls of one key go to the same site, those of other keys perhaps to others. NULL: no key.
    pub key: *const c_void,
    /// How many bytes the key has.
    pub key_length: usize,
    /// How long it may take. 0: the deadline of the outboard_t, and of outboard_caller_begin() however long it takes.
    pub deadline_ms: u64,
}

/// What a call has given.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct outboard_reply {
    /// sizeof(outboard_reply), set before the call
    pub size: usize,
    /// Where the bytes of the reply go, set before the call; may be NULL with room 0.
    pub bytes: *mut c_void,
    /// How much room there is, set before the call.
    pub room: usize,
    /// How many bytes the whole reply has.
    pub length: usize,
    /// What the function has returned.
    pub value: u64,
    /// Which call it was.
    pub id: u64,
    /// How it has ended: OUTBOARD_OK, or as a call fails, of which outboard_last_error() has the text.
    pub status: outboard_status,
    /// 1 if the function may have run, in part or as a whole; 0 if it has not.
    pub may_have_run: u32,
}

sized!(outboard_caller_options, outboard_call_options, outboard_reply);

/// Gives a caller how its call has ended. The failure is that of the call, or that the reply did not fit.
fn give(
    promise: Promise,
    place: *mut outboard_reply,
    id: u64,
    ended: Result<CallReply, CallError>,
) -> Result<(), Failure> {
    let mut reply = if place.is_null() { crate::structures::zero() } else { promise.options(place)? };
    reply.id = id;
    let failed = match ended {
        Ok(CallReply { value, bytes }) => {
            let room = promise.room("outboard_reply.bytes", reply.bytes, reply.room)?;
            let fits = bytes.len().min(room.len());
            room[..fits].copy_from_slice(&bytes[..fits]);
            (reply.value, reply.length) = (value, bytes.len());
            (reply.status, reply.may_have_run) = (OUTBOARD_OK, 1);
            (fits < bytes.len() && !place.is_null()).then(|| {
                let text = format!("the reply has {} bytes, and there is room for {fits}", bytes.len());
                Failure::new(OUTBOARD_TOO_SHORT, text)
            })
        }
        Err(error) => {
            let may_have_run = error.may_have_run();
            let failure = Failure::from(error);
            (reply.value, reply.length) = (0, 0);
            (reply.status, reply.may_have_run) = (failure.status, may_have_run.into());
            Some(failure)
        }
    };
    if !place.is_null() {
        promise.fill(place, &reply)?;
    }
    failed.map_or(Ok(()), Err)
}

fn function(calls: &Calls, number: outboard_function) -> Result<FunctionHandle, Failure> {
    let known = calls.functions.get(number as usize).copied();
    known.ok_or_else(|| {
        let text = format!("the caller has {} functions, and none of number {number}", calls.functions.len());
        Failure::new(OUTBOARD_NOT_THERE, text)
    })
}

/// Connects to the memory server, and to the agent if there is one, to call functions.
///
/// options: NULL for the defaults.
/// caller: is given the handle; outboard_caller_close() ends it.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_caller_connect(
    outboard: *mut outboard_t,
    options: *const outboard_caller_options,
    caller: *mut *mut outboard_caller,
) -> outboard_status {
    const SITES: [CallPlacement; 4] = [
        CallPlacement::Steered,
        CallPlacement::Fixed(CallSite::Application),
        CallPlacement::Fixed(CallSite::Agent),
        CallPlacement::Fixed(CallSite::Server),
    ];
    body!(|promise| {
        let out = promise.handle("caller", caller)?;
        let given = promise.options(options)?;
        let placement = choice("outboard_caller_options.site", given.site, &SITES)?;
        let is_here = flags("outboard_caller_options.flags", given.flags, OUTBOARD_CALLER_HERE)? != 0;
        let under_way_max = size("outboard_caller_options.under_way_max", given.under_way_max)?;
        let mut options = CallerOptions { placement, ..CallerOptions::default() };
        options.also_here = is_here || given.site == OUTBOARD_SITE_APPLICATION;
        if let Some(most) = under_way_max {
            if most > 4096 {
                let text = format!("outboard_caller_options.under_way_max is {most}, and 4096 is the most");
                return Err(Failure::invalid(text));
            }
            options.under_way_max = most;
        }
        let caller = handles::shared(outboard, |outboard| Ok(outboard.caller_with(options)?))?;
        out.put(handles::open(Calls { caller, functions: Vec::new() })?);
        Ok(())
    })
}

/// Calls a function and waits for what it gives. Other calls that end meanwhile are told by outboard_caller_wait().
///
/// function: its number.
/// options: NULL for the defaults.
/// arguments, length: what the function is given.
/// reply: is filled as far as its size says; may be NULL. Its id means nothing.
///
/// Threads: any, one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_caller_call(
    caller: *mut outboard_caller,
    function: outboard_function,
    options: *const outboard_call_options,
    arguments: *const c_void,
    length: usize,
    reply: *mut outboard_reply,
) -> outboard_status {
    body!(|promise| {
        let given = promise.options(options)?;
        let key = promise.bytes("outboard_call_options.key", given.key, given.key_length)?;
        let arguments = promise.bytes("arguments", arguments, length)?;
        // Nothing runs of which the end could not be told.
        if !reply.is_null() {
            let wanted = promise.options(reply)?;
            promise.room("outboard_reply.bytes", wanted.bytes, wanted.room)?;
        }
        let ended = handles::alone(caller, |calls| {
            let (function, caller) = (self::function(calls, function)?, &mut calls.caller);
            Ok(match (given.key.is_null(), deadline(given.deadline_ms)) {
                (true, None) => caller.call(function, arguments),
                (true, Some(deadline)) => caller.call_within(function, arguments, deadline),
                (false, None) => caller.call_keyed(function, key, arguments),
                (false, Some(deadline)) => caller.call_keyed_within(function, key, arguments, deadline),
            })
        })?;
        give(promise, reply, 0, ended)
    })
}

/// Begins a call, and waits only if too many are under way. outboard_caller_wait() tells its end.
///
/// function: its number.
/// options: NULL for the defaults.
/// arguments, length: what the function is given. They can be changed when the call returns.
/// id: is given the number of the call; may be NULL.
///
/// Threads: any, one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_caller_begin(
    caller: *mut outboard_caller,
    function: outboard_function,
    options: *const outboard_call_options,
    arguments: *const c_void,
    length: usize,
    id: *mut u64,
) -> outboard_status {
    body!(|promise| {
        let given = promise.options(options)?;
        let key = promise.bytes("outboard_call_options.key", given.key, given.key_length)?;
        let arguments = promise.bytes("arguments", arguments, length)?;
        let CallId(number) = handles::alone(caller, |calls| {
            let (function, caller) = (self::function(calls, function)?, &mut calls.caller);
            Ok(match (given.key.is_null(), deadline(given.deadline_ms)) {
                (true, None) => caller.begin(function, arguments)?,
                (true, Some(deadline)) => caller.begin_within(function, arguments, deadline)?,
                (false, None) => caller.begin_keyed(function, key, arguments)?,
                (false, Some(deadline)) => caller.begin_keyed_within(function, key, arguments, deadline)?,
            })
        })?;
        promise.maybe(id, number);
        Ok(())
    })
}

/// Sends what was begun. Waiting does so too.
///
/// Threads: any, one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_caller_flush(caller: *mut outboard_caller) -> outboard_status {
    body!(|_promise| {
        handles::alone(caller, |calls| {
            calls.caller.flush();
            Ok(())
        })
    })
}

/// Waits for the next call that ends. OUTBOARD_NOTHING if the deadline has passed or none is under way. Otherwise
/// outboard_reply.status says how the call has ended, and OUTBOARD_TOO_SHORT that its reply was cut.
///
/// deadline_ms: how long to wait; 0 only looks.
/// reply: is filled as far as its size says.
///
/// Threads: any, one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_caller_wait(
    caller: *mut outboard_caller,
    deadline_ms: u64,
    reply: *mut outboard_reply,
) -> outboard_status {
    body!(|promise| {
        promise.out("reply", reply)?;
        // An end is told once, so there has to be a place for it before it is asked for.
        let wanted = promise.options(reply)?;
        promise.room("outboard_reply.bytes", wanted.bytes, wanted.room)?;
        let ended = handles::alone(caller, |calls| Ok(calls.caller.wait(duration(deadline_ms))))?;
        let Some(ended) = ended else {
            return Err(Failure::new(OUTBOARD_NOTHING, "no call has ended within the deadline"));
        };
        let has_failed = ended.result.is_err();
        match give(promise, reply, ended.id.0, ended.result) {
            Err(failure) if has_failed => {
                remember(failure);
                Ok(())
            }
            told => told,
        }
    })
}

/// How many calls are under way, or have ended and were not told.
///
/// count: is given how many.
///
/// Threads: any, one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_caller_under_way(
    caller: *mut outboard_caller,
    count: *mut usize,
) -> outboard_status {
    body!(|promise| {
        let out = promise.out("count", count)?;
        out.put(0);
        out.put(handles::alone(caller, |calls| Ok(calls.caller.under_way()))?);
        Ok(())
    })
}

/// Says where calls run and why, in lines for people.
///
/// text, room, length: as in outboard_explain().
///
/// Threads: any, one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_caller_explain(
    caller: *mut outboard_caller,
    text: *mut c_char,
    room: usize,
    length: *mut usize,
) -> outboard_status {
    body!(|promise| {
        let lines = handles::alone(caller, |calls| Ok(calls.caller.explain()))?;
        promise.give_text(&lines, (text, room), length)
    })
}

/// Ends a caller. Calls that are under way may still run.
///
/// Threads: any, but not while another is in a call with this handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_caller_close(caller: *mut outboard_caller) -> outboard_status {
    body!(|_promise| {
        drop(handles::close(caller)?);
        Ok(())
    })
}
