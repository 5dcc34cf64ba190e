//! The files of a folder of kept regions.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};

use outboard_keep::{KeptRegion, KeptState, StorePlace, append, header};
use outboard_link::memory::Segment;
use outboard_wire::RegionId;
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

use super::of_io;

pub(super) const JOURNAL: &str = "journal";
const NEW_JOURNAL: &str = "journal.new";
pub(super) const LOCK: &str = "lock";
const REGION: &str = "region-";

const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);
const FLAGS: OFlags = OFlags::RDWR.union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// The name of a region's file.
pub(super) fn file_of(region: RegionId) -> String {
    format!("{REGION}{}", region.0)
}

/// A file of a folder, which is made if it is not there.
pub(super) fn open_or_create(folder: &OwnedFd, name: &str) -> Result<File, Errno> {
    Ok(File::from(rustix::fs::openat(folder, name, FLAGS | OFlags::CREATE, PRIVATE)?))
}

/// A file that is there.
pub(super) fn open(folder: &OwnedFd, name: &str) -> Result<File, Errno> {
    Ok(File::from(rustix::fs::openat(folder, name, FLAGS, Mode::empty())?))
}

/// Where a file lies.
pub(super) fn place_of(file: &impl AsFd) -> Result<StorePlace, Errno> {
    let state = rustix::fs::fstat(file)?;
    let born = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::BTIME);
    let born =
        born.ok().filter(|born| StatxFlags::from_bits_retain(born.stx_mask).contains(StatxFlags::BTIME));
    let born = born.map_or(0, |born| {
        born.stx_btime
            .tv_sec
            .cast_unsigned()
            .wrapping_mul(1_000_000_000)
            .wrapping_add(born.stx_btime.tv_nsec.into())
    });
    Ok(StorePlace { device: state.st_dev, inode: state.st_ino, born })
}

/// Writes a journal of what is there, beside the old one, and then in its place. Returns it and how long it is.
pub(super) fn write_journal(folder: &OwnedFd, state: &mut KeptState) -> Result<(File, u64), Errno> {
    let flags = FLAGS | OFlags::CREATE | OFlags::TRUNC;
    let mut file = File::from(rustix::fs::openat(folder, NEW_JOURNAL, flags, PRIVATE)?);
    let place = place_of(&file)?;
    if let Some(life) = &mut state.life {
        life.place = place;
    }
    let mut bytes = header().to_vec();
    let records = state.records();
    records.iter().enumerate().for_each(|(number, record)| append(number as u32, record, &mut bytes));
    file.write_all(&bytes).map_err(of_io)?;
    rustix::fs::fsync(&file)?;
    rustix::fs::renameat(folder, NEW_JOURNAL, folder, JOURNAL)?;
    rustix::fs::fsync(folder)?;
    Ok((file, bytes.len() as u64))
}

/// A file of so many zero bytes for a new region.
pub(super) fn create(
    folder: &OwnedFd,
    region: RegionId,
    len: u64,
    (is_sparse, is_settled): (bool, bool),
) -> Result<Segment, Errno> {
    let name = file_of(region);
    let flags = FLAGS | OFlags::CREATE | OFlags::TRUNC;
    let file = rustix::fs::openat(folder, &name, flags, PRIVATE)?;
    let made = fill(&file, len, is_sparse).and_then(|()| {
        // A journal that tells of a file whose folder does not, after a crash of the machine, would be no good.
        if is_settled {
            rustix::fs::fsync(&file)?;
            rustix::fs::fsync(folder)?;
        }
        Segment::of_file(file, len as usize, !is_sparse)
    });
    made.inspect_err(|_| remove(folder, region))
}

fn fill(file: &OwnedFd, len: u64, is_sparse: bool) -> Result<(), Errno> {
    if is_sparse {
        return rustix::fs::ftruncate(file, len);
    }
    loop {
        match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, len) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// The file of a region that is there. What is wrong with it is for people.
pub(super) fn find(folder: &OwnedFd, region: &KeptRegion) -> Result<Segment, String> {
    let file = open(folder, &file_of(region.region)).map_err(|error| match error {
        Errno::NOENT => "is not there".to_owned(),
        error => format!("cannot be opened: {error}"),
    })?;
    let state = rustix::fs::fstat(&file).map_err(|error| format!("cannot be looked at: {error}"))?;
    if state.st_size as u64 != region.memory {
        return Err(format!("has {} bytes and not {}", state.st_size, region.memory));
    }
    let memory = Segment::of_file(file.into(), region.memory as usize, !region.is_sparse);
    memory.map_err(|error| format!("cannot be mapped: {error}"))
}

/// A file that is gone already is of no use either.
pub(super) fn remove(folder: &OwnedFd, region: RegionId) {
    let removed = rustix::fs::unlinkat(folder, file_of(region), AtFlags::empty());
    if let Err(error) = removed.or_else(|error| if error == Errno::NOENT { Ok(()) } else { Err(error) }) {
        tracing::warn!("the file of {region}, which was freed, could not be removed: {error}");
    }
}

/// The regions whose files are there, and how many other files.
pub(super) fn look(folder: &OwnedFd) -> Result<(BTreeSet<RegionId>, usize), Errno> {
    let (mut regions, mut others) = (BTreeSet::new(), 0);
    for entry in rustix::fs::Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy();
        let number = name.strip_prefix(REGION).and_then(|number| number.parse().ok());
        match (&*name, number) {
            ("." | ".." | LOCK | JOURNAL | NEW_JOURNAL, _) => {}
            (_, Some(number)) => _ = regions.insert(RegionId(number)),
            _ => others += 1,
        }
    }
    Ok((regions, others))
}
