//! An endpoint without a link: what libfabric does by itself, as a yardstick.

use std::net::IpAddr;
use std::sync::Arc;

use rustix::io::Errno;

use super::Progress;
use super::choice::{FabricError, select};
use super::endpoint::{BATCH, Ended, Endpoint, Far, NAME_MAX, Operation, Sizes};
use super::library::FabricFault;
use crate::memory::{Buffer, Segment, WindowMut};
use crate::stream::Lent;

/// Something that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BareEnd {
    /// The message in this slot has left.
    Sent(usize),
    /// So many bytes have arrived in this slot.
    Received(usize, usize),
    /// The read has brought its bytes.
    Read,
}

/// An endpoint and its peer. Every slot holds one message.
pub struct BareEndpoint {
    endpoint: Endpoint,
    ended: Vec<Ended>,
    /// The memory that the peer may read.
    lent: Vec<Lent>,
    /// Where the last read goes to.
    into: Option<Buffer>,
}

impl BareEndpoint {
    /// Opens an endpoint with `slots` places to receive in, all of them waiting, and as many to send from.
    pub fn open(
        source: Option<IpAddr>,
        provider: &str,
        slots: usize,
        slot_bytes: usize,
    ) -> Result<Self, FabricError> {
        let (offer, _) = select(source, Some(provider), Progress::Manual)?;
        let sizes = Sizes {
            receives: slots,
            sends: slots,
            long_sends: 0,
            accesses: 1,
            slot_bytes,
            short_bytes: slot_bytes,
        };
        let mut endpoint = Endpoint::open(offer, sizes)?;
        for slot in 0..slots {
            if !endpoint.receive(slot)? {
                return Err(FabricFault { call: "fi_recv", source: Errno::AGAIN }.into());
            }
        }
        Ok(Self { endpoint, ended: Vec::with_capacity(BATCH), lent: Vec::new(), into: None })
    }

    /// The address and key that the peer has to know.
    pub fn name(&self) -> Result<Vec<u8>, FabricFault> {
        self.endpoint.name()
    }

    /// Learns who the peer is.
    pub fn meet(&mut self, name: &[u8]) -> Result<(), FabricFault> {
        let mut padded = [0; NAME_MAX];
        let place = padded.get_mut(..name.len());
        place.ok_or(FabricFault { call: "fi_av_insert", source: Errno::INVAL })?.copy_from_slice(name);
        self.endpoint.set_peer(&padded)
    }

    /// Where a message to send lies. It must not be under way.
    pub fn outgoing(&self, slot: usize) -> WindowMut<'_> {
        self.endpoint.send_slot(slot)
    }

    /// Sends the first `len` bytes of a slot; false if there is no room.
    #[inline]
    pub fn send(&mut self, slot: usize, len: usize) -> Result<bool, FabricFault> {
        self.endpoint.send(slot, len, false)
    }

    /// The message that has arrived in a slot.
    ///
    /// # Panics
    /// If none has.
    #[inline]
    pub fn received(&self, slot: usize) -> &[u8] {
        self.endpoint.received(slot)
    }

    /// Lets the next message arrive in a slot; false if there is no room.
    #[inline]
    pub fn receive(&mut self, slot: usize) -> Result<bool, FabricFault> {
        self.endpoint.receive(slot)
    }

    /// Lets the peer read this memory; returns the key and where it begins.
    pub fn lend(&mut self, memory: &Arc<Segment>) -> Result<(u64, u64), FabricFault> {
        let lent = self.endpoint.lend(memory, (true, false))?;
        let handle = (lent.handle.key, lent.handle.base);
        self.lent.push(lent);
        Ok(handle)
    }

    /// Begins to read the peer's memory into the beginning of `into`; false if there is no room. One at a time.
    ///
    /// # Panics
    /// If the buffer is shorter, or the provider wants buffers that are registered.
    pub fn read(
        &mut self,
        (key, address): (u64, u64),
        len: usize,
        into: &Buffer,
    ) -> Result<bool, FabricFault> {
        assert!(into.is_plain() && !self.endpoint.wants_registration(), "a buffer that can be read into");
        let start = into.window_mut().part(0, len).as_mut_ptr();
        let far = Far { key, address, len };
        self.into = Some(into.clone());
        // SAFETY: pages of a buffer that is kept until the next read, which begins when this one has ended, or until the
        // endpoint is closed; there are no references to them.
        unsafe { self.endpoint.access(0, (start, core::ptr::null_mut()), far, false) }
    }

    /// Lets the provider work, and tells what has ended.
    #[inline]
    pub fn poll(&mut self, mut sink: impl FnMut(BareEnd)) -> Result<(), FabricFault> {
        self.endpoint.poll(&mut self.ended)?;
        for Ended { operation, result } in self.ended.drain(..) {
            let failed = |call| move |source| FabricFault { call, source };
            match operation {
                Operation::Send(slot) => {
                    result.map_err(failed("fi_sendmsg"))?;
                    sink(BareEnd::Sent(slot));
                }
                Operation::Receive(slot) => {
                    sink(BareEnd::Received(slot, result.map_err(failed("fi_recv"))?));
                }
                Operation::Told(_) => {}
                Operation::Access(_) => {
                    result.map_err(failed("fi_readmsg"))?;
                    sink(BareEnd::Read);
                }
            }
        }
        Ok(())
    }
}
