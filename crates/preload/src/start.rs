//! The start: before `main`, while no lock of the program is held. What fails here is told, and the program does not run.

use std::env;
use std::path::Path;

use outboard::{
    BufferSize, Children, FarMapping, FarMemory, FarOptions, FaultAnswer, OnLoss, Outboard, Path as Way,
    RegionOptions,
};

use crate::far::{self, CHUNK, Far, PAGE};
use crate::keeper::{self, Share};
use crate::ledger::{self, Count};
use crate::settings::{Level, Settings, VARIABLE, leave_environment};
use crate::{calls, directory, fork, malloc, next, origin};

/// How many bytes of addresses are asked for, the first that the system gives. They cost nothing until they are used.
const SIZES: [u64; 5] = [2 << 40, 256 << 30, 32 << 30, 8 << 30, 2 << 30];
/// The least buffer where it is a part of what is used.
const LEAST: usize = 8 << 20;
/// The end of a program that cannot run as it should.
const FAILED: i32 = 1;

#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
#[used]
static START: extern "C" fn() = start;

extern "C" fn start() {
    if cfg!(test) {
        return;
    }
    let settings = match Settings::read() {
        Ok(Some(settings)) => settings,
        Ok(None) => return,
        Err(why) => fail(&format!("{VARIABLE}: {why}: it is set by “outboard far”, of the same build")),
    };
    let name = own_name();
    if settings.bypass.contains(&name) {
        return;
    }
    if let Err(why) = begin(&settings, &name) {
        fail(&format!("{name} was not started: {why}"));
    }
    if !settings.children_inherit {
        // SAFETY: `main` has not begun, and the threads of the library do not look at the environment.
        unsafe { leave_environment() };
    }
}

/// Says something where people look.
pub(crate) fn say(text: &str) {
    // There is no caller to tell if this fails.
    let _ = rustix::io::write(rustix::stdio::stderr(), format!("outboard: {text}\n").as_bytes());
}

fn fail(text: &str) -> ! {
    say(text);
    // SAFETY: it ends the process, in which nothing of the program has run.
    unsafe { libc::_exit(FAILED) }
}

/// The name of the program's file.
fn own_name() -> String {
    let file = env::current_exe().ok();
    let name = file.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| "the program".to_owned())
}

/// Whether blocks are far too, and why.
fn choose_level(level: Level) -> Result<(bool, &'static str), String> {
    // SAFETY: the name ends with zero.
    let first = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"malloc".as_ptr()) };
    let own = malloc::address();
    let foreign = if first.addr() != own {
        Some("the program has an allocator of its own, and keeps it")
    } else if !next::is_c_library() {
        Some("the program brings an allocator as a library, and keeps it")
    } else {
        None
    };
    match (level, foreign) {
        (Level::Mmap, _) => Ok((false, "as asked for")),
        (Level::Auto, Some(why)) => Ok((false, why)),
        (Level::Malloc, Some(why)) => Err(format!("{why}: --level malloc cannot be; leave it out")),
        (Level::Auto | Level::Malloc, None) => Ok((true, "the program uses the C library's allocator")),
    }
}

fn begin(settings: &Settings, name: &str) -> Result<(), String> {
    if rustix::param::page_size() != PAGE {
        return Err(format!(
            "pages of this system have {} bytes, and not {PAGE}",
            rustix::param::page_size()
        ));
    }
    origin::find();
    let (has_blocks, why) = choose_level(settings.level)?;
    let no_handlers = "the C library has no room for what is done when threads and children begin and end";
    if has_blocks && !malloc::prepare_threads() {
        return Err(no_handlers.to_owned());
    }
    let (memory, share) = fork::opening(|| open(settings, name)).ok_or(no_handlers)??;
    let mapping = reserve(&memory)?;
    let far = far::set(memory, mapping);
    if !far.start().is_multiple_of(CHUNK) {
        return Err(format!("far memory begins at {:#x}, where no chunk does", far.start()));
    }
    if !far.memory.serves_the_kernel() {
        return Err(
            "system calls cannot wait for far memory here, and a program gives them what is not here: run it with the right to open \
             /dev/userfaultfd, or as “outboard doctor” says; far.faults must not be signal"
                .to_owned(),
        );
    }
    if settings.is_dry_run {
        explain(far, (has_blocks, why), settings);
    }
    if let Some(path) = &settings.ledger {
        ledger::open(path, name);
    }
    give_out(far, has_blocks, settings.threshold)?;
    ledger::set(Count::Level, 1 + u64::from(has_blocks));
    ledger::set(Count::State, 1);
    keeper::look(far, share);
    keeper::start(far, share).map_err(|error| format!("no thread that looks after the buffer: {error}"))?;
    // SAFETY: the handler is a function of this library, which stays loaded.
    unsafe { libc::atexit(end) };
    far::begin();
    Ok(())
}

