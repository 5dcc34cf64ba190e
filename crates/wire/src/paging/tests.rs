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

fn requests() -> impl Strategy<Value = Request> {
    prop_oneof![
        (grants(), any::<(u64, u64)>(), 12u8..=30, rights(), modes()).prop_map(
            |(grant, (server, epoch), chunk_log2, rights, mode)| {
                let server = Incarnation(server);
                Request::Attach(Attach { grant, server, chunk_log2, rights, mode, epoch })
            }
        ),
        grants().prop_map(|Grant { region, generation, .. }| Request::Detach(Detach { region, generation })),
        (grants(), 1u32.., any::<bool>()).prop_map(|(grant, length, is_urgent)| Request::Fetch(Fetch {
            region: grant.region,
            generation: grant.generation,
            offset: grant.size,
            length,
            urgency: if is_urgent { Urgency::Demand } else { Urgency::Background },
        })),
        (grants(), any::<u64>(), 1u32..).prop_map(|(grant, epoch, length)| Request::WriteBack(WriteBack {
            region: grant.region,
            generation: grant.generation,
            key: grant.key,
            epoch,
            offset: grant.size,
            length,
        })),
        grants().prop_map(|Grant { region, generation, key, .. }| Request::Fence(Fence {
            region,
            generation,
            key
        })),
    ]
}

fn replies() -> impl Strategy<Value = Reply> {
    let status = || (0u32..8).prop_map(|status| Status::try_from(status).unwrap());
    prop_oneof![
        (modes(), prop::option::of(grants()))
            .prop_map(|(mode, static_grant)| Reply::Attached { mode, static_grant }),
        (1u16..=5, ".{0,60}")
            .prop_map(|(reason, detail)| Reply::refused(Refusal::try_from(reason).unwrap(), &detail)),
        (0u32..4, 1u32..).prop_map(|(source, length)| Reply::Fetched {
            status: Status::Done,
            source: Source::try_from(source).unwrap(),
            length
        }),
        (1u32..8).prop_map(|status| Reply::not_fetched(Status::try_from(status).unwrap())),
        (status(), any::<u64>()).prop_map(|(status, epoch)| Reply::Written { status, epoch }),
        (status(), any::<u64>()).prop_map(|(status, epoch)| Reply::Fenced { status, epoch }),
    ]
}

fn data_of(request: &Request) -> usize {
    if let Request::WriteBack(back) = request { back.length as usize } else { 0 }
}

proptest! {
    #[test]
    fn requests_return(request in requests()) {
        let (fixed, data) = (request.encode(), data_of(&request));
        let bytes = fixed.as_bytes();
        prop_assert_eq!(Request::fixed_len(request.kind()), Some(bytes.len()));
        prop_assert!(bytes.len() % 16 == 0 && Reply::fixed_len(request.kind()).is_none());
        prop_assert_eq!(Request::decode(request.kind(), bytes, data), Ok(request));
        prop_assert!(Request::decode(request.kind(), bytes, data + 1).is_err());
        prop_assert!(Request::decode(request.kind(), &bytes[1..], data).is_err());
        prop_assert!(Request::decode(request.kind(), &[bytes, &[0]].concat(), data).is_err());
    }

    #[test]
    fn replies_return(reply in replies()) {
        let data = if let Reply::Fetched { length, .. } = reply { length as usize } else { 0 };
        let fixed = reply.encode();
        let bytes = fixed.as_bytes();
        prop_assert_eq!(Reply::fixed_len(reply.kind()), Some(bytes.len()));
        prop_assert!(bytes.len() % 16 == 0 && Request::fixed_len(reply.kind()).is_none());
        prop_assert_eq!(Reply::decode(reply.kind(), bytes, data), Ok(reply));
        prop_assert!(Reply::decode(reply.kind(), bytes, data + 1).is_err());
        prop_assert!(Reply::decode(reply.kind(), &bytes[1..], data).is_err());
    }

    #[test]
    fn what_is_read_is_written_the_same(
        message in 0u8..40,
        bytes in prop::collection::vec(prop_oneof![4 => Just(0u8), 1 => any::<u8>()], 0..130),
        data: u8,
    ) {
        let (kind, data) = (Kind::new(Room::Paging, message), data as usize);
        if let Ok(request) = Request::decode(kind, &bytes, data) {
            prop_assert_eq!(request.encode().as_bytes().to_vec(), bytes.clone());
        }
        if let Ok(reply) = Reply::decode(kind, &bytes, data) {
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
    let attach = Attach {
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
    let detach = Detach { region: RegionId(1), generation: Generation(2) };
    // The chunk size, the mode, the urgency and every reserved byte.
    let spoiled = [
        (Request::Attach(attach), vec![52, 53, 54, 55, 56, 63]),
        (Request::Fetch(fetch), vec![24, 25, 31]),
        (Request::Fence(fence), vec![12, 15]),
        (Request::Detach(detach), vec![12, 15]),
    ];
    for (request, places) in spoiled {
        for at in places {
            let mut bytes = request.encode().as_bytes().to_vec();
            bytes[at] = 99;
            assert!(Request::decode(request.kind(), &bytes, 0).is_err(), "{request:?} with byte {at}");
        }
    }
    let detail = Text::new("no");
    let spoiled = [
        (Reply::Attached { mode: CacheMode::Off, static_grant: None }, vec![0, 16, 36, 37, 38, 39, 47]),
        (Reply::Attached { mode: CacheMode::Static, static_grant: Some(grant) }, vec![36, 37, 38, 39]),
        (Reply::Refused { reason: Refusal::NoRoom, detail }, vec![0, 1, 10]),
        (Reply::not_fetched(Status::Busy), vec![0, 4, 8, 12]),
        (Reply::Written { status: Status::Done, epoch: 1 }, vec![8, 12]),
        (Reply::Fenced { status: Status::Done, epoch: 1 }, vec![8, 15]),
    ];
    for (reply, places) in spoiled {
        for at in places {
            let mut bytes = reply.encode().as_bytes().to_vec();
            bytes[at] = 99;
            assert!(Reply::decode(reply.kind(), &bytes, 0).is_err(), "{reply:?} with byte {at}");
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
    let empty = Request::WriteBack(back);
    assert!(Request::decode(empty.kind(), empty.encode().as_bytes(), 0).is_err());
    let done = Reply::Fetched { status: Status::Done, source: Source::Hit, length: 0 };
    assert!(Reply::decode(done.kind(), done.encode().as_bytes(), 0).is_err());
}
