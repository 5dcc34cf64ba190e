use proptest::prelude::*;

use super::*;
use crate::{Generation, RegionId, RegionKey, Rights, Site};

fn failures() -> impl Strategy<Value = CallFailure> {
    let trapped =
        (any::<u32>(), 0..TrapReason::ALL.len(), any::<u64>()).prop_map(|(index, reason, address)| {
            CallFailure::Trapped { index, reason: TrapReason::ALL[reason], address }
        });
    prop_oneof![
        Just(CallFailure::NoFunction),
        Just(CallFailure::Expired),
        Just(CallFailure::Repeated),
        Just(CallFailure::Recalled),
        Just(CallFailure::NotResumed),
        any::<u32>().prop_map(|max| CallFailure::ArgumentsTooLong { max }),
        trapped,
    ]
}

fn allowed() -> impl Strategy<Value = Allowed> {
    (any::<u64>(), any::<u32>(), any::<[u8; 16]>(), 0u8..8, any::<u64>()).prop_map(
        |(region, generation, key, rights, size)| Allowed {
            region: RegionId(region),
            generation: Generation(generation),
            key: RegionKey(key),
            rights: Rights::from_bits(rights).unwrap(),
            size,
        },
    )
}

fn verdicts() -> impl Strategy<Value = RegisterVerdict> {
    let refused =
        (0..RegisterRefusal::ALL.len()).prop_map(|why| RegisterVerdict::Refused(RegisterRefusal::ALL[why]));
    prop_oneof![
        Just(RegisterVerdict::Ready),
        Just(RegisterVerdict::NeedsCode),
        Just(RegisterVerdict::Preparing),
        refused
    ]
}

