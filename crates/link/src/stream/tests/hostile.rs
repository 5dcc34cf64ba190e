use outboard_wire::access::{AccessReply, AccessRequest, AccessStatus, RegionSpan, Slot};
use proptest::prelude::*;

use super::*;
use crate::stream::config::OPERATIONS_MAX;
use crate::{Loss, Violation};

/// Sends requests and returns the statuses of the replies.
fn ask(link: &mut LoopbackLink, raw: &mut RawEnd, requests: &[(AccessRequest, &[u8])]) -> Vec<AccessReply> {
    for (request, data) in requests {
        let mut payload = request.encode().as_bytes().to_vec();
        payload.extend_from_slice(data);
        raw.write(&record(FrameHead::new(request.kind()).with_tag(77), &payload));
    }
    link.progress(Time::ZERO).unwrap();
    let mut replies = Vec::new();
    let bytes = raw.read();
    let mut rest = &bytes[..];
    while let Ok(header) = FrameHeader::decode(rest) {
        let (head, len) = (header.head(), header.payload_len() as usize);
        assert_eq!(head.tag, 77);
        replies.push(AccessReply::decode(head.kind, &rest[16..16 + AccessReply::FIXED_LEN]).unwrap());
        rest = &rest[record_len(len)..];
    }
    replies
}

fn open(rights: Rights, key: u8) -> AccessRequest {
    AccessRequest::Open { region: RegionId(7), generation: Generation(1), rights, key: RegionKey([key; 16]) }
}

fn done(status: AccessStatus) -> AccessReply {
    AccessReply::Done { status, old: 0 }
}

#[test]
fn the_owner_judges_for_itself() {
    let (mut link, mut raw) = opposite_raw();
    let opened = ask(&mut link, &mut raw, &[(open(Rights::READ, 5), &[])]);
    let [AccessReply::Opened { status: AccessStatus::Done, slot, size }] = opened[..] else {
        panic!("{opened:?}")
    };
    assert_eq!(size, REGION as u64);
    let span = |offset, len| RegionSpan { slot, offset, len };
    let add = |offset| AccessRequest::FetchAdd { span: span(offset, 8), addend: 1 };
    let replies = ask(
        &mut link,
        &mut raw,
        &[
            (AccessRequest::Read(span(size - 4, 8)), &[]),
            (AccessRequest::Read(span(u64::MAX - 3, 8)), &[]),
            (AccessRequest::Write(span(0, 2)), b"no"),
            (add(0), &[]),
            (AccessRequest::Read(RegionSpan { slot: Slot(slot.0 ^ 0x1_0000), offset: 0, len: 8 }), &[]),
            (AccessRequest::Read(RegionSpan { slot: Slot(999), offset: 0, len: 8 }), &[]),
            (AccessRequest::Read(span(8, 8)), &[]),
        ],
    );
    let expected = [
        AccessStatus::OutOfBounds,
        AccessStatus::OutOfBounds,
        AccessStatus::NoRight,
        AccessStatus::NoRight,
        AccessStatus::NotOpen,
        AccessStatus::NotOpen,
        AccessStatus::Done,
    ];
    assert_eq!(replies, expected.map(done));
    let opened = ask(&mut link, &mut raw, &[(open(Rights::READ.and(Rights::WRITE), 5), &[])]);
    let [AccessReply::Opened { status: AccessStatus::Done, slot: write_slot, .. }] = opened[..] else {
        panic!("{opened:?}")
    };
    let span = |offset| RegionSpan { slot: write_slot, offset, len: 8 };
    let swap = AccessRequest::CompareSwap { span: span(12), expected: 0, desired: 1 };
    let replies = ask(&mut link, &mut raw, &[(swap, &[]), (AccessRequest::Close { slot: write_slot }, &[])]);
    assert_eq!(replies, [done(AccessStatus::Misaligned)]);
    let replies = ask(&mut link, &mut raw, &[(AccessRequest::FetchAdd { span: span(0), addend: 1 }, &[])]);
    assert_eq!(replies, [done(AccessStatus::NotOpen)]);
}

#[test]
fn a_read_longer_than_was_agreed_breaks_the_link() {
    let (mut link, mut raw) = opposite_raw();
    let [AccessReply::Opened { slot, .. }] = ask(&mut link, &mut raw, &[(open(Rights::READ, 5), &[])])[..]
    else {
        panic!("not open")
    };
    let len = link.capabilities().max_access as u32 + 1;
    let request = AccessRequest::Read(RegionSpan { slot, offset: 0, len });
    raw.write(&record(FrameHead::new(request.kind()), request.encode().as_bytes()));
    let lost = link.progress(Time::ZERO).unwrap_err();
    assert!(matches!(lost.loss, Loss::Broke(Violation::Oversize { .. })), "{lost}");
}

