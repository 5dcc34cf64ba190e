//! All ranks wait for each other.

use std::collections::BTreeSet;

use super::AgreementSignal;

/// One rank's part in barriers, one after the other. Rank 0 counts who has come.
#[derive(Clone, Debug)]
pub struct Barrier {
    rank: u32,
    ranks: u32,
    /// How many barriers this rank has come to, and how many it was let through.
    come: u64,
    through: u64,
    /// Who has come to the present one, at rank 0. No rank comes to the next one before it is let through this one.
    here: BTreeSet<u32>,
    /// Who came to so many rounds and comes to no other.
    left: Vec<(u32, u64)>,
    outbox: Vec<(u32, AgreementSignal)>,
}

impl Barrier {
    /// For one of `ranks` ranks.
    pub fn new(rank: u32, ranks: u32) -> Self {
        Self { rank, ranks, come: 0, through: 0, here: BTreeSet::new(), left: Vec::new(), outbox: Vec::new() }
    }

    /// This rank comes to the next barrier.
    pub fn enter(&mut self) {
        self.come += 1;
        if self.rank == 0 {
            self.arrived(0);
        } else {
            self.outbox.push((0, AgreementSignal::Arrived { round: self.come }));
        }
    }

    /// Whether this rank may go on.
    pub fn is_open(&self) -> bool {
        self.through == self.come
    }

    /// A signal has come.
    pub fn on_signal(&mut self, from: u32, signal: AgreementSignal) {
        match signal {
            AgreementSignal::Arrived { round } if self.rank == 0 && round == self.through + 1 => {
                self.arrived(from)
            }
            AgreementSignal::Released { round } if from == 0 && round == self.come => self.through = round,
            AgreementSignal::Leaving { round } => self.left.push((from, round)),
            _ => {}
        }
    }

    /// A rank that will never come to the round that this one waits in.
    pub fn absentee(&self) -> Option<u32> {
        let is_absent = |(_, last): &&(u32, u64)| *last < self.come && !self.is_open();
        self.left.iter().find(is_absent).map(|(rank, _)| *rank)
    }

    /// How many rounds this rank has come through.
    pub fn rounds(&self) -> u64 {
        self.through
    }

    fn arrived(&mut self, from: u32) {
        self.here.insert(from);
        if self.here.len() == self.ranks as usize {
            self.here.clear();
            self.through += 1;
            let signal = AgreementSignal::Released { round: self.through };
            self.outbox.extend((1..self.ranks).map(|rank| (rank, signal)));
        }
    }

    /// The next signal to send, and to whom.
    pub fn poll_action(&mut self) -> Option<(u32, AgreementSignal)> {
        self.outbox.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rank_goes_on_before_all_are_there() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let ranks = random.u32(1..6);
            let mut all: Vec<Barrier> = (0..ranks).map(|rank| Barrier::new(rank, ranks)).collect();
            let mut under_way: Vec<(u32, u32, AgreementSignal)> = Vec::new();
            let mut come = vec![0u64; ranks as usize];
            while come.iter().any(|rounds| *rounds < 5) || all.iter().any(|barrier| !barrier.is_open()) {
                let rank = random.usize(..all.len());
                if all[rank].is_open() && come[rank] < 5 {
                    come[rank] += 1;
                    all[rank].enter();
                }
                while let Some((to, signal)) = all[rank].poll_action() {
                    under_way.push((rank as u32, to, signal));
                }
                if !under_way.is_empty() {
                    let (from, to, signal) = under_way.swap_remove(random.usize(..under_way.len()));
                    all[to as usize].on_signal(from, signal);
                    while let Some((next, signal)) = all[to as usize].poll_action() {
                        under_way.push((to, next, signal));
                    }
                }
                for (barrier, rounds) in all.iter().zip(&come) {
                    assert!(
                        !barrier.is_open() || come.iter().all(|others| others + 1 > *rounds),
                        "seed {seed}"
                    );
                }
            }
        }
    }
}
