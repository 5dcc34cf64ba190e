//! Frames and memory for measuring: what every daemon does with them costs no more than it must.

use crate::{DecodeError, FrameKind, Generation, Grant, RegionId, RegionKey, Rights, Room};

/// Comes back as it was sent.
pub const ECHO: FrameKind = FrameKind::new(Room::Trial, 0);
/// Asks for so many bytes as [`TrialLength`] says; they come back in a frame of the same kind.
pub const GIVE: FrameKind = FrameKind::new(Room::Trial, 16);
/// Brings bytes, which are copied and forgotten; an empty frame of the same kind comes back.
pub const TAKE: FrameKind = FrameKind::new(Room::Trial, 17);

/// The size of the trial region in bytes: more than most caches hold, as far memory is.
pub const REGION_LEN: usize = 64 << 20;

/// What opens any daemon's trial region: memory that holds nothing, which every process that may connect can read and write. Its
/// key is no secret.
pub const GRANT: Grant = Grant {
    region: RegionId(u64::MAX - 1),
    generation: Generation(1),
    key: RegionKey([0; 16]),
    rights: Rights::READ.and(Rights::WRITE),
    size: REGION_LEN as u64,
};

/// How many bytes are wanted: the payload of [`GIVE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrialLength(pub u64);

impl TrialLength {
    /// The bytes that travel.
    pub fn encode(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }

    /// Reads them.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let bytes = bytes.try_into().map_err(|_| DecodeError::BadValue {
            what: "length of a trial request",
            value: bytes.len() as u64,
        })?;
        Ok(Self(u64::from_le_bytes(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_eight_bytes() {
        assert_eq!(TrialLength::decode(&TrialLength(1 << 40).encode()), Ok(TrialLength(1 << 40)));
        for len in [0, 7, 9] {
            assert!(TrialLength::decode(&vec![0; len]).is_err(), "{len} bytes");
        }
    }
}
