//! The decoders of `outboard-wire`.
//!
//! Three promises for each: no bytes make it panic, what it accepts encodes to the same bytes again,
//! and what it accepts can be shown to a person.

use std::fmt::Debug;

use outboard_wire::access::{AccessReply, AccessRequest, AccessStatus, RegionSpan, Slot};
use outboard_wire::liveness::Liveness;
use outboard_wire::trial::TrialLength;
use outboard_wire::{
    Auth, DecodeError, Extent, ExtentRole, Flow, FrameHead, FrameHeader, FrameKind, Generation, Grant,
    HandshakeAnswer, Hello, Incarnation, Introduction, JobId, Rank, Refusal, RefusalReason, RegionDescriptor,
    RegionId, RegionKey, Rights, Role, Room, ServerId, StoreId, Text, Versions, Wait, Welcome,
};

use crate::FuzzVerdict;

/// Checks that what was decoded from `bytes` encodes to them again, and can be shown.
#[track_caller]
pub(crate) fn returns(decoded: &impl Debug, bytes: &[u8], encoded: &[u8]) -> FuzzVerdict {
    assert_eq!(encoded, bytes, "{decoded:?} does not encode to the bytes it was decoded from");
    assert!(!format!("{decoded:?}").is_empty());
    FuzzVerdict::Decoded
}

/// What a newer build has added is left out of what is encoded again; the rest returns.
fn returns_in_part<T: Debug + PartialEq>(decoded: &T, again: Result<T, DecodeError>) -> FuzzVerdict {
    assert_eq!(Ok(decoded), again.as_ref());
    FuzzVerdict::Decoded
}

/// Shows an error, as a log line would.
pub(crate) fn refused(error: impl std::error::Error) -> FuzzVerdict {
    assert!(!error.to_string().is_empty());
    FuzzVerdict::Refused
}

fn header_bytes(header: FrameHeader) -> Vec<u8> {
    header.to_words().iter().flat_map(|word| word.to_le_bytes()).collect()
}

pub(crate) fn frame_header(bytes: &[u8]) -> FuzzVerdict {
    let header = match FrameHeader::decode(bytes) {
        Ok(header) => header,
        Err(error) => return refused(error),
    };
    assert_eq!(FrameHeader::from_words(header.to_words()), Ok(header));
    assert_eq!(FrameHeader::new(header.head(), header.payload_len()), header);
    returns(&header, &bytes[..FrameHeader::LEN], &header_bytes(header))
}

pub(crate) fn frame_header_seeds() -> Vec<Vec<u8>> {
    let head = FrameHead::new(FrameKind::new(Room::Trial, 3)).with_tag(0x0102_0304).with_flow(Flow(7));
    [0, 64, u32::MAX].map(|payload_len| header_bytes(FrameHeader::new(head, payload_len))).to_vec()
}

pub(crate) fn hello(bytes: &[u8]) -> FuzzVerdict {
    match Hello::decode(bytes) {
        Ok(hello) => {
            if let Some(version) = hello.versions.common(Versions::OURS) {
                assert!(Versions::OURS.include(version) && hello.versions.include(version));
            }
            assert_eq!(Hello::versions_in(bytes), Ok(hello.versions));
            match hello.versions.max > Versions::NEWEST {
                true => returns_in_part(&hello, Hello::decode(&hello.encode())),
                false => returns(&hello, bytes, &hello.encode()),
            }
        }
        Err(error) => refused(error),
    }
}

pub(crate) fn hello_seeds() -> Vec<Vec<u8>> {
    let hello = Hello { versions: Versions::OURS, intro: introduction(Role::Application) };
    let newer = Hello { versions: Versions { min: 2, max: 9 }, intro: introduction(Role::Tool) };
    vec![hello.encode().to_vec(), newer.encode().to_vec()]
}

