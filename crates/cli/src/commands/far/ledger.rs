//! The counts of the program and of those that it has started, which their libraries keep in one file without a name.
//!
//! `crates/preload/src/ledger.rs` has the other side, and the order of words.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{Context, Result};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

const WORDS: usize = 32;
const SLOTS: usize = 1023;
const NAME: usize = 4;
const WORD: usize = size_of::<u64>();

/// Counts of one process.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) name: String,
    pub(super) process: u64,
    pub(super) has_ended: bool,
    pub(super) has_blocks: bool,
    pub(super) used_most: u64,
    pub(super) buffer: u64,
    pub(super) buffer_most: u64,
    pub(super) here_most: u64,
    pub(super) fetched: u64,
    pub(super) blank: u64,
    pub(super) rescued: u64,
    pub(super) joined: u64,
    pub(super) parked: u64,
    pub(super) ahead: u64,
    pub(super) evicted: u64,
    pub(super) saved: u64,
    pub(super) bytes_fetched: u64,
    pub(super) bytes_saved: u64,
    pub(super) plain: u64,
    pub(super) plain_bytes: u64,
    pub(super) refused: u64,
    pub(super) files_copied: u64,
    pub(super) forks: u64,
}

/// The file.
pub(super) struct Ledger {
    file: OwnedFd,
}

impl Ledger {
    /// Makes an empty one.
    pub(super) fn make() -> Result<Self> {
        let make = || -> io::Result<OwnedFd> {
            let file = memfd_create("outboard-far", MemfdFlags::CLOEXEC)?;
            ftruncate(&file, ((SLOTS + 1) * WORDS * WORD) as u64)?;
            Ok(file)
        };
        Ok(Self { file: make().context("cannot make a file for the figures")? })
    }

    /// By which name processes of this user open it.
    pub(super) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// All processes that have used far memory, in the order in which they began.
    pub(super) fn read(&self) -> Vec<Counts> {
        let mut bytes = vec![0; (SLOTS + 1) * WORDS * WORD];
        let mut len = 0;
        while len < bytes.len() {
            match rustix::io::pread(&self.file, &mut bytes[len..], len as u64) {
                Ok(0) | Err(_) => break,
                Ok(more) => len += more,
            }
        }
        let words: Vec<u64> = bytes
            .chunks_exact(WORD)
            .map(|word| u64::from_le_bytes(word.try_into().expect("a word has eight bytes")))
            .collect();
        let taken = usize::try_from(words[0]).unwrap_or(SLOTS).min(SLOTS);
        words.chunks_exact(WORDS).skip(1).take(taken).map(counts).filter(|one| one.process != 0).collect()
    }
}

fn counts(words: &[u64]) -> Counts {
    let name: Vec<u8> = words[WORDS - NAME..].iter().flat_map(|word| word.to_le_bytes()).collect();
    Counts {
        name: String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned(),
        process: words[0],
        has_ended: words[1] == 2,
        has_blocks: words[2] == 2,
        used_most: words[4],
        buffer: words[5],
        buffer_most: words[6],
        here_most: words[7],
        fetched: words[8],
        blank: words[9],
        rescued: words[10],
        joined: words[11],
        parked: words[12],
        ahead: words[13],
        evicted: words[14],
        saved: words[15],
        bytes_fetched: words[16],
        bytes_saved: words[17],
        plain: words[18],
        plain_bytes: words[19],
        refused: words[20],
        files_copied: words[21],
        forks: words[22],
    }
}
