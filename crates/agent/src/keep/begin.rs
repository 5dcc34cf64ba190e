//! A server begins, or begins again, with a folder of kept regions.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use outboard_keep::{JournalReading, KeptState, ServerLife};
use outboard_settings::KeepSync;
use outboard_wire::{Generation, Incarnation, RegionKey, StoreId};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::{Keep, KeepError, KeptRegions, Log, folder, of_io};

/// Where the kernel says which start of the machine this is.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Why what is there is not all that was acknowledged, when the machine went down under the server.
const CRASHED: &str = "the machine has crashed, and what was not on its disk is gone";

/// Turns what the operating system said into an error about one path.
struct At<'a>(&'a Path);

impl At<'_> {
    fn shown(&self) -> String {
        self.0.display().to_string()
    }

    fn cannot(&self, what: &'static str) -> impl FnOnce(Errno) -> KeepError {
        let path = self.shown();
        move |source| KeepError::System { path, what, source }
    }
}

impl Keep {
    /// Takes a folder, which is made if it is not there, and finds the regions in it again. Until this has worked nothing that
    /// counts is changed there.
    pub(crate) fn begin(
        path: &Path,
        incarnation: Incarnation,
        sync: KeepSync,
    ) -> Result<(Arc<Self>, KeptRegions), KeepError> {
        let at = At(path);
        let folder = enter(&at)?;
        let lock = take_lock(&at, &folder)?;
        let (mut reading, place) = read_journal(&at, &folder)?;
        let (files, others) = folder::look(&folder).map_err(at.cannot("reading the folder"))?;
        let is_new = reading.state.life.is_none();
        if is_new && (others > 0 || !files.is_empty()) {
            return Err(KeepError::NotEmpty { path: at.shown() });
        }
        let boot = boot_id();
        let is_other = why_other(&reading.state, place, boot);
        let state = &mut reading.state;
        let former = state.life.unwrap_or_default();
        let redrawn = || draw().map(|bytes| StoreId(u64::from_le_bytes(bytes).max(1)));
        let store = match is_new || is_other.is_some() {
            true => redrawn().map_err(at.cannot("drawing random numbers"))?,
            false => former.store,
        };
        if is_other.is_some() {
            make_other(state, incarnation).map_err(at.cannot("drawing random numbers"))?;
        }
        let last = files.last().copied().unwrap_or_default().max(former.last_region);
        state.life = Some(ServerLife { incarnation, boot, store, place, last_region: last });
        state.has_ended = false;
        if is_other == Some(CRASHED) {
            leave_out_missing(&folder, state);
        }
        let regions = find_all(&at, &folder, state)?;
        let (file, len) = folder::write_journal(&folder, state).map_err(at.cannot("writing the journal"))?;
        if is_other.is_none() {
            // Of regions that were being made or freed when the server was killed.
            let over = files.iter().filter(|file| !state.regions.contains_key(file));
            over.for_each(|region| folder::remove(&folder, *region));
        }
        let records = state.records().len() as u32;
        let log = Log { file, len, room: len, records, state: reading.state, failed: None };
        let kept = Self {
            path: path.to_owned(),
            folder,
            _lock: lock,
            sync,
            log: Mutex::new(log),
            regions: Mutex::new(BTreeMap::new()),
        };
        Ok((Arc::new(kept), KeptRegions { store, regions, last, is_other }))
    }
}

/// Opens the folder, in which the server's user must be alone.
fn enter(at: &At<'_>) -> Result<OwnedFd, KeepError> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(at.0);
    made.map_err(of_io).map_err(at.cannot("making the folder"))?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(at.0, flags, Mode::empty()).map_err(at.cannot("opening the folder"))?;
    let state = rustix::fs::fstat(&folder).map_err(at.cannot("looking at the folder"))?;
    let user = rustix::process::geteuid().as_raw();
    if state.st_uid != user {
        return Err(KeepError::NotOurs { path: at.shown(), owner: state.st_uid, user });
    }
    if state.st_mode & 0o077 != 0 {
        return Err(KeepError::NotPrivate { path: at.shown() });
    }
    Ok(folder)
}

