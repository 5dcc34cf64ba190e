//! Regions of the peer that are mapped here.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use outboard_wire::Rights;
use outboard_wire::access::AccessStatus;

use crate::asked::Asked;
use crate::memory::{AdoptError, Mapping, Segment, SegmentAccess};
use crate::{AccessError, OpenRegion, Token};

/// A region of the peer, mapped with the rights it was opened with.
pub(super) struct MappedRegion {
    pub(super) mapping: Arc<Mapping>,
    /// The bytes that its grant covers; whole pages are mapped.
    size: u64,
    rights: Rights,
    serial: u64,
}

/// An opening that the peer has not answered yet.
pub(super) struct Opening {
    pub(super) token: Token,
    pub(super) asked: Asked,
}

/// The regions of the peer that this side has opened or is opening.
#[derive(Default)]
pub(super) struct Regions {
    mapped: Vec<Option<MappedRegion>>,
    openings: Vec<Option<Opening>>,
}

/// Puts `value` into the first free place.
fn place<T>(places: &mut Vec<Option<T>>, value: T) -> u32 {
    let index = places.iter().position(Option::is_none).unwrap_or(places.len());
    if index == places.len() {
        places.push(None);
    }
    places[index] = Some(value);
    index as u32
}

impl Regions {
    /// How many are open or opening.
    pub(super) fn count(&self) -> usize {
        self.mapped.iter().flatten().count() + self.openings.iter().flatten().count()
    }

    /// Remembers an opening; the number pairs the answer with it.
    pub(super) fn begin(&mut self, opening: Opening) -> u32 {
        place(&mut self.openings, opening)
    }

    /// The grant and the rights that the opening with this number asked for.
    pub(super) fn asked(&self, tag: u32) -> Option<Asked> {
        Some(self.openings.get(tag as usize)?.as_ref()?.asked)
    }

    /// The opening that an answer belongs to.
    pub(super) fn answered(&mut self, tag: u32) -> Option<Opening> {
        self.openings.get_mut(tag as usize)?.take()
    }

    /// The openings that will never be answered.
    pub(super) fn abandon(&mut self) -> impl Iterator<Item = Opening> + '_ {
        self.openings.drain(..).flatten()
    }

    /// Maps what the peer sent for an opening, which is at least as much as the grant covers.
    pub(super) fn map(
        &mut self,
        descriptor: OwnedFd,
        mapped_size: u64,
        (asked, trusts_peer): (&Asked, bool),
    ) -> Result<OpenRegion, AdoptError> {
        let access =
            if asked.needed.includes(Rights::WRITE) { SegmentAccess::ReadWrite } else { SegmentAccess::Read };
        let len = usize::try_from(mapped_size).map_err(|_| rustix::io::Errno::OVERFLOW)?;
        let (segment, rights) = if Segment::is_sealed(&descriptor) || !trusts_peer {
            (Segment::adopt(descriptor, len, access)?, asked.needed)
        } else {
            // A server that keeps its regions keeps them in files.
            match Segment::adopt_file(descriptor, len)? {
                (segment, SegmentAccess::ReadWrite) => (segment, asked.needed),
                (segment, SegmentAccess::Read) => (segment, asked.needed.without(Rights::WRITE)),
            }
        };
        segment.leave_out_of_dumps();
        let serial = OpenRegion::next_serial();
        let (mapping, _) = segment.into_parts();
        let region = MappedRegion { mapping: Arc::new(mapping), size: asked.size, rights, serial };
        Ok(OpenRegion { index: place(&mut self.mapped, region), serial })
    }

    /// The mapped region for an access, once bounds, rights and alignment are found right.
    #[inline]
    pub(super) fn get(
        &self,
        region: OpenRegion,
        (offset, len): (u64, usize),
        needed: Rights,
        is_atomic: bool,
    ) -> Result<&MappedRegion, AccessError> {
        let mapped = self.mapped.get(region.index as usize).and_then(Option::as_ref);
        let mapped = mapped.filter(|mapped| mapped.serial == region.serial).ok_or(AccessError::NotOpen)?;
        let asked = Asked { offset, len: len as u64, size: mapped.size, needed };
        match asked.judge(mapped.rights, is_atomic) {
            AccessStatus::Done => Ok(mapped),
            status => asked.verdict(status).map(|()| mapped),
        }
    }

    /// Unmaps a region. Returns false if it was not open.
    pub(super) fn close(&mut self, region: OpenRegion) -> bool {
        match self.mapped.get_mut(region.index as usize) {
            Some(place) if place.as_ref().is_some_and(|mapped| mapped.serial == region.serial) => {
                *place = None;
                true
            }
            _ => false,
        }
    }
}
