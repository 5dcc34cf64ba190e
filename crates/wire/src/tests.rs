//! What is encoded decodes to itself; what is not meant is refused, never a panic.

use proptest::prelude::*;

use crate::access::{Reply, Request, Slot, Span, Status};
use crate::control::{ControlAnswer, Failure, JobSecret, ListedRegion, Member, Question, Sharing};
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

fn spans() -> impl Strategy<Value = Span> {
    any::<(u32, u64, u32)>().prop_map(|(slot, offset, len)| Span { slot: Slot(slot), offset, len })
}

fn requests() -> impl Strategy<Value = Request> {
    let word = || spans().prop_map(|span| Span { len: 8, ..span });
    prop_oneof![
        (any::<(u64, u32)>(), 0u8..8, any::<[u8; 16]>()).prop_map(|((region, generation), rights, key)| {
            Request::Open {
                region: RegionId(region),
                generation: Generation(generation),
                rights: Rights::from_bits(rights).unwrap(),
                key: RegionKey(key),
            }
        }),
        any::<u32>().prop_map(|slot| Request::Close { slot: Slot(slot) }),
        any::<u32>().prop_map(|slot| Request::Withdrawn { slot: Slot(slot) }),
        spans().prop_map(Request::Read),
        spans().prop_map(Request::Write),
        (word(), any::<(u64, u64)>()).prop_map(|(span, (expected, desired))| Request::CompareSwap {
            span,
            expected,
            desired
        }),
        (word(), any::<u64>()).prop_map(|(span, addend)| Request::FetchAdd { span, addend }),
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

fn sharings() -> impl Strategy<Value = Sharing> {
    prop_oneof![Just(Sharing::Leased), Just(Sharing::Together)]
}

fn questions() -> impl Strategy<Value = Question> {
    prop_oneof![
        (any::<u64>(), 12u8..=30, ".{0,40}", sharings()).prop_map(|(size, chunk_log2, name, sharing)| {
            Question::Reserve { size, chunk_log2, name: Text::new(&name), sharing }
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
        (prop::collection::vec(listed, 0..20), any::<bool>())
            .prop_map(|(regions, more)| ControlAnswer::Regions { regions, more }),
        prop::collection::vec(members(), 0..20).prop_map(ControlAnswer::Members),
        (1u16..=16, ".{0,80}").prop_map(|(failure, detail)| {
            ControlAnswer::failed(Failure::try_from(failure).unwrap(), &detail)
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
        let head = FrameHead { kind: Kind(kind), flow: Flow(flow), tag };
        let header = FrameHeader::new(head, len);
        let again = FrameHeader::from_words(header.to_words()).unwrap();
        prop_assert_eq!(again, header);
        let bytes = header.to_words().map(u64::to_le_bytes).concat();
        prop_assert_eq!(FrameHeader::decode(&bytes), Ok(header), "words and bytes are the same header");
        prop_assert_eq!((again.head(), again.payload_len()), (head, len));
    }

    #[test]
    fn handshakes_return(intro in introductions(), min: u16, max: u16, sizes: (u32, u32, u32)) {
        let hello = Hello { versions: Versions { min, max }, intro };
        prop_assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
        let (ring_bytes, heartbeat_ms, deadline_ms) = sizes;
        let welcome = Welcome { version: max, intro, ring_bytes, heartbeat_ms, deadline_ms };
        prop_assert_eq!(Answer::decode(&welcome.encode()), Ok(Answer::Welcome(welcome)));
    }

    #[test]
    fn refusals_return(reason in 1u16..=5, detail in ".{0,80}") {
        let refusal = Refusal::new(reason.try_into().unwrap(), &detail);
        prop_assert_eq!(Answer::decode(&refusal.encode()), Ok(Answer::Refusal(refusal)));
    }

    #[test]
    fn a_wait_returns_and_nothing_else_is_one(at in 0..HANDSHAKE_LEN, bit in 0..8u8) {
        let mut bytes = Wait.encode();
        prop_assert_eq!(Answer::decode(&bytes), Ok(Answer::Wait(Wait)));
        bytes[at] ^= 1 << bit;
        prop_assert!(Answer::decode(&bytes).is_err());
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
        let data_len = if let Request::Write(span) = request { span.len as usize } else { 0 };
        let fixed = request.encode();
        prop_assert_eq!(Request::fixed_len(request.kind()), Some(fixed.as_bytes().len()));
        prop_assert_eq!(Request::decode(request.kind(), fixed.as_bytes(), data_len), Ok(request));
        prop_assert!(Request::decode(request.kind(), fixed.as_bytes(), data_len + 1).is_err());
    }

    #[test]
    fn replies_return(status in 0u32..=5, slot: u32, value: u64) {
        let status = Status::try_from(status).unwrap();
        for reply in [Reply::Opened { status, slot: Slot(slot), size: value }, Reply::Done { status, old: value }] {
            prop_assert_eq!(Reply::decode(reply.kind(), reply.encode().as_bytes()), Ok(reply));
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
        let kind = Kind(kind & 0x003f);
        let _ = FrameHeader::decode(&bytes);
        let _ = Hello::decode(&bytes);
        let _ = Answer::decode(&bytes);
        let _ = RegionDescriptor::decode(&bytes);
        let _ = Request::decode(kind, &bytes, data_len);
        let _ = Reply::decode(kind, &bytes);
        let _ = Liveness::decode(kind, &bytes);
        let _ = Question::decode(Kind(kind.0 | 0x100), &bytes);
        let _ = ControlAnswer::decode(Kind(kind.0 | 0x100), &bytes);
    }
}

#[test]
fn versions_agree_on_the_newest_common_one() {
    let ours = Versions { min: 2, max: 5 };
    assert_eq!(ours.common(Versions { min: 1, max: 3 }), Some(3));
    assert_eq!(ours.common(Versions { min: 4, max: 9 }), Some(5));
    assert_eq!(ours.common(Versions { min: 6, max: 9 }), None);
    assert_eq!(ours.common(Versions { min: 5, max: 2 }), None);
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
