//! The decoders of messages about far memory.

use outboard_paging::application::chunks::{ChunkKey, SizeClass};
use outboard_paging::application::{RecordedRegion, Recording};
use outboard_wire::paging::{
    AttachRefusal, AttachRegion, CacheMode, DetachRegion, Fence, Fetch, FetchSource, PagingReply,
    PagingRequest, PagingStatus, Urgency, WriteBack,
};
use outboard_wire::{Generation, Grant, Incarnation, RegionId, RegionKey, Rights};

use crate::FuzzVerdict;
use crate::wire::{kind_bytes, refused, returns, split_kind};

/// A recording of far memory. Numbers can be written in more bytes than they need, so other bytes may mean the same.
pub(crate) fn recording(bytes: &[u8]) -> FuzzVerdict {
    match Recording::decode(bytes) {
        Ok(recording) => {
            assert_eq!(Recording::decode(&recording.encode()).as_ref(), Ok(&recording));
            FuzzVerdict::Decoded
        }
        Err(error) => refused(error),
    }
}

pub(crate) fn recording_seeds() -> Vec<Vec<u8>> {
    let region = |number, class| RecordedRegion { number, class: SizeClass(class), chunks: 1 << 20 };
    let key = ChunkKey::new;
    let recording = Recording {
        regions: vec![region(0, 12), region(7, 16)],
        touches: vec![key(0, 5), key(0, 4), key(7, (1 << 20) - 1), key(0, 4), key(7, 0)],
    };
    [Recording::default(), recording].iter().map(Recording::encode).collect()
}

/// The kind, how many bytes of data the frame has behind the fixed part, the fixed part.
pub(crate) fn paging_request(bytes: &[u8]) -> FuzzVerdict {
    let Some((kind, rest)) = split_kind(bytes) else { return FuzzVerdict::Refused };
    let Some((data_len, fixed)) = rest.split_first_chunk() else { return FuzzVerdict::Refused };
    match PagingRequest::decode(kind, fixed, u32::from_le_bytes(*data_len) as usize) {
        Ok(request) => {
            assert_eq!(request.kind(), kind);
            assert_eq!(PagingRequest::fixed_len(kind), Some(fixed.len()));
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
        PagingRequest::Attach(AttachRegion {
            grant: grant(),
            server: Incarnation(9),
            chunk_log2: 16,
            rights: Rights::READ,
            mode: CacheMode::Auto,
            epoch: 3,
        }),
        PagingRequest::Detach(DetachRegion { region, generation }),
        PagingRequest::Fetch(Fetch {
            region,
            generation,
            offset: 1 << 20,
            length: 1 << 16,
            urgency: Urgency::Background,
        }),
        PagingRequest::WriteBack(WriteBack {
            region,
            generation,
            key,
            epoch: 3,
            offset: u64::MAX,
            length: 1 << 16,
        }),
        PagingRequest::Fence(Fence { region, generation, key }),
        PagingRequest::Discard(WriteBack {
            region,
            generation,
            key,
            epoch: 3,
            offset: 1 << 20,
            length: 1 << 20,
        }),
    ];
    let encode = |request: PagingRequest| {
        let data_len = if let PagingRequest::WriteBack(back) = request { back.length } else { 0 };
        with_data_len(kind_bytes(request.kind()), data_len, request.encode().as_bytes())
    };
    requests.map(encode).to_vec()
}

/// The parts as of a request.
pub(crate) fn paging_reply(bytes: &[u8]) -> FuzzVerdict {
    let Some((kind, rest)) = split_kind(bytes) else { return FuzzVerdict::Refused };
    let Some((data_len, fixed)) = rest.split_first_chunk() else { return FuzzVerdict::Refused };
    match PagingReply::decode(kind, fixed, u32::from_le_bytes(*data_len) as usize) {
        Ok(reply) => {
            assert_eq!(reply.kind(), kind);
            assert_eq!(PagingReply::fixed_len(kind), Some(fixed.len()));
            returns(&reply, fixed, reply.encode().as_bytes())
        }
        Err(error) => refused(error),
    }
}

pub(crate) fn paging_reply_seeds() -> Vec<Vec<u8>> {
    let replies = [
        PagingReply::Attached { mode: CacheMode::Dynamic, static_grant: None },
        PagingReply::Attached { mode: CacheMode::Static, static_grant: Some(grant()) },
        PagingReply::refused(AttachRefusal::NoServer, "no link to that server"),
        PagingReply::Fetched { status: PagingStatus::Done, source: FetchSource::Late, length: 1 << 16 },
        PagingReply::not_fetched(PagingStatus::Unavailable),
        PagingReply::Written { status: PagingStatus::StaleEpoch, epoch: 4 },
        PagingReply::Fenced { status: PagingStatus::Done, epoch: 5 },
    ];
    let encode = |reply: PagingReply| {
        let data_len = if let PagingReply::Fetched { length, .. } = reply { length } else { 0 };
        with_data_len(kind_bytes(reply.kind()), data_len, reply.encode().as_bytes())
    };
    replies.map(encode).to_vec()
}

fn with_data_len(kind: Vec<u8>, data_len: u32, fixed: &[u8]) -> Vec<u8> {
    [&kind[..], &data_len.to_le_bytes(), fixed].concat()
}
