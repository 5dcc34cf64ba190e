//! Long replies, received and sent past the queues.

use outboard_wire::access::{AccessReply, AccessRequest, AccessStatus, RegionSpan, Slot};
use outboard_wire::liveness::Liveness;

use super::script::{ScriptLink, answer, assert_holds, data, done, scripted};
use super::*;
use crate::memory::Buffer;
use crate::{Loss, Violation};

const LEN: usize = 4096;
/// The bytes before those of a read.
const HEAD: usize = 32;

fn tokens(ended: &[Completion]) -> Vec<u64> {
    ended.iter().for_each(|completion| assert_eq!(completion.result.as_ref().unwrap(), &AccessOutcome::Read));
    ended.iter().map(|completion| completion.token.0).collect()
}

fn note(number: u8) -> Vec<u8> {
    record(NOTE, &vec![number; usize::from(number) * 9])
}

fn ping() -> Vec<u8> {
    let mut payload = Vec::new();
    let ping = Liveness::Ping(3);
    ping.encode(&mut payload);
    record(FrameHead::new(ping.kind()), &payload)
}

#[test]
fn a_reply_that_is_cut_anywhere_arrives() {
    let (mut link, _) = scripted();
    let region = link.open_region();
    for cut in 0..=HEAD + LEN + 2 * HEAD {
        let reads = link.begin_reads(region, &[LEN, LEN]);
        let bytes: Vec<u8> =
            reads.iter().enumerate().flat_map(|(n, (tag, _))| done(*tag, &data(n, LEN))).collect();
        link.hear(&bytes, [cut]);
        assert_eq!(tokens(&link.run().unwrap()), [0, 1], "cut after {cut}");
        for (number, (_, buffer)) in reads.iter().enumerate() {
            assert_holds(buffer, &data(number, LEN));
        }
    }
    assert!(link.stream.scattered > LEN);
}

/// Reads of several lengths, frames and pings in between, all in portions of `portion` bytes.
fn mixture(link: &mut ScriptLink, region: OpenRegion, portion: usize) {
    let lens = [LEN, 100, 2 * LEN, LEN + 8, LEN, LEN + 16, 3 * LEN, 0, LEN];
    let reads = link.begin_reads(region, &lens);
    let mut bytes = note(1);
    for (number, (tag, _)) in reads.iter().enumerate() {
        bytes.extend(done(*tag, &data(number, lens[number])));
        match number {
            2 => bytes.extend(note(2)),
            4 => bytes.extend(ping()),
            6 => bytes.extend([note(3), ping(), note(4)].concat()),
            _ => {}
        }
    }
    link.hear(&bytes, std::iter::repeat_n(portion, bytes.len() / portion + 1));
    let (mut ended, mut frames) = (Vec::new(), Vec::new());
    while ended.len() < lens.len() || frames.len() < 4 {
        ended.extend(tokens(&link.run().unwrap()));
        frames.extend(take_all(link).unwrap());
        assert!(ended.len() + frames.len() > 0, "portions of {portion} bring nothing");
    }
    assert_eq!(ended, (0..lens.len() as u64).collect::<Vec<_>>(), "portions of {portion}");
    assert_eq!(frames, [1u8, 2, 3, 4].map(|number| vec![number; usize::from(number) * 9]));
    for (number, (_, buffer)) in reads.iter().enumerate() {
        assert_holds(buffer, &data(number, lens[number]));
    }
    assert_eq!(link.said().len(), 2, "both pings are answered");
}

#[test]
fn replies_arrive_among_frames_in_portions_of_any_size() {
    let (mut link, _) = scripted();
    let region = link.open_region();
    let sizes = [LEN, HEAD + LEN, 2 * LEN, 3 * LEN].into_iter().flat_map(|size| size - 33..=size + 33);
    for portion in (1..=100).chain(sizes).chain([1 << 20]) {
        mixture(&mut link, region, portion);
    }
}

