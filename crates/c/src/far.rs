//! Far memory: the buffer and the threads that answer faults.

use std::ffi::c_char;

use outboard::{Address, FarMemory, FarStats, FaultAnswer, OnLoss};

use crate::arguments::{Promise, choice, deadline, size};
use crate::daemons::outboard_t;
use crate::handles::{self, Handle};
use crate::status::{Failure, outboard_status};
use crate::structures::sized;

/// One process's far memory: memory servers' regions behind plain pointers, with one buffer for all of them.
pub struct outboard_far;

impl Handle for outboard_far {
    type Object = FarMemory;
    const NAME: &'static str = "outboard_far";
}

/// As the settings say.
pub const OUTBOARD_ON_LOSS_DEFAULT: u32 = 0;
/// An access that cannot be served raises SIGBUS.
pub const OUTBOARD_ON_LOSS_SIGNAL: u32 = 1;
/// An access that cannot be served ends the process with a line on standard error.
pub const OUTBOARD_ON_LOSS_EXIT: u32 = 2;

/// As the settings say.
pub const OUTBOARD_FAULTS_DEFAULT: u32 = 0;
/// Threads of the library answer page faults.
pub const OUTBOARD_FAULTS_THREADS: u32 = 1;
/// The thread that touches absent memory answers the fault itself, in a handler of SIGBUS. System calls that are given absent
/// memory fail with EFAULT then.
pub const OUTBOARD_FAULTS_SIGNAL: u32 = 2;

/// How far memory works. All zero: as the settings say.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct outboard_far_options {
    /// sizeof(outboard_far_options)
    pub size: usize,
    /// How much may be here at once: "256MiB", a fraction of footprint as "1/3", or "auto", which follows the memory that is left.
    pub buffer: *const c_char,
    /// Up to how many bytes outboard_far_set_buffer() may go. 0: what it is at first.
    pub buffer_max: u64,
    /// How many bytes of far memory will be used; needed if the buffer is a fraction.
    pub footprint: u64,
    /// The largest chunk that mappings will have, the unit in which memory moves: a power of two up to 2 MiB. 0: 64 KiB.
    pub chunk: u64,
    /// How long a memory server that is lost may stay away. 0: 10 s.
    pub grace_ms: u64,
    /// The end of an access that cannot be served: OUTBOARD_ON_LOSS_...
    pub on_loss: u32,
    /// Which thread answers page faults: OUTBOARD_FAULTS_...
    pub faults: u32,
    /// Addresses of memory servers over which mappings are striped. NULL: the one of the outboard_t.
    pub servers: *const *const c_char,
    /// How many servers there are.
    pub servers_count: usize,
}

/// What far memory has done so far.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct outboard_far_stats {
    /// sizeof(outboard_far_stats), set before the call
    pub size: usize,
    /// Faults that waited for bytes from afar.
    pub faults_fetched: u64,
    /// Faults on chunks that were on their way already.
    pub faults_joined: u64,
    /// Faults on chunks that had been set aside and were still here.
    pub faults_rescued: u64,
    /// Chunks fetched before they were needed.
    pub chunks_ahead: u64,
    /// Chunks that were never written, and came as zeros without being fetched.
    pub chunks_blank: u64,
    /// Chunks that gave their place to others.
    pub evictions: u64,
    /// Chunks written back.
    pub saves: u64,
    /// Bytes that the buffer may have now.
    pub buffer: u64,
    /// Bytes of the buffer in use.
    pub buffer_used: u64,
}

sized!(outboard_far_options, outboard_far_stats);

fn servers(promise: Promise, given: &outboard_far_options) -> Result<Vec<Address>, Failure> {
    let servers = promise.items("outboard_far_options.servers", given.servers, given.servers_count)?;
    let address = |address: &*const c_char| {
        Ok(promise.text("an address in outboard_far_options.servers", *address)?.parse()?)
    };
    servers.iter().map(address).collect()
}

