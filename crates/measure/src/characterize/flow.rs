//! Pieces on their way over a link.

use outboard_link::memory::Buffer;
use outboard_link::{AccessError, Disposition, Frame, Link, OpenRegion, RemoteMemory, Token};
use outboard_wire::FrameHead;
use outboard_wire::control::ControlAnswer;
use outboard_wire::trial::{GIVE, REGION_LEN, TAKE, TrialLength};

use super::operation::{MeasuredOperation, Sides};
use crate::MeasureError;

/// How many frames are taken in one go.
const FRAMES: usize = 64;

/// Pieces of one size that are moved by one operation, some of them at once.
pub(super) struct Flow<'a> {
    pub(super) operation: MeasuredOperation,
    /// Bytes in a piece.
    pub(super) piece: usize,
    /// How many pieces there are.
    pub(super) count: u64,
    /// How many may be under way.
    pub(super) ahead: u64,
    pub(super) region: OpenRegion,
    pub(super) buffer: &'a Buffer,
    /// Where the first lies, in region and buffer, which are gone through again and again.
    pub(super) at: u64,
    pub(super) begun: u64,
    pub(super) ended: u64,
}

impl Flow<'_> {
    /// Does what can be done now. Returns whether all has arrived.
    pub(super) fn advance<L: Link + RemoteMemory>(&mut self, link: &mut L) -> Result<bool, MeasureError> {
        self.ended += match self.operation.sides() {
            Sides::One => collect(link)?,
            Sides::Two => self.receive(link)?,
        };
        while self.begun < self.count && self.begun.saturating_sub(self.ended) < self.ahead {
            match self.begin(link) {
                Ok(()) => self.begun += 1,
                Err(AccessError::Full) => break,
                Err(refused) => return Err(refused.into()),
            }
        }
        link.flush()?;
        Ok(self.ended >= self.count)
    }

    /// Where piece `number` lies in memory of `len` bytes.
    fn offset(&self, number: u64, len: usize) -> usize {
        ((self.at + number * self.piece as u64) % len as u64) as usize
    }

    fn begin<L: Link + RemoteMemory>(&self, link: &mut L) -> Result<(), AccessError> {
        let Self { region, piece, begun, .. } = *self;
        let far = self.offset(begun, REGION_LEN) as u64;
        let near = self.offset(begun, self.buffer.len());
        let data = self.buffer.window().part(near, piece);
        let head = |kind| FrameHead::new(kind).with_tag(begun as u32);
        match self.operation {
            MeasuredOperation::Read => link.read(region, far, self.buffer, near, piece, Token(begun)),
            MeasuredOperation::Write => link.write(region, far, data, Token(begun)),
            MeasuredOperation::Ask => Ok(link.send(head(GIVE), &TrialLength(piece as u64).encode())?),
            MeasuredOperation::Send => {
                link.reserve(head(TAKE), piece)?.write_window(0, data);
                link.commit(piece);
                Ok(())
            }
        }
    }

    /// Takes answers, with the bytes that they bring.
    fn receive<L: Link>(&self, link: &mut L) -> Result<u64, MeasureError> {
        let (mut number, mut refused) = (self.ended, None);
        let peer = link.peer().clone();
        let taken = link.receive(FRAMES, |frame| {
            match self.take(number, &frame) {
                Ok(()) => number += 1,
                Err(why) => refused = Some(why),
            }
            Disposition::Taken
        })?;
        match refused {
            Some(why) => Err(MeasureError::Refused { peer, why }),
            None => Ok(taken as u64),
        }
    }

    /// Copies what the answer to piece `number` brings; an answer of another kind is a refusal.
    fn take(&self, number: u64, frame: &Frame<'_>) -> Result<(), String> {
        let expected = if self.operation == MeasuredOperation::Ask { (GIVE, self.piece) } else { (TAKE, 0) };
        let found = (frame.head.kind, frame.payload.len());
        if found == expected {
            let place = self.offset(number, self.buffer.len());
            frame.payload.read_into(&mut self.buffer.window_mut().part(place, found.1));
            return Ok(());
        }
        let answer = ControlAnswer::decode(found.0, &frame.payload.part(0, found.1.min(1 << 12)).to_vec());
        match answer {
            Ok(ControlAnswer::Failed { detail, .. }) => Err(detail.to_string()),
            _ => Err(format!("it answered with a frame of kind {} and {} bytes", found.0, found.1)),
        }
    }
}

/// How many one-sided operations have ended.
fn collect<L: RemoteMemory>(link: &mut L) -> Result<u64, MeasureError> {
    let mut refused = None;
    let ended = link.completions(|completion| {
        if let Err(error) = completion.result {
            refused = Some(error);
        }
    });
    refused.map_or(Ok(ended as u64), |error| Err(error.into()))
}
