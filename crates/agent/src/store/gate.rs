//! Where written bytes come home.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use outboard_link::memory::{Mapping, Segment, Window};
use outboard_paging::server::{Home, WriteEpoch};
use outboard_wire::control::Sharing;
use outboard_wire::{Generation, RegionKey, Rights, access};
use rustix::io::Errno;

use super::holders::Claim;

/// The keys of a region. Those who cannot have it at the same time have different ones, so that a key can be changed
/// without disturbing anybody but those it is to shut out.
#[derive(Clone)]
pub(super) struct Keys {
    /// For those who write.
    full: RegionKey,
    /// For those who lease it to read.
    leased: ReaderKeys,
    /// For those who read what others write.
    together: ReaderKeys,
}

#[derive(Clone, Copy)]
struct ReaderKeys {
    read: RegionKey,
    call: RegionKey,
}

impl ReaderKeys {
    fn draw() -> Result<Self, Errno> {
        Ok(Self { read: draw_key()?, call: draw_key()? })
    }

    fn all(self) -> [(RegionKey, Rights); 2] {
        [(self.read, Rights::READ), (self.call, Rights::READ.and(Rights::CALL))]
    }
}

impl Keys {
    /// New ones, which nobody can guess.
    pub(super) fn draw() -> Result<Self, Errno> {
        Ok(Self { full: draw_key()?, leased: ReaderKeys::draw()?, together: ReaderKeys::draw()? })
    }

    /// The same but for those that were given out for `claim`.
    pub(super) fn without(&self, claim: Claim) -> Result<Self, Errno> {
        let mut keys = self.clone();
        if claim.writes {
            keys.full = draw_key()?;
        }
        if claim.sharing == Sharing::Leased {
            keys.leased = ReaderKeys::draw()?;
        }
        Ok(keys)
    }

    /// All of them, each with what it allows.
    pub(super) fn all(&self) -> [(RegionKey, Rights); 5] {
        let ([read, call], [look, ask]) = (self.leased.all(), self.together.all());
        [(self.full, Rights::ALL), read, call, look, ask]
    }

    /// The key that allows the least of what includes `rights`.
    pub(super) fn of(&self, rights: Rights, sharing: Sharing) -> (RegionKey, Rights) {
        let readers = if sharing == Sharing::Leased { self.leased } else { self.together };
        let allowing = readers.all().into_iter().find(|(_, allowed)| allowed.includes(rights));
        allowing.unwrap_or((self.full, Rights::ALL))
    }

    /// What `key` allows, if it is one of these.
    pub(super) fn rights_of(&self, key: &RegionKey) -> Option<Rights> {
        // All are compared, so that the time tells nothing.
        let or =
            |found, (own, rights): (RegionKey, Rights)| if own.matches(key) { Some(rights) } else { found };
        self.all().into_iter().fold(None, or)
    }
}

fn draw_key() -> Result<RegionKey, Errno> {
    let mut key = [0; 16];
    let drawn = rustix::rand::getrandom(&mut key[..], rustix::rand::GetRandomFlags::empty())?;
    if drawn == key.len() { Ok(RegionKey(key)) } else { Err(Errno::AGAIN) }
}

/// One region, as those who bring written bytes see it. Whoever has it does not need the store, so bytes come home
/// to different regions, and to different places of one region, at the same time.
pub struct Gate {
    pub(super) generation: Generation,
    pub(super) keys: Keys,
    /// What its users may use of the memory.
    pub(super) size: u64,
    pub(super) memory: Arc<Segment>,
    epoch: WriteEpoch,
    /// How many are inside.
    inside: AtomicU64,
    /// Whether nobody may come in any more.
    is_shut: AtomicBool,
}

/// Somebody who uses the memory of a region, until this is dropped. Meanwhile no other gate replaces this one.
pub(crate) struct Entered {
    gate: Arc<Gate>,
}

impl Entered {
    /// Whether it is this gate.
    #[inline]
    pub(crate) fn is_of(&self, gate: &Weak<Gate>) -> bool {
        std::ptr::eq(Arc::as_ptr(&self.gate), gate.as_ptr())
    }

    /// The memory, and how much of it there is for its users.
    #[inline]
    pub(crate) fn memory(&self) -> (&Segment, u64) {
        (&self.gate.memory, self.gate.size)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.gate.inside.fetch_sub(1, Ordering::Release);
    }
}

impl Gate {
    /// That of a new region.
    pub(super) fn new(generation: Generation, keys: Keys, size: u64, memory: Arc<Segment>) -> Self {
        let (inside, is_shut) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { generation, keys, size, memory, epoch: WriteEpoch::new(1), inside, is_shut }
    }

    /// The same region with other keys. Whoever still has this gate in hand writes nothing by it any more.
    pub(super) fn with_keys(&self, keys: Keys) -> Self {
        let epoch = WriteEpoch::new(self.retire() + 2);
        let (generation, size, memory) = (self.generation, self.size, Arc::clone(&self.memory));
        let (inside, is_shut) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { generation, keys, size, memory, epoch, inside, is_shut }
    }

    /// Begins the next epoch. Waits for those who are writing.
    pub(super) fn raise(&self) {
        // Where epochs are over, another gate has replaced this one.
        let _ = self.epoch.raise();
    }

