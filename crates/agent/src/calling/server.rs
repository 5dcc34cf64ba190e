//! One link to a memory server, and the calls that run here on its regions.

use std::sync::Arc;

use outboard_calling::ExecutorConfig;
use outboard_driver::calling::{CallingDesk, RemoteAccess, RemoteRegion, SharedCalls, draw_caller};
use outboard_driver::{LinkId, Outbox};
use outboard_link::{Completion, Disposition, Frame, Link, LinkError, Peer, RemoteMemory};
use outboard_wire::calling::{FunctionName, OPEN, Open, REGISTER, REGISTERED, Register, Registered, Verdict};
use outboard_wire::{FrameHead, Incarnation, Time};

/// The name of no function, by which the server is asked about regions alone.
const NO_FUNCTION: FunctionName = FunctionName([0; 32]);

/// One link to a memory server.
pub(super) struct ServerSide {
    pub(super) link: LinkId,
    pub(super) incarnation: Incarnation,
    pub(super) desk: CallingDesk<RemoteRegion>,
    pub(super) access: RemoteAccess,
}

impl ServerSide {
    pub(super) fn new(link: LinkId, peer: &Peer, shared: &Arc<SharedCalls>, outbox: &mut Outbox) -> Self {
        let incarnation = peer.incarnation();
        let open = Open { caller: draw_caller(), server: incarnation };
        outbox.push_copy(link, FrameHead::new(OPEN), &open.encode());
        let log = |message: &[u8]| tracing::debug!("a function says: {}", String::from_utf8_lossy(message));
        let desk = CallingDesk::new(Arc::clone(shared), ExecutorConfig::default());
        Self { link, incarnation, desk, access: RemoteAccess::new(log, true) }
    }

    /// Does what a client asks.
    pub(super) fn on_frame(&mut self, asked: (LinkId, Frame<'_>, Time), outbox: &mut Outbox) -> Disposition {
        let disposition = self.desk.on_frame(asked, &mut self.access, outbox);
        while let Some((number, allowed)) = self.access.next_unproven() {
            let (name, regions) = (NO_FUNCTION, vec![allowed]);
            let mut question = Vec::new();
            Register { handle: number, reply_max: 0, fuel: 0, name, regions }.encode(&mut question);
            outbox.push(self.link, FrameHead::new(REGISTER), question);
        }
        disposition
    }

    /// Hears what the server says.
    pub(super) fn hear(&mut self, frame: Frame<'_>) {
        if frame.head.kind != REGISTERED {
            return;
        }
        let Ok(Registered { handle, verdict, detail }) = Registered::decode(&frame.payload.to_vec()) else {
            return;
        };
        let judged = match verdict {
            // Regions are looked at before the function is.
            Verdict::NeedsCode | Verdict::Preparing | Verdict::Ready => Ok(()),
            Verdict::Refused(refusal) => Err((refusal, detail)),
        };
        self.access.judged(handle, judged);
    }

    /// Runs calls for a while. Returns whether anything moved.
    pub(super) fn run<L: Link + RemoteMemory>(
        &mut self,
        link: &mut L,
        now: Time,
        outbox: &mut Outbox,
    ) -> Result<bool, LinkError> {
        let Self { desk, access, .. } = self;
        let mut moved = access.work(link)?;
        access.refused(|ticket, answered| desk.complete(ticket, answered));
        moved |= desk.run(now, &mut access.site(link), outbox);
        access.refused(|ticket, answered| desk.complete(ticket, answered));
        Ok(moved)
    }

    /// An access has ended.
    pub(super) fn on_completion(&mut self, completion: &Completion) {
        let Self { desk, access, .. } = self;
        access.on_completion(completion, |ticket, answered| desk.complete(ticket, answered));
    }
}
