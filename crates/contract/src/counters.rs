//! What a link has done.

/// Totals since the link was opened. The thread that owns the link reads them; plain numbers, no sharing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames handed to the peer.
    pub frames_sent: u64,
    /// Payload bytes handed to the peer.
    pub bytes_sent: u64,
    /// Frames taken from the peer.
    pub frames_received: u64,
    /// Payload bytes taken from the peer.
    pub bytes_received: u64,
    /// How often a sender was told that there is no room.
    pub full: u64,
    /// How often the peer had to be woken.
    pub doorbells: u64,
    /// One-sided operations begun here.
    pub accesses: u64,
    /// One-sided operations done here for the peer.
    pub accesses_served: u64,
}
