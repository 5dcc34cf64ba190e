//! Small messages between the ranks of a job.

use std::cell::RefCell;
use std::ffi::{c_char, c_void};

use outboard::{MessagesPlacement, Messenger};

use crate::arguments::{choice, deadline, size};
use crate::handles::{self, Handle};
use crate::job::outboard_job;
use crate::status::{Failure, outboard_status};
use crate::structures::sized;

/// Messages between the ranks of a job.
pub struct outboard_messenger;

impl Handle for outboard_messenger {
    type Object = Messenger;
    const NAME: &'static str = "outboard_messenger";
}

/// As the settings say.
pub const OUTBOARD_CARRIER_DEFAULT: u32 = 0;
/// The agent or the rank's own thread moves bundles, whichever is faster.
pub const OUTBOARD_CARRIER_AUTO: u32 = 1;
/// The rank's own thread moves bundles, when it calls.
pub const OUTBOARD_CARRIER_INLINE: u32 = 2;
/// The agent moves bundles.
pub const OUTBOARD_CARRIER_AGENT: u32 = 3;

/// How messages are bundled. All ranks give the same, but for the carrier. All zero: as the settings say.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct outboard_messenger_options {
    /// sizeof(outboard_messenger_options)
    pub size: usize,
    /// How many independent spaces of messages there are, counted from 0. 0: one.
    pub spaces: u32,
    /// OUTBOARD_CARRIER_...
    pub carrier: u32,
    /// How many bytes a bundle has. 0: 32 KiB.
    pub bundle: u64,
    /// How many bytes a message may have. 0: 64 MiB.
    pub longest: u64,
    /// How long ranks wait for each other. 0: 10 minutes.
    pub deadline_ms: u64,
}

sized!(outboard_messenger_options);

/// Handles a message, whose bytes stay as long as it runs. It may send by the messenger that it is given, also where there is no
/// room, and call nothing else with it. It must not throw, nor leave by longjmp().
pub type outboard_message_handler = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        messenger: *mut outboard_messenger,
        from: u32,
        bytes: *const c_void,
        length: usize,
    ),
>;

thread_local! {
    /// The messengers whose handlers run in this thread, each by its handle, the latest last.
    static LENT: RefCell<Vec<(usize, *mut Messenger)>> = const { RefCell::new(Vec::new()) };
}

/// Takes the latest lent messenger back, also after a panic.
struct Lent;

impl Drop for Lent {
    fn drop(&mut self) {
        LENT.with_borrow_mut(|lent| {
            lent.pop();
        });
    }
}

/// What handles messages.
type Handler<'a> = dyn FnMut(&mut Messenger, u32, &[u8]) + 'a;