#[test]
fn too_many_operations_break_the_link() {
    let (mut link, mut raw) = opposite_raw();
    let [AccessReply::Opened { slot, .. }] = ask(&mut link, &mut raw, &[(open(Rights::READ, 5), &[])])[..]
    else {
        panic!("not open")
    };
    for len in [0, 20_000] {
        let request = AccessRequest::Read(RegionSpan { slot, offset: 0, len });
        let request = record(FrameHead::new(request.kind()), request.encode().as_bytes());
        // The raw end never reads what it asked for.
        for _ in 0..4 * OPERATIONS_MAX {
            raw.write(&request);
            let _ = link.progress(Time::ZERO);
        }
    }
    let lost = link.progress(Time::ZERO).unwrap_err();
    assert_eq!(lost.loss, Loss::Broke(Violation::TooManyOperations { max: OPERATIONS_MAX }));
}

#[test]
fn replies_to_nothing_break_the_link() {
    let reply = done(AccessStatus::Done);
    for tag in [0, 1 << 16, 255, 256, u32::MAX] {
        let (mut link, mut raw) = opposite_raw();
        raw.write(&record(FrameHead::new(reply.kind()).with_tag(tag), reply.encode().as_bytes()));
        let lost = link.progress(Time::ZERO).unwrap_err();
        assert_eq!(lost.loss, Loss::Broke(Violation::UnknownReply { tag }));
        assert_eq!(link.progress(Time::ZERO).unwrap_err().loss, lost.loss, "the same error again");
    }
}

#[test]
fn replies_that_do_not_fit_break_the_link_and_end_the_operation() {
    let opened = AccessReply::Opened { status: AccessStatus::Done, slot: Slot(0), size: 64 };
    let replies = [(done(AccessStatus::Done), &[][..]), (opened, &[1u8][..])];
    for (reply, data) in replies {
        let (mut link, mut raw) = opposite_raw();
        let (_, _, grant) = exports();
        link.open(&grant, Rights::READ, Token(4)).unwrap();
        link.flush().unwrap();
        let tag = FrameHeader::decode(&raw.read()).unwrap().head().tag;
        let mut payload = reply.encode().as_bytes().to_vec();
        payload.extend_from_slice(data);
        raw.write(&record(FrameHead::new(reply.kind()).with_tag(tag), &payload));
        assert!(matches!(link.progress(Time::ZERO).unwrap_err().loss, Loss::Broke(_)));
        let mut ended = Vec::new();
        link.completions(|completion| ended.push(completion));
        assert!(matches!(&ended[..], [Completion { token: Token(4), result: Err(AccessError::Lost(_)) }]));
    }
}

#[test]
fn the_peer_is_told_what_it_did_wrong() {
    let (mut link, mut raw) = opposite_raw();
    raw.write(&[0xaa; 64]);
    let lost = link.progress(Time::ZERO).unwrap_err();
    assert!(matches!(lost.loss, Loss::Broke(Violation::Nonsense(_))), "{lost}");
    let goodbye = raw.read();
    assert!(String::from_utf8_lossy(&goodbye).contains("broke the protocol"), "{goodbye:?}");
    assert!(raw.is_at_end());
}

#[test]
fn an_oversize_frame_is_known_by_its_header() {
    let (mut link, mut raw) = opposite_raw();
    raw.write(FrameHeader::new(NOTE, u32::MAX).as_bytes());
    let lost = link.progress(Time::ZERO).unwrap_err();
    assert!(matches!(lost.loss, Loss::Broke(Violation::Oversize { len: 0xffff_ffff, .. })), "{lost}");
}

proptest! {
    #[test]
    fn no_bytes_make_a_link_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let (mut link, mut raw) = opposite_raw();
        raw.write(&bytes);
        let _ = link.progress(Time::ZERO);
        let _ = take_all(&mut link);
        prop_assert!(bytes.len() < 16 || link.progress(Time::ZERO).is_err());
    }

    #[test]
    fn no_record_for_the_link_makes_it_panic(
        records in proptest::collection::vec(
            (0u8..64, any::<u32>(), proptest::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..70)),
            1..40,
        ),
    ) {
        let (mut link, mut raw) = opposite_raw();
        raw.write(&record(FrameHead::new(open(Rights::READ, 5).kind()), open(Rights::READ, 5).encode().as_bytes()));
        for (message, tag, payload) in records {
            raw.write(&record(FrameHead::new(FrameKind::new(Room::Link, message)).with_tag(tag), &payload));
            if link.progress(Time::ZERO).is_err() {
                prop_assert!(link.progress(Time::ZERO).is_err());
                break;
            }
        }
    }
}