proptest! {
    #[test]
    fn calls_and_answers_are_read_as_they_were_written(
        call: u64, handle in 0..HANDLES_MAX, patience_us: u32, value: u64, bytes: Vec<u8>, failure in failures(),
    ) {
        let sent = Call { call, handle, patience_us };
        prop_assert_eq!(Call::decode(sent.encode()).unwrap(), sent);
        let reply = ReplyHead { call, value };
        let travels = [reply.encode().as_slice(), &bytes].concat();
        prop_assert_eq!(ReplyHead::decode(&travels).unwrap(), (reply, bytes.as_slice()));
        let failed = Failed { call, failure };
        prop_assert_eq!(Failed::decode(&failed.encode()).unwrap(), failed);
    }

    #[test]
    fn registrations_are_read_as_they_were_written(
        handle in 0..HANDLES_MAX, reply_max: u32, fuel: u64, name: [u8; 32],
        regions in proptest::collection::vec(allowed(), 0..=REGIONS_MAX),
        verdict in verdicts(), detail in ".{0,100}",
    ) {
        let register = Register { handle, reply_max, fuel, name: FunctionName(name), regions };
        let mut bytes = Vec::new();
        register.encode(&mut bytes);
        prop_assert_eq!(Register::decode(&bytes).unwrap(), register);
        prop_assert!(Register::decode(&bytes[..bytes.len() - 1]).is_err());
        bytes.push(0);
        prop_assert!(Register::decode(&bytes).is_err());
        let registered = Registered { handle, verdict, detail };
        let mut bytes = Vec::new();
        registered.encode(&mut bytes);
        prop_assert_eq!(Registered::decode(&bytes).unwrap(), registered);
    }

    #[test]
    fn moving_calls_are_read_as_they_were_written(
        call: u64, handle in 0..HANDLES_MAX, patience_us: u32, spent: u64, reply: Vec<u8>, state: Vec<u8>,
        calls in proptest::collection::vec(any::<u64>(), 0..=RECALL_MAX),
    ) {
        let moving = Moving { call, handle, patience_us, spent, reply: &reply, state: &state };
        let mut bytes = Vec::new();
        moving.encode(&mut bytes);
        prop_assert_eq!(bytes.len(), moving.encoded_len());
        prop_assert_eq!(Moving::decode(&bytes).unwrap(), moving);
        let short = Moving::FIXED_LEN + reply.len();
        prop_assert!(reply.is_empty() || Moving::decode(&bytes[..short - 1]).is_err());
        let recall = Recall { calls };
        prop_assert_eq!(Recall::decode(&recall.encode()).unwrap(), recall);
        prop_assert!(Recall::decode(&[0; 8 * RECALL_MAX + 8]).is_err() && Recall::decode(&[0; 9]).is_err());
    }

    #[test]
    fn forwarded_calls_are_read_as_they_were_written(
        call: u64, server in 0..SERVERS_MAX, handle in 0..HANDLES_MAX, index: u32, patience_us: u32, fuel: u64,
        reply: Vec<u8>, arguments: Vec<u8>,
    ) {
        let forwarded = Forwarded { call, server, handle, index, fuel, reply: &reply, arguments: &arguments };
        let mut bytes = Vec::new();
        forwarded.encode(&mut bytes);
        prop_assert_eq!(bytes.len(), forwarded.encoded_len());
        prop_assert_eq!(Forwarded::decode(&bytes).unwrap(), forwarded);
        let short = Forwarded::FIXED_LEN + reply.len();
        prop_assert!(Forwarded::decode(&bytes[..short - 1]).is_err());
        let goes_on = Continue { call: Call { call, handle, patience_us }, fuel };
        let bytes = [goes_on.encode().as_slice(), &arguments].concat();
        prop_assert_eq!(Continue::decode(&bytes).unwrap(), (goes_on, arguments.as_slice()));
        prop_assert!(Continue::decode(&bytes[..Continue::LEN - 1]).is_err());
    }

    #[test]
    fn tables_are_read_as_they_were_written(
        epoch: u64, sites in proptest::collection::vec((0..3usize).prop_map(|place| Site::ALL[place]), SLOTS),
    ) {
        let table = SlotSites { epoch, sites: sites.try_into().unwrap() };
        let bytes = table.encode();
        prop_assert_eq!(SlotSites::decode(&bytes).unwrap(), table);
        prop_assert!(SlotSites::decode(&bytes[1..]).is_err());
    }

    #[test]
    fn what_is_known_of_sites_is_read_as_it_was_written(
        words: [u64; 5], workers: u32, calls: u32,
        sites: [(bool, u32, u64, u64, u32, u64); 3],
    ) {
        let [span_ns, queueing_ns, busy_ns, service_ns, oldest_ns] = words;
        let load = SiteLoad { span_ns, workers, calls, queueing_ns, busy_ns, service_ns, oldest_ns };
        prop_assert_eq!(SiteLoad::decode(&load.encode()).unwrap(), load);
        prop_assert!(SiteLoad::decode(&load.encode()[1..]).is_err());
        let seen = |(is_usable, calls, round_trips_ns, oldest_ns, left, left_ns)| {
            Seen { is_usable, calls, round_trips_ns, oldest_ns, left, left_ns }
        };
        let observed = Observed { sites: sites.map(seen) };
        let mut bytes = observed.encode();
        prop_assert_eq!(Observed::decode(&bytes).unwrap(), observed);
        prop_assert!(Observed::decode(&bytes[1..]).is_err());
        bytes[40] |= 2;
        prop_assert!(Observed::decode(&bytes).is_err(), "usable or not, and nothing else");
        let ask = SlotQuestion { epoch: span_ns };
        prop_assert_eq!(SlotQuestion::decode(&ask.encode()).unwrap(), ask);
    }

    #[test]
    fn what_is_accepted_is_what_was_encoded(mut bytes in proptest::collection::vec(any::<u8>(), 0..160)) {
        // So many are refused for one byte that some are given what they need.
        for (at, most) in [(0, 16), (1, 16), (2, 1), (3, 1), (4, 10), (5, 1), (6, 1), (7, 1), (8, 6), (9, 12), (48, 3)] {
            if let Some(byte) = bytes.get_mut(at) {
                *byte %= most;
            }
        }
        let mut again = Vec::new();
        if let Ok(register) = Register::decode(&bytes) {
            register.encode(&mut again);
            prop_assert_eq!(&again, &bytes);
        }
        again.clear();
        if let Ok(registered) = Registered::decode(&bytes) {
            registered.encode(&mut again);
            prop_assert_eq!(&again, &bytes);
        }
        if let Ok((part, code)) = CodePart::decode(&bytes) {
            prop_assert_eq!([part.encode().as_slice(), code].concat(), bytes.clone());
        }
        if let Ok((reply, rest)) = ReplyHead::decode(&bytes) {
            prop_assert_eq!([reply.encode().as_slice(), rest].concat(), bytes.clone());
        }
        again.clear();
        if let Ok(forwarded) = Forwarded::decode(&bytes) {
            forwarded.encode(&mut again);
            prop_assert_eq!(&again, &bytes);
        }
        if let Some(Ok(failed)) = bytes.get(..Failed::LEN).map(Failed::decode) {
            prop_assert_eq!(failed.encode().to_vec(), bytes[..Failed::LEN].to_vec());
        }
        let _ = Open::decode(&bytes);
    }
}

