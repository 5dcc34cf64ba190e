//! What all ranks agree on: that nothing is left to handle in a message space, and that all have come to a barrier.

use std::collections::VecDeque;

use super::{AgreementSignal, Barrier, Quiescence, SIGNAL_LEN, SentAndHandled};

/// Stands for the barrier where a letter names a space.
const BARRIER: u8 = u8::MAX;

/// The size of a letter in bytes: a signal behind the space that it is about.
pub const LETTER_LEN: usize = SIGNAL_LEN + 8;

/// One rank's part in what all agree on. Signals travel as letters, which are messages of a space of their own.
///
/// Where a function takes a space, none stands for the barrier.
#[derive(Clone, Debug)]
pub struct Agreement {
    rank: u32,
    counts: Vec<SentAndHandled>,
    quiescence: Vec<Quiescence>,
    barrier: Barrier,
    /// Signals that are not in a bundle yet: to whom each goes, and about which space.
    signals: VecDeque<(u32, u8, AgreementSignal)>,
    /// Which ranks have said that they leave.
    has_left: Vec<bool>,
}

impl Agreement {
    /// For one of `ranks` ranks.
    pub fn new(rank: u32, ranks: u32, spaces: u8) -> Self {
        Self {
            rank,
            counts: vec![SentAndHandled::default(); spaces.into()],
            quiescence: (0..spaces).map(|_| Quiescence::new(rank, ranks)).collect(),
            barrier: Barrier::new(rank, ranks),
            signals: VecDeque::new(),
            has_left: vec![false; ranks as usize],
        }
    }

    /// So many bytes of a space are on their way, to this rank or to another one.
    #[inline]
    pub fn sent(&mut self, space: usize, bytes: u32) {
        // Letters are not counted: they tell of what is.
        if let Some(counts) = self.counts.get_mut(space) {
            counts.sent += u64::from(bytes);
        }
    }

    /// So many bytes of a space have been handled here.
    #[inline]
    pub fn handled(&mut self, space: usize, bytes: u32) {
        if let Some(counts) = self.counts.get_mut(space) {
            counts.handled += u64::from(bytes);
        }
    }

    /// This rank comes to the next round.
    pub fn begin(&mut self, space: Option<u8>) {
        match space {
            Some(space) => self.quiescence[usize::from(space)].enter(),
            None => self.barrier.enter(),
        }
    }

    /// Answers what others have asked, as far as this rank can: about a space only if it `is_idle`, which means that it has
    /// nothing left of it to send or to handle.
    pub fn advance(&mut self, space: Option<u8>, is_idle: bool) {
        let Some(space) = space else {
            while let Some((to, signal)) = self.barrier.poll_action() {
                self.signals.push_back((to, BARRIER, signal));
            }
            return;
        };
        let quiescence = &mut self.quiescence[usize::from(space)];
        if is_idle {
            quiescence.on_idle(self.counts[usize::from(space)]);
        }
        while let Some((to, signal)) = quiescence.poll_action() {
            self.signals.push_back((to, space, signal));
        }
    }

    /// Whether all ranks have agreed since this one came to the round.
    pub fn is_over(&self, space: Option<u8>) -> bool {
        match space {
            Some(space) => self.quiescence[usize::from(space)].is_quiet(),
            None => self.barrier.is_open(),
        }
    }

    /// A rank that will never come to the round that this one waits in.
    pub fn absentee(&self, space: Option<u8>) -> Option<u32> {
        match space {
            Some(space) => self.quiescence[usize::from(space)].absentee(),
            None => self.barrier.absentee(),
        }
    }

    /// Tells all ranks that this one comes to nothing more.
    pub fn leave(&mut self) {
        let rounds = self.quiescence.iter().map(Quiescence::rounds);
        let rounds: Vec<(u8, u64)> = (0..).zip(rounds).chain([(BARRIER, self.barrier.rounds())]).collect();
        for rank in (0..self.has_left.len() as u32).filter(|rank| *rank != self.rank) {
            for (space, round) in &rounds {
                self.signals.push_back((rank, *space, AgreementSignal::Leaving { round: *round }));
            }
        }
    }

    /// Whether a rank has said that it leaves.
    pub fn has_left(&self, rank: u32) -> bool {
        self.has_left[rank as usize]
    }

    /// The next letter to send, and to whom.
    pub fn letter(&self) -> Option<(u32, [u8; LETTER_LEN])> {
        let (to, space, signal) = self.signals.front()?;
        let mut letter = [0; LETTER_LEN];
        letter[0] = *space;
        letter[8..].copy_from_slice(&signal.encode());
        Some((*to, letter))
    }

    /// That letter is in a bundle.
    pub fn letter_sent(&mut self) {
        self.signals.pop_front();
    }

    /// A letter has come. One that means nothing is not listened to.
    pub fn on_letter(&mut self, source: u32, letter: &[u8]) {
        let signal = letter.get(8..).and_then(AgreementSignal::decode);
        let (Some(space), Some(signal)) = (letter.first(), signal) else { return };
        self.has_left[source as usize] |= matches!(signal, AgreementSignal::Leaving { .. });
        match self.quiescence.get_mut(usize::from(*space)) {
            Some(quiescence) => quiescence.on_signal(source, signal),
            None => self.barrier.on_signal(source, signal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Carries letters until no rank has another.
    fn carry(ranks: &mut [Agreement]) {
        while let Some((from, to, letter)) = (0..ranks.len()).find_map(|from| {
            let (to, letter) = ranks[from].letter()?;
            ranks[from].letter_sent();
            Some((from, to, letter))
        }) {
            ranks[to as usize].on_letter(from as u32, &letter);
        }
    }

    fn advance(ranks: &mut [Agreement], space: Option<u8>) {
        for _ in 0..8 {
            ranks.iter_mut().for_each(|rank| rank.advance(space, true));
            carry(ranks);
        }
    }

    #[test]
    fn a_space_is_quiet_when_what_was_sent_is_handled() {
        let mut ranks = [0, 1].map(|rank| Agreement::new(rank, 2, 2));
        ranks[1].sent(1, 100);
        ranks.iter_mut().for_each(|rank| rank.begin(Some(1)));
        advance(&mut ranks, Some(1));
        assert!(ranks.iter().all(|rank| !rank.is_over(Some(1))), "100 bytes are on their way");
        assert!(ranks.iter().all(|rank| rank.is_over(Some(0))), "no rank has asked about the other");
        ranks[0].handled(1, 100);
        advance(&mut ranks, Some(1));
        assert!(ranks.iter().all(|rank| rank.is_over(Some(1))));
    }

    #[test]
    fn who_leaves_is_missed_at_the_next_barrier_only() {
        let mut ranks = [0, 1].map(|rank| Agreement::new(rank, 2, 1));
        ranks.iter_mut().for_each(|rank| rank.begin(None));
        advance(&mut ranks, None);
        assert!(ranks.iter().all(|rank| rank.is_over(None)));
        ranks[1].leave();
        carry(&mut ranks);
        assert!(ranks[0].has_left(1) && !ranks[1].has_left(0));
        assert_eq!(ranks[0].absentee(None), None);
        ranks[0].begin(None);
        assert_eq!((ranks[0].absentee(None), ranks[0].absentee(Some(0))), (Some(1), None));
        ranks[0].on_letter(1, b"nonsense");
    }
}
