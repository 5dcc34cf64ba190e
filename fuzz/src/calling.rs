//! The decoders of calls and of everything about them.

use outboard_calling::FunctionImage;
use outboard_wire::calling::{
    Allowed, Call, CallFailure, CallerId, CodePart, Continue, Failed, Forwarded, FunctionName, Moving,
    Observed, Open, Recall, Register, RegisterRefusal, RegisterVerdict, Registered, ReplyHead, SLOTS, Seen,
    SiteLoad, SlotQuestion, SlotSites, TrapReason,
};
use outboard_wire::{DecodeError, Generation, Incarnation, RegionId, RegionKey, Rights, Site};

use crate::FuzzVerdict;
use crate::wire::{refused, returns};

/// Which decoder, then its bytes.
pub(crate) fn calling(bytes: &[u8]) -> FuzzVerdict {
    let Some((which, bytes)) = bytes.split_first() else { return FuzzVerdict::Refused };
    let verdict = match which {
        0 => Open::decode(bytes).map(|open| returns(&open, bytes, &open.encode())),
        1 => Register::decode(bytes).map(|register| {
            let mut encoded = Vec::new();
            register.encode(&mut encoded);
            returns(&register, bytes, &encoded)
        }),
        2 => Registered::decode(bytes).map(|registered| {
            let mut encoded = Vec::new();
            registered.encode(&mut encoded);
            returns(&registered, bytes, &encoded)
        }),
        3 => CodePart::decode(bytes)
            .map(|(part, code)| returns(&part, bytes, &[part.encode().as_slice(), code].concat())),
        4 => call(bytes),
        5 => ReplyHead::decode(bytes)
            .map(|(reply, rest)| returns(&reply, bytes, &[reply.encode().as_slice(), rest].concat())),
        6 => Failed::decode(bytes).map(|failed| returns(&failed, bytes, &failed.encode())),
        7 => SlotQuestion::decode(bytes).map(|ask| returns(&ask, bytes, &ask.encode())),
        8 => SlotSites::decode(bytes).map(|table| returns(&table, bytes, &table.encode())),
        9 => SiteLoad::decode(bytes).map(|load| returns(&load, bytes, &load.encode())),
        10 => Observed::decode(bytes).map(|observed| returns(&observed, bytes, &observed.encode())),
        11 => Recall::decode(bytes).map(|recall| returns(&recall, bytes, &recall.encode())),
        12 => Moving::decode(bytes).map(|moving| {
            let mut encoded = Vec::new();
            moving.encode(&mut encoded);
            returns(&moving, bytes, &encoded)
        }),
        13 => Forwarded::decode(bytes).map(|forwarded| {
            let mut encoded = Vec::new();
            forwarded.encode(&mut encoded);
            returns(&forwarded, bytes, &encoded)
        }),
        14 => Continue::decode(bytes)
            .map(|(call, rest)| returns(&call, bytes, &[call.encode().as_slice(), rest].concat())),
        _ => return FuzzVerdict::Refused,
    };
    verdict.unwrap_or_else(refused)
}

/// The start of a call is taken out of the frame by its length.
fn call(bytes: &[u8]) -> Result<FuzzVerdict, DecodeError> {
    let Some((head, _)) = bytes.split_first_chunk() else { return Ok(FuzzVerdict::Refused) };
    Call::decode(*head).map(|call| returns(&call, head, &call.encode()))
}

