//! Which calls of one caller have begun.

/// How far below the highest number of a caller a call can come; for older ones nobody knows whether they ran.
pub const WINDOW: u64 = 4096;

const WORDS: usize = (WINDOW / 64) as usize;

/// Lets every number begin once. Takes 512 bytes for a caller.
#[derive(Clone, Debug)]
pub struct CallWindow {
    /// The highest number that has begun.
    highest: u64,
    /// A bit for each of the last numbers.
    begun: [u64; WORDS],
}

impl Default for CallWindow {
    fn default() -> Self {
        Self { highest: 0, begun: [0; WORDS] }
    }
}

impl CallWindow {
    /// Whether a call of this number may begin: from now on it has.
    #[inline]
    pub fn begin(&mut self, call: u64) -> bool {
        if call > self.highest {
            self.forget_between(call);
            self.highest = call;
        } else if self.highest - call >= WINDOW {
            return false;
        }
        let (word, bit) = place(call);
        let is_new = self.begun[word] & bit == 0;
        self.begun[word] |= bit;
        is_new
    }

    /// The numbers up to `call` take the places of those that fall out of the window.
    #[inline]
    fn forget_between(&mut self, call: u64) {
        if call - self.highest >= WINDOW {
            self.begun = [0; WORDS];
            return;
        }
        for number in self.highest + 1..=call {
            let (word, bit) = place(number);
            self.begun[word] &= !bit;
        }
    }
}

#[inline]
fn place(call: u64) -> (usize, u64) {
    (((call % WINDOW) / 64) as usize, 1 << (call % 64))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_number_begins_at_most_once_and_new_ones_do(
            steps in proptest::collection::vec((0u64..200, 0u64..6000), 1..300),
        ) {
            let (mut window, mut begun) = (CallWindow::default(), HashSet::new());
            let mut highest = 0u64;
            for (forward, back) in steps {
                let call = (highest + forward * forward).saturating_sub(back);
                let may = window.begin(call);
                let is_known = highest < call || highest - call < WINDOW;
                prop_assert_eq!(may, is_known && begun.insert(call), "{}", call);
                highest = highest.max(call);
            }
        }
    }

    #[test]
    fn the_ends_of_the_numbers_are_numbers_too() {
        let mut window = CallWindow::default();
        assert!(window.begin(0));
        assert!(!window.begin(0));
        assert!(window.begin(u64::MAX));
        assert!(!window.begin(u64::MAX));
        assert!(!window.begin(0));
        assert!(window.begin(u64::MAX - WINDOW + 1));
        assert!(!window.begin(u64::MAX - WINDOW));
    }
}
