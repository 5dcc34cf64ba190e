//! What is encoded decodes to itself; what is not meant is refused, never a panic.

use proptest::prelude::*;

use crate::access::{AccessReply, AccessRequest, AccessStatus, RegionSpan, Slot};
use crate::control::{
    ControlAnswer, ControlFailure, JobSecret, ListedRegion, Member, Question, RegionSharing,
};
use crate::liveness::Liveness;
use crate::*;

fn introductions() -> impl Strategy<Value = Introduction> {
    (any::<(u64, u64, u32, u32, u32)>(), 1u8..=4, ".{0,40}", any::<u8>(), any::<[u8; 32]>()).prop_map(
        |((incarnation, job, rank, pid, max_payload), role, name, method, half)| {
            let mut proof = [0; 64];
            proof[16..48].copy_from_slice(&half);
            Introduction {
                incarnation: Incarnation(incarnation),
                role: Role::try_from(role).unwrap(),
                job: JobId(job),
                rank: Rank(rank),
                pid,
                name: Text::new(&name),
                max_payload,
                auth: Auth { method, proof },
                store: StoreId::NONE,
            }
        },
    )
}

fn extents() -> impl Strategy<Value = Vec<Extent>> {
    let stripe = (any::<(u64, u64, u32)>(), 1u64..1 << 40, 0usize..3).prop_map(
        |((server, incarnation, offset), length, replicas)| {
            let primary = Extent {
                server: ServerId(server),
                incarnation: Incarnation(incarnation),
                offset: offset.into(),
                length,
                role: ExtentRole::Primary,
            };
            let replica = Extent { role: ExtentRole::Replica, ..primary };
            std::iter::once(primary).chain(std::iter::repeat_n(replica, replicas)).collect::<Vec<_>>()
        },
    );
    prop::collection::vec(stripe, 1..9).prop_map(|stripes| stripes.concat())
}

fn spans() -> impl Strategy<Value = RegionSpan> {
    any::<(u32, u64, u32)>().prop_map(|(slot, offset, len)| RegionSpan { slot: Slot(slot), offset, len })
}

fn requests() -> impl Strategy<Value = AccessRequest> {
    let word = || spans().prop_map(|span| RegionSpan { len: 8, ..span });
    prop_oneof![
        (any::<(u64, u32)>(), 0u8..8, any::<[u8; 16]>()).prop_map(|((region, generation), rights, key)| {
            AccessRequest::Open {
                region: RegionId(region),
                generation: Generation(generation),
                rights: Rights::from_bits(rights).unwrap(),
                key: RegionKey(key),
            }
        }),
        any::<u32>().prop_map(|slot| AccessRequest::Close { slot: Slot(slot) }),
        any::<u32>().prop_map(|slot| AccessRequest::Withdrawn { slot: Slot(slot) }),
        spans().prop_map(AccessRequest::Read),
        spans().prop_map(AccessRequest::Write),
        (word(), any::<(u64, u64)>()).prop_map(|(span, (expected, desired))| AccessRequest::CompareSwap {
            span,
            expected,
            desired
        }),
        (word(), any::<u64>()).prop_map(|(span, addend)| AccessRequest::FetchAdd { span, addend }),
    ]
}

fn members() -> impl Strategy<Value = Member> {
    (any::<(u32, u32, u64)>(), ".{0,60}").prop_map(|((rank, pid, incarnation), address)| Member {
        rank: Rank(rank),
        pid,
        incarnation: Incarnation(incarnation),
        address: Text::new(&address),
    })
}

fn sharings() -> impl Strategy<Value = RegionSharing> {
    prop_oneof![Just(RegionSharing::Leased), Just(RegionSharing::Together)]
}