pub(crate) fn calling_seeds() -> Vec<Vec<u8>> {
    let name = FunctionName([3; 32]);
    let (region, generation, key) = (RegionId(5), Generation(1), RegionKey([7; 16]));
    let regions = vec![Allowed { region, generation, key, rights: Rights::ALL, size: 4096 }; 2];
    let (mut register, mut ready, mut no) = (Vec::new(), Vec::new(), Vec::new());
    Register { handle: 1, reply_max: 64, fuel: 1000, name, regions }.encode(&mut register);
    Registered { handle: 1, verdict: RegisterVerdict::Ready, detail: String::new() }.encode(&mut ready);
    let verdict = RegisterVerdict::Refused(RegisterRefusal::BadCode);
    Registered { handle: 1, verdict, detail: "endless".to_owned() }.encode(&mut no);
    let trapped = CallFailure::Trapped { index: 4, reason: TrapReason::NoRight, address: 0 };
    let mut sites = [Site::Server; SLOTS];
    sites[..100].fill(Site::Agent);
    let load = SiteLoad { span_ns: 1_000_000, workers: 2, calls: 500, ..SiteLoad::default() };
    let seen = Seen { is_usable: true, calls: 5, round_trips_ns: 30_000, ..Seen::default() };
    let with_bytes = |head: &[u8]| [head, &[1; 16]].concat();
    let mut moving = Vec::new();
    let (reply, state) = (b"so far", &[1; 40]);
    Moving { call: 7, handle: 1, patience_us: 9, spent: 16, reply, state }.encode(&mut moving);
    let mut forwarded = Vec::new();
    Forwarded { call: 7, server: 1, handle: 2, index: 9, fuel: 5000, reply, arguments: b"key" }
        .encode(&mut forwarded);
    let goes_on = Continue { call: Call { call: 3, handle: 2, patience_us: 9 }, fuel: 4000 };
    let seeds: [(u8, Vec<u8>); 17] = [
        (0, Open { caller: CallerId([9; 16]), server: Incarnation(5) }.encode().to_vec()),
        (1, register),
        (2, ready),
        (2, no),
        (3, with_bytes(&CodePart { name, total: 64, offset: 16 }.encode())),
        (4, with_bytes(&Call { call: 7, handle: 1, patience_us: 0 }.encode())),
        (5, with_bytes(&ReplyHead { call: 7, value: 1 }.encode())),
        (6, Failed { call: 7, failure: trapped }.encode().to_vec()),
        (6, Failed { call: 8, failure: CallFailure::Repeated }.encode().to_vec()),
        (7, SlotQuestion { epoch: 2 }.encode().to_vec()),
        (8, SlotSites { epoch: 3, sites }.encode().to_vec()),
        (9, load.encode().to_vec()),
        (10, Observed { sites: [Seen::default(), seen, seen] }.encode().to_vec()),
        (11, Recall { calls: vec![7, 8, 9] }.encode()),
        (12, moving),
        (13, forwarded),
        (14, with_bytes(&goes_on.encode())),
    ];
    seeds.map(|(which, bytes)| [&[which][..], &bytes].concat()).to_vec()
}

/// A function as it travels, which its name is the hash of: anything may stand in it.
pub(crate) fn function(bytes: &[u8]) -> FuzzVerdict {
    let image = FunctionImage::from_bytes(bytes.to_vec());
    // Asked before anything is known of it.
    let may_forward = image.may_forward();
    let (program, entry) = match image.program() {
        Ok(read) => read,
        Err(error) => {
            assert!(!may_forward, "what cannot be read goes nowhere");
            return refused(error);
        }
    };
    let Ok(again) = FunctionImage::from_program(&program, &entry) else { return FuzzVerdict::Decoded };
    let (read, read_entry) = again.program().unwrap_or_else(|error| panic!("what was made is read: {error}"));
    assert_eq!((read_entry.as_str(), again.may_forward()), (entry.as_str(), may_forward));
    assert_eq!(FunctionImage::from_program(&read, &entry).ok(), Some(again));
    FuzzVerdict::Decoded
}

pub(crate) fn function_seeds() -> Vec<Vec<u8>> {
    let reads = "mov r1, 0\nmov r2, 0\nmov r3, r10\nadd r3, -8\nmov r4, 8\ncall region_read\nmov r0, 0\nexit";
    let forwards = "mov r1, 0\nmov r2, r10\nadd r2, -8\nmov r3, 0\ncall forward\nmov r0, 0\nexit";
    let images = [reads, forwards].map(|text| FunctionImage::from_text(text, "main"));
    images.into_iter().flatten().map(|image| image.bytes().to_vec()).collect()
}
