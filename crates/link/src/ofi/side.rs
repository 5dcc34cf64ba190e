//! The socket beside the fabric: it tells of the peer's death, and wakes those whom the fabric cannot.

use std::os::fd::OwnedFd;

use outboard_wire::DecodeError;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};

use crate::{Loss, Violation};

/// Wakes the other side.
const BELL: u8 = 1;
/// The last message, followed by how many messages were sent over the fabric.
const FAREWELL: u8 = 2;
const FAREWELL_LEN: usize = 9;
/// How many times the socket is read in one look. Bells that are left wake again.
const READS_PER_LOOK: usize = 4;

/// A socket that has finished the prefaces.
pub(super) struct Side {
    socket: OwnedFd,
    /// The beginning of a farewell that has not arrived as a whole.
    begun: Vec<u8>,
    /// How many messages the peer has sent in all, once it has said so.
    total: Option<u64>,
    is_over: bool,
}

impl Side {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self { socket, begun: Vec::with_capacity(FAREWELL_LEN), total: None, is_over: false }
    }

    /// Whether the peer is gone.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// How many messages the peer has sent in all, if it has said so.
    pub(super) fn total(&self) -> Option<u64> {
        self.total
    }

    /// Reads what there is, and says whether there may be more.
    pub(super) fn look(&mut self) -> Result<bool, Loss> {
        let mut bytes = [0; 256];
        for _ in 0..READS_PER_LOOK {
            if self.is_over {
                return Ok(false);
            }
            match recv(&self.socket, &mut bytes[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) | Err(Errno::CONNRESET | Errno::PIPE | Errno::NOTCONN | Errno::TIMEDOUT) => {
                    self.is_over = true;
                }
                Ok((len, _)) => {
                    self.take(&bytes[..len])?;
                    if len < bytes.len() {
                        return Ok(false);
                    }
                }
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(source) => return Err(Loss::System { call: "recv", source }),
            }
        }
        Ok(!self.is_over)
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Violation> {
        for byte in bytes.iter().copied() {
            let is_right = match (self.begun.len(), byte) {
                (0, BELL) => continue,
                (0, FAREWELL) => self.total.is_none(),
                (0, _) => false,
                _ => true,
            };
            if !is_right {
                let wrong = DecodeError::BadValue { what: "byte beside the fabric", value: byte.into() };
                return Err(wrong.into());
            }
            self.begun.push(byte);
            if let Ok(farewell) = <[u8; FAREWELL_LEN]>::try_from(&self.begun[..]) {
                let mut total = [0; 8];
                total.copy_from_slice(&farewell[1..]);
                self.total = Some(u64::from_le_bytes(total));
                self.begun.clear();
            }
        }
        Ok(())
    }

    /// Wakes the peer. If there is no room for a bell, others lie before it, and it wakes by those.
    pub(super) fn ring(&self) {
        let _ = send(&self.socket, &[BELL], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// Says that nothing follows after this many messages.
    pub(super) fn part(&self, total: u64) {
        let mut farewell = [FAREWELL; FAREWELL_LEN];
        farewell[1..].copy_from_slice(&total.to_le_bytes());
        // A peer that is gone needs no farewell.
        let _ = send(&self.socket, &farewell, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        let _ = shutdown(&self.socket, Shutdown::Write);
    }
}
