//! One-sided access through mapped regions.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use outboard_wire::access::{AccessRequest, Slot};
use outboard_wire::{FrameHead, Grant, Rights};

use super::ShmLink;
use super::regions::Opening;
use crate::asked::{ATOMIC_RIGHTS, Asked};
use crate::memory::{Buffer, Mapping, Window};
use crate::{AccessError, AccessOutcome, Completion, ImmediateAccess, OpenRegion, RemoteMemory, Token};

impl ShmLink {
    /// Begins an operation that ends at once.
    #[inline]
    fn begin(&mut self) -> Result<(), AccessError> {
        if let Some(lost) = &self.lost {
            return Err(AccessError::Lost(lost.clone()));
        }
        if self.completions.len() >= self.capabilities.max_operations {
            return Err(AccessError::Full);
        }
        self.counters.accesses += 1;
        Ok(())
    }

    #[inline]
    fn end(&mut self, token: Token, outcome: AccessOutcome) {
        self.completions.push_back(Completion { token, result: Ok(outcome) });
    }
}

impl RemoteMemory for ShmLink {
    fn open(&mut self, grant: &Grant, rights: Rights, token: Token) -> Result<(), AccessError> {
        self.begin()?;
        if self.regions.count() >= self.regions_max {
            return Err(AccessError::Full);
        }
        let asked = Asked { offset: 0, len: 0, size: grant.size, needed: rights };
        let tag = self.regions.begin(Opening { token, asked });
        let Grant { region, generation, key, .. } = *grant;
        let request = AccessRequest::Open { region, generation, rights, key };
        let head = FrameHead::new(request.kind()).with_tag(tag);
        match self.channel.send_message(head, request.encode().as_bytes(), None) {
            Ok(true) => Ok(()),
            Ok(false) => {
                self.regions.answered(tag);
                Err(AccessError::Full)
            }
            Err(loss) => {
                self.regions.answered(tag);
                Err(AccessError::Lost(self.lose(loss)))
            }
        }
    }

    fn close_region(&mut self, region: OpenRegion) {
        if self.regions.close(region) && self.lost.is_none() {
            self.tell_closed(Slot(region.index));
        }
    }

    #[inline]
    fn read(
        &mut self,
        region: OpenRegion,
        offset: u64,
        into: &Buffer,
        into_offset: usize,
        len: usize,
        token: Token,
    ) -> Result<(), AccessError> {
        self.begin()?;
        let mapped = self.regions.get(region, (offset, len), Rights::READ, false)?;
        let source = mapped.mapping.window(offset as usize, len);
        source.read_into(&mut into.window_mut().part(into_offset, len));
        self.end(token, AccessOutcome::Read);
        Ok(())
    }

    #[inline]
    fn write(
        &mut self,
        region: OpenRegion,
        offset: u64,
        data: Window<'_>,
        token: Token,
    ) -> Result<(), AccessError> {
        self.begin()?;
        let mapped = self.regions.get(region, (offset, data.len()), Rights::WRITE, false)?;
        mapped.mapping.window_mut(offset as usize, data.len()).write_window(0, data);
        self.end(token, AccessOutcome::Written);
        Ok(())
    }

    #[inline]
    fn compare_swap(
        &mut self,
        region: OpenRegion,
        offset: u64,
        expected: u64,
        desired: u64,
        token: Token,
    ) -> Result<(), AccessError> {
        self.begin()?;
        let mapped = self.regions.get(region, (offset, 8), ATOMIC_RIGHTS, true)?;
        let word = mapped.mapping.word(offset as usize);
        let old = match word.compare_exchange(expected, desired, SeqCst, SeqCst) {
            Ok(old) | Err(old) => old,
        };
        self.end(token, AccessOutcome::Old(old));
        Ok(())
    }

    #[inline]
    fn fetch_add(
        &mut self,
        region: OpenRegion,
        offset: u64,
        addend: u64,
        token: Token,
    ) -> Result<(), AccessError> {
        self.begin()?;
        let mapped = self.regions.get(region, (offset, 8), ATOMIC_RIGHTS, true)?;
        let old = mapped.mapping.word(offset as usize).fetch_add(addend, SeqCst);
        self.end(token, AccessOutcome::Old(old));
        Ok(())
    }

    #[inline]
    fn at_once<T>(
        &mut self,
        region: OpenRegion,
        span: (u64, usize),
        what: ImmediateAccess,
        use_it: impl FnOnce(&Mapping) -> T,
    ) -> Option<Result<T, AccessError>> {
        if let Some(lost) = &self.lost {
            return Some(Err(AccessError::Lost(lost.clone())));
        }
        self.counters.accesses += 1;
        let mapped = self.regions.get(region, span, what.needs(), what == ImmediateAccess::Atomic);
        Some(mapped.map(|mapped| use_it(&mapped.mapping)))
    }

    fn mapping(&self, region: OpenRegion) -> Option<Arc<Mapping>> {
        self.regions.get(region, (0, 0), Rights::READ, false).ok().map(|mapped| Arc::clone(&mapped.mapping))
    }

    #[inline]
    fn completions<F: FnMut(Completion)>(&mut self, mut sink: F) -> usize {
        let count = self.completions.len();
        for completion in self.completions.drain(..) {
            sink(completion);
        }
        count
    }
}
