//! A site's answers to the helpers of one run.

use outboard_ebpf::{Helper, HelperAnswer, HelperHost, HelperMemory};
use outboard_wire::Rights;
use outboard_wire::calling::{HOP_FUEL, TrapReason};

use super::forward::Forward;
use super::session::Binding;
use super::site::{AccessProgress, SiteHost};
use crate::helpers::{
    COMPARE_SWAP, FETCH, FETCH_ADD, FORWARD, FORWARD_TO, LOG, LOG_LEN_MAX, RANDOM, READ, REPLY, TIME, WRITE,
};

/// What an access costs in fuel, besides its bytes.
const ACCESS_COST: u64 = 8;
/// How many bytes are copied for one unit of fuel.
const BYTES_PER_FUEL: u64 = 16;

/// The host of one run.
pub(super) struct RunHost<'a, S: SiteHost> {
    pub(super) site: &'a mut S,
    pub(super) binding: &'a Binding<S::Region>,
    pub(super) reply: &'a mut Vec<u8>,
    /// What accesses have cost so far.
    pub(super) cost: &'a mut u64,
    /// As which function it goes on, and with which arguments.
    pub(super) forward: &'a mut Forward,
    /// Whether there is something else to do while bytes come nearer; then, whether they do.
    pub(super) overlap: Overlap,
}

/// Whether a run makes room for others while what it reads comes nearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overlap {
    /// There are no others.
    Never,
    /// There are.
    Allowed,
    /// It does now.
    Begun,
}

fn trap(reason: TrapReason) -> HelperAnswer {
    HelperAnswer::Trap(reason as u32)
}

impl<'a, S: SiteHost> RunHost<'a, S> {
    /// Charges for a helper that moves so many bytes.
    #[inline(always)]
    fn charge(&mut self, bytes: u64) -> Result<(), HelperAnswer> {
        self.book(ACCESS_COST + bytes / BYTES_PER_FUEL, TrapReason::CopiedTooMuch)
    }

    /// Books a cost that the function can pay. The function chose the number, so one that it cannot pay is refused and not
    /// booked: what a call has cost never exceeds its fuel.
    #[inline(always)]
    fn book(&mut self, cost: u64, otherwise: TrapReason) -> Result<(), HelperAnswer> {
        let booked = self.cost.saturating_add(cost);
        if booked > self.binding.fuel {
            return Err(trap(otherwise));
        }
        *self.cost = booked;
        Ok(())
    }