fn questions() -> impl Strategy<Value = Question> {
    prop_oneof![
        (any::<u64>(), 12u8..=30, ".{0,40}", sharings()).prop_map(|(size, chunk_log2, name, sharing)| {
            Question::Reserve { size, chunk_log2, name: Text::new(&name), sharing }
        }),
        (any::<u64>(), 12u8..=30, ".{0,40}", sharings()).prop_map(|(size, chunk_log2, name, sharing)| {
            Question::ReserveSparse { size, chunk_log2, name: Text::new(&name), sharing }
        }),
        (".{0,40}", 0u8..8, sharings()).prop_map(|(name, rights, sharing)| Question::OpenNamed {
            name: Text::new(&name),
            rights: Rights::from_bits(rights).unwrap(),
            sharing
        }),
        (".{0,90}", 0u8..8, sharings()).prop_map(|(path, rights, sharing)| Question::Load {
            path: Text::new(&path),
            rights: Rights::from_bits(rights).unwrap(),
            sharing
        }),
        (any::<(u64, u32, [u8; 16])>(), 0..3).prop_map(|((region, generation, key), which)| {
            let (region, generation, key) = (RegionId(region), Generation(generation), RegionKey(key));
            match which {
                0 => Question::Free { region, generation, key },
                1 => Question::Sync { region, generation, key },
                _ => Question::Populate { region, generation, key },
            }
        }),
        any::<(u64, u32, [u8; 16], u64)>().prop_map(|(region, generation, key, offset)| {
            Question::NextWritten {
                region: RegionId(region),
                generation: Generation(generation),
                key: RegionKey(key),
                offset,
            }
        }),
        any::<(u64, u32)>().prop_map(|(region, generation)| Question::Release {
            region: RegionId(region),
            generation: Generation(generation)
        }),
        any::<u64>().prop_map(|after| Question::List { after: RegionId(after) }),
        (any::<(u64, [u8; 32], u32)>(), members()).prop_map(|((job, half, size), member)| Question::Join {
            job: JobId(job),
            secret: JobSecret(std::array::from_fn(|at| half[at / 2])),
            size,
            member
        }),
    ]
}

fn answers() -> impl Strategy<Value = ControlAnswer> {
    let listed = (any::<(u64, u32, u64, u32)>(), ".{0,40}").prop_map(|(numbers, name)| ListedRegion {
        region: RegionId(numbers.0),
        generation: Generation(numbers.1),
        size: numbers.2,
        owner_pid: numbers.3,
        name: Text::new(&name),
    });
    prop_oneof![
        Just(ControlAnswer::Freed),
        Just(ControlAnswer::Released),
        any::<u64>().prop_map(|bytes| ControlAnswer::Synced { bytes }),
        any::<u64>().prop_map(|large| ControlAnswer::Populated { large }),
        any::<(u64, u64)>().prop_map(|(one, other)| ControlAnswer::WrittenPart {
            start: one.min(other),
            end: one.max(other)
        }),
        (prop::collection::vec(listed, 0..20), any::<bool>())
            .prop_map(|(regions, more)| ControlAnswer::Regions { regions, more }),
        prop::collection::vec(members(), 0..20).prop_map(ControlAnswer::Members),
        (1u16..=16, ".{0,80}").prop_map(|(failure, detail)| {
            ControlAnswer::failed(ControlFailure::try_from(failure).unwrap(), &detail)
        }),
    ]
}

