//! Where written bytes come home.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use outboard_keep::JournalRecord;
use outboard_link::memory::{Mapping, Segment, Window};
use outboard_paging::server::{Home, WriteEpoch};
use outboard_wire::control::RegionSharing;
use outboard_wire::paging::PagingStatus;
use outboard_wire::{Generation, RegionId, RegionKey, Rights, access, mutant};
use rustix::io::Errno;

use super::capacity::WrittenParts;
use super::holders::Claim;
use crate::keep::Keep;

/// The keys of a region. Those who cannot have it at the same time have different ones, so that a key can be changed
/// without disturbing any process but those it is to shut out.
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
    /// New ones, which no process can guess.
    pub(super) fn draw() -> Result<Self, Errno> {
        Ok(Self { full: draw_key()?, leased: ReaderKeys::draw()?, together: ReaderKeys::draw()? })
    }

    /// Those that a journal has, in the order of [`all`](Self::all).
    pub(super) fn of_kept([full, read, call, look, ask]: [RegionKey; 5]) -> Self {
        let (leased, together) = (ReaderKeys { read, call }, ReaderKeys { read: look, call: ask });
        Self { full, leased, together }
    }

    /// These keys, but new ones in place of those that were given out for `claim`.
    pub(super) fn without(&self, claim: Claim) -> Result<Self, Errno> {
        let mut keys = self.clone();
        if claim.writes {
            keys.full = draw_key()?;
        }
        if claim.sharing == RegionSharing::Leased {
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
    pub(super) fn of(&self, rights: Rights, sharing: RegionSharing) -> (RegionKey, Rights) {
        let readers = if sharing == RegionSharing::Leased { self.leased } else { self.together };
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

/// One region, as those who bring written bytes see it. A thread that has it does not need the store, so bytes come home
/// to different regions, and to different places of one region, at the same time.
pub struct Gate {
    pub(super) generation: Generation,
    pub(super) keys: Keys,
    /// What its users may use of the memory.
    pub(super) size: u64,
    pub(super) memory: Arc<Segment>,
    /// Of a sparse region, what of it was written.
    written: Option<Arc<WrittenParts>>,
    epoch: WriteEpoch,
    /// How many are inside.
    inside: AtomicU64,
    /// Whether the gate lets no thread in any more.
    is_shut: AtomicBool,
    /// Where the region is kept, and its number there.
    keep: Option<(Arc<Keep>, RegionId)>,
}

/// A use of a region's memory, until this is dropped. Meanwhile no other gate replaces this one.
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
    pub(super) fn new(
        generation: Generation,
        keys: Keys,
        size: u64,
        (memory, written): (Arc<Segment>, Option<Arc<WrittenParts>>),
    ) -> Self {
        let (inside, is_shut) = (AtomicU64::new(0), AtomicBool::new(false));
        let (epoch, keep) = (WriteEpoch::new(1), None);
        Self { generation, keys, size, memory, written, epoch, inside, is_shut, keep }
    }

    /// This gate, of a region that is kept.
    pub(super) fn kept_in(self, keep: Option<&Arc<Keep>>, region: RegionId) -> Self {
        Self { keep: keep.map(|keep| (Arc::clone(keep), region)), ..self }
    }

    /// This gate, in that epoch.
    pub(super) fn in_epoch(self, epoch: u64) -> Self {
        Self { epoch: WriteEpoch::new(epoch), ..self }
    }

    /// A gate to this region with other keys. A thread that still has this gate in hand writes nothing by it any more.
    pub(super) fn with_keys(&self, keys: Keys) -> Self {
        let epoch = WriteEpoch::new(if mutant("agent.epoch-begins-anew") { 1 } else { self.retire() + 2 });
        let (generation, size, memory) = (self.generation, self.size, Arc::clone(&self.memory));
        let (inside, is_shut) = (AtomicU64::new(0), AtomicBool::new(false));
        let (written, keep) = (self.written.clone(), self.keep.clone());
        Self { generation, keys, size, memory, written, epoch, inside, is_shut, keep }
    }

    /// Whether the region takes of the capacity only what is written.
    pub(crate) fn is_sparse(&self) -> bool {
        self.written.is_some()
    }

    /// How many bytes of a sparse region take of the capacity.
    pub(super) fn written_bytes(&self) -> u64 {
        self.written.as_ref().map_or(0, |written| written.bytes())
    }

    /// Counts what has been written to a sparse region without asking.
    pub(super) fn look(&self) {
        if let Some(written) = &self.written
            && let Ok(present) = self.memory.present()
        {
            written.see(present);
        }
    }

    /// Takes room for bytes that are about to be written. Returns false if none is left.
    pub(crate) fn take(&self, offset: u64, len: u64) -> bool {
        self.written.as_ref().is_none_or(|written| written.take(offset, len))
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

    /// Lets a thread in, unless another gate has replaced this one. A thread inside must not wait for the store: the
    /// store waits for it.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Entered> {
        self.inside.fetch_add(1, Ordering::SeqCst);
        let entered = Entered { gate: Arc::clone(self) };
        // A thread that shuts it and does not see us inside has done so before we look.
        (!self.is_shut.load(Ordering::SeqCst)).then_some(entered)
    }

    /// Puts `data` there for a writer with the right, whatever the epoch: like a one-sided write, with the same refusals, and
    /// like that it begins no other epoch.
    pub(crate) fn write(
        &self,
        (generation, key): (Generation, &RegionKey),
        offset: u64,
        data: Window<'_>,
    ) -> access::AccessStatus {
        let Some(held) = self.epoch.hold() else { return access::AccessStatus::NotOpen };
        match self.rights(generation, key) {
            None => access::AccessStatus::NotOpen,
            Some(rights) if !rights.includes(Rights::WRITE) => access::AccessStatus::NoRight,
            _ if offset.checked_add(data.len() as u64).is_none_or(|end| end > self.size) => {
                access::AccessStatus::OutOfBounds
            }
            _ if !self.memory.may_be_written(offset as usize, data.len()) => access::AccessStatus::NoMemory,
            _ if !self.take(offset, data.len() as u64) => access::AccessStatus::NoMemory,
            _ => {
                self.memory.window_mut(offset as usize, data.len()).write_window(0, data);
                drop(held);
                match self.is_settled(offset as usize, data.len()) {
                    true => access::AccessStatus::Done,
                    false => access::AccessStatus::NoMemory,
                }
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

    fn may_be_written(&self, offset: usize, len: usize) -> bool {
        self.memory.may_be_written(offset, len)
    }

    fn take_room(&self, offset: u64, len: u64) -> bool {
        self.take(offset, len)
    }

    fn is_settled(&self, offset: usize, len: usize) -> bool {
        let is_always = self.keep.as_ref().is_some_and(|(keep, _)| keep.is_always_synced());
        !is_always || self.memory.settle_part(offset, len).is_ok()
    }

    fn begin_epoch(&self) -> Result<u64, PagingStatus> {
        let epoch = self.epoch.raise().ok_or(PagingStatus::NotOpen)?;
        match &self.keep {
            Some((keep, region)) => {
                let noted = keep.note(&JournalRecord::Epoch { region: *region, epoch });
                noted.map(|()| epoch).map_err(|_| PagingStatus::Busy)
            }
            None => Ok(epoch),
        }
    }

    fn give_back(&self, offset: usize, len: usize) {
        self.memory.discard(offset, len);
        if let Some(written) = &self.written {
            written.give_back(offset as u64, len as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use access::AccessStatus;

    use super::*;

    const SIZE: u64 = 100;

    fn gate() -> Gate {
        let memory = Segment::create(c"gate", 4096).unwrap();
        Gate::new(Generation(1), Keys::draw().unwrap(), SIZE, (Arc::new(memory), None))
    }

    fn bytes_of(gate: &Gate) -> Vec<u8> {
        gate.memory.window(0, 4096).to_vec()
    }

    #[test]
    fn a_write_puts_its_bytes_there_and_begins_no_epoch() {
        let gate = gate();
        let (key, epoch) = (gate.keys.full, gate.epoch.now());
        assert_eq!(gate.write((Generation(1), &key), 97, Window::from(&b"end"[..])), AccessStatus::Done);
        assert_eq!(gate.write((Generation(1), &key), SIZE, Window::from(&[][..])), AccessStatus::Done);
        let mut expected = vec![0; 4096];
        expected[97..100].copy_from_slice(b"end");
        assert_eq!((bytes_of(&gate), gate.epoch.now()), (expected, epoch));
    }

    #[test]
    fn of_a_refused_write_nothing_is_written() {
        let gate = gate();
        let (key, unknown) = (gate.keys.full, RegionKey([0; 16]));
        let reading = gate.keys.of(Rights::READ, RegionSharing::Leased).0;
        let refused = [
            (Generation(2), key, 0, AccessStatus::NotOpen),
            (Generation(1), unknown, 0, AccessStatus::NotOpen),
            (Generation(1), reading, 0, AccessStatus::NoRight),
            // A writer without the right is not told how large the region is.
            (Generation(1), reading, SIZE, AccessStatus::NoRight),
            // There is memory beyond what the region may use.
            (Generation(1), key, SIZE - 2, AccessStatus::OutOfBounds),
            (Generation(1), key, SIZE, AccessStatus::OutOfBounds),
            (Generation(1), key, u64::MAX, AccessStatus::OutOfBounds),
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
        let before = former.epoch.now();
        let gate = former.with_keys(former.keys.clone());
        assert!(gate.epoch.now() > before, "epochs go on");
        assert_eq!(former.write((Generation(1), &key), 0, Window::from(&b"old"[..])), AccessStatus::NotOpen);
        assert_eq!(gate.write((Generation(1), &key), 3, Window::from(&b"new"[..])), AccessStatus::Done);
        assert_eq!(bytes_of(&gate)[..6], *b"\0\0\0new");
    }

    #[test]
    fn no_gate_is_replaced_while_a_thread_is_inside() {
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
            assert!(gate.enter().is_none(), "a gate that is being replaced lets no thread in");
            assert!(!is_replaced.load(Ordering::SeqCst));
            drop(entered);
            assert!(Arc::new(replacing.join().unwrap()).enter().is_some());
        });
    }
}
