//! Which runs of one source a destination has.

use outboard_wire::mutant;

/// How far ahead of the first missing run others are told apart. A source has at most so many under way.
pub const WINDOW: u64 = 256;

const WORDS: usize = (WINDOW / 64) as usize;

/// Which runs of one source a destination has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Incoming {
    missing: u64,
    /// Bit `number % WINDOW` is set for every run behind the first missing one that is here.
    beyond: [u64; WORDS],
}

impl Incoming {
    /// Nothing is here.
    pub fn new() -> Self {
        Self::default()
    }

    /// The first run that is missing.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// Whether a run is new: neither here already, nor so far ahead that no honest source would have sent it.
    pub fn is_new(&self, number: u64) -> bool {
        let is_here = self.has_bit(number) && !mutant("routing.copy-taken-for-new");
        number >= self.missing && number - self.missing < WINDOW && !is_here
    }

    /// A run is here. Returns whether it was new.
    pub fn note(&mut self, number: u64) -> bool {
        if !self.is_new(number) {
            return false;
        }
        self.beyond[word_of(number)] |= bit_of(number);
        while self.has_bit(self.missing) {
            self.beyond[word_of(self.missing)] &= !bit_of(self.missing);
            self.missing += 1;
        }
        true
    }

    fn has_bit(&self, number: u64) -> bool {
        self.beyond[word_of(number)] & bit_of(number) != 0
    }
}

fn word_of(number: u64) -> usize {
    (number / 64) as usize % WORDS
}

fn bit_of(number: u64) -> u64 {
    1 << (number % 64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set_of_numbers(numbers in prop::collection::vec(0..600u64, 0..900)) {
            let (mut incoming, mut model) = (Incoming::new(), BTreeSet::new());
            for number in numbers {
                let missing = (0..).find(|number| !model.contains(number)).unwrap();
                prop_assert_eq!(incoming.missing(), missing);
                let is_new = number < missing + WINDOW && !model.contains(&number);
                prop_assert_eq!(incoming.note(number), is_new, "{}", number);
                if is_new {
                    model.insert(number);
                }
            }
        }
    }
}
