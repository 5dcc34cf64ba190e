//! What impostors answer: anything, or what was asked for.

use outboard_e2e::Random;
use outboard_wire::access::{AccessReply, AccessRequest, AccessStatus, Slot};
use outboard_wire::calling::{
    REGISTER, REGISTERED, REPLY, RegisterVerdict, Registered, SLOTS, SlotSites, TABLE,
};
use outboard_wire::control::{ControlAnswer, ControlFailure, Question};
use outboard_wire::paging::{CacheMode, FetchSource, PagingReply, PagingRequest, PagingStatus};
use outboard_wire::writing::{ATTACH, AttachWriter, DRAINED, Drained, WriterId};
use outboard_wire::{
    Extent, ExtentRole, FrameHead, FrameKind, Incarnation, RegionDescriptor, Rights, ServerId, Site,
};

use super::forge::{self, edge, some_bytes};

/// How large a region is said to be, mostly.
pub(super) const SIZE: u64 = 1 << 16;

/// A region of an impostor, with numbers that are wrong now and then.
fn region(life: Incarnation, random: &mut Random) -> (FrameKind, Vec<u8>) {
    let mut grant = forge::grant(None, random);
    let is_wrong = random.once_in(16);
    (grant.size, grant.rights) = if is_wrong { (edge(random), grant.rights) } else { (SIZE, Rights::ALL) };
    let extent = Extent {
        server: ServerId(1),
        incarnation: if random.once_in(16) { Incarnation(random.next()) } else { life },
        offset: 0,
        length: grant.size,
        role: ExtentRole::Primary,
    };
    let answer = ControlAnswer::Region(RegionDescriptor {
        grant,
        chunk_log2: if random.once_in(16) { random.next() as u8 } else { 12 },
        epoch: if random.once_in(16) { edge(random) } else { 1 },
        extents: vec![extent; if random.once_in(16) { random.below(3) as usize } else { 1 }],
    });
    let mut bytes = Vec::new();
    answer.encode(&mut bytes);
    (answer.kind(), bytes)
}

fn access(reply: &AccessReply, data: usize) -> (FrameKind, Vec<u8>) {
    (reply.kind(), [reply.encode().as_bytes(), &vec![7; data]].concat())
}

/// What the client has asked for, so that it asks for more.
pub(super) fn fitting(
    (head, payload): (&FrameHead, &[u8]),
    life: Incarnation,
    random: &mut Random,
) -> (FrameKind, Vec<u8>) {
    let kind = head.kind;
    let mut bytes = Vec::new();
    if Question::is_question(kind) {
        return region(life, random);
    }
    if let Some(fixed) = AccessRequest::fixed_len(kind).filter(|fixed| *fixed <= payload.len()) {
        let (fixed, data) = payload.split_at(fixed);
        return match AccessRequest::decode(kind, fixed, data.len()) {
            Ok(AccessRequest::Open { .. }) => {
                let opened = AccessReply::Opened { status: AccessStatus::Done, slot: Slot(1), size: SIZE };
                access(&opened, 0)
            }
            Ok(AccessRequest::Read(span)) => access(
                &AccessReply::Done { status: AccessStatus::Done, old: 0 },
                span.len.min(SIZE as u32) as usize,
            ),
            _ => access(&AccessReply::Done { status: AccessStatus::Done, old: edge(random) }, 0),
        };
    }
    if PagingRequest::fixed_len(kind).is_some() {
        let reply = PagingReply::Written { status: PagingStatus::Done, epoch: 1 + random.below(2) };
        return (reply.kind(), reply.encode().as_bytes().to_vec());
    }
    if let (true, Some(handle)) = (kind == REGISTER, payload.first_chunk()) {
        let handle = u32::from_le_bytes(*handle);
        Registered { handle, verdict: RegisterVerdict::Ready, detail: String::new() }.encode(&mut bytes);
        return (REGISTERED, bytes);
    }
    if let (true, Ok(AttachWriter { writer, attempt, .. })) = (kind == ATTACH, AttachWriter::decode(payload))
    {
        Drained { writer, attempt, through: random.below(4), refusals: Vec::new() }.encode(&mut bytes);
        return (DRAINED, bytes);
    }
    any_answer(random)
}

/// An answer of any service to anything.
pub(super) fn any_answer(random: &mut Random) -> (FrameKind, Vec<u8>) {
    let paging = |reply: PagingReply, data: usize| {
        (reply.kind(), [reply.encode().as_bytes(), &vec![3; data]].concat())
    };
    let mut bytes = Vec::new();
    match random.below(12) {
        0 => {
            let grant = forge::grant(None, random);
            paging(PagingReply::Attached { mode: CacheMode::Static, static_grant: Some(grant) }, 0)
        }
        1 => {
            let length = edge(random) as u32;
            paging(
                PagingReply::Fetched { status: PagingStatus::Done, source: FetchSource::Hit, length },
                (length as usize).min(8192),
            )
        }
        2 => paging(PagingReply::Written { status: PagingStatus::Done, epoch: edge(random) }, 0),
        3 => paging(PagingReply::Fenced { status: PagingStatus::Done, epoch: edge(random) }, 0),
        4 => {
            let answer = ControlAnswer::failed(ControlFailure::NotServed, "no");
            answer.encode(&mut bytes);
            (answer.kind(), bytes)
        }
        5 => {
            let sites = [Site::ALL[random.below(3) as usize]; SLOTS];
            (TABLE, SlotSites { epoch: edge(random), sites }.encode().to_vec())
        }
        6 => {
            let (writer, attempt) = (WriterId([0; 16]), edge(random) as u32);
            Drained { writer, attempt, through: edge(random), refusals: Vec::new() }.encode(&mut bytes);
            (DRAINED, bytes)
        }
        7 => (REPLY, some_bytes(200, random)),
        8 | 9 => region(Incarnation(random.next()), random),
        10 => {
            let size = if random.once_in(4) { edge(random) } else { 1 << 16 };
            let slot = Slot(edge(random) as u32);
            let reply = AccessReply::Opened { status: AccessStatus::Done, slot, size };
            (reply.kind(), reply.encode().as_bytes().to_vec())
        }
        _ => {
            let reply = AccessReply::Done { status: AccessStatus::Done, old: edge(random) };
            (reply.kind(), reply.encode().as_bytes().to_vec())
        }
    }
}
