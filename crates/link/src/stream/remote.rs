//! One end of a link over a stream: one-sided access.

use outboard_wire::access::{AccessRequest, FIXED_LEN_MAX, RegionSpan};
use outboard_wire::{Grant, Rights};

use super::bytes::ByteStream;
use super::link::StreamLink;
use super::reach::Near;
use super::requester::{Pending, Wanted};
use crate::asked::{ATOMIC_RIGHTS, Asked};
use crate::memory::{Buffer, Window};
use crate::{AccessError, Completion, Link, OpenRegion, RemoteMemory, Token};

/// No data.
const NONE: &[u8] = &[];

impl<S: ByteStream> StreamLink<S> {
    /// Judges an access before it travels, as the owner will.
    #[inline]
    fn span(
        &self,
        region: OpenRegion,
        (offset, len): (u64, usize),
        needed: Rights,
        is_atomic: bool,
    ) -> Result<(RegionSpan, Asked), AccessError> {
        self.check()?;
        let max = self.capabilities().max_access;
        if len > max {
            return Err(AccessError::TooLong { len, max });
        }
        let region = self.desk.requester.region(region)?;
        let asked = Asked { offset, len: len as u64, size: region.size, needed };
        asked.verdict(asked.judge(region.rights, is_atomic))?;
        Ok((RegionSpan { slot: region.slot, offset, len: len as u32 }, asked))
    }

    /// Sends a request and notes what it is to bring.
    fn begin(
        &mut self,
        request: &AccessRequest,
        data: Window<'_>,
        pending: Pending,
    ) -> Result<(), AccessError> {
        self.check()?;
        let desk = &mut self.desk;
        desk.give_back();
        if !desk.requester.has_room() || !desk.admit(FIXED_LEN_MAX + data.len()) {
            return Err(AccessError::Full);
        }
        let tag = desk.requester.begin(pending).ok_or(AccessError::Full)?;
        desk.outbox.request(tag, request, data);
        desk.counters.accesses += 1;
        Ok(())
    }
}

impl<S: ByteStream> RemoteMemory for StreamLink<S> {
    fn open(&mut self, grant: &Grant, rights: Rights, token: Token) -> Result<(), AccessError> {
        let Grant { region, generation, key, size, .. } = *grant;
        let asked = Asked { offset: 0, len: 0, size, needed: rights };
        let request = AccessRequest::Open { region, generation, rights, key };
        self.begin(&request, NONE.into(), Pending { token, asked, wanted: Wanted::Region })
    }

    fn close_region(&mut self, region: OpenRegion) {
        if self.lost.is_none()
            && let Some(slot) = self.desk.requester.close(region)
        {
            self.desk.requester.closing.push_back(slot);
        }
    }

    fn read(
        &mut self,
        region: OpenRegion,
        offset: u64,
        into: &Buffer,
        into_offset: usize,
        len: usize,
        token: Token,
    ) -> Result<(), AccessError> {
        // Panics here and not when the bytes arrive, if the buffer is too short.
        into.window().part(into_offset, len);
        let (span, asked) = self.span(region, (offset, len), Rights::READ, false)?;
        let wanted = Wanted::Bytes { buffer: into.clone(), offset: into_offset };
        let pending = Pending { token, asked, wanted };
        match self.begin_far(region, span, Near::Into(into, into_offset), pending)? {
            None => Ok(()),
            Some(pending) => self.begin(&AccessRequest::Read(span), NONE.into(), pending),
        }
    }

    fn write(
        &mut self,
        region: OpenRegion,
        offset: u64,
        data: Window<'_>,
        token: Token,
    ) -> Result<(), AccessError> {
        let (span, asked) = self.span(region, (offset, data.len()), Rights::WRITE, false)?;
        let pending = Pending { token, asked, wanted: Wanted::Write };
        match self.begin_far(region, span, Near::From(data), pending)? {
            None => Ok(()),
            Some(pending) => self.begin(&AccessRequest::Write(span), data, pending),
        }
    }

    fn compare_swap(
        &mut self,
        region: OpenRegion,
        offset: u64,
        expected: u64,
        desired: u64,
        token: Token,
    ) -> Result<(), AccessError> {
        let (span, asked) = self.span(region, (offset, 8), ATOMIC_RIGHTS, true)?;
        let request = AccessRequest::CompareSwap { span, expected, desired };
        self.begin(&request, NONE.into(), Pending { token, asked, wanted: Wanted::Word })
    }

    fn fetch_add(
        &mut self,
        region: OpenRegion,
        offset: u64,
        addend: u64,
        token: Token,
    ) -> Result<(), AccessError> {
        let (span, asked) = self.span(region, (offset, 8), ATOMIC_RIGHTS, true)?;
        let request = AccessRequest::FetchAdd { span, addend };
        self.begin(&request, NONE.into(), Pending { token, asked, wanted: Wanted::Word })
    }

    fn completions<F: FnMut(Completion)>(&mut self, sink: F) -> usize {
        self.desk.requester.collect(sink)
    }
}