pub(crate) fn answer(bytes: &[u8]) -> FuzzVerdict {
    match HandshakeAnswer::decode(bytes) {
        Ok(HandshakeAnswer::Welcome(welcome)) => returns(&welcome, bytes, &welcome.encode()),
        Ok(HandshakeAnswer::Refusal(refusal))
            if refusal.versions.max > Versions::NEWEST || refusal.reason == RefusalReason::Other =>
        {
            returns_in_part(&HandshakeAnswer::Refusal(refusal), HandshakeAnswer::decode(&refusal.encode()))
        }
        Ok(HandshakeAnswer::Refusal(refusal)) => returns(&refusal, bytes, &refusal.encode()),
        Ok(HandshakeAnswer::Wait(wait)) => returns(&wait, bytes, &wait.encode()),
        Err(error) => refused(error),
    }
}

pub(crate) fn answer_seeds() -> Vec<Vec<u8>> {
    let intro = introduction(Role::MemoryServer);
    let welcome = Welcome { version: 1, intro, ring_bytes: 1 << 20, heartbeat_ms: 100, deadline_ms: 1000 };
    let refusal = Refusal::new(RefusalReason::Version, "speaks versions 2–9 only");
    vec![welcome.encode().to_vec(), refusal.encode().to_vec(), Wait.encode().to_vec()]
}

pub(crate) fn region(bytes: &[u8]) -> FuzzVerdict {
    let (descriptor, rest) = match RegionDescriptor::decode_prefix(bytes) {
        Ok(decoded) => decoded,
        Err(error) => return refused(error),
    };
    assert_eq!(RegionDescriptor::decode(bytes).is_ok(), rest.is_empty());
    let primaries = descriptor.extents.iter().filter(|extent| extent.role == ExtentRole::Primary);
    let covered: u128 = primaries.map(|extent| u128::from(extent.length)).sum();
    assert_eq!(covered, u128::from(descriptor.grant.size), "the primaries do not add up to the region");
    let mut encoded = Vec::new();
    descriptor.encode(&mut encoded);
    returns(&descriptor, &bytes[..bytes.len() - rest.len()], &encoded)
}

pub(crate) fn region_seeds() -> Vec<Vec<u8>> {
    let extent = |role, length| Extent {
        server: ServerId(1),
        incarnation: Incarnation(2),
        offset: 4096,
        length,
        role,
    };
    let one = vec![extent(ExtentRole::Primary, 1 << 20)];
    let (half, whole) = (1 << 63, u64::MAX);
    let huge = vec![extent(ExtentRole::Primary, half - 1), extent(ExtentRole::Primary, half)];
    let mirrored = vec![
        extent(ExtentRole::Primary, 1 << 16),
        extent(ExtentRole::Replica, 1 << 16),
        extent(ExtentRole::Primary, 1 << 12),
    ];
    let cases = [(1 << 20, one), (whole, huge), ((1 << 16) + (1 << 12), mirrored)];
    let encode = |(size, extents)| {
        let (region, generation, key) = (RegionId(5), Generation(1), RegionKey([7; 16]));
        let grant = Grant { region, generation, key, rights: Rights::READ.and(Rights::WRITE), size };
        let mut bytes = Vec::new();
        RegionDescriptor { grant, chunk_log2: 16, epoch: 3, extents }.encode(&mut bytes);
        bytes
    };
    cases.map(encode).to_vec()
}

pub(crate) fn liveness(bytes: &[u8]) -> FuzzVerdict {
    let Some((kind, payload)) = split_kind(bytes) else { return FuzzVerdict::Refused };
    match Liveness::decode(kind, payload) {
        Ok(message) => {
            assert!(Liveness::reads(kind) && message.kind() == kind);
            let mut encoded = Vec::new();
            message.encode(&mut encoded);
            returns(&message, payload, &encoded)
        }
        Err(error) => refused(error),
    }
}

pub(crate) fn liveness_seeds() -> Vec<Vec<u8>> {
    let goodbye = Liveness::Goodbye { code: 0, reason: Text::new("done") };
    let encode = |message: Liveness| {
        let mut bytes = kind_bytes(message.kind());
        message.encode(&mut bytes);
        bytes
    };
    [Liveness::Ping(1), Liveness::Pong(u64::MAX), goodbye].map(encode).to_vec()
}

