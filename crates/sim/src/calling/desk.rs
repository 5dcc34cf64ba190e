//! Calls that come by frames, and their answers.

use outboard_calling::{Client, Executor, NoReply, Outcome, Submitted};
use outboard_driver::{LinkId, Outbox};
use outboard_link::{Disposition, Frame};
use outboard_wire::calling::{Call, FAILED, Failed, Failure, REPLY, Reply, TrapReason};
use outboard_wire::{FrameHead, Time};

fn fail(outbox: &mut Outbox, link: LinkId, call: u64, failure: Failure) {
    outbox.push_copy(link, FrameHead::new(FAILED), &Failed { call, failure }.encode());
}

/// Hands a call in.
pub(super) fn submit<R>(
    executor: &mut Executor<R>,
    (client, link): (Client, LinkId),
    frame: Frame<'_>,
    now: Time,
    outbox: &mut Outbox,
) -> Disposition {
    let bytes = frame.payload.to_vec();
    let Some((head, arguments)) = bytes.split_first_chunk() else { return Disposition::Taken };
    let Ok(call) = Call::decode(*head) else { return Disposition::Taken };
    let fill = |buffer: &mut [u8]| buffer.copy_from_slice(arguments);
    match executor.submit(now, client, &call, (arguments.len(), fill)) {
        Submitted::Taken => Disposition::Taken,
        Submitted::Full => Disposition::Deferred,
        Submitted::Failed(failure) => {
            fail(outbox, link, call.call, failure);
            Disposition::Taken
        }
    }
}

/// A call to a site where nothing can run now.
pub(super) fn refuse(link: LinkId, frame: Frame<'_>, outbox: &mut Outbox) {
    if let Some((head, _)) = frame.payload.to_vec().split_first_chunk()
        && let Ok(call) = Call::decode(*head)
    {
        fail(outbox, link, call.call, Failure::NoFunction);
    }
}

/// How a call failed. None of the functions here goes on at another server.
pub(super) fn failure(no_reply: NoReply<'_>) -> Failure {
    match no_reply {
        NoReply::Failed(failure) => failure,
        NoReply::Forwarded(forwarded) => {
            Failure::Trapped { index: forwarded.index, reason: TrapReason::NoServer, address: 0 }
        }
    }
}

/// Tells how a call ended.
pub(super) fn answer(outbox: &mut Outbox, links: &[LinkId], outcome: Outcome<'_>) {
    let Outcome { client, call, result } = outcome;
    let link = links[client.index()];
    match result {
        Ok((value, reply)) => {
            let bytes = [Reply { call, value }.encode().as_slice(), reply].concat();
            outbox.push(link, FrameHead::new(REPLY), bytes);
        }
        Err(no_reply) => fail(outbox, link, call, failure(no_reply)),
    }
}
