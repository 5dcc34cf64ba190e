//! What the target does with what writers unload.

use std::collections::{BTreeMap, VecDeque};

use outboard_contract::memory::Window;
use outboard_wire::access::AccessStatus;
use outboard_wire::mutant;
use outboard_wire::writing::{Batch, Drained, EntryHead, REFUSALS_MAX, RefusedEntry, SLOTS_MAX, WriterId};

/// One entry that is to be copied home.
#[derive(Clone, Debug)]
pub struct DrainedEntry<'a, R> {
    /// What its slot stands for; `None` if nothing was presented there.
    pub region: Option<&'a R>,
    /// Where its bytes belong.
    pub offset: u64,
    /// Its bytes, where they arrived. Others may be changing them: what was copied once is not looked at again.
    pub bytes: Window<'a>,
}

/// A batch whose entries are not where they claim to be. Nothing of it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// What the target knows of one writer. `R` is whatever stands for a region there.
#[derive(Debug)]
pub struct Drainer<R> {
    writer: WriterId,
    attempt: u32,
    through: u64,
    /// Refusals of which the writer may not know yet, oldest first.
    refusals: VecDeque<RefusedEntry>,
    /// Only those that were presented, whatever their numbers are.
    slots: BTreeMap<u32, R>,
    heads: Vec<(EntryHead, usize)>,
}

impl<R> Drainer<R> {
    /// A writer of whom nothing has come yet.
    pub fn new(writer: WriterId) -> Self {
        Self {
            writer,
            attempt: 0,
            through: 0,
            refusals: VecDeque::new(),
            slots: BTreeMap::new(),
            heads: Vec::new(),
        }
    }

    /// The writer is here anew. From now on earlier attempts bring nothing any more. A higher attempt forgets which
    /// regions were presented: the keys may have changed meanwhile.
    pub fn attach(&mut self, attempt: u32) -> Drained {
        if attempt > self.attempt {
            self.attempt = attempt;
            self.slots.clear();
        }
        self.answer()
    }

    /// From now on this slot stands for that region.
    pub fn present(&mut self, attempt: u32, slot: u32, region: R) {
        if attempt == self.attempt && slot < SLOTS_MAX {
            self.slots.insert(slot, region);
        }
    }

    /// Has `apply` copy every entry home that was not before, in their order, and says how far everything is. `apply`
    /// checks key, rights and bounds as the one-sided path does, and writes nothing unless it says `Done`.
    ///
    /// # Errors
    /// If the entries are not where the batch says.
    pub fn drain(
        &mut self,
        batch: &Batch,
        entries: Window<'_>,
        mut apply: impl FnMut(DrainedEntry<'_, R>) -> AccessStatus,
    ) -> Result<Drained, Malformed> {
        self.find_heads(batch, entries)?;
        // Of a gap nothing can be done in order, and what a superseded attempt brings may be old.
        let is_superseded = batch.attempt != self.attempt && !mutant("writing.attempt-unchecked");
        let is_gap = batch.first > self.through + 1 && !mutant("writing.gap-taken");
        if is_superseded || is_gap {
            return Ok(self.answer());
        }
        while self.refusals.front().is_some_and(|refusal| refusal.sequence <= batch.settled) {
            self.refusals.pop_front();
        }
        for (index, &(head, at)) in self.heads.iter().enumerate() {
            let sequence = batch.first + index as u64;
            if sequence <= self.through && !mutant("writing.duplicate-taken") {
                continue;
            }
            // A writer that never says what it knows cannot have more refused than it can have under way.
            if self.refusals.len() == REFUSALS_MAX {
                break;
            }
            let region = self.slots.get(&head.slot);
            let bytes = entries.part(at, head.len as usize);
            let status = apply(DrainedEntry { region, offset: head.offset, bytes });
            if status != AccessStatus::Done && !mutant("writing.refusal-forgotten") {
                self.refusals.push_back(RefusedEntry { sequence, status });
            }
            self.through = sequence;
        }
        Ok(self.answer())
    }

    /// Copies the heads of all entries and checks that they and their bytes are there.
    fn find_heads(&mut self, batch: &Batch, entries: Window<'_>) -> Result<(), Malformed> {
        self.heads.clear();
        let mut at = 0;
        for _ in 0..batch.count {
            if entries.len() - at < EntryHead::LEN {
                return Err(Malformed);
            }
            let head = EntryHead::decode(entries.array(at));
            let stride = EntryHead::stride(head.len as usize);
            if entries.len() - at < stride {
                return Err(Malformed);
            }
            self.heads.push((head, at + EntryHead::LEN));
            at += stride;
        }
        if at == entries.len() { Ok(()) } else { Err(Malformed) }
    }

    fn answer(&self) -> Drained {
        let refusals = self.refusals.iter().copied().collect();
        Drained { writer: self.writer, attempt: self.attempt, through: self.through, refusals }
    }

    /// Nothing may come for a long time: gives back what is only needed while something does. A writer that attaches again
    /// presents its regions again.
    pub fn rest(&mut self) {
        self.heads = Vec::new();
        self.slots.clear();
    }

    /// The attachment that counts.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }
}

#[cfg(test)]
mod tests;