#[test]
fn a_single_reply_is_received_in_place_at_once() {
    let (mut link, _) = scripted();
    let region = link.open_region();
    let reads = link.begin_reads(region, &[LEN]);
    let looks = link.stream.looks;
    link.hear(&done(reads[0].0, &data(0, LEN)), []);
    assert!(link.progress(Time::ZERO).unwrap());
    assert_eq!((link.stream.looks - looks, link.stream.guesses), (1, 1));
    assert_eq!(link.completions(|completion| assert!(completion.result.is_ok())), 1);
    assert_holds(&reads[0].1, &data(0, LEN));
    assert!(!link.progress(Time::ZERO).unwrap());
    assert_eq!(link.stream.looks - looks, 1, "what was drained a moment ago is not looked at");
    assert!(!link.progress(Time::ZERO).unwrap());
    assert_eq!(link.stream.looks - looks, 2);
}

#[test]
fn a_side_that_expects_a_reply_and_gets_frames_expects_it_once() {
    let (mut link, _) = scripted();
    let region = link.open_region();
    let reads = link.begin_reads(region, &[LEN]);
    for number in 1..20u8 {
        link.hear(&note(number), []);
        link.run().unwrap();
        assert_eq!(take_all(&mut link).unwrap(), [vec![number; usize::from(number) * 9]]);
    }
    assert_eq!(link.stream.guesses, 1);
    link.hear(&done(reads[0].0, &data(0, LEN)), []);
    assert_eq!(tokens(&link.run().unwrap()), [0]);
    assert_holds(&reads[0].1, &data(0, LEN));
}

#[test]
fn what_others_may_write_to_is_no_place_for_what_is_not_known() {
    let (mut link, _) = scripted();
    let region = link.open_region();
    let buffer = Arc::new(Segment::create(c"test", 2 * LEN).unwrap()).into_buffer();
    link.read(region, 0, &buffer, 0, LEN, Token(5)).unwrap();
    link.flush().unwrap();
    let tag = link.said()[0].0.tag;
    link.hear(&done(tag, &data(0, LEN)), [100]);
    assert_eq!(tokens(&link.run().unwrap()), [5]);
    assert_eq!((link.stream.guesses, link.stream.scattered), (0, 1), "the rest is known to belong there");
    assert_eq!(buffer.window().part(0, LEN).to_vec(), data(0, LEN));
}

#[test]
fn a_deferred_frame_holds_back_long_replies_too() {
    let (mut link, _) = scripted();
    let region = link.open_region();
    let reads = link.begin_reads(region, &[LEN]);
    link.hear(&[note(7), done(reads[0].0, &data(0, LEN))].concat(), [50, 1000]);
    assert!(link.run().unwrap().is_empty());
    assert_eq!(link.receive(9, |_| Disposition::Deferred).unwrap(), 0);
    assert!(link.run().unwrap().is_empty());
    assert_eq!(take_all(&mut link).unwrap().len(), 1);
    assert_eq!(tokens(&link.run().unwrap()), [0]);
    assert_holds(&reads[0].1, &data(0, LEN));
}

#[test]
fn a_reply_that_was_whole_behind_a_frame_needs_nothing_more_to_arrive() {
    let (mut link, _) = scripted();
    let region = link.open_region();
    let reads = link.begin_reads(region, &[LEN]);
    link.hear(&[note(7), done(reads[0].0, &data(0, LEN))].concat(), []);
    assert!(link.run().unwrap().is_empty());
    assert_eq!(link.receive(1, |_| Disposition::Taken).unwrap(), 1);
    assert_eq!(tokens(&link.run().unwrap()), [0]);
    assert_holds(&reads[0].1, &data(0, LEN));
}

