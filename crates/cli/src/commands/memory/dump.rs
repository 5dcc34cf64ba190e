//! `outboard memory save` and `restore`: a region into a file, and back.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use outboard::{AskError, FarRegion, Memory};
use outboard_keep::{
    DUMP_HEADER_LEN, DumpCheck, DumpError, DumpHeader, PIECE_HEAD_LEN, end_of_dump, piece_head,
};
use outboard_wire::Rights;
use outboard_wire::control::{ControlFailure, RegionSharing};

/// How many bytes are read and written at a time. What is zero of a region is left out in these units.
const PIECE: usize = 64 << 10;

/// How long a look at the bar may be out of date.
const LOOKS_PER_SECOND: u8 = 10;

/// A region as it went.
pub(super) struct Dumped {
    pub(super) size: u64,
    /// How much of it is in the file.
    pub(super) written: u64,
}

/// A bar on the standard error, if that is a terminal.
fn bar(total: u64, doing: &'static str) -> ProgressBar {
    let bar =
        ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(LOOKS_PER_SECOND));
    if let Ok(style) = ProgressStyle::with_template("{msg} {bar:30} {percent:>3} %  {bytes_per_sec}") {
        bar.set_style(style);
    }
    bar.with_message(doing)
}

/// Saves a region that no process writes meanwhile.
pub(super) fn save(memory: &mut Memory, name: &str, file: &Path, force: bool) -> Result<Dumped> {
    if file.exists() && !force {
        bail!("{} is there already; choose another file, or replace it with --force", file.display());
    }
    let region = memory.open(name, Rights::READ)?;
    let draft = Draft::beside(file)?;
    let saved = save_into(memory, &region, &draft.path);
    memory.release(region)?;
    let dumped = saved.with_context(|| format!("“{name}” was not saved into {}", file.display()))?;
    draft.keep(file, force)?;
    Ok(dumped)
}

/// The file, until all of it is there.
struct Draft {
    path: PathBuf,
    is_kept: bool,
}

impl Draft {
    fn beside(file: &Path) -> Result<Self> {
        let name = file.file_name().with_context(|| format!("{} names no file", file.display()))?;
        let name = format!(".{}.{}.part", name.to_string_lossy(), std::process::id());
        Ok(Self { path: file.with_file_name(name), is_kept: false })
    }

    fn keep(mut self, file: &Path, force: bool) -> Result<()> {
        let moved = match force {
            true => std::fs::rename(&self.path, file),
            // It may have come meanwhile, and a link replaces nothing.
            false => std::fs::hard_link(&self.path, file).and_then(|()| std::fs::remove_file(&self.path)),
        };
        moved.with_context(|| format!("{} cannot be written", file.display()))?;
        self.is_kept = true;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_kept {
            // One that could not be made is not there.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn save_into(memory: &mut Memory, region: &FarRegion, path: &Path) -> Result<Dumped> {
    let file = File::create_new(path).with_context(|| format!("{} cannot be made", path.display()))?;
    let mut file = BufWriter::with_capacity(8 * PIECE, file);
    let size = region.size();
    let chunk_log2 = region.chunk().ilog2() as u8;
    let bar = bar(size, "saving");
    let (mut written, mut at) = (0, 0);
    let mut parts = Vec::new();
    while let Some(part) = memory.next_written(region, at)? {
        at = part.end;
        parts.push(part);
    }
    let header = DumpHeader { size, chunk_log2 };
    file.write_all(&header.encode())?;
    let mut bytes = vec![0; PIECE];
    for piece in parts.into_iter().flat_map(pieces) {
        let bytes = &mut bytes[..(piece.end - piece.start) as usize];
        memory.read(region, piece.start, bytes)?;
        if bytes.iter().any(|byte| *byte != 0) {
            file.write_all(&piece_head(piece.start, bytes))?;
            file.write_all(bytes)?;
            written += bytes.len() as u64;
        }
        bar.set_position(piece.end);
    }
    file.write_all(&end_of_dump(&header, written))?;
    file.into_inner().map_err(|error| error.into_error())?.sync_all()?;
    bar.finish_and_clear();
    Ok(Dumped { size, written })
}

/// A part in pieces that begin at multiples of their length.
fn pieces(part: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let mut at = part.start;
    std::iter::from_fn(move || {
        let start = at;
        at = (start / PIECE as u64 + 1).saturating_mul(PIECE as u64).min(part.end);
        (start < part.end).then_some(start..at)
    })
}

/// A file that was saved, as it is read.
struct Saved {
    file: BufReader<File>,
    check: DumpCheck,
    header: DumpHeader,
}

impl Saved {
    fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).with_context(|| format!("{} cannot be read", path.display()))?;
        let mut file = BufReader::with_capacity(8 * PIECE, file);
        let mut start = [0; DUMP_HEADER_LEN];
        let read = file.read_exact(&mut start).map_err(|_| DumpError::NoDump);
        let header = read.and_then(|()| DumpHeader::decode(&start));
        let header = header.with_context(|| format!("{} cannot be restored", path.display()))?;
        Ok(Self { file, check: DumpCheck::new(header), header })
    }

