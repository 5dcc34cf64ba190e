use proptest::prelude::*;

use super::*;

fn a_run() -> impl Strategy<Value = Run> {
    let at = prop::option::of(0..u64::MAX);
    (any::<[u32; 2]>(), any::<u64>(), at, (0..1u32 << 17).prop_map(|words| 8 * words), any::<u8>(), 0..4usize)
        .prop_map(|([source, destination], number, at, len, space, form)| Run {
            source: Rank(source),
            destination: Rank(destination),
            number,
            at,
            len,
            space,
            form: [Form::Messages, Form::Fragment, Form::Ack, Form::Equal(8)][form],
        })
}

proptest! {
    #[test]
    fn runs_come_back_as_they_went(run in a_run()) {
        let follow = if run.at.is_some() { 0 } else { run.len as usize };
        prop_assert_eq!(Run::decode(&run.encode(), Run::LEN + follow), Ok(run));
        prop_assert!(Run::decode(&run.encode(), Run::LEN + follow + 1).is_err());
    }

    #[test]
    fn heads_are_one_word(size: u32, rank: u32) {
        let head = MessageHead { size, rank: Rank(rank) };
        prop_assert_eq!(MessageHead::from_word(head.word()), head);
    }

    #[test]
    fn anything_can_arrive(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = Run::decode(&bytes, bytes.len());
        let _ = Greeting::decode(&bytes);
        let _ = Ack::decode(&bytes);
        let _ = (RankAttachment::decode(&bytes), ParcelMemory::decode(&bytes), Announcement::decode(&bytes));
        let _ = ParcelHead::decode(&bytes, bytes.len());
        if let Ok(run) = next_in_parcel(&bytes, bytes.len()) {
            prop_assert!(run_in_parcel(run.len as usize) <= bytes.len());
        }
        if let Ok((fragment, part)) = Fragment::decode(&bytes) {
            prop_assert!(fragment.offset + part.len() as u64 <= fragment.total);
        }
    }

    #[test]
    fn acks_and_fragments_come_back(source: u32, missing: u64, total in 8..u64::MAX) {
        let ack = Ack { source: Rank(source), destination: Rank(7), missing, space: 3 };
        prop_assert_eq!(Ack::decode(&ack.encode()), Ok(ack));
        let fragment = Fragment { message: missing, total, offset: total - 8 };
        let mut bytes = fragment.encode().to_vec();
        bytes.extend([1; 8]);
        prop_assert_eq!(Fragment::decode(&bytes), Ok((fragment, &[1u8; 8][..])));
        bytes.push(1);
        prop_assert!(Fragment::decode(&bytes).is_err(), "one byte beyond the message");
    }
}

fn a_grant() -> Grant {
    Grant {
        region: RegionId(5),
        generation: Generation(2),
        key: RegionKey([7; 16]),
        rights: Rights::READ,
        size: 1 << 20,
    }
}

#[test]
fn what_agents_say_comes_back() {
    let (grant, job) = (a_grant(), JobKey { job: crate::JobId(3), roster: 77 });
    let attachment =
        RankAttachment { job, rank: Rank(2), ranks: 16, grant, bundle_bytes: 1 << 15, parcel_bytes: 1 << 16 };
    assert_eq!(RankAttachment::decode(&attachment.encode()), Ok(attachment));
    assert_eq!(ParcelMemory::decode(&ParcelMemory { grant }.encode()), Ok(ParcelMemory { grant }));
    let announcement = Announcement { job, rank: Rank(9), is_reachable: true, hops: 1 };
    assert_eq!(Announcement::decode(&announcement.encode()), Ok(announcement));
    let parcel = ParcelHead { job, at: None, len: 64 };
    assert_eq!(ParcelHead::decode(&parcel.encode(), ParcelHead::LEN + 64), Ok(parcel));
    assert!(ParcelHead::decode(&parcel.encode(), ParcelHead::LEN + 63).is_err());
}

#[test]
fn messages_of_one_size_fill_their_run() {
    let run = Run {
        source: Rank(1),
        destination: Rank(2),
        number: 5,
        at: Some(0),
        len: 48,
        space: 0,
        form: Form::Equal(13),
    };
    assert_eq!(Run::decode(&run.encode(), Run::LEN), Ok(run));
    assert!(Run::decode(&Run { len: 40, ..run }.encode(), Run::LEN).is_err(), "two and a half");
    assert!(Run::decode(&Run { form: Form::Equal(0), ..run }.encode(), Run::LEN).is_err(), "of nothing");
}

#[test]
fn a_parcel_is_read_run_by_run() {
    let run = Run {
        source: Rank(1),
        destination: Rank(2),
        number: 5,
        at: None,
        len: 13,
        space: 0,
        form: Form::Messages,
    };
    assert_eq!(next_in_parcel(&run.encode(), run_in_parcel(13)), Ok(run));
    assert!(next_in_parcel(&run.encode(), run_in_parcel(13) - 1).is_err());
    assert!(next_in_parcel(&Run { at: Some(0), ..run }.encode(), 100).is_err(), "not in another's memory");
}

#[test]
fn greetings_come_back() {
    let grant = a_grant();
    let greeting = Greeting { grant, ranks: 16, bundle_bytes: 32768 };
    assert_eq!(Greeting::decode(&greeting.encode()), Ok(greeting));
}

#[test]
fn heads_are_aligned() {
    assert_eq!([0, 1, 8, 9].map(MessageHead::stride), [8, 16, 16, 24]);
}