#[test]
fn reads_that_end_now_and_then_are_waited_for() {
    let (mut link, _) = scripted();
    let region = link.open_region();
    let reads = link.begin_reads(region, &[LEN; 5]);
    let mut now = Time::ZERO;
    let mut live = |link: &mut ScriptLink, bytes: &[u8]| {
        link.hear(bytes, []);
        now += Duration::from_secs(2);
        // One look may be left out.
        link.progress(now).and_then(|_| link.progress(now))
    };
    for (number, (tag, buffer)) in reads[..4].iter().enumerate() {
        for _ in 0..6 {
            live(&mut link, &ping()).unwrap();
        }
        let reply = done(*tag, &data(number, LEN));
        for part in reply.chunks(LEN) {
            live(&mut link, part).unwrap();
        }
        assert_eq!(link.completions(|completion| assert!(completion.result.is_ok())), 1);
        assert_holds(buffer, &data(number, LEN));
    }
    let lost = (0..11).find_map(|_| live(&mut link, &ping()).err()).expect("the last one does not end");
    assert!(matches!(lost.loss, Loss::Stalled { .. }), "{lost}");
}

#[test]
fn a_refusal_in_the_place_of_a_reply_ends_its_own_read() {
    let (mut link, _) = scripted();
    let region = link.open_region();
    let reads = link.begin_reads(region, &[LEN, LEN, LEN]);
    let refused = AccessReply::Done { status: AccessStatus::NotOpen, old: 0 };
    // The second is refused at once, before those that wait for room.
    let replies = [
        answer(reads[1].0, &refused, &[]),
        done(reads[0].0, &data(0, LEN)),
        note(1),
        done(reads[2].0, &data(2, LEN)),
    ];
    link.hear(&replies.concat(), []);
    let mut ended = link.run().unwrap();
    assert!(matches!(ended.remove(0), Completion { token: Token(1), result: Err(AccessError::NotOpen) }));
    assert_eq!(tokens(&ended), [0]);
    assert_eq!(take_all(&mut link).unwrap().len(), 1);
    assert_eq!(tokens(&link.run().unwrap()), [2]);
    assert_holds(&reads[0].1, &data(0, LEN));
    assert_holds(&reads[2].1, &data(2, LEN));
}

/// The loss that `reply` is for a link that expects a long one; it ends the read.
fn judge(reply: impl Fn(u32) -> Vec<u8>, portions: &[usize]) -> Loss {
    let (mut link, _) = scripted();
    let region = link.open_region();
    let reads = link.begin_reads(region, &[LEN]);
    link.hear(&reply(reads[0].0), portions.iter().copied());
    let lost = link.run().unwrap_err();
    let mut ended = Vec::new();
    link.completions(|completion| ended.push(completion));
    assert!(matches!(&ended[..], [Completion { token: Token(0), result: Err(AccessError::Lost(_)) }]));
    assert_untouched_from_now_on(&mut link, &reads[0].1);
    lost.loss
}

/// Whatever still arrives, the buffer is its owner's.
fn assert_untouched_from_now_on(link: &mut ScriptLink, buffer: &Buffer) {
    buffer.window_mut().write(0, &vec![0x11; buffer.len()]);
    link.hear(&vec![0x22; 2 * LEN], []);
    for _ in 0..5 {
        assert!(link.progress(Time::ZERO).is_err());
        link.polled(false);
    }
    assert!(buffer.window().to_vec().iter().all(|byte| *byte == 0x11));
}

#[test]
fn wrong_replies_break_the_link_as_ever() {
    for portions in [&[][..], &[40], &[1, 40], &[31], &[HEAD, 1]] {
        let short = judge(|tag| done(tag, &data(0, LEN - 16)), portions);
        let (len, available) = (LEN as u64 - 16, LEN as u64);
        assert_eq!(short, Loss::Broke(Violation::Oversize { len, available }), "{portions:?}");
        let long = judge(|tag| done(tag, &data(0, LEN + 16)), portions);
        assert_eq!(long, Loss::Broke(Violation::Oversize { len: len + 32, available }), "{portions:?}");
        let unknown = judge(|tag| done(tag ^ 1, &data(0, LEN)), portions);
        assert!(matches!(unknown, Loss::Broke(Violation::UnknownReply { .. })), "{unknown}");
        let stale = judge(|tag| done(tag ^ 0x1_0000, &data(0, LEN)), portions);
        assert!(matches!(stale, Loss::Broke(Violation::UnknownReply { .. })), "{stale}");
        let opened = AccessReply::Opened { status: AccessStatus::Done, slot: Slot(0), size: 0 };
        let other = judge(|tag| answer(tag, &opened, &data(0, LEN)), portions);
        assert!(matches!(other, Loss::Broke(Violation::UnknownReply { .. })), "{other}");
        let nonsense = judge(|_| vec![0xaa; LEN], portions);
        assert!(matches!(nonsense, Loss::Broke(Violation::Nonsense(_))), "{nonsense}");
        let twice = judge(
            |tag| {
                let refused = AccessReply::Done { status: AccessStatus::NoRight, old: 0 };
                answer(tag, &refused, &data(0, LEN))
            },
            portions,
        );
        assert_eq!(twice, Loss::Broke(Violation::Oversize { len: LEN as u64, available: 0 }), "{portions:?}");
    }
}

