//! Messages about far memory return as they were, and nothing else is read as one.

use proptest::prelude::*;

use super::*;
use crate::{Generation, Grant, Incarnation, RegionId, RegionKey, Rights, Text};

fn rights() -> impl Strategy<Value = Rights> {
    (0u8..8).prop_map(|bits| Rights::from_bits(bits).unwrap())
}

fn modes() -> impl Strategy<Value = CacheMode> {
    (0u8..4).prop_map(|mode| CacheMode::try_from(mode).unwrap())
}

fn grants() -> impl Strategy<Value = Grant> {
    (any::<(u64, u32, [u8; 16], u64)>(), rights()).prop_map(|((region, generation, key, size), rights)| {
        let (region, generation, key) = (RegionId(region), Generation(generation), RegionKey(key));
        Grant { region, generation, key, rights, size }
    })
}

fn requests() -> impl Strategy<Value = PagingRequest> {
    prop_oneof![
        (grants(), any::<(u64, u64)>(), 12u8..=30, rights(), modes()).prop_map(
            |(grant, (server, epoch), chunk_log2, rights, mode)| {
                let server = Incarnation(server);
                PagingRequest::Attach(AttachRegion { grant, server, chunk_log2, rights, mode, epoch })
            }
        ),
        grants().prop_map(|Grant { region, generation, .. }| PagingRequest::Detach(DetachRegion {
            region,
            generation
        })),
        (grants(), 1u32.., any::<bool>()).prop_map(|(grant, length, is_urgent)| PagingRequest::Fetch(
            Fetch {
                region: grant.region,
                generation: grant.generation,
                offset: grant.size,
                length,
                urgency: if is_urgent { Urgency::Demand } else { Urgency::Background },
            }
        )),
        (grants(), any::<(u64, bool)>(), 1u32..).prop_map(|(grant, (epoch, has_data), length)| {
            let Grant { region, generation, key, size, .. } = grant;
            let back = WriteBack { region, generation, key, epoch, offset: size, length };
            if has_data { PagingRequest::WriteBack(back) } else { PagingRequest::Discard(back) }
        }),
        grants().prop_map(|Grant { region, generation, key, .. }| PagingRequest::Fence(Fence {
            region,
            generation,
            key
        })),
    ]
}

fn replies() -> impl Strategy<Value = PagingReply> {
    let status = || (0u32..8).prop_map(|status| PagingStatus::try_from(status).unwrap());
    prop_oneof![
        (modes(), prop::option::of(grants()))
            .prop_map(|(mode, static_grant)| PagingReply::Attached { mode, static_grant }),
        (1u16..=5, ".{0,60}").prop_map(|(reason, detail)| PagingReply::refused(
            AttachRefusal::try_from(reason).unwrap(),
            &detail
        )),
        (0u32..4, 1u32..).prop_map(|(source, length)| PagingReply::Fetched {
            status: PagingStatus::Done,
            source: FetchSource::try_from(source).unwrap(),
            length
        }),
        (1u32..8).prop_map(|status| PagingReply::not_fetched(PagingStatus::try_from(status).unwrap())),
        (status(), any::<u64>()).prop_map(|(status, epoch)| PagingReply::Written { status, epoch }),
        (status(), any::<u64>()).prop_map(|(status, epoch)| PagingReply::Fenced { status, epoch }),
    ]
}

fn data_of(request: &PagingRequest) -> usize {
    if let PagingRequest::WriteBack(back) = request { back.length as usize } else { 0 }
}

