//! One-sided access behind a slower wire.

use outboard_wire::{Grant, Rights, Time};

use super::Shaped;
use super::operations::Request;
use crate::memory::{Buffer, Window};
use crate::{AccessError, Completion, Link, OpenRegion, RemoteMemory, Token};

impl<L: Link + RemoteMemory> Shaped<L> {
    fn begin(&mut self, request: Request, token: Token) -> Result<(), AccessError> {
        self.check()?;
        self.operations.begin(request, token)
    }

    fn check_len(&self, len: usize) -> Result<(), AccessError> {
        let max = self.capabilities.max_access;
        if len <= max { Ok(()) } else { Err(AccessError::TooLong { len, max }) }
    }
}

impl<L: Link + RemoteMemory> RemoteMemory for Shaped<L> {
    fn open(&mut self, grant: &Grant, rights: Rights, token: Token) -> Result<(), AccessError> {
        self.begin(Request::Open { grant: *grant, rights }, token)
    }

    fn close_region(&mut self, region: OpenRegion) {
        self.operations.close_region(region);
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
        self.check_len(len)?;
        // A span outside the buffer is found here, where the caller still is, and not when the wire delivers it.
        into.window().part(into_offset, len);
        let into = into.clone();
        self.begin(Request::Read { region, offset, into, into_offset, len }, token)
    }

    fn write(
        &mut self,
        region: OpenRegion,
        offset: u64,
        data: Window<'_>,
        token: Token,
    ) -> Result<(), AccessError> {
        self.check_len(data.len())?;
        self.check()?;
        let at = self.operations.keep(data).ok_or(AccessError::Full)?;
        self.begin(Request::Write { region, offset, at, len: data.len() }, token)
    }

    fn compare_swap(
        &mut self,
        region: OpenRegion,
        offset: u64,
        expected: u64,
        desired: u64,
        token: Token,
    ) -> Result<(), AccessError> {
        self.begin(Request::CompareSwap { region, offset, expected, desired }, token)
    }

    fn fetch_add(
        &mut self,
        region: OpenRegion,
        offset: u64,
        addend: u64,
        token: Token,
    ) -> Result<(), AccessError> {
        self.begin(Request::FetchAdd { region, offset, addend }, token)
    }

    fn completions<F: FnMut(Completion)>(&mut self, sink: F) -> usize {
        if self.severed.is_none() {
            return self.operations.hand_out(self.now, sink);
        }
        self.operations.collect(&mut self.inner, self.now);
        self.operations.hand_out(Time::MAX, sink)
    }
}