#[test]
fn numbers_without_meaning_are_refused() {
    let call = Call { call: 1, handle: HANDLES_MAX, patience_us: 0 };
    assert!(Call::decode(call.encode()).is_err());
    assert!(Continue::decode(&Continue { call, fuel: 1 }.encode()).is_err());
    for (server, handle) in [(SERVERS_MAX, 0), (0, HANDLES_MAX)] {
        let mut bytes = Vec::new();
        Forwarded { call: 1, server, handle, index: 0, fuel: 1, reply: &[], arguments: &[] }
            .encode(&mut bytes);
        assert!(Forwarded::decode(&bytes).is_err());
    }
    let failed = Failed { call: 1, failure: CallFailure::Repeated };
    let mut bytes = failed.encode();
    bytes[8] = 9;
    assert!(Failed::decode(&bytes).is_err());
    bytes[8] = 5;
    assert!(Failed::decode(&bytes).is_err(), "a trap needs a reason");
    let register =
        Register { handle: 0, reply_max: 0, fuel: 0, name: FunctionName([1; 32]), regions: vec![] };
    let mut bytes = Vec::new();
    register.encode(&mut bytes);
    bytes[48..56].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(Register::decode(&bytes).is_err(), "no more regions than are possible");
}

#[test]
fn a_slot_without_a_place_is_refused() {
    let mut bytes = SlotSites { epoch: 1, sites: [Site::Agent; SLOTS] }.encode();
    assert!(SlotSites::decode(&bytes).is_ok());
    bytes[SlotSites::LEN - 1] |= 0b11 << 6;
    assert!(SlotSites::decode(&bytes).is_err());
}

#[test]
fn parts_of_code_lie_within_it() {
    let part = |total, offset, code: &[u8]| {
        let head = CodePart { name: FunctionName([3; 32]), total, offset };
        CodePart::decode(&[head.encode().as_slice(), code].concat()).map(|(read, _)| assert_eq!(read, head))
    };
    assert!(part(8, 4, &[0; 4]).is_ok());
    assert!(part(8, 5, &[0; 4]).is_err());
    assert!(part(8, u32::MAX, &[0; 4]).is_err());
    assert!(part(8, 4, &[]).is_err());
    assert!(part(CODE_LEN_MAX as u32 + 1, 0, &[0; 4]).is_err());
}

#[test]
fn a_long_detail_is_cut_between_letters() {
    let verdict = RegisterVerdict::Refused(RegisterRefusal::BadCode);
    let registered = Registered { handle: 7, verdict, detail: "ä".repeat(DETAIL_LEN_MAX) };
    let mut bytes = Vec::new();
    registered.encode(&mut bytes);
    let read = Registered::decode(&bytes).unwrap();
    assert_eq!(read.detail, "ä".repeat(DETAIL_LEN_MAX / 2));
}
