//! A link opposite a script: bytes arrive in portions, and room is what the test says.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use outboard_wire::Versions;
use outboard_wire::access::{AccessReply, AccessRequest, AccessStatus};

use super::*;
use crate::memory::{Buffer, Window};
use crate::stream::bytes::{Arrival, ByteStream, Scatter};
use crate::stream::link::Queues;
use crate::stream::{StreamConfig, StreamLink};
use crate::{Loss, Peer, Token};

/// A stream that a test writes and reads itself.
#[derive(Default)]
pub(super) struct Script {
    arriving: VecDeque<u8>,
    /// How many bytes the next attempts to receive find; then all there are.
    portions: VecDeque<usize>,
    /// Nothing arrives after what is here.
    pub(super) is_over: bool,
    sent: Vec<u8>,
    /// How many bytes can be sent.
    pub(super) room: usize,
    /// How often something was received before it was known what it is, and received past the inbox at all.
    pub(super) guesses: usize,
    pub(super) scattered: usize,
    /// How often something was sent from where it lay.
    pub(super) gathered: usize,
    /// How often there was an attempt to receive.
    pub(super) looks: usize,
    is_drained: bool,
}

impl Script {
    fn take(&mut self, most: usize, mut sink: impl FnMut(usize, &[u8])) -> Arrival {
        self.looks += 1;
        let len = self.portions.pop_front().unwrap_or(most).min(most).min(self.arriving.len());
        self.is_drained = len < most;
        if len == 0 {
            return if self.is_over && self.arriving.is_empty() { Arrival::End } else { Arrival::Nothing };
        }
        let bytes: Vec<u8> = self.arriving.drain(..len).collect();
        sink(0, &bytes);
        Arrival::Bytes(len)
    }
}

impl ByteStream for Script {
    const NAME: &'static str = "script";

