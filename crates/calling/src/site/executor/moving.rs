//! Calls that leave for another site, and that come from one.

use std::sync::Arc;

use outboard_wire::Time;
use outboard_wire::calling::{CallFailure, MOVING_LEN_MAX, Moving};

use super::waiting::WaitingCall;
use super::{Executor, ExecutorClient, Submitted};

/// A call that goes on elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recalled<'a> {
    /// It has not begun.
    Waiting(u64),
    /// It waits for a read.
    Suspended(Moving<'a>),
}

impl<R> Executor<R> {
    /// Gives up calls of a client that can go on at another site: those that have not begun, and those that wait for a read,
    /// whose answer will be dropped. What is waited for by a call with a change under way stays here, and so does a call
    /// with more memory than [`MOVING_LEN_MAX`].
    pub fn recall(&mut self, client: ExecutorClient, calls: &[u64], mut give: impl FnMut(Recalled<'_>)) {
        let Some(session) = self.sessions.get_mut(client.0 as usize).and_then(Option::as_mut) else {
            return;
        };
        let mut sorted = calls.to_vec();
        sorted.sort_unstable();
        let is_wanted = |call: u64| sorted.binary_search(&call).is_ok();
        let taken = session.take_back(is_wanted);
        if session.is_idle() && !taken.is_empty() && !session.is_paused {
            session.debt = self.turns.leave(|other| *other == client);
        }
        for call in taken {
            give(Recalled::Waiting(call));
        }
        session.calls -= self.runs.take_back(client, is_wanted, |moving| {
            let fits = moving.encoded_len() <= MOVING_LEN_MAX;
            if fits {
                give(Recalled::Suspended(*moving));
            }
            fits
        });
    }

    /// Takes in a call that has begun at another site, as input from a stranger. The read that it waits for is begun again
    /// when it is its turn, unless that comes later than it has patience.
    pub fn admit(&mut self, now: Time, client: ExecutorClient, moving: &Moving<'_>) -> Submitted {
        let Some(session) = self.sessions.get_mut(client.0 as usize).and_then(Option::as_mut) else {
            return Submitted::Failed(CallFailure::NotResumed);
        };
        if session.calls >= self.config.calls_per_client {
            return Submitted::Full;
        }
        let Some(bound) = session.bound(moving.handle) else {
            return Submitted::Failed(CallFailure::NotResumed);
        };
        let binding = Arc::clone(&bound.binding);
        let Some(run) = self.runs.restore(client, moving, &binding) else {
            return Submitted::Failed(CallFailure::NotResumed);
        };
        if !session.may_begin(moving.call, bound) {
            self.runs.give_back(run);
            return Submitted::Failed(CallFailure::Repeated);
        }
        let until = super::until(now, moving.patience_us);
        let call = WaitingCall { call: moving.call, until, fuel: u64::MAX, run: Some(run) };
        if session.push(moving.handle, call, (0, |_: &mut [u8]| ())) && !session.is_paused {
            self.turns.join(client, session.debt);
        }
        Submitted::Taken
    }
}
