//! The same updates for everybody, and how they are made.

/// How many messages ahead of an update its word is fetched.
pub(super) const AHEAD: usize = 16;

/// Where a rank's updates go, by chance that can be repeated.
pub(super) struct Updates {
    state: u64,
    ranks: u64,
    words: u64,
}

impl Updates {
    pub(super) fn new(rank: u32, ranks: u32, words: u64, seed: u64) -> Self {
        let state =
            (u64::from(rank) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed.wrapping_mul(0xff51_afd7);
        Self { state: state | 1, ranks: ranks.into(), words }
    }

    /// The next one: a rank and a place in its table.
    #[inline(always)]
    pub(super) fn next(&mut self) -> (u32, u64) {
        // xorshift64
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        let rank = ((self.state >> 32) * self.ranks) >> 32;
        let place = ((self.state & 0xffff_ffff) * self.words) >> 32;
        (rank as u32, place)
    }
}

/// Has the processor fetch a word of a table.
#[inline(always)]
pub(super) fn prefetch(table: &[u64], place: u64) {
    let address = table.as_ptr().wrapping_add(place as usize);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint; any address will do.
    unsafe {
        core::arch::x86_64::_mm_prefetch(address.cast(), core::arch::x86_64::_MM_HINT_T0);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Numbers from which updates are drawn: the same for both sides of a duel that take turns.
#[derive(Default)]
pub(super) struct Seeds(u64);

impl Seeds {
    pub(super) fn next(&mut self) -> u64 {
        self.0 += 1;
        self.0.div_ceil(2)
    }
}
