//! The queue of answers over a link.

use outboard_driver::{LinkId, Outbox};
use outboard_link::loopback::{FaultPlan, Network};
use outboard_link::{Disposition, Exports, Frame, Identity, Link};
use outboard_wire::control::{ControlAnswer, ControlFailure};
use outboard_wire::{FrameHead, FrameKind, Role, Room, Time};

#[test]
fn an_answer_that_does_not_fit_is_answered_with_a_no() {
    let identity = |name| Identity::new(Role::Tool, name);
    let network = Network::new(1, FaultPlan::none());
    let (mut ours, mut theirs) =
        network.connect(identity("a"), Exports::new(), identity("b"), Exports::new()).unwrap();
    let (id, mut outbox) = (LinkId(1), Outbox::default());
    let long = vec![0; ours.capabilities().max_payload + 1];
    outbox.push(id, FrameHead::new(FrameKind::new(Room::Control, 35)).with_tag(7), long);
    outbox.answer(id, 8, &ControlAnswer::Freed);
    assert!(outbox.send(id, &mut ours).unwrap());
    ours.flush().unwrap();
    let mut heard = Vec::new();
    for step in 0..10 {
        let now = Time::from_nanos(step * 1_000_000);
        ours.progress(now).unwrap();
        theirs.progress(now).unwrap();
        let hear = |frame: Frame<'_>| {
            let answer = ControlAnswer::decode(frame.head.kind, &frame.payload.to_vec()).unwrap();
            heard.push((frame.head.tag, answer));
            Disposition::Taken
        };
        theirs.receive(10, hear).unwrap();
    }
    assert!(
        matches!(heard[0], (7, ControlAnswer::Failed { failure: ControlFailure::TooLong, .. })),
        "{heard:?}"
    );
    assert_eq!(heard[1..], [(8, ControlAnswer::Freed)]);
}
