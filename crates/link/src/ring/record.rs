//! How frames lie in a ring or a stream: header, payload, padding to the next header.

use outboard_wire::FrameHeader;

/// Headers begin at multiples of this, so that they can be read as whole words.
pub const RECORD_ALIGN: usize = 16;

/// The bytes that a frame with `payload` bytes of payload takes.
#[inline]
pub const fn record_len(payload: usize) -> usize {
    (FrameHeader::LEN + payload).next_multiple_of(RECORD_ALIGN)
}
