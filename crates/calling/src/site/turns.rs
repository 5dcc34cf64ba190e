//! Whose turn it is: everybody who wants something gets as much as everybody else, whatever a single piece costs.

use std::collections::VecDeque;

use outboard_wire::mutant;

/// Those who want something, in the order of their turns. Each may spend so much before it is the next one's turn; who
/// has spent more has a debt that it waits for.
#[derive(Debug)]
pub(crate) struct Turns<K> {
    ring: VecDeque<(K, i64)>,
    quantum: i64,
}

impl<K: Copy> Turns<K> {
    pub(crate) fn new(quantum: i64) -> Self {
        Self { ring: VecDeque::new(), quantum: quantum.max(1) }
    }

    /// One wants turns from now on, and must not be in the ring. `debt` is what [`leave`](Self::leave) gave.
    pub(crate) fn join(&mut self, who: K, debt: i64) {
        let debt = if mutant("calling.debt-forgotten") { 0 } else { debt };
        self.ring.push_back((who, debt.min(0)));
    }

    /// Whose turn it is. Looks at everybody three times at most, however large the debts are.
    pub(crate) fn next(&mut self) -> Option<K> {
        if let Some(who) = self.next_soon() {
            return Some(who);
        }
        // The rounds in which everybody would still be in debt, at once.
        let rounds = self.ring.iter().map(|(_, credit)| credit.saturating_neg() / self.quantum).min()?;
        for (_, credit) in &mut self.ring {
            *credit += rounds * self.quantum;
        }
        self.next_soon()
    }

    /// As `next`, unless all have spent so much that none has a turn for more than a round.
    pub(crate) fn next_soon(&mut self) -> Option<K> {
        for _ in 0..self.ring.len() {
            let (who, credit) = self.ring.front_mut()?;
            if *credit <= 0 {
                *credit += self.quantum;
            }
            if *credit > 0 {
                return Some(*who);
            }
            self.ring.rotate_left(1);
        }
        None
    }

    /// Whose turn it will be after so many others.
    #[inline]
    pub(crate) fn upcoming(&self, others: usize) -> Option<K> {
        self.ring.get(others).map(|(who, _)| *who)
    }

    /// The one that has the turn has spent so much.
    pub(crate) fn spend(&mut self, cost: u64) {
        if let Some((_, credit)) = self.ring.front_mut() {
            *credit = credit.saturating_sub_unsigned(cost);
            if *credit <= 0 {
                self.ring.rotate_left(1);
            }
        }
    }

    /// One wants no more turns. Returns its debt, so that a short absence does not get rid of it.
    pub(crate) fn leave(&mut self, is_it: impl Fn(&K) -> bool) -> i64 {
        // Most of the time it is whose turn it was.
        if self.ring.front().is_some_and(|(who, _)| is_it(who)) {
            return self.ring.pop_front().map_or(0, |(_, credit)| credit.min(0));
        }
        match self.ring.iter().position(|(who, _)| is_it(who)) {
            Some(at) => self.ring.remove(at).map_or(0, |(_, credit)| credit.min(0)),
            None => 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_equal_whatever_a_piece_costs() {
        let costs = [10_000u64, 1, 50, 3_000];
        let mut turns = Turns::new(100);
        (0..costs.len()).for_each(|who| turns.join(who, 0));
        let mut spent = [0u64; 4];
        while spent.iter().sum::<u64>() < 1_000_000 {
            let who = turns.next().unwrap();
            spent[who] += costs[who];
            turns.spend(costs[who]);
        }
        for share in spent {
            assert!((235_000..=262_000).contains(&share), "{spent:?}");
        }
    }

    #[test]
    fn a_queue_that_has_spent_too_much_waits_for_rounds() {
        let mut turns = Turns::new(100);
        turns.join('a', -250);
        turns.join('b', 0);
        assert_eq!(turns.next_soon(), Some('b'));
        assert_eq!(turns.leave(|who| *who == 'b'), 0);
        assert_eq!(turns.next_soon(), None, "another round is missing");
        assert_eq!(turns.next_soon(), Some('a'));
        assert_eq!(Turns::<char>::new(100).next_soon(), None);
    }

    #[test]
    fn the_largest_debts_are_waited_for_at_once() {
        let mut turns = Turns::new(1);
        turns.join('a', i64::MIN);
        turns.join('b', i64::MIN + 5);
        turns.join('c', i64::MIN + 5);
        assert_eq!(turns.next(), Some('b'));
        turns.spend(u64::MAX);
        assert_eq!(turns.next(), Some('c'));
        turns.spend(1);
        assert_eq!(turns.next(), Some('c'), "it owes less than the others");
    }

    #[test]
    fn waiting_at_once_is_waiting_by_rounds() {
        fastrand::seed(7);
        for _ in 0..2000 {
            let debts: Vec<i64> = (0..fastrand::usize(1..6)).map(|_| -fastrand::i64(0..500)).collect();
            let (mut at_once, mut by_rounds) = (Turns::new(7), Turns::new(7));
            for (who, debt) in debts.iter().enumerate() {
                at_once.join(who, *debt);
                by_rounds.join(who, *debt);
            }
            let slowly = loop {
                if let Some(who) = by_rounds.next_soon() {
                    break who;
                }
            };
            assert_eq!(at_once.next(), Some(slowly), "{debts:?}");
            assert_eq!(at_once.ring, by_rounds.ring, "{debts:?}");
        }
    }

    #[test]
    fn a_debt_outlives_an_absence() {
        let mut turns = Turns::new(100);
        turns.join('a', 0);
        assert_eq!(turns.next(), Some('a'));
        turns.spend(1000);
        let debt = turns.leave(|who| *who == 'a');
        assert_eq!(debt, -900);
        turns.join('a', debt);
        turns.join('b', 0);
        for _ in 0..8 {
            assert_eq!(turns.next(), Some('b'));
            turns.spend(100);
        }
        assert_eq!(turns.leave(|who| *who == 'b'), 0);
        assert_eq!(turns.next(), Some('a'), "alone, a queue does not wait for long");
    }
}
