//! Calls of functions that run where a region is.
//!
//! A caller [opens](Open) a site, [registers](Register) its functions there under numbers of its own choice, and sends
//! [`Call`]s; each is answered by a [`ReplyHead`] or by a [`Failed`]. A function is named by the hash of its code. The code
//! itself travels only to a site that does not have it yet, in [parts](CodePart), and the site computes the hash anew.
//!
//! Numbers of calls grow. A site runs a number of one caller at most once, by whichever link it comes, and says so of one
//! that it has seen before, or that is so old that it does not know.
//!
//! A call can go on at another of the caller's memory servers: the site says so by a [`Forwarded`], and the caller has it
//! go on there by a [`Continue`]. Sites of different servers do not know each other.
//!
//! Calls run at several sites. The memory server says by a [`SlotSites`] which [`Site`](crate::Site) runs the calls of which slot, to whom
//! has [asked](SlotQuestion); the frames of calls carry the slot as their flow label, those of answers the end of the epoch of the
//! table that the site knows. Agents tell their [`SiteLoad`], and callers what they have [`Observed`].

mod call;
mod forward;
mod moving;
mod register;
mod steer;

pub use call::{Call, CallFailure, Failed, ReplyHead, TrapReason};
pub use forward::{Continue, FORWARDED_LEN_MAX, Forwarded, HOP_FUEL, SERVERS_MAX};
pub use moving::{MOVING_LEN_MAX, Moving, RECALL_MAX, Recall};
pub use register::{
    Allowed, CODE_LEN_MAX, CodePart, DETAIL_LEN_MAX, HANDLES_MAX, REGIONS_MAX, Register, RegisterRefusal,
    RegisterVerdict, Registered,
};
pub use steer::{Observed, SLOTS, Seen, SiteLoad, SlotQuestion, SlotSites};

use crate::{DecodeError, FrameKind, Incarnation, Room};

/// The kind of an [`Open`]. It is not answered.
pub const OPEN: FrameKind = FrameKind::new(Room::Calling, 1);
/// The kind of a [`Register`].
pub const REGISTER: FrameKind = FrameKind::new(Room::Calling, 2);
/// The kind of a [`CodePart`]. It is not answered; a caller that has sent all parts registers again.
pub const CODE: FrameKind = FrameKind::new(Room::Calling, 3);
/// The kind of a [`Call`].
pub const CALL: FrameKind = FrameKind::new(Room::Calling, 4);
/// The kind of a [`Recall`].
pub const RECALL: FrameKind = FrameKind::new(Room::Calling, 5);
/// The kind of a [`Moving`] that goes to a site, answered as a [`Call`].
pub const RESUME: FrameKind = FrameKind::new(Room::Calling, 6);
/// The kind of a [`Continue`].
pub const CONTINUE: FrameKind = FrameKind::new(Room::Calling, 7);
/// The kind of a [`SlotQuestion`].
pub const ASK: FrameKind = FrameKind::new(Room::Calling, 8);
/// The kind of a [`SiteLoad`]. It is not answered.
pub const LOAD: FrameKind = FrameKind::new(Room::Calling, 9);
/// The kind of an [`Observed`]. It is not answered.
pub const OBSERVED: FrameKind = FrameKind::new(Room::Calling, 10);
/// The kind of a [`Registered`], the answer to a [`Register`].
pub const REGISTERED: FrameKind = FrameKind::new(Room::Calling, 32);
/// The kind of a [`ReplyHead`], the good answer to a [`Call`].
pub const REPLY: FrameKind = FrameKind::new(Room::Calling, 33);
/// The kind of a [`Failed`], the other answer to a [`Call`].
pub const FAILED: FrameKind = FrameKind::new(Room::Calling, 34);
/// The kind of a [`Moving`] that comes from a site.
pub const RETURNED: FrameKind = FrameKind::new(Room::Calling, 35);
/// The kind of a [`Forwarded`], the third answer to a [`Call`].
pub const FORWARDED: FrameKind = FrameKind::new(Room::Calling, 36);
/// The kind of a [`SlotSites`], the answer to a [`SlotQuestion`], then and at every change.
pub const TABLE: FrameKind = FrameKind::new(Room::Calling, 40);

/// Which helpers functions find, and what these mean. It goes into the name of every function, so that sites of
/// another version do not know it.
pub const INTERFACE_VERSION: u32 = 1;

/// Whether a frame is about calls.
pub fn is_calling(kind: FrameKind) -> bool {
    kind.0 >> 8 == Room::Calling as u16
}

/// A caller, by a number that it has drawn at random. A process that knows it can call as that caller.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallerId(pub [u8; 16]);

impl core::fmt::Debug for CallerId {
    /// Not as a whole, since it is a secret.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "CallerId({:02x}{:02x}…)", self.0[0], self.0[1])
    }
}

/// The name of a function everywhere: the hash of its code, its entry point and [`INTERFACE_VERSION`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionName(pub [u8; 32]);

impl core::fmt::Display for FunctionName {
    /// Its beginning, which is enough to tell functions apart.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0[..8].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl core::fmt::Debug for FunctionName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "FunctionName({self}…)")
    }
}

/// From a caller to a site: from now on this link brings calls of mine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// Who.
    pub caller: CallerId,
    /// The memory server on whose regions the functions work, in the life that the caller knows.
    pub server: Incarnation,
}

impl Open {
    /// Its size in bytes.
    pub const LEN: usize = 24;

    /// As it travels.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..16].copy_from_slice(&self.caller.0);
        bytes[16..].copy_from_slice(&self.server.0.to_le_bytes());
        bytes
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (caller, server) = crate::error::split::<[u8; 16]>("opening of a caller", bytes)?;
        let server = crate::error::exact::<[u8; 8]>("opening of a caller", server)?;
        Ok(Self { caller: CallerId(*caller), server: Incarnation(u64::from_le_bytes(*server)) })
    }
}

#[cfg(test)]
mod tests;