/// The kernel gives the lock back when the server ends, however it ends.
fn take_lock(at: &At<'_>, folder: &OwnedFd) -> Result<File, KeepError> {
    let mut lock = folder::open_or_create(folder, folder::LOCK).map_err(at.cannot("making the lock"))?;
    match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            let mut pid = String::new();
            // It is only for people.
            let _ = lock.read_to_string(&mut pid);
            return Err(KeepError::InUse { path: at.shown(), pid: pid.trim().to_owned() });
        }
        Err(error) => return Err(at.cannot("locking the folder")(error)),
    }
    // A disk without room for it is told of where it matters.
    let _ = rustix::fs::ftruncate(&lock, 0);
    let _ = lock.rewind().and_then(|()| writeln!(lock, "{}", std::process::id()));
    Ok(lock)
}

/// What the journal says, and where it lies; nothing if there is none.
fn read_journal(
    at: &At<'_>,
    folder: &OwnedFd,
) -> Result<(JournalReading, outboard_keep::StorePlace), KeepError> {
    let mut file = match folder::open(folder, folder::JOURNAL) {
        Ok(file) => file,
        Err(Errno::NOENT) => {
            let none = JournalReading { state: KeptState::new(), records: 0, len: 0 };
            return Ok((none, Default::default()));
        }
        Err(error) => return Err(at.cannot("opening the journal")(error)),
    };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(of_io).map_err(at.cannot("reading the journal"))?;
    let place = folder::place_of(&file).map_err(at.cannot("looking at the journal"))?;
    let reading = outboard_keep::read(&bytes);
    let journal = || at.0.join(folder::JOURNAL).display().to_string();
    let reading = reading.map_err(|source| KeepError::Journal { path: journal(), source })?;
    if reading.len < bytes.len() {
        tracing::warn!(
            "the journal in {} was cut short by a crash: {} bytes that were never acknowledged are left out",
            at.shown(),
            bytes.len() - reading.len
        );
    }
    Ok((reading, place))
}

/// Why what is there may be older than what was acknowledged.
fn why_other(state: &KeptState, place: outboard_keep::StorePlace, boot: [u8; 16]) -> Option<&'static str> {
    let former = state.life?;
    let is_same_boot = former.boot == boot && boot != [0; 16];
    let is_same_file = former.place.inode == place.inode && former.place.born == place.born;
    // Devices are numbered anew when a machine is started.
    let lies_there = is_same_file && (!is_same_boot || former.place.device == place.device);
    match () {
        () if !lies_there => {
            Some("the folder is a copy, which may be older than what was acknowledged since")
        }
        () if !state.has_ended && !is_same_boot => Some(CRASHED),
        () => None,
    }
}

/// After a crash of the machine a region may be in the journal whose file was not on the disk yet, or was removed before the
/// journal said so.
fn leave_out_missing(folder: &OwnedFd, state: &mut KeptState) {
    state.regions.retain(|id, region| {
        let found = folder::find(folder, region);
        if let Err(found) = &found {
            let (name, file) = (&region.name, folder::file_of(*id));
            tracing::error!(
                "the region “{name}” is lost with the crash of the machine: its file {file} {found}"
            );
        }
        found.is_ok()
    });
}

/// Makes other regions of those that are there: with the same names and bytes, but no process that had them has them.
fn make_other(state: &mut KeptState, incarnation: Incarnation) -> Result<(), Errno> {
    for region in state.regions.values_mut() {
        let Incarnation(life) = incarnation;
        region.generation = Generation(((life >> 32) as u32 ^ life as u32).max(1));
        for key in &mut region.keys {
            *key = RegionKey(draw()?);
        }
        region.owner = None;
        region.holders.clear();
        region.epoch += 1;
    }
    Ok(())
}

fn find_all(
    at: &At<'_>,
    folder: &OwnedFd,
    state: &KeptState,
) -> Result<Vec<(outboard_keep::KeptRegion, outboard_link::memory::Segment)>, KeepError> {
    let find = |region: &outboard_keep::KeptRegion| match folder::find(folder, region) {
        Ok(memory) => Ok((region.clone(), memory)),
        Err(found) => {
            let path = at.0.join(folder::file_of(region.region)).display().to_string();
            Err(KeepError::Region { name: region.name.clone(), path, found })
        }
    };
    state.regions.values().map(find).collect()
}

/// Which start of the machine this is; zeros if the kernel does not say.
fn boot_id() -> [u8; 16] {
    let text = std::fs::read_to_string(BOOT_ID).unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16).unwrap_or(0).to_be_bytes()
}

fn draw<const N: usize>() -> Result<[u8; N], Errno> {
    let mut bytes = [0; N];
    let drawn = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
    if drawn == N { Ok(bytes) } else { Err(Errno::AGAIN) }
}