/// Divides the chunks between the allocator and mappings, of which those are not to be touched until they are mapped.
fn give_out(far: &Far, has_blocks: bool, threshold: usize) -> Result<(), String> {
    let all = far.len() / CHUNK;
    let of_blocks = if has_blocks { (all / 2).min(directory::CHUNKS_MAX) } else { 0 };
    let (border, all) = (of_blocks as u32, all as u32);
    let mappings = far.addresses(&(border..all));
    far.protect(&mappings, outboard::PageProtection::None).map_err(|error| error.to_string())?;
    calls::begin(border..all);
    calls::begin_with(threshold);
    if has_blocks {
        malloc::begin(far, 0..border);
    }
    Ok(())
}

fn open(settings: &Settings, name: &str) -> Result<(FarMemory, Option<Share>), String> {
    let servers: Result<Vec<_>, _> = settings.servers.iter().map(|server| server.parse()).collect();
    let servers: Vec<outboard::Address> =
        servers.map_err(|error: outboard::AddressError| error.to_string())?;
    let outboard = Outboard::find().map_err(|error| error.to_string())?.without_agent().with_name(name);
    let outboard = match servers.first() {
        Some(server) => outboard.with_address(server.clone()),
        None => outboard,
    };
    let options = outboard.far_options();
    let least = FarOptions::buffer_min(CHUNK).max(LEAST);
    let share = match settings.buffer {
        BufferSize::Fraction { numerator, denominator } => {
            let most = options.buffer_max.unwrap_or(least).max(least);
            Some(Share { numerator, denominator, least, most })
        }
        BufferSize::Auto | BufferSize::Bytes(_) => None,
    };
    let buffer = if share.is_some() { BufferSize::Bytes(least) } else { settings.buffer };
    let most = match (settings.buffer, share) {
        (BufferSize::Bytes(bytes), _) => Some(bytes),
        (_, Some(share)) => Some(share.most),
        _ => options.buffer_max,
    };
    let options = FarOptions {
        servers,
        buffer,
        buffer_max: most,
        chunk: CHUNK,
        children: Children::Snapshot,
        // The program may have a handler of SIGBUS of its own, and threads that block it.
        faults: if options.faults == FaultAnswer::Auto { FaultAnswer::Threads } else { options.faults },
        // The program cannot go on without what is lost.
        on_loss: if env::var_os("OUTBOARD_FAR_ON_LOSS").is_some() { options.on_loss } else { OnLoss::Exit },
        ..options
    };
    let memory = outboard.far_with(options).map_err(|error| with_causes(&error))?;
    Ok((memory, share))
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// Reserves as much as there are addresses for.
fn reserve(memory: &FarMemory) -> Result<FarMapping, String> {
    let options = RegionOptions::default().with_chunk(CHUNK).with_path(Way::Direct);
    let mut refused = String::new();
    for bytes in SIZES {
        match memory.reserve(bytes, &options) {
            Ok(mapping) => return Ok(mapping),
            Err(error) => refused = with_causes(&error),
        }
    }
    Err(refused)
}

/// Says what would be done, and ends.
fn explain(far: &Far, (has_blocks, why): (bool, &str), settings: &Settings) -> ! {
    let what = if has_blocks { "mappings and blocks of the allocator" } else { "mappings" };
    let mut lines = vec![
        format!("far: {what}: {why}"),
        format!("far mappings: anonymous private ones of {} bytes and more", settings.threshold),
        format!("addresses: {} GiB", far.len() >> 30),
    ];
    lines.extend(far.memory.explain());
    let text: String = lines.into_iter().map(|line| format!("{line}\n")).collect();
    let _ = rustix::io::write(rustix::stdio::stdout(), text.as_bytes());
    // SAFETY: it ends the process, in which nothing of the program has run.
    unsafe { libc::_exit(0) }
}

/// The process ends in an orderly way.
extern "C" fn end() {
    if let Some(far) = far::get() {
        keeper::look(far, None);
        ledger::set(Count::State, 2);
    }
}
