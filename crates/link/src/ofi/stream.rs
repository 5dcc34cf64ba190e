//! An endpoint and its socket as the stream that a link is made of.

use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use outboard_wire::{Rights, Time};

use super::bytes::OfiBytes;
use super::departed;
use super::endpoint::Far;
use crate::memory::{Segment, Window};
use crate::stream::{Arrival, ByteStream, Handle, Lent, Near, Reached, Scatter};
use crate::{Clock, Loss, OneSided};

/// When to try again what the provider had no room for.
const RETRY: Duration = Duration::from_micros(200);
/// How long the last messages may take to leave when a link is dropped.
const PARTING_TIME: Duration = Duration::from_millis(200);

impl ByteStream for OfiBytes {
    const NAME: &'static str = "ofi";
    const DESCRIPTOR_TELLS: bool = false;
    /// Bytes are copied into messages anyway.
    const SENDS_STRAIGHT: bool = true;

    fn begin_records(&mut self, deadline: Duration) {
        (self.is_handshake, self.deadline) = (false, deadline);
    }

    fn send(&mut self, _now: Time, bytes: &[u8]) -> Result<usize, Loss> {
        self.put(Window::from(bytes), Window::from(&[][..]))
    }

    fn receive(&mut self, now: Time, into: &mut [u8]) -> Result<Arrival, Loss> {
        self.advance(now, into.len(), |at, bytes| bytes.read(0, &mut into[at..at + bytes.len()]))
    }

    fn send_gathered(&mut self, _now: Time, head: &[u8], body: Window<'_>) -> Result<usize, Loss> {
        self.put(Window::from(head), body)
    }

    fn receive_scattered(&mut self, now: Time, mut into: Scatter<'_>) -> Result<Arrival, Loss> {
        self.advance(now, into.len(), |at, bytes| into.write_window(at, bytes))
    }

    /// Lets the last messages leave, if they do so soon: closing an endpoint forgets what it has not sent.
    fn finish(&mut self) {
        if std::mem::replace(&mut self.is_finished, true) {
            return;
        }
        let clock = Clock::start();
        // A caller that is told that a read was lost may use its pages for something else.
        let touches_pages = self.endpoint.accesses.touches_pages();
        while self.is_sending() && self.failure.is_none() && !self.side.is_over() && !touches_pages {
            if self.turn().is_err() || self.side.look().is_err() || clock.now() >= Time::ZERO + PARTING_TIME {
                break;
            }
        }
        let _ = self.side.look();
        self.side.part(self.credits.sent());
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.epoll.as_fd())
    }

    const REACHES: bool = true;

    fn one_sided(&self) -> OneSided {
        let offer = self.endpoint.offer();
        match (offer.reaches, offer.is_hardware) {
            (false, _) => OneSided::Served,
            (true, true) => OneSided::Hardware,
            (true, false) => OneSided::Lent,
        }
    }

    #[expect(private_interfaces)]
    fn lend(&mut self, memory: &Arc<Segment>, rights: Rights) -> Option<Lent> {
        let offer = self.endpoint.offer();
        // Providers made of software leave the copying to the kernel, which does not keep words whole.
        let keeps_words = self.lends_all || offer.is_hardware || memory.is_quiet();
        let (may_read, may_write) = (rights.includes(Rights::READ), rights.includes(Rights::WRITE));
        // Pages of a file cannot be kept in place for a device, and a server that keeps them has every change by frames.
        if !offer.reaches || !keeps_words || !(may_read || may_write) || memory.is_file() {
            return None;
        }
        // Memory that cannot be registered is reached by frames.
        self.endpoint.lend(memory, (may_read, may_write)).ok()
    }

    #[expect(private_interfaces)]
    fn reach(&mut self, number: u16, (handle, len): (Handle, usize), near: Near<'_>) -> bool {
        if self.is_unreachable || self.failure.is_some() || !self.endpoint.offer().reaches {
            return false;
        }
        let far = Far { key: handle.key, address: handle.base, len };
        self.endpoint.reach(number.into(), far, &near).unwrap_or_else(|_| {
            self.is_unreachable = true;
            false
        })
    }

    #[expect(private_interfaces)]
    fn reached(&mut self) -> Option<Reached> {
        self.reached.pop_front()
    }

    fn kept(&self, number: u16) -> Window<'_> {
        self.endpoint.accesses.kept(number.into())
    }

    fn forget(&mut self, number: u16) {
        self.endpoint.accesses.forget(number.into());
    }

    fn next_event(&self) -> Option<Time> {
        let is_unwoken = self.endpoint.accesses.under_way > 0 && self.endpoint.wait_descriptor().is_none();
        let waits = !self.leaving.is_empty()
            || !self.unsaid.is_empty()
            || !self.unposted.is_empty()
            || self.failure.is_some()
            || is_unwoken;
        waits.then(|| self.now + RETRY)
    }

    fn prepare_to_wait(&mut self) -> bool {
        // The next receive finds what goes wrong here again, and tells it.
        if self.side.look().is_err() || self.turn().is_err() {
            return false;
        }
        if self.endpoint.accesses.under_way > 0 && self.peer_wants_bells {
            self.side.ring();
        }
        let has_message =
            !self.reached.is_empty() || self.arrived[self.next as usize % self.arrived.len()].is_some();
        let is_over = self.side.is_over() && self.failure.is_none();
        !has_message && !is_over && (self.endpoint.wait_descriptor().is_none() || self.endpoint.may_sleep())
    }
}

impl Drop for OfiBytes {
    fn drop(&mut self) {
        self.finish();
        // SAFETY: taken once, because nothing is used after it was dropped.
        let (endpoint, side) =
            unsafe { (ManuallyDrop::take(&mut self.endpoint), ManuallyDrop::take(&mut self.side)) };
        departed::keep(endpoint, side);
    }
}