proptest! {
    #[test]
    fn requests_return(request in requests()) {
        let (fixed, data) = (request.encode(), data_of(&request));
        let bytes = fixed.as_bytes();
        prop_assert_eq!(PagingRequest::fixed_len(request.kind()), Some(bytes.len()));
        prop_assert!(bytes.len() % 16 == 0 && PagingReply::fixed_len(request.kind()).is_none());
        prop_assert_eq!(PagingRequest::decode(request.kind(), bytes, data), Ok(request));
        prop_assert!(PagingRequest::decode(request.kind(), bytes, data + 1).is_err());
        prop_assert!(PagingRequest::decode(request.kind(), &bytes[1..], data).is_err());
        prop_assert!(PagingRequest::decode(request.kind(), &[bytes, &[0]].concat(), data).is_err());
    }

    #[test]
    fn replies_return(reply in replies()) {
        let data = if let PagingReply::Fetched { length, .. } = reply { length as usize } else { 0 };
        let fixed = reply.encode();
        let bytes = fixed.as_bytes();
        prop_assert_eq!(PagingReply::fixed_len(reply.kind()), Some(bytes.len()));
        prop_assert!(bytes.len() % 16 == 0 && PagingRequest::fixed_len(reply.kind()).is_none());
        prop_assert_eq!(PagingReply::decode(reply.kind(), bytes, data), Ok(reply));
        prop_assert!(PagingReply::decode(reply.kind(), bytes, data + 1).is_err());
        prop_assert!(PagingReply::decode(reply.kind(), &bytes[1..], data).is_err());
    }

    #[test]
    fn what_is_read_is_written_the_same(
        message in 0u8..40,
        bytes in prop::collection::vec(prop_oneof![4 => Just(0u8), 1 => any::<u8>()], 0..130),
        data: u8,
    ) {
        let (kind, data) = (FrameKind::new(Room::Paging, message), data as usize);
        if let Ok(request) = PagingRequest::decode(kind, &bytes, data) {
            prop_assert_eq!(request.encode().as_bytes().to_vec(), bytes.clone());
        }
        if let Ok(reply) = PagingReply::decode(kind, &bytes, data) {
            prop_assert_eq!(reply.encode().as_bytes().to_vec(), bytes.clone());
        }
    }
}

#[test]
fn reserved_bytes_and_unknown_codes_are_refused() {
    let grant = Grant {
        region: RegionId(1),
        generation: Generation(2),
        key: RegionKey([3; 16]),
        rights: Rights::ALL,
        size: 4096,
    };
    let attach = AttachRegion {
        grant,
        server: Incarnation(4),
        chunk_log2: 16,
        rights: Rights::READ,
        mode: CacheMode::Auto,
        epoch: 5,
    };
    let fetch = Fetch {
        region: RegionId(1),
        generation: Generation(2),
        offset: 0,
        length: 1,
        urgency: Urgency::Demand,
    };
    let fence = Fence { region: RegionId(1), generation: Generation(2), key: RegionKey([3; 16]) };
    let detach = DetachRegion { region: RegionId(1), generation: Generation(2) };
    // The chunk size, the mode, the urgency and every reserved byte.
    let spoiled = [
        (PagingRequest::Attach(attach), vec![52, 53, 54, 55, 56, 63]),
        (PagingRequest::Fetch(fetch), vec![24, 25, 31]),
        (PagingRequest::Fence(fence), vec![12, 15]),
        (PagingRequest::Detach(detach), vec![12, 15]),
    ];
    for (request, places) in spoiled {
        for at in places {
            let mut bytes = request.encode().as_bytes().to_vec();
            bytes[at] = 99;
            assert!(PagingRequest::decode(request.kind(), &bytes, 0).is_err(), "{request:?} with byte {at}");
        }
    }
    let detail = Text::new("no");
    let spoiled = [
        (PagingReply::Attached { mode: CacheMode::Off, static_grant: None }, vec![0, 16, 36, 37, 38, 39, 47]),
        (PagingReply::Attached { mode: CacheMode::Static, static_grant: Some(grant) }, vec![36, 37, 38, 39]),
        (PagingReply::Refused { reason: AttachRefusal::NoRoom, detail }, vec![0, 1, 10]),
        (PagingReply::not_fetched(PagingStatus::Busy), vec![0, 4, 8, 12]),
        (PagingReply::Written { status: PagingStatus::Done, epoch: 1 }, vec![8, 12]),
        (PagingReply::Fenced { status: PagingStatus::Done, epoch: 1 }, vec![8, 15]),
    ];
    for (reply, places) in spoiled {
        for at in places {
            let mut bytes = reply.encode().as_bytes().to_vec();
            bytes[at] = 99;
            assert!(PagingReply::decode(reply.kind(), &bytes, 0).is_err(), "{reply:?} with byte {at}");
        }
    }
}

#[test]
fn nothing_is_not_fetched_and_not_written_back() {
    let back = WriteBack {
        region: RegionId(1),
        generation: Generation(1),
        key: RegionKey([1; 16]),
        epoch: 1,
        offset: 0,
        length: 0,
    };
    let empty = PagingRequest::WriteBack(back);
    assert!(PagingRequest::decode(empty.kind(), empty.encode().as_bytes(), 0).is_err());
    let done = PagingReply::Fetched { status: PagingStatus::Done, source: FetchSource::Hit, length: 0 };
    assert!(PagingReply::decode(done.kind(), done.encode().as_bytes(), 0).is_err());
}