proptest! {
    #[test]
    fn questions_return(question in questions()) {
        let mut bytes = Vec::new();
        question.encode(&mut bytes);
        prop_assert!(Question::is_question(question.kind()));
        prop_assert_eq!(Question::decode(question.kind(), &bytes), Ok(question));
        bytes.push(0);
        prop_assert!(Question::decode(question.kind(), &bytes).is_err());
    }

    #[test]
    fn answers_return(answer in answers()) {
        let mut bytes = Vec::new();
        answer.encode(&mut bytes);
        prop_assert!(ControlAnswer::is_answer(answer.kind()));
        prop_assert_eq!(ControlAnswer::decode(answer.kind(), &bytes), Ok(answer));
    }

    #[test]
    fn frame_headers_return(kind: u16, flow: u32, tag: u32, len: u32) {
        let head = FrameHead { kind: FrameKind(kind), flow: Flow(flow), tag };
        let header = FrameHeader::new(head, len);
        let again = FrameHeader::from_words(header.to_words()).unwrap();
        prop_assert_eq!(again, header);
        let bytes = header.to_words().map(u64::to_le_bytes).concat();
        prop_assert_eq!(FrameHeader::decode(&bytes), Ok(header), "words and bytes are the same header");
        prop_assert_eq!((again.head(), again.payload_len()), (head, len));
    }

    #[test]
    fn handshakes_return(intro in introductions(), ends: (u16, u16), sizes: (u32, u32, u32)) {
        let (min, max) = (ends.0.min(ends.1).max(1), ends.0.max(ends.1).max(1));
        let hello = Hello { versions: Versions { min, max }, intro };
        prop_assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
        let (ring_bytes, heartbeat_ms, deadline_ms) = sizes;
        let welcome = Welcome { version: max, intro, ring_bytes, heartbeat_ms, deadline_ms };
        prop_assert_eq!(HandshakeAnswer::decode(&welcome.encode()), Ok(HandshakeAnswer::Welcome(welcome)));
    }

    #[test]
    fn a_welcome_says_its_store_where_both_know_what_that_is(intro in introductions(), store: u64, version in 1u16..4) {
        let intro = Introduction { store: StoreId(store), ..intro };
        let welcome = Welcome { version, intro, ring_bytes: 0, heartbeat_ms: 0, deadline_ms: 0 };
        let Ok(HandshakeAnswer::Welcome(read)) = HandshakeAnswer::decode(&welcome.encode()) else { panic!("no welcome") };
        prop_assert_eq!(read.intro.store, if version < 2 { StoreId::NONE } else { StoreId(store) });
        // A client has no store to speak of, and one that speaks of one is not understood.
        let mut hello = Hello { versions: Versions::OURS, intro }.encode();
        prop_assert_eq!(Hello::decode(&hello).unwrap().intro.store, StoreId::NONE);
        hello[HANDSHAKE_LEN - 24] = 1;
        prop_assert!(Hello::decode(&hello).is_err());
    }

    #[test]
    fn refusals_return(reason in 1u16..=5, detail in ".{0,80}") {
        let refusal = Refusal::new(reason.into(), &detail);
        prop_assert_eq!(HandshakeAnswer::decode(&refusal.encode()), Ok(HandshakeAnswer::Refusal(refusal)));
    }

    #[test]
    fn a_wait_returns_and_nothing_else_is_one(at in 0..HANDSHAKE_LEN, bit in 0..8u8) {
        let mut bytes = Wait.encode();
        prop_assert_eq!(HandshakeAnswer::decode(&bytes), Ok(HandshakeAnswer::Wait(Wait)));
        bytes[at] ^= 1 << bit;
        prop_assert!(HandshakeAnswer::decode(&bytes).is_err());
    }

    #[test]
    fn descriptors_return(extents in extents(), ids: (u64, u32), key: [u8; 16], chunk_log2 in 12u8..=30, epoch: u64) {
        let size = extents.iter().filter(|e| e.role == ExtentRole::Primary).map(|e| e.length).sum();
        let grant = Grant {
            region: RegionId(ids.0),
            generation: Generation(ids.1),
            key: RegionKey(key),
            rights: Rights::READ,
            size,
        };
        let descriptor = RegionDescriptor { grant, chunk_log2, epoch, extents };
        let mut bytes = Vec::new();
        descriptor.encode(&mut bytes);
        prop_assert_eq!(RegionDescriptor::decode(&bytes), Ok(descriptor));
        bytes.push(0);
        let is_refused = matches!(RegionDescriptor::decode(&bytes), Err(DecodeError::TrailingBytes { .. }));
        prop_assert!(is_refused);
    }

    #[test]
    fn requests_return(request in requests()) {
        let data_len = if let AccessRequest::Write(span) = request { span.len as usize } else { 0 };
        let fixed = request.encode();
        prop_assert_eq!(AccessRequest::fixed_len(request.kind()), Some(fixed.as_bytes().len()));
        prop_assert_eq!(AccessRequest::decode(request.kind(), fixed.as_bytes(), data_len), Ok(request));
        prop_assert!(AccessRequest::decode(request.kind(), fixed.as_bytes(), data_len + 1).is_err());
    }

    #[test]
    fn replies_return(status in 0u32..=5, slot: u32, value: u64) {
        let status = AccessStatus::try_from(status).unwrap();
        for reply in [AccessReply::Opened { status, slot: Slot(slot), size: value }, AccessReply::Done { status, old: value }] {
            prop_assert_eq!(AccessReply::decode(reply.kind(), reply.encode().as_bytes()), Ok(reply));
        }
    }

    #[test]
    fn liveness_returns(nonce: u64, code: u16, reason in ".{0,40}") {
        let goodbye = Liveness::Goodbye { code, reason: Text::new(&reason) };
        for message in [Liveness::Ping(nonce), Liveness::Pong(nonce), goodbye] {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            prop_assert_eq!(Liveness::decode(message.kind(), &bytes), Ok(message));
        }
    }

    #[test]
    fn no_decoder_panics(bytes in prop::collection::vec(any::<u8>(), 0..256), kind: u16, data_len: usize) {
        let kind = FrameKind(kind & 0x003f);
        let _ = FrameHeader::decode(&bytes);
        let _ = Hello::decode(&bytes);
        let _ = HandshakeAnswer::decode(&bytes);
        let _ = RegionDescriptor::decode(&bytes);
        let _ = AccessRequest::decode(kind, &bytes, data_len);
        let _ = AccessReply::decode(kind, &bytes);
        let _ = Liveness::decode(kind, &bytes);
        let _ = Question::decode(FrameKind(kind.0 | 0x100), &bytes);
        let _ = ControlAnswer::decode(FrameKind(kind.0 | 0x100), &bytes);
    }
}

