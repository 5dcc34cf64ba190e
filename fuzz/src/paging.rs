//! The decoders of messages about far memory.

use outboard_wire::paging::{
    Attach, CacheMode, Detach, Fence, Fetch, Refusal, Reply, Request, Source, Status, Urgency, WriteBack,
};
use outboard_wire::{Generation, Grant, Incarnation, RegionId, RegionKey, Rights};

use crate::Verdict;
use crate::wire::{kind_bytes, refused, returns, split_kind};

/// The kind, how many bytes of data the frame has behind the fixed part, the fixed part.
pub(crate) fn paging_request(bytes: &[u8]) -> Verdict {
    let Some((kind, rest)) = split_kind(bytes) else { return Verdict::Refused };
    let Some((data_len, fixed)) = rest.split_first_chunk() else { return Verdict::Refused };
    match Request::decode(kind, fixed, u32::from_le_bytes(*data_len) as usize) {
        Ok(request) => {
            assert_eq!(request.kind(), kind);
            assert_eq!(Request::fixed_len(kind), Some(fixed.len()));
            returns(&request, fixed, request.encode().as_bytes())
        }
        Err(error) => refused(error),
    }
}

fn grant() -> Grant {
    let (region, generation, key) = (RegionId(5), Generation(1), RegionKey([7; 16]));
    Grant { region, generation, key, rights: Rights::READ.and(Rights::WRITE), size: 1 << 30 }
}

pub(crate) fn paging_request_seeds() -> Vec<Vec<u8>> {
    let Grant { region, generation, key, .. } = grant();
    let requests = [
        Request::Attach(Attach {
            grant: grant(),
            server: Incarnation(9),
            chunk_log2: 16,
            rights: Rights::READ,
            mode: CacheMode::Auto,
            epoch: 3,
        }),
        Request::Detach(Detach { region, generation }),
        Request::Fetch(Fetch {
            region,
            generation,
            offset: 1 << 20,
            length: 1 << 16,
            urgency: Urgency::Background,
        }),
        Request::WriteBack(WriteBack {
            region,
            generation,
            key,
            epoch: 3,
            offset: u64::MAX,
            length: 1 << 16,
        }),
        Request::Fence(Fence { region, generation, key }),
    ];
    let encode = |request: Request| {
        let data_len = if let Request::WriteBack(back) = request { back.length } else { 0 };
        with_data_len(kind_bytes(request.kind()), data_len, request.encode().as_bytes())
    };
    requests.map(encode).to_vec()
}

/// The same parts as of a request.
pub(crate) fn paging_reply(bytes: &[u8]) -> Verdict {
    let Some((kind, rest)) = split_kind(bytes) else { return Verdict::Refused };
    let Some((data_len, fixed)) = rest.split_first_chunk() else { return Verdict::Refused };
    match Reply::decode(kind, fixed, u32::from_le_bytes(*data_len) as usize) {
        Ok(reply) => {
            assert_eq!(reply.kind(), kind);
            assert_eq!(Reply::fixed_len(kind), Some(fixed.len()));
            returns(&reply, fixed, reply.encode().as_bytes())
        }
        Err(error) => refused(error),
    }
}

pub(crate) fn paging_reply_seeds() -> Vec<Vec<u8>> {
    let replies = [
        Reply::Attached { mode: CacheMode::Dynamic, static_grant: None },
        Reply::Attached { mode: CacheMode::Static, static_grant: Some(grant()) },
        Reply::refused(Refusal::NoServer, "no link to that server"),
        Reply::Fetched { status: Status::Done, source: Source::Late, length: 1 << 16 },
        Reply::not_fetched(Status::Unavailable),
        Reply::Written { status: Status::StaleEpoch, epoch: 4 },
        Reply::Fenced { status: Status::Done, epoch: 5 },
    ];
    let encode = |reply: Reply| {
        let data_len = if let Reply::Fetched { length, .. } = reply { length } else { 0 };
        with_data_len(kind_bytes(reply.kind()), data_len, reply.encode().as_bytes())
    };
    replies.map(encode).to_vec()
}

fn with_data_len(kind: Vec<u8>, data_len: u32, fixed: &[u8]) -> Vec<u8> {
    [&kind[..], &data_len.to_le_bytes(), fixed].concat()
}
