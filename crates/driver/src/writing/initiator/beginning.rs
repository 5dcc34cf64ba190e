//! How writes begin.

use outboard_link::memory::Window;
use outboard_link::{AccessError, Link, OpenRegion, RemoteMemory, Token};
use outboard_writing::{Begun, BegunAtOnce, Fault, NotYet, Write, WriteId};

use super::super::regions::{Slot, fault_of};
use super::{BeginError, Initiator, PASSED};

/// Writes in passing after which the link is asked for completions.
pub(super) const UNCOLLECTED_MAX: u64 = 32;
/// Writes that are begun while others are under way before it is looked whether those have ended.
const UNHEARD_MAX: u32 = 16;
/// Writes after which it is looked whether the link lives, where they end without a word of the server.
pub(super) const UNLOOKED_MAX: u64 = 1024;

impl<L: Link + RemoteMemory> Initiator<L> {
    /// Begins a write.
    #[inline]
    pub fn begin(&mut self, write: &Write<'_>) -> Result<WriteId, BeginError> {
        if self.lets_pass
            && self.lost.is_none()
            && let Ok(Slot { open, .. }) = self.slot(write.slot, write.offset, write.bytes.len())
        {
            let open = *open;
            if let Some(id) = self.writer.begin_in_passing(write) {
                let written = self.link.write(open, write.offset, Window::from(write.bytes), PASSED);
                // A completion that is asked for at once has to wait until the bytes are where they belong, and everything
                // behind it would wait too.
                if id.0.is_multiple_of(UNCOLLECTED_MAX) {
                    self.collect();
                    self.look_by_the_way();
                }
                if let Err(error) = written {
                    self.fail_in_passing(id, *write, &error);
                }
                return Ok(id);
            }
        }
        // By value, so that it need not be in memory where it is not needed.
        self.begin_with_care(*write)
    }

    #[cold]
    fn fail_in_passing(&mut self, id: WriteId, write: Write<'_>, error: &AccessError) {
        let fault = fault_of(error);
        self.writer.failed_in_passing(id, &write, fault);
        if fault == Fault::Lost {
            // The link says what was lost when it is asked next.
            self.turn();
        }
    }

    #[inline(never)]
    fn begin_with_care(&mut self, write: Write<'_>) -> Result<WriteId, BeginError> {
        let write = &write;
        self.look_by_the_way();
        if let Some(lost) = &self.lost {
            return Err(BeginError::Access(AccessError::Lost(lost.clone())));
        }
        let slot = self.slot(write.slot, write.offset, write.bytes.len()).map_err(BeginError::Access)?;
        let open = slot.open;
        if !(self.writer.is_idle() && self.writer.is_attached()) {
            self.listen_by_the_way();
        }
        let is_timed = self.writer.wants_clock();
        if is_timed {
            self.now = self.waiter.clock.now();
        }
        if self.is_mapped {
            return self.begin_at_once(write, open, is_timed);
        }
        let begun = self.writer.begin(self.now, write).map_err(BeginError::NotYet)?;
        self.go_on(begun, write, open)
    }

    /// Somebody who only writes must hear that the server is gone too, though mapped memory can be written still.
    #[inline]
    fn look_by_the_way(&mut self) {
        if self.writer.next_id().0 >= self.look_at {
            self.turn();
        }
    }

    /// Somebody who only writes must hear of what has ended too, or everything to the same bytes would have to follow.
    fn listen_by_the_way(&mut self) {
        self.unheard += 1;
        if self.unheard >= UNHEARD_MAX {
            self.unheard = 0;
            self.turn();
        }
    }

    /// Where memory is mapped, a one-sided write is over when its call returns.
    #[inline]
    fn begin_at_once(
        &mut self,
        write: &Write<'_>,
        open: OpenRegion,
        is_timed: bool,
    ) -> Result<WriteId, BeginError> {
        let at_once = match self.writer.begin_at_once(self.now, write).map_err(BeginError::NotYet)? {
            BegunAtOnce::Offload(at_once) => at_once,
            BegunAtOnce::Other(begun) => return self.go_on(begun, write, open),
        };
        let written = self.link.write(open, write.offset, Window::from(write.bytes), Token(at_once.id.0));
        if is_timed {
            self.now = self.waiter.clock.now();
        }
        self.link.completions(|_| {});
        let result = written.map_err(|error| fault_of(&error));
        if result == Err(Fault::Lost) {
            // The link says what was lost when it is asked next.
            self.turn();
        }
        self.writer.offloaded_at_once(self.now, at_once, result);
        Ok(at_once.id)
    }

    fn go_on(&mut self, begun: Begun, write: &Write<'_>, open: OpenRegion) -> Result<WriteId, BeginError> {
        match begun {
            Begun::Unload { id } => {
                self.send();
                Ok(id)
            }
            Begun::Offload { id, token } => {
                match self.link.write(open, write.offset, Window::from(write.bytes), Token(token)) {
                    Ok(()) => {
                        if self.is_mapped {
                            self.collect();
                        }
                        Ok(id)
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
        }
    }

    /// Whether a write of so many bytes could be done there, by either path.
    pub fn judge(&self, slot: u32, offset: u64, len: usize) -> Result<(), AccessError> {
        self.slot(slot, offset, len).map(|_| ())
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
