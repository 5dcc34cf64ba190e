//! What calls would cost at a site that has none: a call shows it now and then.

use outboard_contract::{Link, RemoteMemory};
use outboard_steering::Site;
use outboard_wire::Time;
use outboard_wire::calling::Call;

use super::elsewhere::ORDER;
use super::{Dispatcher, Placement};

impl<L: Link + RemoteMemory, A: Link> Dispatcher<L, A> {
    /// A site other than the one that is meant that is to be probed by such a call.
    fn wants_probe(&self, meant: Site, handle: u32) -> Option<Site> {
        let only_reads = self.functions[handle as usize].only_reads;
        let is_wanted = |site: &Site| {
            *site != meant
                && (*site != Site::Application || self.reporter.is_open_here())
                && self.watch.wants_probe(*site, only_reads, self.now)
                && self.is_usable(*site, handle)
        };
        ORDER.into_iter().find(is_wanted)
    }

    /// Where a call goes that may be a probe: one that may write must not run twice, so it goes there instead.
    #[cold]
    pub(super) fn probe_instead(&mut self, meant: Site, handle: u32) -> Site {
        if self.placement != Placement::Steered || self.functions[handle as usize].only_reads {
            return meant;
        }
        self.wants_probe(meant, handle).unwrap_or(meant)
    }

    /// Notes a probe that goes to another site than was meant, or sends a call that only reads to another site as well. The
    /// first answer counts. Returns where else it is under way, as in [`tried`](super::Flight::tried).
    #[cold]
    pub(super) fn probe(
        &mut self,
        (meant, site): (Site, Site),
        call: &Call,
        (slot, arguments): (u8, &[u8]),
        clock: impl Fn() -> Time,
    ) -> u8 {
        self.watch.probes_done(self.now);
        if meant != site {
            self.watch.probe_begun(site, call.call, true, self.now);
            return 0;
        }
        let only_reads = self.functions[call.handle as usize].only_reads;
        if self.placement != Placement::Steered || !only_reads {
            return 0;
        }
        match self.wants_probe(meant, call.handle) {
            Some(other) if self.send_to(other, call, slot, arguments).is_ok() => {
                self.watch.probe_begun(other, call.call, false, clock());
                super::bit(other)
            }
            // Without room for it there is another time.
            _ => 0,
        }
    }
}
