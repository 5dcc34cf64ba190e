//! The decoders of messages between ranks and agents.

use std::fmt::Debug;

use outboard_wire::routing::{
    Ack, Announcement, Attachment, Form, Fragment, Greeting, JobKey, ParcelHead, Run, Welcome,
    next_in_parcel, run_in_parcel,
};
use outboard_wire::{DecodeError, Generation, Grant, JobId, Rank, RegionId, RegionKey, Rights};

use crate::Verdict;
use crate::wire::refused;

/// What was understood is understood the same when it is sent on.
pub(crate) fn same<T: PartialEq + Debug>(
    decoded: Result<T, DecodeError>,
    again: impl FnOnce(&T) -> Result<T, DecodeError>,
) -> Verdict {
    match decoded {
        Ok(message) => {
            assert_eq!(again(&message).as_ref(), Ok(&message));
            Verdict::Decoded
        }
        Err(error) => refused(error),
    }
}

/// Which decoder, then its bytes.
pub(crate) fn routing(bytes: &[u8]) -> Verdict {
    let Some((which, bytes)) = bytes.split_first() else { return Verdict::Refused };
    let len = bytes.len();
    match which {
        0 => same(Greeting::decode(bytes), |message| Greeting::decode(&message.encode())),
        1 => same(Run::decode(bytes, len), |message| Run::decode(&message.encode(), len)),
        2 => same(Ack::decode(bytes), |message| Ack::decode(&message.encode())),
        3 => same(Attachment::decode(bytes), |message| Attachment::decode(&message.encode())),
        4 => same(Welcome::decode(bytes), |message| Welcome::decode(&message.encode())),
        5 => same(Announcement::decode(bytes), |message| Announcement::decode(&message.encode())),
        6 => same(ParcelHead::decode(bytes, len), |message| ParcelHead::decode(&message.encode(), len)),
        7 => same(Fragment::decode(bytes).map(|(fragment, _)| fragment), |fragment| Ok(*fragment)),
        8 => parcel(bytes),
        _ => Verdict::Refused,
    }
}

/// A parcel is walked through as agents and ranks do.
fn parcel(mut rest: &[u8]) -> Verdict {
    while rest.len() >= Run::LEN {
        match next_in_parcel(rest, rest.len()) {
            Ok(run) => rest = &rest[run_in_parcel(run.len as usize)..],
            Err(error) => return refused(error),
        }
    }
    if rest.is_empty() { Verdict::Decoded } else { Verdict::Refused }
}

pub(crate) fn routing_seeds() -> Vec<Vec<u8>> {
    let (region, generation, key) = (RegionId(5), Generation(1), RegionKey([7; 16]));
    let grant = Grant { region, generation, key, rights: Rights::READ, size: 1 << 20 };
    let job = JobKey { job: JobId(3), roster: 9 };
    let (source, destination, rank) = (Rank(1), Rank(2), Rank(1));
    let run = Run { source, destination, number: 4, at: None, len: 16, space: 0, form: Form::Equal(8) };
    let attachment = Attachment { job, rank, ranks: 4, grant, bundle_bytes: 1 << 15, parcel_bytes: 1 << 16 };
    let with_bytes = |head: &[u8]| [head, &[1; 16]].concat();
    let seeds: [(u8, Vec<u8>); 9] = [
        (0, Greeting { grant, ranks: 4, bundle_bytes: 1 << 15 }.encode().to_vec()),
        (1, with_bytes(&run.encode())),
        (2, Ack { source, destination, missing: 7, space: 0 }.encode().to_vec()),
        (3, attachment.encode().to_vec()),
        (4, Welcome { grant }.encode().to_vec()),
        (5, Announcement { job, rank, is_reachable: true, hops: 1 }.encode().to_vec()),
        (6, with_bytes(&ParcelHead { job, at: None, len: 16 }.encode())),
        (7, with_bytes(&Fragment { message: 1, total: 40, offset: 8 }.encode())),
        (8, with_bytes(&run.encode()).repeat(2)),
    ];
    seeds.map(|(which, bytes)| [&[which][..], &bytes].concat()).to_vec()
}
