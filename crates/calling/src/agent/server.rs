//! One link to a memory server, and the calls that run here on its regions.

use std::sync::Arc;
use std::time::Duration;

use outboard_contract::{
    Completion, Disposition, Frame, Link, LinkError, LinkId, Outbox, Peer, RemoteMemory,
};
use outboard_wire::calling::{
    ASK, CallerId, FunctionName, LOAD, OPEN, Open, REGISTER, REGISTERED, Register, RegisterVerdict,
    Registered, SlotQuestion, SlotSites, TABLE,
};
use outboard_wire::{FrameHead, Incarnation, Time};

use crate::{Ambient, CallingDesk, MeterReader, RemoteAccess, RemoteRegion, SlotTable};

/// The name of no function, by which the server is asked about regions alone.
const NO_FUNCTION: FunctionName = FunctionName([0; 32]);

/// How often the server is told how calls fare here, while there are any.
const REPORT_EVERY: Duration = Duration::from_millis(1);

/// One link to a memory server.
pub(super) struct ServerSide {
    pub(super) link: LinkId,
    pub(super) incarnation: Incarnation,
    pub(super) desk: CallingDesk<RemoteRegion>,
    pub(super) access: RemoteAccess,
    reader: MeterReader,
    reported_at: Time,
}

impl ServerSide {
    pub(super) fn new(
        (link, peer): (LinkId, &Peer),
        (caller, ambient): (CallerId, Ambient),
        desk: CallingDesk<RemoteRegion>,
        outbox: &mut Outbox,
    ) -> Self {
        let incarnation = peer.incarnation();
        let open = Open { caller, server: incarnation };
        outbox.push_copy(link, FrameHead::new(OPEN), &open.encode());
        outbox.push_copy(link, FrameHead::new(ASK), &SlotQuestion { epoch: 0 }.encode());
        let reader = MeterReader::new([Arc::clone(desk.meter())]);
        let access = RemoteAccess::new(ambient, true);
        Self { link, incarnation, desk, access, reader, reported_at: Time::ZERO }
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
        let payload = frame.payload.to_vec();
        match frame.head.kind {
            REGISTERED => self.hear_registered(&payload),
            TABLE => {
                if let Ok(table) = SlotSites::decode(&payload) {
                    self.desk.set_label(SlotTable::from_wire(&table).label());
                }
            }
            _ => {}
        }
    }

    fn hear_registered(&mut self, payload: &[u8]) {
        let Ok(Registered { handle, verdict, detail }) = Registered::decode(payload) else { return };
        let judged = match verdict {
            // Regions are looked at before the function is.
            RegisterVerdict::NeedsCode | RegisterVerdict::Preparing | RegisterVerdict::Ready => Ok(()),
            RegisterVerdict::Refused(refusal) => Err((refusal, detail)),
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
        if now - self.reported_at >= REPORT_EVERY {
            self.report(now, outbox);
        }
        Ok(moved)
    }

    /// Tells the server how calls fare, if there were any.
    fn report(&mut self, now: Time, outbox: &mut Outbox) {
        self.reported_at = now;
        let load = self.reader.read(now);
        if load.calls > 0 && outbox.has_room(self.link) {
            outbox.push_copy(self.link, FrameHead::new(LOAD), &load.encode());
        }
    }

    /// An access has ended.
    pub(super) fn on_completion(&mut self, completion: &Completion) {
        let Self { desk, access, .. } = self;
        access.on_completion(completion, |ticket, answered| desk.complete(ticket, answered));
    }
}