/// Receives by `receive` with a handler of C.
fn receive<R>(
    handle: *mut outboard_messenger,
    (handler, context): (outboard_message_handler, *mut c_void),
    receive: impl FnOnce(&mut Messenger, &mut Handler<'_>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let handler = handler.ok_or_else(|| Failure::invalid("handler is NULL"))?;
    handles::alone(handle, |messenger| {
        receive(messenger, &mut |messenger, from, bytes| {
            LENT.with_borrow_mut(|lent| lent.push((handle as usize, messenger)));
            let _lent = Lent;
            // SAFETY: a function of the program, called as its type says.
            unsafe { handler(context, handle, from, bytes.as_ptr().cast(), bytes.len()) };
        })
    })
}

/// Uses a messenger to send, which its handlers may do as well.
fn send<R>(
    handle: *mut outboard_messenger,
    send: impl FnOnce(&mut Messenger) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let of_handle = |lent: &&(usize, *mut Messenger)| lent.0 == handle as usize;
    let lent = LENT.with_borrow(|lent| lent.iter().rev().find(of_handle).map(|(_, messenger)| *messenger));
    match lent {
        // A handler may have forked.
        Some(messenger) if handles::check(handle).is_ok() => {
            // SAFETY: it was lent by the call that runs a handler in this thread, which uses it again only when that returns; sending
            // calls nothing of the program.
            send(unsafe { &mut *messenger })
        }
        _ => handles::alone(handle, send),
    }
}

fn space(number: u32) -> Result<u8, Failure> {
    u8::try_from(number).map_err(|_| {
        Failure::new(crate::status::OUTBOARD_NOT_THERE, format!("there is no space {number}: 63 is the last"))
    })
}

/// Connects this rank with all others; every rank of the job has to do so. A job has one messenger.
///
/// options: NULL for the settings.
/// messenger: is given the handle; outboard_messenger_close() ends it.
///
/// Threads: any, one at a time with this job.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_messenger_connect(
    job: *mut outboard_job,
    options: *const outboard_messenger_options,
    messenger: *mut *mut outboard_messenger,
) -> outboard_status {
    const CARRIERS: [Option<MessagesPlacement>; 4] = [
        None,
        Some(MessagesPlacement::Auto),
        Some(MessagesPlacement::Inline),
        Some(MessagesPlacement::Agent),
    ];
    body!(|promise| {
        let out = promise.handle("messenger", messenger)?;
        let given = promise.options(options)?;
        let spaces = u8::try_from(given.spaces).map_err(|_| {
            Failure::invalid(format!("{} message spaces: there can be from 1 to 64", given.spaces))
        })?;
        let carrier = choice("outboard_messenger_options.carrier", given.carrier, &CARRIERS)?;
        let bundle = size("outboard_messenger_options.bundle", given.bundle)?;
        let longest = size("outboard_messenger_options.longest", given.longest)?;
        let connected = handles::alone(job, |job| {
            let mut options = job.messenger_options();
            options.spaces = if spaces == 0 { options.spaces } else { spaces };
            options.placement = carrier.unwrap_or(options.placement);
            options.bundle = bundle.unwrap_or(options.bundle);
            options.longest = longest.unwrap_or(options.longest);
            options.deadline = deadline(given.deadline_ms).unwrap_or(options.deadline);
            Ok(job.messenger_with(options)?)
        })?;
        out.put(handles::open(connected)?);
        Ok(())
    })
}

/// Sends a message to a rank, this one included. Nothing blocks: OUTBOARD_FULL says that all bundles are under way, and then
/// outboard_messenger_make_room() is to be called before it is tried again. Messages of one rank arrive in no particular order,
/// and each is handled once.
///
/// space: which of the spaces, 0 if there is one.
/// rank: to which rank.
/// bytes, length: the message. It can be changed when the call returns.
///
/// Threads: any, one at a time; also handlers of this messenger.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_messenger_send(
    messenger: *mut outboard_messenger,
    space: u32,
    rank: u32,
    bytes: *const c_void,
    length: usize,
) -> outboard_status {
    body!(|promise| {
        let bytes = promise.bytes("bytes", bytes, length)?;
        let space = self::space(space)?;
        send(messenger, |messenger| Ok(messenger.send_in(space, rank, bytes)?))
    })
}

/// Sends many messages of one length, which costs less than a call for each. It stops at the first that is not taken.
///
/// space: which of the spaces, 0 if there is one.
/// ranks, count: to which rank each goes, and how many there are.
/// bytes, length: the messages one behind the other, and how many bytes each has.
/// sent: is given how many were taken; may be NULL.
///
/// Threads: any, one at a time; also handlers of this messenger.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_messenger_send_many(
    messenger: *mut outboard_messenger,
    space: u32,
    ranks: *const u32,
    count: usize,
    bytes: *const c_void,
    length: usize,
    sent: *mut usize,
) -> outboard_status {
    body!(|promise| {
        promise.maybe(sent, 0);
        let ranks = promise.items("ranks", ranks, count)?;
        let whole = count.checked_mul(length);
        let whole = whole.ok_or_else(|| Failure::invalid("there are more bytes than addresses"))?;
        let bytes = promise.bytes("bytes", bytes, whole)?;
        let space = self::space(space)?;
        let mut taken = 0;
        let done = send(messenger, |messenger| {
            for (at, rank) in ranks.iter().enumerate() {
                messenger.send_in(space, *rank, &bytes[at * length..][..length])?;
                taken += 1;
            }
            Ok(())
        });
        promise.maybe(sent, taken);
        done
    })
}

/// Sends what is in open bundles now.
///
/// space: which of the spaces, 0 if there is one.
///
/// Threads: any, one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_messenger_flush(
    messenger: *mut outboard_messenger,
    space: u32,
) -> outboard_status {
    body!(|_promise| {
        let space = self::space(space)?;
        handles::alone(messenger, |messenger| Ok(messenger.flush_in(space)?))
    })
}

