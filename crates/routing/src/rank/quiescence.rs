//! Finds out when nothing is left to handle anywhere.
//!
//! Ranks count how much they have sent and handled, ever. Rank 0 asks all of them in waves, and each answers when it has
//! come to this round and has nothing of its own left to do. If by one wave as much was *handled* as by the next one
//! was *sent*, nothing was under way between the two: neither count ever falls, and nothing is handled that was not
//! sent, so all four counts of the two waves are the same (Mattern's four counters). A handler may send in turn; what
//! it sends is counted before what it handled.

use outboard_wire::mutant;

use super::AgreementSignal;

/// How much a rank has sent and handled, ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SentAndHandled {
    /// How much it has sent.
    pub sent: u64,
    /// How much it has handled.
    pub handled: u64,
}

/// What rank 0 knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Census {
    wave: u64,
    /// Who has answered the present wave.
    answered: Vec<bool>,
    sums: SentAndHandled,
    /// What was handled by the wave before.
    handled_before: Option<u64>,
    /// A mistake that the tests must notice.
    #[cfg(test)]
    believes_one_wave: bool,
}

/// One rank's part in finding out, round after round.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Quiescence {
    rank: u32,
    ranks: u32,
    /// How many rounds this rank has come to, and how many are over.
    come: u64,
    over: u64,
    /// The latest question of rank 0 that is not answered.
    asked: Option<(u64, u64)>,
    census: Option<Census>,
    /// Who came to so many rounds and comes to no other.
    left: Vec<(u32, u64)>,
    outbox: Vec<(u32, AgreementSignal)>,
}

impl Quiescence {
    /// For one of `ranks` ranks.
    pub fn new(rank: u32, ranks: u32) -> Self {
        let census =
            (rank == 0).then(|| Census { answered: vec![false; ranks as usize], ..Census::default() });
        Self { rank, ranks, come: 0, over: 0, asked: None, census, left: Vec::new(), outbox: Vec::new() }
    }

    /// This rank comes to the next round: from now on only handlers send.
    pub fn enter(&mut self) {
        self.come += 1;
        if self.rank == 0 {
            self.ask();
        }
    }

    /// Whether nothing was left anywhere.
    pub fn is_quiet(&self) -> bool {
        self.over == self.come
    }

    /// This rank has nothing left to do at present; its counts, if rank 0 wants to know. Call it after
    /// [`on_signal`](Self::on_signal) and whenever the last thing to do is done.
    pub fn on_idle(&mut self, counts: SentAndHandled) {
        if let Some((_, wave)) = self.asked.filter(|(round, _)| *round == self.come && !self.is_quiet()) {
            self.asked = None;
            if self.rank == 0 {
                self.answered(0, wave, counts);
            } else {
                let SentAndHandled { sent, handled } = counts;
                self.outbox.push((0, AgreementSignal::Count { round: self.come, wave, sent, handled }));
            }
        }
    }

    /// A signal has come.
    pub fn on_signal(&mut self, from: u32, signal: AgreementSignal) {
        match signal {
            AgreementSignal::Poll { round, wave } if from == 0 && round > self.over => {
                self.asked = self.asked.max(Some((round, wave)));
            }
            AgreementSignal::Count { round, wave, sent, handled }
                if round == self.come && !self.is_quiet() =>
            {
                self.answered(from, wave, SentAndHandled { sent, handled });
            }
            AgreementSignal::Quiet { round } if from == 0 && round == self.come => {
                self.over = round;
                self.asked = self.asked.filter(|(asked, _)| *asked > round);
            }
            AgreementSignal::Leaving { round } => self.left.push((from, round)),
            _ => {}
        }
    }

    /// A rank that will never come to the round that this one waits in.
    pub fn absentee(&self) -> Option<u32> {
        let is_absent = |(_, last): &&(u32, u64)| *last < self.come && !self.is_quiet();
        self.left.iter().find(is_absent).map(|(rank, _)| *rank)
    }

    /// How many rounds this rank has come through.
    pub fn rounds(&self) -> u64 {
        self.over
    }

    /// The next signal to send, and to whom.
    pub fn poll_action(&mut self) -> Option<(u32, AgreementSignal)> {
        self.outbox.pop()
    }

    fn ask(&mut self) {
        let Some(census) = &mut self.census else { return };
        census.wave += 1;
        census.answered.fill(false);
        census.sums = SentAndHandled::default();
        self.asked = Some((self.come, census.wave));
        let signal = AgreementSignal::Poll { round: self.come, wave: census.wave };
        self.outbox.extend((1..self.ranks).map(|rank| (rank, signal)));
    }

    fn answered(&mut self, from: u32, wave: u64, counts: SentAndHandled) {
        let Some(census) = &mut self.census else { return };
        let Some(has_answered) = census.answered.get_mut(from as usize) else { return };
        if wave != census.wave || std::mem::replace(has_answered, true) {
            return;
        }
        census.sums.sent = census.sums.sent.wrapping_add(counts.sent);
        census.sums.handled = census.sums.handled.wrapping_add(counts.handled);
        if census.answered.contains(&false) {
            return;
        }
        let is_quiet = census.handled_before == Some(census.sums.sent)
            || (mutant("routing.quiet-after-one-wave") && census.sums.handled == census.sums.sent);
        #[cfg(test)]
        let is_quiet = is_quiet || (census.believes_one_wave && census.sums.handled == census.sums.sent);
        census.handled_before = Some(census.sums.handled).filter(|_| !is_quiet);
        if is_quiet {
            self.over = self.come;
            let signal = AgreementSignal::Quiet { round: self.come };
            self.outbox.extend((1..self.ranks).map(|rank| (rank, signal)));
        } else {
            self.ask();
        }
    }
}

#[cfg(test)]
mod tests;
