//! What a source keeps for one destination.

use std::collections::VecDeque;

use outboard_wire::mutant;
use outboard_wire::routing::Form;
use thiserror::Error;

use super::incoming::WINDOW;

/// A run that its destination is not known to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its number.
    pub number: u64,
    /// In which of the source's buffers its bytes lie.
    pub buffer: u32,
    /// How many bytes there are.
    pub len: u32,
    /// To which message space they belong.
    pub space: u8,
    /// What they are.
    pub form: Form,
}

/// A destination says that it has what was never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("it says that it has {missing} runs, and {sent} were sent")]
pub struct NotSent {
    missing: u64,
    sent: u64,
}

/// What a source keeps for one destination, in order.
#[derive(Clone, Debug, Default)]
pub struct Outgoing {
    next: u64,
    /// The first that the destination is not known to have, also after all is given up.
    acknowledged: u64,
    kept: VecDeque<Kept>,
    /// How many of those that are kept have been sent and are not known to be lost.
    sent: usize,
    /// The first run that was never sent, by any way.
    unheard: u64,
}

impl Outgoing {
    /// Nothing was ever sent.
    pub fn new() -> Self {
        Self::default()
    }

    /// Numbers a run and keeps it.
    pub fn seal(&mut self, buffer: u32, len: u32, space: u8, form: Form) {
        self.kept.push_back(Kept { number: self.next, buffer, len, space, form });
        self.next += 1;
    }

    /// The next run to send, unless the destination could not tell that it is new: so far ahead of what it has.
    pub fn unsent(&self) -> Option<&Kept> {
        let first = self.kept.front()?.number;
        self.kept
            .get(self.sent)
            .filter(|run| run.number - first < WINDOW + u64::from(mutant("routing.window-too-wide")))
    }

    /// That run has been sent.
    pub fn mark_sent(&mut self) {
        if let Some(run) = self.kept.get(self.sent) {
            self.unheard = self.unheard.max(run.number + 1);
            self.sent += 1;
        }
    }

    /// The destination has everything before `missing`; tells `free` which buffers are not needed any more.
    pub fn on_ack(&mut self, missing: u64, mut free: impl FnMut(u32)) -> Result<(), NotSent> {
        if missing > self.unheard {
            return Err(NotSent { missing, sent: self.unheard });
        }
        self.acknowledged = self.acknowledged.max(missing);
        while let Some(run) = self.kept.front().filter(|run| run.number < missing) {
            free(run.buffer);
            self.kept.pop_front();
            self.sent = self.sent.saturating_sub(1);
        }
        Ok(())
    }

    /// The way is gone, and with it perhaps what was sent by it: all that is kept is sent again.
    pub fn on_way_lost(&mut self) {
        self.sent = if mutant("routing.first-run-not-sent-again") { self.sent.min(1) } else { 0 };
    }

    /// Gives everything up; tells `free` which buffers are not needed any more.
    pub fn give_up(&mut self, mut free: impl FnMut(u32)) {
        self.kept.drain(..).for_each(|run| free(run.buffer));
        self.sent = 0;
    }

    /// The number of the next run.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// The first run that the destination is not known to have.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// How many runs are kept.
    pub fn kept(&self) -> usize {
        self.kept.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(count: u32) -> Outgoing {
        let mut outgoing = Outgoing::new();
        (0..count).for_each(|buffer| outgoing.seal(buffer, 100, 0, Form::Messages));
        outgoing
    }

    fn send(outgoing: &mut Outgoing) -> Vec<u64> {
        let mut sent = Vec::new();
        while let Some(run) = outgoing.unsent() {
            sent.push(run.number);
            outgoing.mark_sent();
        }
        sent
    }

    #[test]
    fn what_is_acknowledged_is_forgotten_in_order() {
        let mut outgoing = sealed(3);
        assert_eq!(send(&mut outgoing), [0, 1, 2]);
        let mut freed = Vec::new();
        outgoing.on_ack(2, |buffer| freed.push(buffer)).unwrap();
        outgoing.on_ack(1, |buffer| freed.push(buffer)).unwrap();
        assert_eq!((freed, outgoing.kept()), (vec![0, 1], 1));
        outgoing.give_up(|_| {});
        assert_eq!((outgoing.acknowledged(), outgoing.next_number()), (2, 3));
    }

    #[test]
    fn what_was_not_acknowledged_is_sent_again_by_another_way() {
        let mut outgoing = sealed(4);
        send(&mut outgoing);
        outgoing.on_ack(1, |_| {}).unwrap();
        outgoing.on_way_lost();
        assert_eq!(send(&mut outgoing), [1, 2, 3]);
    }

    #[test]
    fn what_arrived_by_a_way_that_was_lost_need_not_be_sent_again() {
        let mut outgoing = sealed(4);
        send(&mut outgoing);
        outgoing.on_way_lost();
        outgoing.on_ack(3, |_| {}).unwrap();
        assert_eq!(send(&mut outgoing), [3]);
    }

    #[test]
    fn no_destination_has_what_was_not_sent() {
        let mut outgoing = sealed(2);
        outgoing.mark_sent();
        assert_eq!(outgoing.on_ack(2, |_| {}), Err(NotSent { missing: 2, sent: 1 }));
        outgoing.on_ack(1, |_| {}).unwrap();
        assert_eq!(outgoing.kept(), 1);
    }

    #[test]
    fn nothing_is_sent_that_could_not_be_told_from_a_copy() {
        let mut outgoing = sealed(2 * WINDOW as u32);
        assert_eq!(send(&mut outgoing).len() as u64, WINDOW);
        outgoing.on_ack(10, |_| {}).unwrap();
        assert_eq!(send(&mut outgoing).len(), 10);
    }
}
