//! The decoders of what clients ask of daemons.

use outboard_wire::control::{
    ControlAnswer, ControlFailure, JobSecret, ListedRegion, Member, Question, RegionSharing,
};
use outboard_wire::{Generation, Incarnation, JobId, Rank, RegionId, RegionKey, Rights, Text};

use crate::FuzzVerdict;
use crate::wire::{kind_bytes, refused, region_seeds, returns, split_kind};

pub(crate) fn question(bytes: &[u8]) -> FuzzVerdict {
    let Some((kind, payload)) = split_kind(bytes) else { return FuzzVerdict::Refused };
    match Question::decode(kind, payload) {
        Ok(question) => {
            assert!(Question::is_question(kind) && question.kind() == kind);
            let mut encoded = Vec::new();
            question.encode(&mut encoded);
            returns(&question, payload, &encoded)
        }
        Err(error) => refused(error),
    }
}

fn member() -> Member {
    Member { rank: Rank(1), pid: 7, incarnation: Incarnation(9), address: Text::new("unix:@rank") }
}

pub(crate) fn question_seeds() -> Vec<Vec<u8>> {
    let questions = [
        Question::Reserve {
            size: 1 << 20,
            chunk_log2: 16,
            name: Text::new("graph"),
            sharing: RegionSharing::Together,
        },
        Question::OpenNamed {
            name: Text::new("graph"),
            rights: Rights::READ,
            sharing: RegionSharing::Leased,
        },
        Question::ReserveSparse {
            size: 1 << 40,
            chunk_log2: 12,
            name: Text::new(""),
            sharing: RegionSharing::Leased,
        },
        Question::Free { region: RegionId(1), generation: Generation(1), key: RegionKey([5; 16]) },
        Question::Load {
            path: Text::new("graphs/web.bin"),
            rights: Rights::READ,
            sharing: RegionSharing::Leased,
        },
        Question::Release { region: RegionId(1), generation: Generation(1) },
        Question::Sync { region: RegionId(1), generation: Generation(1), key: RegionKey([5; 16]) },
        Question::Populate { region: RegionId(1), generation: Generation(1), key: RegionKey([5; 16]) },
        Question::NextWritten {
            region: RegionId(1),
            generation: Generation(1),
            key: RegionKey([5; 16]),
            offset: 1 << 33,
        },
        Question::List { after: RegionId(0) },
        Question::Join { job: JobId(3), secret: JobSecret([6; 64]), size: 4, member: member() },
    ];
    let encode = |question: Question| {
        let mut bytes = kind_bytes(question.kind());
        question.encode(&mut bytes);
        bytes
    };
    questions.map(encode).to_vec()
}

pub(crate) fn control_answer(bytes: &[u8]) -> FuzzVerdict {
    let Some((kind, payload)) = split_kind(bytes) else { return FuzzVerdict::Refused };
    match ControlAnswer::decode(kind, payload) {
        Ok(answer) => {
            assert!(ControlAnswer::is_answer(kind) && answer.kind() == kind);
            let mut encoded = Vec::new();
            answer.encode(&mut encoded);
            returns(&answer, payload, &encoded)
        }
        Err(error) => refused(error),
    }
}

pub(crate) fn control_answer_seeds() -> Vec<Vec<u8>> {
    let listed = ListedRegion {
        region: RegionId(1),
        generation: Generation(1),
        size: 4096,
        owner_pid: 7,
        name: Text::new("graph"),
    };
    let answers = [
        ControlAnswer::Freed,
        ControlAnswer::Released,
        ControlAnswer::Synced { bytes: 1 << 20 },
        ControlAnswer::Regions { regions: vec![listed; 3], more: true },
        ControlAnswer::Members(vec![member(); 2]),
        ControlAnswer::failed(ControlFailure::NoCapacity, "none left"),
    ];
    let mut seeds: Vec<Vec<u8>> = answers
        .iter()
        .map(|answer| {
            let mut bytes = kind_bytes(answer.kind());
            answer.encode(&mut bytes);
            bytes
        })
        .collect();
    // A region answer is a descriptor and nothing else.
    if let Some(descriptor) = region_seeds().into_iter().find(|seed| is_whole_descriptor(seed)) {
        let region =
            [kind_bytes(outboard_wire::FrameKind::new(outboard_wire::Room::Control, 32)), descriptor];
        seeds.push(region.concat());
    }
    seeds
}

fn is_whole_descriptor(bytes: &[u8]) -> bool {
    outboard_wire::RegionDescriptor::decode(bytes).is_ok()
}