#[test]
fn a_reply_that_comes_twice_breaks_the_link() {
    let (mut link, _) = scripted();
    let region = link.open_region();
    let reads = link.begin_reads(region, &[LEN, LEN]);
    let reply = done(reads[0].0, &data(0, LEN));
    link.hear(&[&reply[..], &reply].concat(), []);
    assert!(matches!(link.run().unwrap_err().loss, Loss::Broke(Violation::UnknownReply { .. })));
    assert_holds(&reads[0].1, &data(0, LEN));
    assert_untouched_from_now_on(&mut link, &reads[1].1);
}

#[test]
fn a_link_that_is_lost_within_a_reply_leaves_the_buffer_alone() {
    for arrived in [1, HEAD, HEAD + 1, HEAD + LEN / 2, HEAD + LEN - 1] {
        let (mut link, _) = scripted();
        let region = link.open_region();
        let reads = link.begin_reads(region, &[LEN, LEN]);
        link.hear(&done(reads[0].0, &data(0, LEN))[..arrived], []);
        assert!(link.run().unwrap().is_empty());
        link.stream.is_over = true;
        assert_eq!(link.run().unwrap_err().loss, Loss::Gone);
        let mut lost = 0;
        link.completions(|completion| {
            assert!(matches!(completion.result, Err(AccessError::Lost(_))));
            lost += 1;
        });
        assert_eq!(lost, 2);
        link.stream.is_over = false;
        reads.iter().for_each(|(_, buffer)| assert_untouched_from_now_on(&mut link, buffer));
    }
}

#[test]
fn no_peer_is_given_up_without_a_last_look() {
    let (mut link, _) = scripted();
    let mut now = Time::ZERO;
    link.progress(now).unwrap();
    for _ in 0..20 {
        // A thread that sleeps on other things as well is woken by them, and stopped before it comes to this link.
        link.polled(false);
        link.hear(&ping(), []);
        now += Duration::from_secs(4);
        link.progress(now).unwrap();
    }
    let looks = link.stream.looks;
    let lost = loop {
        link.polled(false);
        now += Duration::from_secs(1);
        if let Err(lost) = link.progress(now) {
            break lost;
        }
    };
    assert!(matches!(lost.loss, Loss::Stalled { .. }), "{lost}");
    assert_eq!(link.stream.looks, looks + 1);
}

/// Asks a link for what its region holds at `span`, with `before` and `behind` around the request.
fn ask(link: &mut ScriptLink, span: RegionSpan, before: &[u8], behind: &[u8]) {
    let request = AccessRequest::Read(span);
    let request = record(FrameHead::new(request.kind()).with_tag(9), request.encode().as_bytes());
    link.hear(&[before, &request, behind].concat(), []);
}