    /// Ends the epochs of this gate, for ever, and returns the last. Waits for those who are writing, and for those who
    /// are inside: a turn of a worker, which is a millisecond at most.
    fn retire(&self) -> u64 {
        let last = self.epoch.retire();
        self.is_shut.store(true, Ordering::SeqCst);
        while self.inside.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
        last
    }

    /// Lets somebody in, unless another gate has replaced this one. Whoever is inside must not wait for the store: the
    /// store waits for it.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Entered> {
        self.inside.fetch_add(1, Ordering::SeqCst);
        let entered = Entered { gate: Arc::clone(self) };
        // Whoever shuts it and does not see us inside has done so before we look.
        (!self.is_shut.load(Ordering::SeqCst)).then_some(entered)
    }

    /// Puts `data` there for whoever may write, whatever the epoch: like a one-sided write, with the same refusals, and
    /// like that it begins no other epoch.
    pub(crate) fn write(
        &self,
        (generation, key): (Generation, &RegionKey),
        offset: u64,
        data: Window<'_>,
    ) -> access::Status {
        let Some(held) = self.epoch.hold() else { return access::Status::NotOpen };
        match self.rights(generation, key) {
            None => access::Status::NotOpen,
            Some(rights) if !rights.includes(Rights::WRITE) => access::Status::NoRight,
            _ if offset.checked_add(data.len() as u64).is_none_or(|end| end > self.size) => {
                access::Status::OutOfBounds
            }
            _ => {
                self.memory.window_mut(offset as usize, data.len()).write_window(0, data);
                drop(held);
                access::Status::Done
            }
        }
    }
}

impl Home for Gate {
    fn rights(&self, generation: Generation, key: &RegionKey) -> Option<Rights> {
        self.keys.rights_of(key).filter(|_| generation == self.generation)
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn memory(&self) -> &Mapping {
        &self.memory
    }

    fn epoch(&self) -> &WriteEpoch {
        &self.epoch
    }
}

#[cfg(test)]
mod tests {
    use access::Status;

    use super::*;

    const SIZE: u64 = 100;

    fn gate() -> Gate {
        let memory = Segment::create(c"gate", 4096).unwrap();
        Gate::new(Generation(1), Keys::draw().unwrap(), SIZE, Arc::new(memory))
    }

    fn bytes_of(gate: &Gate) -> Vec<u8> {
        gate.memory.window(0, 4096).to_vec()
    }

    #[test]
    fn a_write_puts_its_bytes_there_and_begins_no_epoch() {
        let gate = gate();
        let (key, epoch) = (gate.keys.full, gate.epoch.now());
        assert_eq!(gate.write((Generation(1), &key), 97, Window::from(&b"end"[..])), Status::Done);
        assert_eq!(gate.write((Generation(1), &key), SIZE, Window::from(&[][..])), Status::Done);
        let mut expected = vec![0; 4096];
        expected[97..100].copy_from_slice(b"end");
        assert_eq!((bytes_of(&gate), gate.epoch.now()), (expected, epoch));
    }

    #[test]
    fn of_a_refused_write_nothing_is_written() {
        let gate = gate();
        let (key, unknown) = (gate.keys.full, RegionKey([0; 16]));
        let reading = gate.keys.of(Rights::READ, Sharing::Leased).0;
        let refused = [
            (Generation(2), key, 0, Status::NotOpen),
            (Generation(1), unknown, 0, Status::NotOpen),
            (Generation(1), reading, 0, Status::NoRight),
            // Whoever may not write is not told how large the region is.
            (Generation(1), reading, SIZE, Status::NoRight),
            // There is memory beyond what the region may use.
            (Generation(1), key, SIZE - 2, Status::OutOfBounds),
            (Generation(1), key, SIZE, Status::OutOfBounds),
            (Generation(1), key, u64::MAX, Status::OutOfBounds),
        ];
        for (generation, key, offset, status) in refused {
            let written = gate.write((generation, &key), offset, Window::from(&b"bad"[..]));
            assert_eq!(written, status, "{offset}");
        }
        assert_eq!(bytes_of(&gate), vec![0; 4096]);
    }

    #[test]
    fn a_gate_that_was_replaced_lets_nothing_in() {
        let former = gate();
        let key = former.keys.full;
        let gate = former.with_keys(former.keys.clone());
        assert_eq!(former.write((Generation(1), &key), 0, Window::from(&b"old"[..])), Status::NotOpen);
        assert_eq!(gate.write((Generation(1), &key), 3, Window::from(&b"new"[..])), Status::Done);
        assert_eq!(bytes_of(&gate)[..6], *b"\0\0\0new");
    }

    #[test]
    fn nobody_replaces_a_gate_while_somebody_is_inside() {
        let gate = Arc::new(gate());
        let entered = gate.enter().unwrap();
        assert!(entered.is_of(&Arc::downgrade(&gate)));
        let is_replaced = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let replacing = scope.spawn(|| {
                let next = gate.with_keys(Keys::draw().unwrap());
                is_replaced.store(true, Ordering::SeqCst);
                next
            });
            while !gate.is_shut.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            assert!(gate.enter().is_none(), "a gate that is being replaced lets nobody in");
            assert!(!is_replaced.load(Ordering::SeqCst));
            drop(entered);
            assert!(Arc::new(replacing.join().unwrap()).enter().is_some());
        });
    }
}