    /// Does something with every piece, each of which is as it was saved.
    fn each(mut self, mut with: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<u64> {
        let mut bytes = Vec::new();
        loop {
            let mut head = [0; PIECE_HEAD_LEN];
            self.file.read_exact(&mut head).map_err(|_| self.check.cut_short())?;
            let Some(piece) = self.check.head(head)? else {
                let is_over = self.file.read(&mut [0])? == 0;
                return if is_over { Ok(self.check.written()) } else { Err(self.check.too_long().into()) };
            };
            bytes.resize(piece.len, 0);
            self.file.read_exact(&mut bytes).map_err(|_| self.check.cut_short())?;
            self.check.content(&piece, &bytes)?;
            with(piece.offset, &bytes)?;
        }
    }
}

/// Makes a region of a file. The file is checked before anything is done at the server.
pub(super) fn restore(
    memory: &mut Memory,
    name: &str,
    path: &Path,
    (sparse, force): (bool, bool),
) -> Result<Dumped> {
    let saved = Saved::open(path)?;
    let header = saved.header;
    let checking = bar(header.size, "checking");
    saved
        .each(|offset, bytes| {
            checking.set_position(offset + bytes.len() as u64);
            Ok(())
        })
        .with_context(|| format!("{} cannot be restored", path.display()))?;
    checking.finish_and_clear();
    if force {
        match memory.open_shared(name, Rights::READ.and(Rights::WRITE)) {
            Ok(former) => memory.free(former)?,
            Err(error) if error.is_not_there() => {}
            Err(error) => return Err(error.into()),
        }
    }
    let reserved = match sparse {
        true => memory.reserve_sparse(header.size, header.chunk_log2, Some(name)),
        false => memory.reserve_chunks(header.size, header.chunk_log2, Some(name), RegionSharing::Leased),
    };
    let region = match reserved {
        Err(error @ AskError::Refused { failure: ControlFailure::NameTaken, .. }) => {
            return Err(error)
                .context(format!("“{name}” was not restored; --force frees the region of this name"));
        }
        other => other.with_context(|| format!("“{name}” was not restored"))?,
    };
    match write(memory, &region, path) {
        Ok(written) => {
            memory.release(region)?;
            Ok(Dumped { size: header.size, written })
        }
        Err(error) => {
            // A part of it is of no use under that name.
            memory.free(region)?;
            Err(error.context(format!("“{name}” was not restored")))
        }
    }
}

fn write(memory: &mut Memory, region: &FarRegion, path: &Path) -> Result<u64> {
    let saved = Saved::open(path)?;
    let bar = bar(saved.header.size, "restoring");
    bar.enable_steady_tick(Duration::from_millis(200));
    // Half a piece goes into a frame of any link.
    let written = saved.each(|offset, bytes| {
        for (number, part) in bytes.chunks(PIECE / 2).enumerate() {
            memory.write_back(region, offset + (number * PIECE / 2) as u64, part)?;
        }
        bar.set_position(offset + bytes.len() as u64);
        Ok(())
    });
    bar.finish_and_clear();
    written
}