/// A link whose peer has opened its region, and where it is.
fn with_reader() -> (ScriptLink, Arc<Segment>, Slot) {
    let (mut link, memory) = scripted();
    memory.window_mut(0, REGION).write(0, &data(1, REGION));
    let rights = Rights::READ;
    let open = AccessRequest::Open {
        region: RegionId(7),
        generation: Generation(1),
        rights,
        key: RegionKey([5; 16]),
    };
    link.hear(&record(FrameHead::new(open.kind()), open.encode().as_bytes()), []);
    link.run().unwrap();
    let (head, payload) = link.said().remove(0);
    match AccessReply::decode(head.kind, &payload) {
        Ok(AccessReply::Opened { slot, .. }) => (link, memory, slot),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_long_answer_leaves_from_where_it_lies_with_whatever_room_there_is() {
    let offset = 24_007;
    for room in (0..=HEAD + 1).chain([HEAD + LEN - 1, HEAD + LEN, usize::MAX]) {
        let (mut link, memory, slot) = with_reader();
        memory.set_quiet(true);
        link.stream.room = room;
        ask(&mut link, RegionSpan { slot, offset, len: LEN as u32 }, &[], &[]);
        link.run().unwrap();
        // The answer is what was there when it was asked for.
        memory.window_mut(0, REGION).write(0, &vec![0; REGION]);
        link.send(NOTE, b"behind it").unwrap();
        link.stream.room = usize::MAX;
        link.flush().unwrap();
        let said = link.said();
        let [(reply, payload), (_, behind)] = &said[..] else { panic!("{} records", said.len()) };
        assert_eq!((reply.tag, &behind[..]), (9, &b"behind it"[..]));
        assert_eq!(
            AccessReply::decode(reply.kind, &payload[..16]),
            Ok(AccessReply::Done { status: AccessStatus::Done, old: 0 })
        );
        assert!(payload[16..] == data(1, REGION)[offset as usize..][..LEN], "with room for {room}");
        assert_eq!(link.stream.gathered, 1);
    }
}

#[test]
fn answers_go_through_the_queue_unless_all_speaks_for_the_other_way() {
    let long = |slot| RegionSpan { slot, offset: 0, len: LEN as u32 };
    let through_queue = |is_quiet: bool, speak: &dyn Fn(&mut ScriptLink, Slot)| {
        let (mut link, memory, slot) = with_reader();
        memory.set_quiet(is_quiet);
        speak(&mut link, slot);
        link.run().unwrap();
        link.flush().unwrap();
        let said = link.said();
        let answers = said.iter().filter(|(head, _)| AccessReply::is_reply(head.kind));
        assert!(answers.clone().count() > 0);
        answers.for_each(|(_, payload)| assert!(data(1, REGION).starts_with(&payload[16..])));
        link.stream.gathered == 0
    };
    assert!(!through_queue(true, &|link, slot| ask(link, long(slot), &[], &[])));
    assert!(
        through_queue(false, &|link, slot| ask(link, long(slot), &[], &[])),
        "another process may write there"
    );
    assert!(through_queue(true, &|link, slot| ask(link, RegionSpan { len: 4095, ..long(slot) }, &[], &[])));
    assert!(through_queue(true, &|link, slot| ask(link, RegionSpan { len: 4104, ..long(slot) }, &[], &[])));
    assert!(through_queue(true, &|link, slot| {
        link.send(NOTE, b"a batch in the making").unwrap();
        ask(link, long(slot), &[], &[]);
    }));
    assert!(through_queue(true, &|link, slot| {
        ask(link, long(slot), &[], &ping());
    }));
}

#[test]
fn waiting_answers_keep_their_order_when_the_last_goes_straight() {
    let (mut link, memory, slot) = with_reader();
    memory.set_quiet(true);
    link.stream.room = 100;
    for number in 0..12u64 {
        ask(&mut link, RegionSpan { slot, offset: number * 4096, len: 4096 }, &[], &[]);
        link.run().unwrap();
    }
    for room in [5000, 0, 70_000, usize::MAX] {
        link.stream.room = room;
        link.run().unwrap();
    }
    let said = link.said();
    assert_eq!(said.len(), 12);
    for (number, (_, payload)) in said.iter().enumerate() {
        assert!(payload[16..] == data(1, REGION)[number * 4096..][..4096], "answer {number}");
    }
}
