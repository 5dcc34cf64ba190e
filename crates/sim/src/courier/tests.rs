use outboard_wire::Incarnation;

use super::parcel::{Parcel, Receipt};
use super::*;
use crate::Broken;
use crate::wrong::Wrong;

/// The first promise that machines with these mistakes break under the first seeds.
fn broken(in_source: fn(&mut Source), in_destination: fn(&mut Destination)) -> Option<Broken> {
    (0..20).find_map(|seed| {
        let recorder = Recorder::new(8);
        play_with(
            seed,
            &recorder,
            move |boot, quota, ledger| Wrong {
                machine: Source::new(boot, quota, ledger),
                mistake: in_source,
            },
            move |boot, ledger| Wrong { machine: Destination::new(boot, ledger), mistake: in_destination },
            |source| &source.machine,
        );
        recorder.broken()
    })
}

#[test]
fn right_machines_keep_their_promises() {
    assert_eq!(broken(|_| (), |_| ()), None);
}

#[test]
fn a_destination_that_forgets_whom_it_knows_is_caught() {
    let promise = broken(|_| (), |destination| destination.expected.clear()).unwrap().promise;
    assert!(promise.contains("once and in order"), "{promise}");
}

#[test]
fn a_destination_that_skips_a_gap_is_caught() {
    let skip = |destination: &mut Destination| destination.expected.values_mut().for_each(|next| *next += 1);
    let promise = broken(|_| (), skip).unwrap().promise;
    assert!(promise.contains("acknowledged") || promise.contains("in order"), "{promise}");
}

#[test]
fn a_source_that_forgets_before_the_receipt_is_caught() {
    let promise = broken(Source::trust_the_link, |_| ()).unwrap().promise;
    assert!(promise.contains("only what has arrived"), "{promise}");
}

#[test]
fn a_source_that_never_repeats_is_caught() {
    let promise = broken(Source::never_repeat, |_| ()).unwrap().promise;
    assert!(promise.contains("everything arrives within"), "{promise}");
}

#[test]
fn what_was_spoilt_on_its_way_is_not_read() {
    let (from, to) = (Incarnation(1), Incarnation(2));
    let parcel = Parcel { sequence: 5, base: 3, body: b"outboard".to_vec() };
    let bytes = parcel.encode(from, to);
    assert_eq!(Parcel::decode(&bytes, from, to), Some(parcel));
    assert_eq!(Parcel::decode(&bytes, to, from), None);
    assert_eq!(Parcel::decode(&bytes[..20], from, to), None);
    assert_eq!(Parcel::decode(&bytes[..bytes.len() - 1], from, to), None);
    let receipt = Receipt(9).encode(to, from);
    assert_eq!(Receipt::decode(&receipt, to, from), Some(Receipt(9)));
    assert_eq!(Receipt::decode(&receipt[1..], to, from), None);
}
