//! How writes begin.

use outboard_contract::memory::Window;
use outboard_contract::{AccessError, OpenRegion, RemoteMemory, Token};
use outboard_wire::Time;

use super::slot::{Slot, fault_of};
use super::{BeginError, Initiator, PASSED};
use crate::{Begun, BegunAtOnce, NotYet, Write, WriteFault, WriteId, WritePath};

/// Writes in passing after which the link is asked for completions.
pub(super) const UNCOLLECTED_MAX: u64 = 32;
/// Writes that are begun while others are under way before it is looked whether those have ended.
const UNHEARD_MAX: u32 = 16;
/// Writes after which it is looked whether the link lives, where they end without a word of the server.
pub(super) const UNLOOKED_MAX: u64 = 1024;

impl Initiator {
    /// Begins a write that needs no thought and of which nothing is to be told, where writes end at once. `None` if it is not
    /// one of those: [`begin`](Self::begin) it. Says also whether a turn is due.
    #[inline]
    pub fn begin_in_passing<L: RemoteMemory>(
        &mut self,
        link: &mut L,
        write: &Write<'_>,
    ) -> Option<(WriteId, bool)> {
        if !self.lets_pass || self.lost.is_some() {
            return None;
        }
        let open = self.slot(write.slot, write.offset, write.bytes.len()).ok()?.open;
        let id = self.writer.begin_in_passing(write)?;
        let written = link.write(open, write.offset, Window::from(write.bytes), PASSED);
        let mut is_turn_due = false;
        // A completion that is asked for at once has to wait until the bytes are where they belong, and everything
        // behind it would wait too.
        if id.0.is_multiple_of(UNCOLLECTED_MAX) {
            self.collect(link);
            is_turn_due = self.is_look_due();
        }
        if let Err(error) = written {
            self.fail_in_passing(id, *write, &error);
            is_turn_due |= self.is_look_due();
        }
        Some((id, is_turn_due))
    }

    #[cold]
    fn fail_in_passing(&mut self, id: WriteId, write: Write<'_>, error: &AccessError) {
        let fault = fault_of(error);
        self.writer.failed_in_passing(id, &write, fault);
        self.suspect(Err(fault));
    }

    /// A link that has lost its peer says so when it is asked next.
    #[inline]
    fn suspect(&mut self, result: Result<(), WriteFault>) {
        if result == Err(WriteFault::Lost) {
            self.look_at = 0;
        }
    }

    /// Whether a turn should be made before the next write: a program that only writes must hear of ends too, or
    /// everything to the same bytes would have to follow; and that the server is gone, though mapped memory can be written.
    #[inline]
    pub fn wants_turn(&mut self) -> bool {
        self.unheard += u32::from(!(self.writer.is_idle() && self.writer.is_attached()));
        let wants = self.is_look_due() || self.unheard >= UNHEARD_MAX;
        if wants {
            self.unheard = 0;
        }
        wants
    }

    /// Whether the writer has not looked for long whether the server lives.
    #[inline]
    pub fn is_look_due(&self) -> bool {
        self.writer.next_id().0 >= self.look_at
    }

    /// Begins a write, and says by which path: one that is unloaded goes with what is sent next. `clock` is asked only if it
    /// matters how late it is.
    pub fn begin<L: RemoteMemory>(
        &mut self,
        link: &mut L,
        write: &Write<'_>,
        clock: impl Fn() -> Time,
    ) -> Result<(WriteId, WritePath), BeginError> {
        if let Some(lost) = &self.lost {
            return Err(BeginError::Access(AccessError::Lost(lost.clone())));
        }
        let slot = self.slot(write.slot, write.offset, write.bytes.len()).map_err(BeginError::Access)?;
        let open = slot.open;
        let is_timed = self.writer.wants_clock();
        if is_timed {
            self.now = clock();
        }
        let begun = if self.is_mapped {
            match self.writer.begin_at_once(self.now, write).map_err(BeginError::NotYet)? {
                BegunAtOnce::Other(begun) => begun,
                // Where memory is mapped, a one-sided write is over when its call returns.
                BegunAtOnce::Offload(at_once) => {
                    let id = at_once.id;
                    let written = link.write(open, write.offset, Window::from(write.bytes), Token(id.0));
                    if is_timed {
                        self.now = clock();
                    }
                    link.completions(|_| {});
                    let result = written.map_err(|error| fault_of(&error));
                    self.suspect(result);
                    self.writer.offloaded_at_once(self.now, at_once, result);
                    return Ok((id, WritePath::Offload));
                }
            }
        } else {
            self.writer.begin(self.now, write).map_err(BeginError::NotYet)?
        };
        match begun {
            Begun::Unload { id } => Ok((id, WritePath::Unload)),
            Begun::Offload { id, token } => {
                self.offload(link, open, write, token)?;
                Ok((id, WritePath::Offload))
            }
        }
    }

    fn offload<L: RemoteMemory>(
        &mut self,
        link: &mut L,
        open: OpenRegion,
        write: &Write<'_>,
        token: u64,
    ) -> Result<(), BeginError> {
        match link.write(open, write.offset, Window::from(write.bytes), Token(token)) {
            Ok(()) => {
                if self.is_mapped {
                    self.collect(link);
                }
                Ok(())
            }
            Err(error) => {
                self.writer.not_offloaded(token);
                Err(match error {
                    AccessError::Full => BeginError::NotYet(NotYet::Full),
                    error => BeginError::Access(error),
                })
            }
        }
    }

    /// Whether a write of so many bytes could be done there, by either path.
    pub fn judge(&self, slot: u32, offset: u64, len: usize) -> Result<(), AccessError> {
        self.slot(slot, offset, len).map(drop)
    }

    #[inline]
    fn slot(&self, slot: u32, offset: u64, len: usize) -> Result<&Slot, AccessError> {
        let Some(Some(slot)) = self.slots.get(slot as usize) else { return Err(AccessError::NotOpen) };
        slot.judge(offset, len)?;
        if len > self.longest {
            return Err(AccessError::TooLong { len, max: self.longest });
        }
        Ok(slot)
    }
}