/// Connects to the memory server, and to the agent if there is one, and starts the threads that answer page faults.
///
/// options: NULL for the settings.
/// far: is given the handle; outboard_far_close() ends it.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_far_connect(
    outboard: *mut outboard_t,
    options: *const outboard_far_options,
    far: *mut *mut outboard_far,
) -> outboard_status {
    body!(|promise| {
        let out = promise.handle("far", far)?;
        let given = promise.options(options)?;
        let buffer = promise.optional_text("outboard_far_options.buffer", given.buffer)?;
        let buffer_max = size("outboard_far_options.buffer_max", given.buffer_max)?;
        let chunk = size("outboard_far_options.chunk", given.chunk)?;
        let on_loss = [None, Some(OnLoss::Signal), Some(OnLoss::Exit)];
        let on_loss = choice("outboard_far_options.on_loss", given.on_loss, &on_loss)?;
        let faults = [None, Some(FaultAnswer::Threads), Some(FaultAnswer::Signal)];
        let faults = choice("outboard_far_options.faults", given.faults, &faults)?;
        let servers = servers(promise, &given)?;
        let connected = handles::shared(outboard, |outboard| {
            let mut options = outboard.far_options();
            if let Some(buffer) = buffer {
                // What the settings let the default become is not meant for this one.
                options = options.with_buffer(buffer.parse()?);
                options.buffer_max = None;
            }
            options.buffer_max = buffer_max.or(options.buffer_max);
            options.footprint = given.footprint;
            options.chunk = chunk.unwrap_or(options.chunk);
            options.grace = deadline(given.grace_ms).unwrap_or(options.grace);
            options.on_loss = on_loss.unwrap_or(options.on_loss);
            options.faults = faults.unwrap_or(options.faults);
            if !servers.is_empty() {
                options = options.with_servers(servers);
            }
            Ok(outboard.far_with(options)?)
        })?;
        out.put(handles::open(connected)?);
        Ok(())
    })
}

/// Lets so much of far memory be here at once from now on: more, up to outboard_far_options.buffer_max, or less.
///
/// buffer: as in outboard_far_options.
///
/// Threads: any, at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_far_set_buffer(
    far: *mut outboard_far,
    buffer: *const c_char,
) -> outboard_status {
    body!(|promise| {
        let buffer = promise.text("buffer", buffer)?.parse()?;
        handles::shared(far, |far| Ok(far.set_buffer(buffer)?))
    })
}

/// Counts what far memory has done so far.
///
/// stats: is filled as far as its size says, which is set before.
///
/// Threads: any, at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_far_get_stats(
    far: *mut outboard_far,
    stats: *mut outboard_far_stats,
) -> outboard_status {
    body!(|promise| {
        let counted: FarStats = handles::shared(far, |far| Ok(far.stats()))?;
        let told = outboard_far_stats {
            size: 0,
            faults_fetched: counted.faults_fetched,
            faults_joined: counted.faults_joined,
            faults_rescued: counted.faults_rescued,
            chunks_ahead: counted.chunks_ahead,
            chunks_blank: counted.chunks_blank,
            evictions: counted.evictions,
            saves: counted.saves,
            buffer: counted.buffer,
            buffer_used: counted.buffer_used,
        };
        promise.fill(stats, &told)
    })
}

/// Says what was chosen and why, in lines for people.
///
/// text, room, length: as in outboard_explain().
///
/// Threads: any, at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_far_explain(
    far: *mut outboard_far,
    text: *mut c_char,
    room: usize,
    length: *mut usize,
) -> outboard_status {
    body!(|promise| {
        let lines = handles::shared(far, |far| Ok(far.explain()))?;
        promise.give_text(&lines, (text, room), length)
    })
}

/// Ends a handle. Far memory itself ends, with its threads, when its last mapping is closed.
///
/// Threads: any, but not while another is in a call with this handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outboard_far_close(far: *mut outboard_far) -> outboard_status {
    body!(|_promise| {
        drop(handles::close(far)?);
        Ok(())
    })
}
