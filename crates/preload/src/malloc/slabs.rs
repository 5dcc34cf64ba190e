//! Slabs: chunks that have blocks of one size.

use core::cell::Cell;

use super::sizes::{COUNT, blocks_of, bytes_of, chunks_of};
use super::{give, take};
use crate::directory::{self, Entry, Kind, Slab, WORDS};
use crate::far::Far;
use crate::lock::{Held, Lock};

/// Marks the address of a block all of whose bytes are zero.
pub(super) const ZERO: usize = 1;

/// The slabs of one size that have free blocks.
struct Class {
    /// The chunk of the first, and one more; zero if there is none.
    first: Cell<u32>,
    /// A slab without blocks that is kept, so that a block that comes and goes does not take it from and to the others.
    spare: Cell<u32>,
}

static CLASSES: [Lock<Class>; COUNT] =
    [const { Lock::new(Class { first: Cell::new(0), spare: Cell::new(0) }) }; COUNT];

pub(super) fn hold() {
    CLASSES.iter().for_each(Lock::hold);
}

pub(super) fn release() {
    CLASSES.iter().for_each(Lock::release);
}

/// Takes blocks of a size, as many as there are places, and fewer where memory ends. Returns how many.
pub(super) fn take_blocks(far: &Far, class: usize, places: &mut [usize]) -> usize {
    let mut taken = 0;
    while taken < places.len() {
        let slabs = CLASSES[class].lock();
        let Some(chunk) = slabs.first.get().checked_sub(1) else {
            drop(slabs);
            if !add_slab(class) {
                break;
            }
            continue;
        };
        let start = far.addresses(&(chunk..chunk + 1)).start;
        while taken < places.len() {
            let Some((block, is_zero)) = record(&slabs, chunk).take(class) else {
                slabs.unlink(chunk);
                break;
            };
            places[taken] = (start + block * bytes_of(class)) | if is_zero { ZERO } else { 0 };
            taken += 1;
        }
        if slabs.spare.get() == chunk + 1 {
            slabs.spare.set(0);
        }
    }
    taken
}

/// Gives blocks of a size back, which may be marked.
pub(super) fn give_blocks(far: &Far, class: usize, blocks: &[usize]) {
    for block in blocks.iter().map(|block| block & !ZERO) {
        let chunk = far.chunk(block);
        let Some(entry) = directory::entry(chunk) else { continue };
        let first = chunk - entry.slab().1;
        let start = far.addresses(&(first..first + 1)).start;
        let slabs = CLASSES[class].lock();
        if !record(&slabs, first).give((block - start) / bytes_of(class)) {
            drop(slabs);
            wrong("a block is freed twice", block);
        }
        if !record(&slabs, first).is_listed {
            slabs.link(first);
        }
        if record(&slabs, first).live == 0 && !slabs.keep(first) {
            slabs.unlink(first);
            drop(slabs);
            retire(far, class, first);
        }
    }
}

/// A mistake of the program that would make others.
pub(super) fn wrong(what: &str, address: usize) -> ! {
    crate::start::say(&format!("{what}: {address:#x}; the process is ended, for its memory may be damaged"));
    std::process::abort()
}

/// Makes a slab of a size. Returns whether there is room for one.
fn add_slab(class: usize) -> bool {
    let count = chunks_of(class);
    let Some((chunk, is_zero)) = take(count, false) else { return false };
    let entries: Option<Vec<&Entry>> = (chunk..chunk + count).map(directory::make).collect();
    let Some(entries) = entries else { return false };
    let slabs = CLASSES[class].lock();
    *record(&slabs, chunk) =
        Slab { live: 0, fresh: 0, is_zero, is_listed: false, next: 0, previous: 0, back: [0; WORDS] };
    for (back, entry) in entries.iter().enumerate() {
        entry.set_slab(class, back as u32);
    }
    slabs.link(chunk);
    true
}

fn retire(far: &Far, class: usize, chunk: u32) {
    let chunks = chunk..chunk + chunks_of(class);
    chunks.clone().filter_map(directory::entry).for_each(|entry| entry.set_kind(Kind::Free));
    give(far, chunks);
}

/// What is known of the slab that begins with a chunk, for the thread that has the lock of its size.
#[expect(clippy::mut_from_ref, reason = "the lock that is held stands for all slabs of its size")]
fn record<'a>(_slabs: &'a Held<'_, Class>, chunk: u32) -> &'a mut Slab {
    let entry = directory::entry(chunk).expect("a slab has an entry");
    // SAFETY: this thread has the lock of the size, and no function here uses two references to one slab at a time.
    unsafe { entry.record().as_mut() }
}

impl Slab {
    /// Takes a block, and says whether it is zero.
    fn take(&mut self, class: usize) -> Option<(usize, bool)> {
        if usize::from(self.fresh) > usize::from(self.live) {
            let word = self.back.iter().position(|word| *word != 0)?;
            let bit = self.back[word].trailing_zeros() as usize;
            self.back[word] &= self.back[word] - 1;
            self.live += 1;
            return Some((word * 64 + bit, false));
        }
        if usize::from(self.fresh) == blocks_of(class) {
            return None;
        }
        (self.fresh, self.live) = (self.fresh + 1, self.live + 1);
        Some((usize::from(self.fresh) - 1, self.is_zero))
    }

    /// Gives a block back. Returns whether it was out.
    fn give(&mut self, block: usize) -> bool {
        let (word, bit) = (&mut self.back[block / 64], 1 << (block % 64));
        if *word & bit != 0 || block >= usize::from(self.fresh) {
            return false;
        }
        *word |= bit;
        self.live -= 1;
        true
    }
}

impl Held<'_, Class> {
    /// Keeps a slab without blocks, unless another one is kept.
    fn keep(&self, chunk: u32) -> bool {
        let spare = self.spare.get();
        if spare == 0 {
            self.spare.set(chunk + 1);
        }
        spare == 0 || spare == chunk + 1
    }

    fn link(&self, chunk: u32) {
        let next = self.first.replace(chunk + 1);
        if let Some(next) = next.checked_sub(1) {
            record(self, next).previous = chunk + 1;
        }
        let slab = record(self, chunk);
        (slab.next, slab.previous, slab.is_listed) = (next, 0, true);
    }

    fn unlink(&self, chunk: u32) {
        let slab = record(self, chunk);
        let (next, previous) = (slab.next, slab.previous);
        (slab.next, slab.previous, slab.is_listed) = (0, 0, false);
        match previous.checked_sub(1) {
            Some(previous) => record(self, previous).next = next,
            None => self.first.set(next),
        }
        if let Some(next) = next.checked_sub(1) {
            record(self, next).previous = previous;
        }
    }
}