/// The kind, how many bytes of data the frame has behind the fixed part, the fixed part.
pub(crate) fn request(bytes: &[u8]) -> FuzzVerdict {
    let Some((kind, rest)) = split_kind(bytes) else { return FuzzVerdict::Refused };
    let Some((data_len, fixed)) = rest.split_first_chunk() else { return FuzzVerdict::Refused };
    let data_len = u32::from_le_bytes(*data_len) as usize;
    match AccessRequest::decode(kind, fixed, data_len) {
        Ok(request) => {
            assert_eq!(request.kind(), kind);
            assert_eq!(AccessRequest::fixed_len(kind), Some(fixed.len()));
            returns(&request, fixed, request.encode().as_bytes())
        }
        Err(error) => refused(error),
    }
}

pub(crate) fn request_seeds() -> Vec<Vec<u8>> {
    let span = RegionSpan { slot: Slot(3), offset: 0x1000, len: 8 };
    let requests = [
        AccessRequest::Open {
            region: RegionId(5),
            generation: Generation(1),
            rights: Rights::READ,
            key: RegionKey([7; 16]),
        },
        AccessRequest::Close { slot: Slot(3) },
        AccessRequest::Withdrawn { slot: Slot(3) },
        AccessRequest::Read(span),
        AccessRequest::Write(span),
        AccessRequest::CompareSwap { span, expected: 1, desired: 2 },
        AccessRequest::FetchAdd { span, addend: u64::MAX },
    ];
    let encode = |request: AccessRequest| {
        let data_len = if let AccessRequest::Write(span) = request { span.len } else { 0 };
        let mut bytes = kind_bytes(request.kind());
        bytes.extend_from_slice(&data_len.to_le_bytes());
        bytes.extend_from_slice(request.encode().as_bytes());
        bytes
    };
    requests.map(encode).to_vec()
}

pub(crate) fn reply(bytes: &[u8]) -> FuzzVerdict {
    let Some((kind, fixed)) = split_kind(bytes) else { return FuzzVerdict::Refused };
    match AccessReply::decode(kind, fixed) {
        Ok(reply) => {
            assert!(AccessReply::is_reply(kind) && reply.kind() == kind);
            assert_eq!(fixed.len(), AccessReply::FIXED_LEN);
            returns(&reply, fixed, reply.encode().as_bytes())
        }
        Err(error) => refused(error),
    }
}

pub(crate) fn reply_seeds() -> Vec<Vec<u8>> {
    let opened = AccessReply::Opened { status: AccessStatus::Done, slot: Slot(3), size: 1 << 30 };
    let encode = |reply: AccessReply| [kind_bytes(reply.kind()), reply.encode().as_bytes().to_vec()].concat();
    [opened, AccessReply::Done { status: AccessStatus::OutOfBounds, old: 9 }].map(encode).to_vec()
}

pub(crate) fn trial(bytes: &[u8]) -> FuzzVerdict {
    match TrialLength::decode(bytes) {
        Ok(wanted) => returns(&wanted, bytes, &wanted.encode()),
        Err(error) => refused(error),
    }
}

pub(crate) fn trial_seeds() -> Vec<Vec<u8>> {
    [0, 1 << 16, u64::MAX].map(|len| TrialLength(len).encode().to_vec()).to_vec()
}

/// Decoders that are told the frame's kind get it from the first two bytes of an input.
pub(crate) fn split_kind(bytes: &[u8]) -> Option<(FrameKind, &[u8])> {
    let (kind, rest) = bytes.split_first_chunk()?;
    Some((FrameKind(u16::from_le_bytes(*kind)), rest))
}

pub(crate) fn kind_bytes(kind: FrameKind) -> Vec<u8> {
    kind.0.to_le_bytes().to_vec()
}

fn introduction(role: Role) -> Introduction {
    Introduction {
        incarnation: Incarnation(0x1234_5678_9abc_def0),
        role,
        job: JobId(1),
        rank: Rank(2),
        pid: 4242,
        name: Text::new("größe"),
        max_payload: 1 << 16,
        auth: Auth::NONE,
        store: StoreId::NONE,
    }
}
