use proptest::prelude::*;

use super::*;

fn a_run() -> impl Strategy<Value = Run> {
    let at = prop::option::of(0..u64::MAX);
    (any::<[u32; 2]>(), any::<u64>(), at, 0..1u32 << 20, any::<u8>(), any::<bool>()).prop_map(
        |([source, destination], number, at, len, space, is_fragment)| Run {
            source: Rank(source),
            destination: Rank(destination),
            number,
            at,
            len,
            space,
            form: if is_fragment { Form::Fragment } else { Form::Messages },
        },
    )
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

#[test]
fn greetings_come_back() {
    let grant = Grant {
        region: RegionId(5),
        generation: Generation(2),
        key: RegionKey([7; 16]),
        rights: Rights::READ,
        size: 1 << 20,
    };
    let greeting = Greeting { grant, ranks: 16, bundle_bytes: 32768 };
    assert_eq!(Greeting::decode(&greeting.encode()), Ok(greeting));
}

#[test]
fn heads_are_aligned() {
    assert_eq!([0, 1, 8, 9].map(MessageHead::stride), [8, 16, 16, 24]);
}
