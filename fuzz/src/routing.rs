//! The decoders of messages between ranks and agents.

use std::fmt::Debug;

use outboard_routing::AgreementSignal;
use outboard_wire::routing::{
    Ack, Announcement, Form, Fragment, Greeting, JobKey, ParcelHead, ParcelMemory, RankAttachment, Run,
    next_in_parcel, run_in_parcel,
};
use outboard_wire::{DecodeError, Generation, Grant, JobId, Rank, RegionId, RegionKey, Rights};

use crate::FuzzVerdict;
use crate::wire::refused;

/// What was understood is understood the same when it is sent on.
pub(crate) fn same<T: PartialEq + Debug>(
    decoded: Result<T, DecodeError>,
    again: impl FnOnce(&T) -> Result<T, DecodeError>,
) -> FuzzVerdict {
    match decoded {
        Ok(message) => {
            assert_eq!(again(&message).as_ref(), Ok(&message));
            FuzzVerdict::Decoded
        }
        Err(error) => refused(error),
    }
}

/// Which decoder, then its bytes.
pub(crate) fn routing(bytes: &[u8]) -> FuzzVerdict {
    let Some((which, bytes)) = bytes.split_first() else { return FuzzVerdict::Refused };
    let len = bytes.len();
    match which {
        0 => same(Greeting::decode(bytes), |message| Greeting::decode(&message.encode())),
        1 => same(Run::decode(bytes, len), |message| Run::decode(&message.encode(), len)),
        2 => same(Ack::decode(bytes), |message| Ack::decode(&message.encode())),
        3 => same(RankAttachment::decode(bytes), |message| RankAttachment::decode(&message.encode())),
        4 => same(ParcelMemory::decode(bytes), |message| ParcelMemory::decode(&message.encode())),
        5 => same(Announcement::decode(bytes), |message| Announcement::decode(&message.encode())),
        6 => same(ParcelHead::decode(bytes, len), |message| ParcelHead::decode(&message.encode(), len)),
        7 => same(Fragment::decode(bytes).map(|(fragment, _)| fragment), |fragment| Ok(*fragment)),
        8 => parcel(bytes),
        _ => FuzzVerdict::Refused,
    }
}

/// A parcel is walked through as agents and ranks do.
fn parcel(mut rest: &[u8]) -> FuzzVerdict {
    while rest.len() >= Run::LEN {
        match next_in_parcel(rest, rest.len()) {
            Ok(run) => rest = &rest[run_in_parcel(run.len as usize)..],
            Err(error) => return refused(error),
        }
    }
    if rest.is_empty() { FuzzVerdict::Decoded } else { FuzzVerdict::Refused }
}

pub(crate) fn routing_seeds() -> Vec<Vec<u8>> {
    let (region, generation, key) = (RegionId(5), Generation(1), RegionKey([7; 16]));
    let grant = Grant { region, generation, key, rights: Rights::READ, size: 1 << 20 };
    let job = JobKey { job: JobId(3), roster: 9 };
    let (source, destination, rank) = (Rank(1), Rank(2), Rank(1));
    let run = Run { source, destination, number: 4, at: None, len: 16, space: 0, form: Form::Equal(8) };
    let attachment =
        RankAttachment { job, rank, ranks: 4, grant, bundle_bytes: 1 << 15, parcel_bytes: 1 << 16 };
    let with_bytes = |head: &[u8]| [head, &[1; 16]].concat();
    let seeds: [(u8, Vec<u8>); 9] = [
        (0, Greeting { grant, ranks: 4, bundle_bytes: 1 << 15 }.encode().to_vec()),
        (1, with_bytes(&run.encode())),
        (2, Ack { source, destination, missing: 7, space: 0 }.encode().to_vec()),
        (3, attachment.encode().to_vec()),
        (4, ParcelMemory { grant }.encode().to_vec()),
        (5, Announcement { job, rank, is_reachable: true, hops: 1 }.encode().to_vec()),
        (6, with_bytes(&ParcelHead { job, at: None, len: 16 }.encode())),
        (7, with_bytes(&Fragment { message: 1, total: 40, offset: 8 }.encode())),
        (8, with_bytes(&run.encode()).repeat(2)),
    ];
    seeds.map(|(which, bytes)| [&[which][..], &bytes].concat()).to_vec()
}

/// What ranks tell each other to agree on something, in the messages of a space of their own.
pub(crate) fn signal(bytes: &[u8]) -> FuzzVerdict {
    let Some(signal) = AgreementSignal::decode(bytes) else { return FuzzVerdict::Refused };
    assert_eq!(AgreementSignal::decode(&signal.encode()), Some(signal));
    FuzzVerdict::Decoded
}

pub(crate) fn signal_seeds() -> Vec<Vec<u8>> {
    let signals = [
        AgreementSignal::Poll { round: 1, wave: 2 },
        AgreementSignal::Count { round: 1, wave: 2, sent: 30, handled: 4 },
        AgreementSignal::Quiet { round: 3 },
        AgreementSignal::Arrived { round: 4 },
        AgreementSignal::Released { round: 5 },
        AgreementSignal::Leaving { round: 6 },
    ];
    signals.into_iter().map(|signal| signal.encode().to_vec()).collect()
}