/// Handles the messages that have arrived.
///
/// space: which of the spaces, 0 if there is one.
/// handler, context: is called for each message in this thread, with this context.
/// count: is given how many there were; may be NULL.
///
/// Threads: any, one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_messenger_receive(
    messenger: *mut outboard_messenger,
    space: u32,
    handler: outboard_message_handler,
    context: *mut c_void,
    count: *mut usize,
) -> outboard_status {
    body!(|promise| {
        promise.maybe(count, 0);
        let space = self::space(space)?;
        let handled =
            receive(
                messenger,
                (handler, context),
                |messenger, handle| Ok(messenger.receive(space, handle)?),
            )?;
        promise.maybe(count, handled);
        Ok(())
    })
}

/// Handles the messages that have arrived, and waits for a moment where there are none: what to do after OUTBOARD_FULL. Fails when a
/// rank is lost, of which each is told once.
///
/// space, handler, context: as in outboard_messenger_receive().
///
/// Threads: any, one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_messenger_make_room(
    messenger: *mut outboard_messenger,
    space: u32,
    handler: outboard_message_handler,
    context: *mut c_void,
) -> outboard_status {
    body!(|_promise| {
        let space = self::space(space)?;
        receive(messenger, (handler, context), |messenger, handle| {
            messenger.receive(space, handle)?;
            Ok(messenger.pause()?)
        })
    })
}

/// Handles messages until all that were sent in a space, also by handlers, are handled at all ranks. Every rank has to call it.
///
/// space, handler, context: as in outboard_messenger_receive().
///
/// Threads: any, one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_messenger_quiesce(
    messenger: *mut outboard_messenger,
    space: u32,
    handler: outboard_message_handler,
    context: *mut c_void,
) -> outboard_status {
    body!(|_promise| {
        let space = self::space(space)?;
        receive(messenger, (handler, context), |messenger, handle| Ok(messenger.quiesce(space, handle)?))
    })
}

/// Begins what outboard_messenger_quiesce() waits for, and goes on: this rank sends nothing more in the space but by handlers.
///
/// space: which of the spaces, 0 if there is one.
///
/// Threads: any, one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_messenger_begin_quiesce(
    messenger: *mut outboard_messenger,
    space: u32,
) -> outboard_status {
    body!(|_promise| {
        let space = self::space(space)?;
        handles::alone(messenger, |messenger| Ok(messenger.begin_quiesce(space)?))
    })
}

/// Whether all messages have been handled at all ranks since outboard_messenger_begin_quiesce(). Go on receiving until then.
///
/// space: which of the spaces, 0 if there is one.
/// done: is given 1 or 0.
///
/// Threads: any, one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_messenger_poll_quiesce(
    messenger: *mut outboard_messenger,
    space: u32,
    done: *mut u32,
) -> outboard_status {
    body!(|promise| {
        let out = promise.out("done", done)?;
        out.put(0);
        let space = self::space(space)?;
        let agreed = handles::alone(messenger, |messenger| Ok(messenger.poll_quiesce(space)?))?;
        out.put(agreed.into());
        Ok(())
    })
}

/// Waits until all ranks have come to it. It handles no messages.
///
/// Threads: any, one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_messenger_barrier(messenger: *mut outboard_messenger) -> outboard_status {
    body!(|_promise| handles::alone(messenger, |messenger| Ok(messenger.barrier()?)))
}

/// Says which process moves bundles and why, in lines for people.
///
/// text, room, length: as in outboard_explain().
///
/// Threads: any, one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_messenger_explain(
    messenger: *mut outboard_messenger,
    text: *mut c_char,
    room: usize,
    length: *mut usize,
) -> outboard_status {
    body!(|promise| {
        let lines = handles::alone(messenger, |messenger| Ok(messenger.explain()))?;
        promise.give_text(&lines, (text, room), length)
    })
}

/// Delivers what was sent, for some seconds at most, and ends a messenger.
///
/// Threads: any, but not while another is in a call with this handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_messenger_close(messenger: *mut outboard_messenger) -> outboard_status {
    body!(|_promise| {
        drop(handles::close(messenger)?);
        Ok(())
    })
}