/// A hello of a build of version `max`, which has something in the bytes that this build keeps free.
fn hello_with_more(min: u16, max: u16) -> [u8; HANDSHAKE_LEN] {
    let intro = Introduction {
        incarnation: Incarnation(1),
        role: Role::Tool,
        job: JobId(0),
        rank: Rank(0),
        pid: 1,
        name: Text::new("newer"),
        max_payload: 1 << 16,
        auth: Auth::NONE,
        store: StoreId::NONE,
    };
    let mut bytes = Hello { versions: Versions { min, max }, intro }.encode();
    bytes[HANDSHAKE_LEN - 1] = 7;
    bytes
}

#[test]
fn what_a_newer_build_adds_to_its_hello_is_left_out() {
    let next = Versions::NEWEST + 1;
    let hello = Hello::decode(&hello_with_more(Versions::NEWEST, next)).unwrap();
    assert_eq!(hello.versions.common(Versions::OURS), Some(Versions::NEWEST));
    assert!(Hello::decode(&hello_with_more(1, Versions::NEWEST)).is_err(), "no build of ours has that");
    // Who speaks nothing that we do may say what it likes: its versions are read all the same.
    let mut bytes = hello_with_more(next, next + 1);
    bytes[12..].fill(0xff);
    assert!(Hello::decode(&bytes).is_err());
    assert_eq!(Hello::versions_in(&bytes), Ok(Versions { min: next, max: next + 1 }));
}

#[test]
fn a_refusal_for_a_reason_yet_unknown_is_read() {
    let refusal = Refusal::new(RefusalReason::Busy, "the tide is out");
    let mut bytes = refusal.encode();
    bytes[12..14].copy_from_slice(&900u16.to_le_bytes());
    let expected = Refusal { reason: RefusalReason::Other, ..refusal };
    assert_eq!(HandshakeAnswer::decode(&bytes), Ok(HandshakeAnswer::Refusal(expected)));
}

#[test]
fn a_refusal_of_versions_names_both_in_full() {
    let (longest, ours) = (Versions { min: 65534, max: u16::MAX }, Versions { min: 65532, max: 65533 });
    let refusal = Refusal::of_versions(longest, ours);
    let told = refusal.detail.as_str();
    assert!(told.contains("65534–65535") && told.ends_with("65532–65533; update the older one"), "{told}");
    assert_eq!(refusal.versions, ours);
}

#[test]
fn extents_that_do_not_add_up_are_refused() {
    let extent = Extent {
        server: ServerId(1),
        incarnation: Incarnation(2),
        offset: 0,
        length: 4096,
        role: ExtentRole::Primary,
    };
    let grant = Grant {
        region: RegionId(1),
        generation: Generation(1),
        key: RegionKey([1; 16]),
        rights: Rights::READ,
        size: 8192,
    };
    let short = RegionDescriptor { grant, chunk_log2: 16, epoch: 0, extents: vec![extent] };
    assert_eq!(short.check(), Err(DecodeError::ExtentsDisagree { covered: 4096, size: 8192 }));
    let replica = Extent { role: ExtentRole::Replica, length: 512, ..extent };
    let uneven = RegionDescriptor { extents: vec![extent, replica], ..short };
    assert!(matches!(uneven.check(), Err(DecodeError::BadValue { what: "length of a replica", .. })));
}
