use outboard_driver::{LinkId, LinkOrigin, Outbox};
use outboard_link::{Completion, Disposition, Frame, Link, LinkError, Peer, RemoteMemory};
use outboard_wire::FrameHead;
use outboard_wire::calling::{CALL, Call, CallFailure, FAILED, Failed, REPLY, ReplyHead};

use super::*;

/// The mistakes that a site makes on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    /// It runs a call twice.
    Repeats,
    /// It replies as if it had run a call.
    Forgets,
    /// It says that it knows no such function, and runs the call all the same.
    Denies,
}

/// Does it to every fifth call.
struct Mistaken<S> {
    machine: S,
    mistake: Mistake,
    calls: u64,
    outbox: Outbox,
}

impl<S> Mistaken<S> {
    fn new(machine: S, mistake: Mistake) -> Self {
        Self { machine, mistake, calls: 0, outbox: Outbox::default() }
    }
}

impl<S: Service> Service for Mistaken<S> {
    type Note = S::Note;

    fn on_turn(&mut self, now: Time) -> bool {
        self.machine.on_turn(now)
    }

    fn on_open(&mut self, link: LinkId, peer: &Peer, origin: LinkOrigin, now: Time) {
        self.machine.on_open(link, peer, origin, now);
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        self.calls += u64::from(frame.head.kind == CALL);
        if frame.head.kind != CALL || !self.calls.is_multiple_of(5) {
            return self.machine.on_frame(link, frame, now);
        }
        let mut payload = frame.payload.to_vec();
        let number = u64::from_le_bytes(frame.payload.array(0));
        match self.mistake {
            Mistake::Repeats => {
                payload[..8].copy_from_slice(&(number + 2000).to_le_bytes());
                // Another number of the same window, which no call of this run comes to.
                let again = Frame { payload: payload[..].into(), ..frame };
                let disposition = self.machine.on_frame(link, frame, now);
                self.machine.on_frame(link, again, now);
                disposition
            }
            Mistake::Forgets => {
                let mut reply = ReplyHead { call: number, value: 0 }.encode().to_vec();
                reply.extend_from_slice(&payload[Call::LEN..Call::LEN + 8]);
                self.outbox.push(link, FrameHead::new(REPLY).with_tag(number as u32), reply);
                Disposition::Taken
            }
            Mistake::Denies => {
                let denial = Failed { call: number, failure: CallFailure::NoFunction };
                self.outbox.push(link, FrameHead::new(FAILED), denial.encode().to_vec());
                self.machine.on_frame(link, frame, now)
            }
        }
    }

    fn on_completion(&mut self, link: LinkId, completion: Completion, now: Time) {
        self.machine.on_completion(link, completion, now);
    }

    fn send<L: Link + RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
        now: Time,
    ) -> Result<bool, LinkError> {
        Ok(self.outbox.send(id, link)? | self.machine.send(id, link, now)?)
    }

    fn on_lost(&mut self, link: LinkId, error: &LinkError, now: Time) {
        self.outbox.forget(link);
        self.machine.on_lost(link, error, now);
    }

    fn next_deadline(&self) -> Option<Time> {
        self.machine.next_deadline()
    }

    fn on_time(&mut self, now: Time) {
        self.machine.on_time(now);
    }
}

/// The first promise that is broken under the first seeds.
fn first_broken(play: impl Fn(u64, &Recorder)) -> Option<String> {
    (0..16).find_map(|seed| {
        let recorder = Recorder::new(8);
        play(seed, &recorder);
        recorder.broken().map(|broken| format!("seed {seed}: {}", broken.promise))
    })
}

fn with_server(mistake: Mistake) -> String {
    let play = |seed, recorder: &Recorder| {
        let hide = move |server| Mistaken::new(server, mistake);
        play_with(seed, recorder, hide, |agent| agent, (|caller| caller, |caller| caller));
    };
    first_broken(play).expect("a checker notices")
}

#[test]
fn right_machines_keep_their_promises() {
    assert_eq!(first_broken(|seed, recorder| _ = play(seed, recorder)), None);
}

#[test]
fn a_server_that_runs_a_call_twice_is_noticed() {
    let promise = with_server(Mistake::Repeats);
    let is_told = ["at most once", "a single hash map"].iter().any(|told| promise.contains(told));
    assert!(is_told, "{promise}");
}

#[test]
fn a_server_that_replies_without_running_a_call_is_noticed() {
    let promise = with_server(Mistake::Forgets);
    let told = ["at most once", "a single hash map", "replies its cells", "in one piece"];
    assert!(told.iter().any(|told| promise.contains(told)), "{promise}");
}

#[test]
fn a_server_that_denies_to_have_run_a_call_is_noticed() {
    let promise = with_server(Mistake::Denies);
    let is_told = ["at most once", "fair weather"].iter().any(|told| promise.contains(told));
    assert!(is_told, "{promise}");
}

#[test]
fn an_agent_that_denies_to_have_run_a_call_is_noticed() {
    let play = |seed, recorder: &Recorder| {
        let hide = |agent| Mistaken::new(agent, Mistake::Denies);
        play_with(seed, recorder, |server| server, hide, (|caller| caller, |caller| caller));
    };
    let promise = first_broken(play).expect("a checker notices");
    let is_told = ["at most once", "a single hash map"].iter().any(|told| promise.contains(told));
    assert!(is_told, "{promise}");
}

#[test]
fn a_put_that_is_taken_for_done_without_an_answer_is_noticed() {
    let play = |seed, recorder: &Recorder| {
        let hide = |mut caller: Caller| {
            caller.is_rash = true;
            caller
        };
        play_with(seed, recorder, |server| server, |agent| agent, (hide, |caller| caller));
    };
    let promise = first_broken(play).expect("a checker notices");
    assert!(promise.contains("a single hash map"), "{promise}");
}
