//! Regions that stay open over the loss of a link.

use outboard_link::OpenRegion;
use outboard_wire::{Generation, Grant, RegionId, Rights};

use super::{FarRegion, Memory};
use crate::client::AskError;

/// A region that was opened by an earlier link, as it is open now.
#[derive(Debug)]
pub(super) struct OpenAgain {
    /// How many links there were before the one by which it is open.
    former_links: u32,
    region: RegionId,
    generation: Generation,
    rights: Rights,
    open: OpenRegion,
}

impl OpenAgain {
    fn is_of(&self, region: &FarRegion) -> bool {
        let Grant { region: id, generation, .. } = region.descriptor.grant;
        (self.region, self.generation, self.rights) == (id, generation, region.rights)
    }
}

impl Memory {
    /// The region as it is open by the present link.
    #[inline]
    pub(super) fn open_now(&mut self, region: &FarRegion) -> Result<OpenRegion, AskError> {
        self.client.again()?;
        if region.former_links == self.client.former_links() {
            return Ok(region.open);
        }
        self.open_again(region)
    }

    /// Opens a region that was opened by an earlier link, if its server still has it.
    #[cold]
    fn open_again(&mut self, region: &FarRegion) -> Result<OpenRegion, AskError> {
        let former_links = self.client.former_links();
        self.again.retain(|again| again.former_links == former_links);
        let grant = &region.descriptor.grant;
        if let Some(known) = self.again.iter().find(|again| again.is_of(region)) {
            return Ok(known.open);
        }
        let peer = self.client.peer();
        if region.server() != peer.incarnation() && !region.store.goes_on_with(peer.store()) {
            return Err(AskError::StartedAnew { daemon: peer.clone() });
        }
        let open = self.client.open(grant, region.rights)?;
        let Grant { region: id, generation, .. } = *grant;
        self.again.push(OpenAgain { former_links, region: id, generation, rights: region.rights, open });
        Ok(open)
    }

    pub(super) fn close_region(&mut self, region: &FarRegion) {
        if region.former_links == self.client.former_links() {
            return self.client.close_region(region.open);
        }
        if let Some(at) = self.again.iter().position(|again| again.is_of(region)) {
            let OpenAgain { open, former_links, .. } = self.again.swap_remove(at);
            if former_links == self.client.former_links() {
                self.client.close_region(open);
            }
        }
    }
}
