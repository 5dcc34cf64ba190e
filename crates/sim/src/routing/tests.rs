use outboard_driver::{LinkId, LinkOrigin};
use outboard_link::{Completion, Disposition, Frame, Link, LinkError, Peer, RemoteMemory};
use outboard_routing::AgreementSignal;
use outboard_wire::routing::{RUN, Run};

use super::*;
use crate::wrong::Wrong;

/// The mistakes that an agent makes on purpose with runs that follow their words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    /// It loses them.
    Forgets,
    /// It delivers them to another space.
    Confuses,
    /// It changes their last byte.
    Garbles,
}

/// Does it to every third.
struct Mistaken {
    agent: Agent,
    mistake: Mistake,
    runs: u64,
}

impl Mistaken {
    /// The payload to go on with, if any.
    fn mistake(&mut self, mut payload: Vec<u8>) -> Option<Vec<u8>> {
        let Ok(run) = Run::decode(&payload, payload.len()) else { return Some(payload) };
        if run.at.is_some() || run.len == 0 {
            return Some(payload);
        }
        self.runs += 1;
        if !self.runs.is_multiple_of(3) {
            return Some(payload);
        }
        match self.mistake {
            Mistake::Forgets => return None,
            Mistake::Confuses if run.space == 1 => {
                payload[..Run::LEN].copy_from_slice(&Run { space: 0, ..run }.encode());
            }
            Mistake::Confuses => {}
            Mistake::Garbles => *payload.last_mut()? ^= 1,
        }
        Some(payload)
    }
}

impl Service for Mistaken {
    type Note = ();

    fn on_turn(&mut self, now: Time) -> bool {
        self.agent.on_turn(now)
    }

    fn on_open(&mut self, link: LinkId, peer: &Peer, origin: LinkOrigin, now: Time) {
        self.agent.on_open(link, peer, origin, now);
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        if frame.head.kind != RUN {
            return self.agent.on_frame(link, frame, now);
        }
        match self.mistake(frame.payload.to_vec()) {
            Some(payload) => self.agent.on_frame(link, Frame { payload: payload[..].into(), ..frame }, now),
            None => Disposition::Taken,
        }
    }

    fn on_completion(&mut self, link: LinkId, completion: Completion, now: Time) {
        self.agent.on_completion(link, completion, now);
    }

    fn send<L: Link + RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
        now: Time,
    ) -> Result<bool, LinkError> {
        self.agent.send(id, link, now)
    }

    fn on_lost(&mut self, link: LinkId, error: &LinkError, now: Time) {
        self.agent.on_lost(link, error, now);
    }

    fn next_deadline(&self) -> Option<Time> {
        self.agent.next_deadline()
    }

    fn on_time(&mut self, now: Time) {
        self.agent.on_time(now);
    }
}

/// The first promise that is broken under the first seeds.
fn first_broken(play: impl Fn(u64, &Recorder)) -> Option<String> {
    (0..40).find_map(|seed| {
        let recorder = Recorder::new(8);
        play(seed, &recorder);
        recorder.broken().map(|broken| format!("seed {seed}: {}", broken.promise))
    })
}

fn with_agent(mistake: Mistake) -> String {
    let play = |seed, recorder: &Recorder| {
        let hide = move |agent| Mistaken { agent, mistake, runs: 0 };
        play_with(seed, recorder, (hide, |wrong| &wrong.agent), (|rank| rank, |rank| rank));
    };
    first_broken(play).expect("a checker notices")
}

fn with_rank(mistake: fn(&mut RankNode)) -> String {
    let play = |seed, recorder: &Recorder| {
        let hide = move |machine| Wrong { machine, mistake };
        play_with(seed, recorder, (|agent| agent, |agent| agent), (hide, |wrong| &wrong.machine));
    };
    first_broken(play).expect("a checker notices")
}

#[test]
fn right_machines_keep_their_promises() {
    assert_eq!(first_broken(|seed, recorder| _ = play(seed, recorder)), None);
}

#[test]
fn an_agent_that_forgets_a_run_is_noticed() {
    let promise = with_agent(Mistake::Forgets);
    assert!(promise.contains("everything arrives"), "{promise}");
}

#[test]
fn an_agent_that_confuses_spaces_is_noticed() {
    let promise = with_agent(Mistake::Confuses);
    // Two runs of one number: which of them is taken for a copy is a matter of time.
    assert!(
        promise.contains("to their rank and space") || promise.contains("everything arrives"),
        "{promise}"
    );
}

#[test]
fn the_books_know_the_place_of_every_message() {
    let letter = books::Letter { space: 1, phase: 0, source: 2, destination: 3, number: 9 };
    let promise = |places: &[((u32, u32), u8)], len| {
        let recorder = Recorder::new(1);
        let books = Books::new(recorder.clone(), 4);
        books.sent(letter);
        for (ranks, space) in places {
            books.handled(*ranks, *space, &letter.encode(len));
        }
        recorder.broken().map_or_else(String::new, |broken| broken.promise)
    };
    let right = ((2, 3), 1);
    assert_eq!(promise(&[right], 24), "");
    assert_eq!(promise(&[right], 100), "");
    for wrong in [((1, 3), 1), ((2, 0), 1), ((2, 3), 0)] {
        assert!(promise(&[wrong], 24).contains("to their rank and space"));
    }
    assert!(promise(&[right, right], 24).contains("came again"));
}

#[test]
fn an_agent_that_changes_a_message_is_noticed() {
    let promise = with_agent(Mistake::Garbles);
    assert!(promise.contains("arrive as they were sent"), "{promise}");
}

#[test]
fn a_rank_that_loses_a_message_is_noticed() {
    let promise = with_rank(|rank| rank.unhandled.truncate(2));
    assert!(promise.contains("everything arrives"), "{promise}");
}

#[test]
fn a_rank_that_handles_a_message_twice_is_noticed() {
    let promise = with_rank(|rank| {
        let first = rank.unhandled.first().copied();
        rank.unhandled.extend(first);
    });
    assert!(promise.contains("handled once"), "{promise}");
}

#[test]
fn a_rank_that_believes_too_early_that_nothing_is_left_is_noticed() {
    let promise = with_rank(|rank| {
        let mut letter = [0; 8].to_vec();
        letter.extend(AgreementSignal::Quiet { round: 1 }.encode());
        rank.agreement.on_letter(0, &letter);
    });
    assert!(
        promise.contains("a space is quiet when") || promise.contains("a round is over when"),
        "{promise}"
    );
}

#[test]
fn a_rank_that_keeps_what_it_should_give_back_is_noticed() {
    let promise = with_rank(|rank| {
        if rank.is_done() && rank.leftovers().is_none() {
            rank.service.buffers().take(0);
        }
    });
    assert!(promise.contains("nothing is kept"), "{promise}");
}
