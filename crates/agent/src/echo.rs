//! What every daemon answers alike: trials, so that links to it can be measured.

use std::cell::RefCell;
use std::sync::{Arc, LazyLock};

use outboard_driver::{LinkId, Outbox};
use outboard_link::memory::{Segment, Window};
use outboard_link::{Disposition, Export, Frame};
use outboard_wire::control::{ControlAnswer, ControlFailure};
use outboard_wire::trial::{GIVE, GRANT, REGION_LEN, TAKE, TrialLength};
use outboard_wire::{DecodeError, Room};
use rustix::io::Errno;

use crate::counts::Counts;

/// The longest answer to a trial: a power of two that links carry with their default settings.
const GIVEN_MAX: usize = 128 << 10;

/// What all trials are answered with: a client that asks and never listens costs no memory. Not zeros,
/// which would all come from one page.
static GIVEN: LazyLock<Vec<u8>> = LazyLock::new(|| (0..GIVEN_MAX).map(|at| (at >> 6) as u8 | 1).collect());

/// Does what a trial frame asks for; one of a kind that is not known goes back as it came. Any other frame is not for
/// this daemon and is counted as refused.
pub(crate) fn echo(outbox: &mut Outbox, counts: &Counts, link: LinkId, frame: Frame<'_>) -> Disposition {
    let head = frame.head;
    if head.kind.0 >> 8 != Room::Trial as u16 {
        counts.questions_refused_total.add(1);
        let detail = format!("frames of kind {} are not served here", head.kind);
        outbox.answer(link, head.tag, &ControlAnswer::failed(ControlFailure::NotServed, &detail));
        return Disposition::Taken;
    }
    counts.echoes_total.add(1);
    match head.kind {
        GIVE => match wanted(&frame) {
            Ok(len) => outbox.push_static(link, head, &GIVEN[..len]),
            Err(error) => outbox.answer(link, head.tag, &not_understood(&error)),
        },
        TAKE => {
            take(frame.payload);
            outbox.push_static(link, head, &[]);
        }
        _ => outbox.push(link, head, frame.payload.to_vec()),
    }
    Disposition::Taken
}

/// How many bytes a trial asks for.
fn wanted(frame: &Frame<'_>) -> Result<usize, DecodeError> {
    let TrialLength(len) = TrialLength::decode(&frame.payload.part(0, frame.payload.len().min(16)).to_vec())?;
    let too_long = DecodeError::BadValue { what: "length of a trial's answer", value: len };
    usize::try_from(len).ok().filter(|len| *len <= GIVEN_MAX).ok_or(too_long)
}

/// Copies what a trial brings, as a service that keeps it would.
fn take(payload: Window<'_>) {
    thread_local! {
        static TAKEN: RefCell<Vec<u8>> = RefCell::new(vec![0; GIVEN_MAX]);
    }
    TAKEN.with_borrow_mut(|taken| {
        for offset in (0..payload.len()).step_by(GIVEN_MAX) {
            let len = GIVEN_MAX.min(payload.len() - offset);
            payload.read(offset, &mut taken[..len]);
        }
        std::hint::black_box(&taken[..]);
    });
}

/// Memory that holds nothing, for measuring one-sided access. Its pages exist once a client has written to them.
pub(crate) fn trial_region() -> Result<Export, Errno> {
    let memory = Arc::new(Segment::create(c"outboard-trial", REGION_LEN)?);
    Ok(Export {
        region: GRANT.region,
        generation: GRANT.generation,
        memory,
        keys: vec![(GRANT.key, GRANT.rights)],
    })
}

/// The answer to a question that cannot be read.
pub(crate) fn not_understood(error: &DecodeError) -> ControlAnswer {
    ControlAnswer::failed(ControlFailure::BadRequest, &error.to_string())
}