    /// The region of that number, if the function may do this with it.
    #[inline(always)]
    fn region(&self, number: u64, rights: Rights) -> Result<&'a S::Region, HelperAnswer> {
        let found = usize::try_from(number).ok().and_then(|number| self.binding.regions.get(number));
        match found {
            None => Err(trap(TrapReason::NoRegion)),
            Some((_, held)) if !held.includes(rights) => Err(trap(TrapReason::NoRight)),
            Some((region, _)) => Ok(region),
        }
    }

    // Inlined, as are those that it calls: otherwise every answer is put together in memory several times over, which
    // takes longer than most helpers.
    #[inline(always)]
    fn answer(
        &mut self,
        id: u32,
        arguments: &[u64; 5],
        memory: &mut HelperMemory<'_>,
    ) -> Result<HelperAnswer, HelperAnswer> {
        let [first, offset, third, fourth, _] = *arguments;
        let both = Rights::READ.and(Rights::WRITE);
        let no_memory = |_| trap(TrapReason::Memory);
        let access = match id {
            READ => {
                self.charge(fourth)?;
                self.read(arguments, memory)?
            }
            FETCH => {
                self.charge(third)?;
                let region = self.region(first, Rights::READ)?;
                // Calls that change something run in their order.
                if self.overlap == Overlap::Allowed
                    && self.binding.only_reads()
                    && self.site.approach(region, offset, usize::try_from(third).unwrap_or(usize::MAX))
                {
                    self.overlap = Overlap::Begun;
                    return Ok(HelperAnswer::Pending);
                }
                self.fetch(arguments, memory)?
            }
            WRITE => {
                self.charge(fourth)?;
                let region = self.region(first, Rights::WRITE)?;
                let length = usize::try_from(fourth).unwrap_or(usize::MAX);
                let from = memory.read(third, length).map_err(no_memory)?;
                self.site.write(region, offset, from)
            }
            COMPARE_SWAP => {
                self.charge(8)?;
                let region = self.region(first, both)?;
                self.site.compare_swap(region, offset, (third, fourth))
            }
            FETCH_ADD => {
                self.charge(8)?;
                let region = self.region(first, both)?;
                self.site.fetch_add(region, offset, third)
            }
            REPLY => {
                self.charge(offset)?;
                let bytes = memory.read(first, offset as usize).map_err(no_memory)?;
                if self.reply.len() + bytes.len() > self.binding.reply_max as usize {
                    return Err(trap(TrapReason::ReplyTooLong));
                }
                self.reply.extend_from_slice(bytes);
                AccessProgress::Done(0)
            }
            LOG => {
                self.charge(offset.min(LOG_LEN_MAX))?;
                let bytes = memory.read(first, offset as usize).map_err(no_memory)?;
                self.site.log(&bytes[..bytes.len().min(LOG_LEN_MAX as usize)]);
                AccessProgress::Done(0)
            }
            FORWARD => {
                self.charge(third)?;
                let bytes = memory.read(offset, third as usize).map_err(no_memory)?;
                self.forward.set(first, None, bytes);
                AccessProgress::Done(0)
            }
            FORWARD_TO => self.forward_to(arguments, memory)?,
            TIME => AccessProgress::Done(self.site.time()),
            RANDOM => AccessProgress::Done(self.site.random()),
            _ => AccessProgress::Refused(TrapReason::Site),
        };
        Ok(answer(access))
    }

    #[cold]
    fn forward_to(
        &mut self,
        &[server, function, address, length, _]: &[u64; 5],
        memory: &mut HelperMemory<'_>,
    ) -> Result<AccessProgress, HelperAnswer> {
        self.charge(length)?;
        self.book(HOP_FUEL, TrapReason::OutOfFuel)?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let bytes = memory.read(address, length).map_err(|_| trap(TrapReason::Memory))?;
        self.forward.set(function, Some(server), bytes);
        Ok(AccessProgress::Done(0))
    }

    #[inline(always)]
    fn read(
        &mut self,
        &[region, offset, address, length, _]: &[u64; 5],
        memory: &mut HelperMemory<'_>,
    ) -> Result<AccessProgress, HelperAnswer> {
        let region = self.region(region, Rights::READ)?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let into = memory.writable(address, length).map_err(|_| trap(TrapReason::Memory))?;
        Ok(self.site.read(region, offset, into))
    }

    #[inline(always)]
    fn fetch(
        &mut self,
        &[region, offset, length, ..]: &[u64; 5],
        memory: &mut HelperMemory<'_>,
    ) -> Result<AccessProgress, HelperAnswer> {
        let region = self.region(region, Rights::READ)?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let (address, into) = memory.grant_to_fill(length).map_err(|_| trap(TrapReason::Memory))?;
        Ok(match self.site.read(region, offset, into) {
            AccessProgress::Done(_) => AccessProgress::Done(address),
            access => {
                into.fill(0);
                access
            }
        })
    }

    /// Begins a read again that was begun at another site, where it was paid for.
    pub(super) fn read_again(
        &mut self,
        id: u32,
        arguments: &[u64; 5],
        memory: &mut HelperMemory<'_>,
    ) -> HelperAnswer {
        let access = match id {
            READ => self.read(arguments, memory),
            FETCH => self.fetch(arguments, memory),
            _ => Ok(AccessProgress::Refused(TrapReason::Site)),
        };
        access.map_or_else(|trapped| trapped, answer)
    }
}

fn answer(access: AccessProgress) -> HelperAnswer {
    match access {
        AccessProgress::Done(value) => HelperAnswer::Value(value),
        AccessProgress::Pending => HelperAnswer::Pending,
        AccessProgress::Refused(reason) => trap(reason),
    }
}

impl<S: SiteHost> HelperHost for RunHost<'_, S> {
    #[inline]
    fn call(&mut self, helper: &Helper, arguments: &[u64; 5], memory: &mut HelperMemory<'_>) -> HelperAnswer {
        self.answer(helper.id, arguments, memory).unwrap_or_else(|answer| answer)
    }
}
