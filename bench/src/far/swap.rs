//! Swap that the benchmark makes for itself: a file on this machine's disk, or memory that is compressed (zram).
//!
//! What is made is noted in a folder that carries the number of the process which made it, so that a later run can remove
//! what a killed one has left behind. Swap of others is never touched: ours has the highest priority while it is on.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Which kind of swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kind {
    /// A file on a disk.
    File,
    /// Compressed memory.
    Zram,
}

/// Begins the name of every folder of ours.
const PREFIX: &str = "outboard-bench-swap-";
/// The file that is swapped to, and the one that says which zram device is ours.
const FILE: &str = "swap";
const DEVICE: &str = "zram";

/// A folder for swap. It is taken back, with all that is on, when this is dropped.
pub(super) struct SwapFolder {
    path: PathBuf,
}

/// Why there is no such swap here.
pub(super) type Refusal = String;

fn refused(what: &str) -> impl Fn(io::Error) -> Refusal {
    move |source| format!("{what}: {source}")
}

/// Where files that are on a disk lie, rather than in memory.
fn on_disk() -> PathBuf {
    let usual = PathBuf::from("/var/tmp");
    if usual.is_dir() { usual } else { std::env::temp_dir() }
}

impl SwapFolder {
    /// A fresh folder, after what killed runs have left behind is gone.
    pub(super) fn create() -> Result<Self, Refusal> {
        let above = on_disk();
        for entry in fs::read_dir(&above).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).map(str::to_owned);
            if owner.is_some_and(|owner| !Path::new("/proc").join(owner).exists()) {
                drop(Self { path: entry.path() });
            }
        }
        let path = above.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&path).map_err(refused("mkdir"))?;
        Ok(Self { path })
    }

    /// Makes swap of so many bytes and turns it on, before any other.
    pub(super) fn turn_on(&self, kind: Kind, bytes: u64) -> Result<(), Refusal> {
        let at = match kind {
            Kind::File => self.make_file(bytes)?,
            Kind::Zram => self.make_zram(bytes)?,
        };
        let at = CString::new(at.as_os_str().as_bytes()).map_err(|_| "a path with a zero byte")?;
        const PREFER: i32 = 0x8000;
        const PRIORITY_MAX: i32 = 0x7fff;
        // SAFETY: a path of ours, with the header of an empty swap area.
        match unsafe { libc::swapon(at.as_ptr(), PREFER | PRIORITY_MAX) } {
            0 => Ok(()),
            _ => Err(refused("swapon")(io::Error::last_os_error())),
        }
    }

    fn make_file(&self, bytes: u64) -> Result<PathBuf, Refusal> {
        let path = self.path.join(FILE);
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&path);
        let file = file.map_err(refused("open"))?;
        let none = rustix::fs::FallocateFlags::empty();
        rustix::fs::fallocate(&file, none, 0, bytes).map_err(|errno| refused("fallocate")(errno.into()))?;
        write_header(&file, bytes).map_err(refused("write"))?;
        Ok(path)
    }

    fn make_zram(&self, bytes: u64) -> Result<PathBuf, Refusal> {
        let number = fs::read_to_string("/sys/class/zram-control/hot_add");
        let number = number.map_err(refused("no zram device"))?.trim().to_owned();
        fs::write(self.path.join(DEVICE), &number).map_err(refused("write"))?;
        fs::write(format!("/sys/block/zram{number}/disksize"), bytes.to_string())
            .map_err(refused("disksize"))?;
        let path = PathBuf::from(format!("/dev/zram{number}"));
        let device = OpenOptions::new().write(true).open(&path).map_err(refused("open"))?;
        write_header(&device, bytes).map_err(refused("write"))?;
        Ok(path)
    }

    /// Turns off what is on, and takes its memory back.
    pub(super) fn turn_off(&self) {
        // What was never turned on is refused, and need not be turned off.
        let off = |path: &Path| {
            if let Ok(path) = CString::new(path.as_os_str().as_bytes()) {
                // SAFETY: a path of ours.
                unsafe { libc::swapoff(path.as_ptr()) };
            }
        };
        let file = self.path.join(FILE);
        if file.exists() {
            off(&file);
            let _ = fs::remove_file(&file);
        }
        let note = self.path.join(DEVICE);
        if let Ok(number) = fs::read_to_string(&note) {
            off(&PathBuf::from(format!("/dev/zram{number}")));
            let _ = fs::write(format!("/sys/block/zram{number}/reset"), "1");
            let _ = fs::write("/sys/class/zram-control/hot_remove", &number);
            let _ = fs::remove_file(&note);
        }
    }
}

impl Drop for SwapFolder {
    fn drop(&mut self) {
        self.turn_off();
        let _ = fs::remove_dir(&self.path);
    }
}

/// Writes the header by which the kernel knows a swap area.
fn write_header(area: &File, bytes: u64) -> io::Result<()> {
    const MAGIC: &[u8; 10] = b"SWAPSPACE2";
    const VERSION_AT: usize = 1024;
    let page = rustix::param::page_size();
    let last_page = (bytes / page as u64).saturating_sub(1) as u32;
    let mut header = vec![0; page];
    header[VERSION_AT..VERSION_AT + 4].copy_from_slice(&1_u32.to_ne_bytes());
    header[VERSION_AT + 4..VERSION_AT + 8].copy_from_slice(&last_page.to_ne_bytes());
    header[page - MAGIC.len()..].copy_from_slice(MAGIC);
    area.write_all_at(&header, 0)?;
    let mut area = area;
    area.flush()?;
    area.sync_all()
}
