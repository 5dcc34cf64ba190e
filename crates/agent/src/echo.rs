//! What every daemon answers alike.

use outboard_driver::{LinkId, Outbox};
use outboard_link::{Disposition, Frame};
use outboard_wire::control::{ControlAnswer, Failure};
use outboard_wire::{DecodeError, Room};

use crate::counts::Counts;

/// Sends a trial frame back as it came; any other frame is not for this daemon and is counted as refused.
pub(crate) fn echo(outbox: &mut Outbox, counts: &Counts, link: LinkId, frame: Frame<'_>) -> Disposition {
    if frame.head.kind.0 >> 8 == Room::Trial as u16 {
        counts.echoes_total.add(1);
        outbox.push(link, frame.head, frame.payload.to_vec());
    } else {
        counts.questions_refused_total.add(1);
        let detail = format!("frames of kind {} are not served here", frame.head.kind);
        let answer = ControlAnswer::failed(Failure::NotServed, &detail);
        outbox.answer(link, frame.head.tag, &answer);
    }
    Disposition::Taken
}

/// The answer to a question that cannot be read.
pub(crate) fn not_understood(error: &DecodeError) -> ControlAnswer {
    ControlAnswer::failed(Failure::BadRequest, &error.to_string())
}
