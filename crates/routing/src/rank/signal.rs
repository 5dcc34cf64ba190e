//! What ranks tell each other to agree on something.

/// What ranks tell each other to agree on something. `round` counts how often they have done so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AgreementSignal {
    /// From rank 0: how much have you sent and handled?
    Poll {
        /// Of which round.
        round: u64,
        /// Which question in this round.
        wave: u64,
    },
    /// The answer.
    Count {
        /// Of which round.
        round: u64,
        /// To which question.
        wave: u64,
        /// How much this rank has sent, ever.
        sent: u64,
        /// How much it has handled, ever.
        handled: u64,
    },
    /// From rank 0: nothing is left anywhere.
    Quiet {
        /// Of which round.
        round: u64,
    },
    /// To rank 0: I am at the barrier.
    Arrived {
        /// Of which round.
        round: u64,
    },
    /// From rank 0: all are at the barrier.
    Released {
        /// Of which round.
        round: u64,
    },
    /// I go, after this round, and come to no other.
    Leaving {
        /// The last one.
        round: u64,
    },
}

/// The size of a signal in bytes.
pub const SIGNAL_LEN: usize = 40;

impl AgreementSignal {
    /// As bytes.
    pub fn encode(self) -> [u8; SIGNAL_LEN] {
        let words = match self {
            Self::Poll { round, wave } => [0, round, wave, 0, 0],
            Self::Count { round, wave, sent, handled } => [1, round, wave, sent, handled],
            Self::Quiet { round } => [2, round, 0, 0, 0],
            Self::Arrived { round } => [3, round, 0, 0, 0],
            Self::Released { round } => [4, round, 0, 0, 0],
            Self::Leaving { round } => [5, round, 0, 0, 0],
        };
        let mut bytes = [0; SIGNAL_LEN];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&u64::to_le_bytes(word));
        }
        bytes
    }

    /// From bytes; none if they mean nothing.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (words, rest) = bytes.as_chunks::<8>();
        let &[kind, round, wave, sent, handled] = words else { return None };
        let [kind, round, wave, sent, handled] = [kind, round, wave, sent, handled].map(u64::from_le_bytes);
        match (kind, rest) {
            (0, []) => Some(Self::Poll { round, wave }),
            (1, []) => Some(Self::Count { round, wave, sent, handled }),
            (2, []) => Some(Self::Quiet { round }),
            (3, []) => Some(Self::Arrived { round }),
            (4, []) => Some(Self::Released { round }),
            (5, []) => Some(Self::Leaving { round }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_come_back() {
        let signals = [
            AgreementSignal::Poll { round: 1, wave: 2 },
            AgreementSignal::Count { round: 1, wave: 2, sent: u64::MAX, handled: 4 },
            AgreementSignal::Quiet { round: 9 },
            AgreementSignal::Arrived { round: 3 },
            AgreementSignal::Released { round: 3 },
            AgreementSignal::Leaving { round: 4 },
        ];
        for signal in signals {
            assert_eq!(AgreementSignal::decode(&signal.encode()), Some(signal));
        }
        assert_eq!(AgreementSignal::decode(&[9; SIGNAL_LEN]), None);
        assert_eq!(AgreementSignal::decode(&[0; SIGNAL_LEN - 1]), None);
    }
}