    fn send(&mut self, _now: Time, bytes: &[u8]) -> Result<usize, Loss> {
        let len = bytes.len().min(self.room);
        self.room -= len;
        self.sent.extend_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn receive(&mut self, _now: Time, into: &mut [u8]) -> Result<Arrival, Loss> {
        let most = into.len();
        Ok(self.take(most, |at, bytes| into[at..at + bytes.len()].copy_from_slice(bytes)))
    }

    fn send_gathered(&mut self, now: Time, head: &[u8], body: Window<'_>) -> Result<usize, Loss> {
        self.gathered += 1;
        self.send(now, &[head, &body.to_vec()].concat())
    }

    fn receive_scattered(&mut self, _now: Time, mut into: Scatter<'_>) -> Result<Arrival, Loss> {
        self.scattered += 1;
        self.guesses += usize::from(!into.head.is_empty());
        Ok(self.take(into.len(), |at, bytes| into.write(at, bytes)))
    }

    fn is_drained(&self) -> bool {
        self.is_drained
    }

    fn finish(&mut self) {}

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// A link over a script.
pub(super) type ScriptLink = StreamLink<Script>;

/// A link that exports the region of [`exports`], and its region.
pub(super) fn scripted() -> (ScriptLink, Arc<Segment>) {
    let peer = Peer::new(
        Identity::new(Role::MemoryServer, "script").introduction(1 << 16),
        Versions::NEWEST,
        "nowhere",
    );
    let (exports, memory, _) = exports();
    let terms = StreamConfig {
        buffer_bytes: 1 << 16,
        operations_max: 64,
        regions_max: 4,
        heartbeat: Duration::from_millis(500),
        deadline: Duration::from_secs(5),
        handshake_timeout: Duration::from_secs(1),
    };
    let script = Script { room: usize::MAX, ..Script::default() };
    let queues = Queues::new::<Script>(peer.intro(), exports, &terms).unwrap();
    (StreamLink::new(script, queues, peer, &terms), memory)
}

impl ScriptLink {
    /// These bytes arrive, in portions of these lengths.
    pub(super) fn hear(&mut self, bytes: &[u8], portions: impl IntoIterator<Item = usize>) {
        self.stream.arriving.extend(bytes);
        self.stream.portions.extend(portions);
    }

    /// The records that were sent since the last time.
    pub(super) fn said(&mut self) -> Vec<(FrameHead, Vec<u8>)> {
        let bytes = std::mem::take(&mut self.stream.sent);
        let (mut records, mut rest) = (Vec::new(), &bytes[..]);
        while !rest.is_empty() {
            let header = FrameHeader::decode(rest).unwrap();
            let len = header.payload_len() as usize;
            records.push((header.head(), rest[16..16 + len].to_vec()));
            rest = &rest[record_len(len)..];
        }
        records
    }

    /// Progresses until everything that is to arrive has, and returns what ended meanwhile.
    pub(super) fn run(&mut self) -> Result<Vec<Completion>, LinkError> {
        let mut ended = Vec::new();
        let mut idle = 0;
        // A look may be left out, and the next one finds something.
        while idle < 3 {
            idle = if self.progress(Time::ZERO)? { 0 } else { idle + 1 };
            self.completions(|completion| ended.push(completion));
        }
        Ok(ended)
    }

    /// Opens a region as large as those of the tests.
    pub(super) fn open_region(&mut self) -> OpenRegion {
        let (_, _, grant) = exports();
        self.open(&grant, Rights::READ, Token(0)).unwrap();
        self.flush().unwrap();
        let (head, _) = self.said().remove(0);
        let opened = AccessReply::Opened {
            status: AccessStatus::Done,
            slot: outboard_wire::access::Slot(0),
            size: REGION as u64,
        };
        self.hear(&answer(head.tag, &opened, &[]), []);
        match self.run().unwrap().remove(0).result {
            Ok(AccessOutcome::Opened(region)) => region,
            other => panic!("{other:?}"),
        }
    }

    /// Begins reads of these lengths, each into a buffer of its own at an odd place, and returns their tags.
    pub(super) fn begin_reads(&mut self, region: OpenRegion, lens: &[usize]) -> Vec<(u32, Buffer)> {
        let reads: Vec<Buffer> = lens.iter().map(|len| Buffer::allocate(len + 2 * MARGIN).unwrap()).collect();
        for ((number, buffer), len) in reads.iter().enumerate().zip(lens) {
            buffer.window_mut().write(0, &vec![0xee; len + 2 * MARGIN]);
            self.read(region, 0, buffer, MARGIN, *len, Token(number as u64)).unwrap();
        }
        self.flush().unwrap();
        let tags = self.said().into_iter().filter(|(head, payload)| {
            let fixed = payload.get(..16).unwrap_or_default();
            matches!(AccessRequest::decode(head.kind, fixed, payload.len() - 16), Ok(AccessRequest::Read(_)))
        });
        tags.map(|(head, _)| head.tag).zip(reads).collect()
    }
}

/// How much of a buffer on either side is not asked for.
pub(super) const MARGIN: usize = 67;

/// The bytes that the read of number `number` brings.
pub(super) fn data(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251 + number * 13) as u8).collect()
}

/// A reply as it travels.
pub(super) fn answer(tag: u32, reply: &AccessReply, data: &[u8]) -> Vec<u8> {
    let payload = [reply.encode().as_bytes(), data].concat();
    record(FrameHead::new(reply.kind()).with_tag(tag), &payload)
}

/// A reply to a read that is in order.
pub(super) fn done(tag: u32, data: &[u8]) -> Vec<u8> {
    answer(tag, &AccessReply::Done { status: AccessStatus::Done, old: 0 }, data)
}

/// Asserts that a buffer holds what the read brought, and nothing else was touched.
#[track_caller]
pub(super) fn assert_holds(buffer: &Buffer, data: &[u8]) {
    let window = buffer.window();
    assert!(window.part(MARGIN, data.len()).to_vec() == data, "other bytes than were sent");
    let after = window.part(MARGIN + data.len(), MARGIN);
    assert!(window.part(0, MARGIN).to_vec().iter().chain(&after.to_vec()).all(|byte| *byte == 0xee));
}
