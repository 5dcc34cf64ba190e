use outboard_driver::{LinkId, LinkOrigin};
use outboard_link::{Completion, Disposition, Frame, Link, LinkError, Peer, RemoteMemory};
use outboard_wire::FrameHead;
use outboard_wire::paging::{FIXED_LEN_MAX, PagingReply, PagingRequest, PagingStatus};

use super::*;

/// The mistakes that an agent makes on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    None,
    /// It acknowledges write-backs and forgets them.
    Forgetful,
    /// It brings other bytes than those it was asked for.
    Confused,
}

struct Mistaken {
    agent: Agent,
    mistake: Mistake,
    forgotten: Vec<(LinkId, u32)>,
}

fn read(frame: &Frame<'_>) -> Option<PagingRequest> {
    let len = PagingRequest::fixed_len(frame.head.kind).filter(|len| *len <= frame.payload.len())?;
    let mut fixed = [0; FIXED_LEN_MAX];
    frame.payload.read(0, &mut fixed[..len]);
    PagingRequest::decode(frame.head.kind, &fixed[..len], frame.payload.len() - len).ok()
}

impl Service for Mistaken {
    type Note = ();

    fn on_open(&mut self, link: LinkId, peer: &Peer, origin: LinkOrigin, now: Time) {
        self.agent.on_open(link, peer, origin, now);
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        match (self.mistake, read(&frame)) {
            (Mistake::Forgetful, Some(PagingRequest::WriteBack(_))) => {
                self.forgotten.push((link, frame.head.tag));
                Disposition::Taken
            }
            (Mistake::Confused, Some(PagingRequest::Fetch(mut fetch))) if fetch.offset > 0 => {
                fetch.offset -= 1;
                let request = PagingRequest::Fetch(fetch).encode();
                self.agent.on_frame(link, Frame { payload: request.as_bytes().into(), ..frame }, now)
            }
            _ => self.agent.on_frame(link, frame, now),
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
        for (_, tag) in self.forgotten.extract_if(.., |(to, _)| *to == id) {
            let reply = PagingReply::Written { status: PagingStatus::Done, epoch: 0 };
            // An agent that is wrong need not be thorough.
            let _ = link.send(FrameHead::new(reply.kind()).with_tag(tag), reply.encode().as_bytes());
        }
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

/// The first promise that an agent with this mistake breaks under the first seeds.
fn broken(mistake: Mistake) -> Option<String> {
    (0..12).find_map(|seed| {
        let recorder = Recorder::new(8);
        let hide = move |agent| Mistaken { agent, mistake, forgotten: Vec::new() };
        play_with(seed, &recorder, hide, |mistaken| &mistaken.agent);
        recorder.broken().map(|broken| broken.promise)
    })
}

#[test]
fn a_right_agent_keeps_its_promises() {
    assert_eq!(broken(Mistake::None), None);
}

#[test]
fn an_agent_that_forgets_what_it_acknowledges_is_noticed() {
    let promise = broken(Mistake::Forgetful).unwrap();
    assert!(promise.contains("written last") || promise.contains("at the server"), "{promise}");
}

#[test]
fn an_agent_that_brings_other_bytes_is_noticed() {
    let promise = broken(Mistake::Confused).unwrap();
    assert!(promise.contains("written last"), "{promise}");
}
