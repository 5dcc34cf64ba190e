//! Whether a history is one that a hash map could have given.

use std::collections::HashSet;

/// What was asked, and what came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Get(Option<u64>),
    Put(u64),
    /// Whether it was there.
    Delete(bool),
}

/// One call, from its beginning to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) key: u8,
    pub(crate) op: Op,
    pub(crate) began: u64,
    /// None if the caller has died: it may have happened, or not.
    pub(crate) ended: Option<u64>,
    /// It said that it did nothing.
    pub(crate) did_nothing: bool,
}

/// Checks every key by itself, which is enough; the first key that does not fit is the error.
pub(crate) fn check(events: &[Event]) -> Result<(), u8> {
    let keys: HashSet<u8> = events.iter().map(|event| event.key).collect();
    for key in keys {
        let of_key: Vec<Event> =
            events.iter().filter(|event| event.key == key && !event.did_nothing).copied().collect();
        if !fits(&of_key) {
            return Err(key);
        }
    }
    Ok(())
}

/// Looks for an order in which everything makes sense: nothing is taken before something that had ended when it began.
///
/// What may have happened or not is taken only right before something that needs it: earlier it would change nothing.
fn fits(events: &[Event]) -> bool {
    let mut tried = HashSet::new();
    let mut stack = vec![(vec![false; events.len()], None)];
    while let Some((taken, value)) = stack.pop() {
        let left = || events.iter().enumerate().filter(|(at, _)| !taken[*at]);
        let Some(first_end) = left().filter_map(|(_, event)| event.ended).min() else { return true };
        let mut take = |which: &[usize], next| {
            let mut taken = taken.clone();
            which.iter().for_each(|at| taken[*at] = true);
            if tried.insert((taken.clone(), next)) {
                stack.push((taken, next));
            }
        };
        let may_be_next = || left().filter(|(_, event)| event.began < first_end);
        for (at, event) in may_be_next().filter(|(_, event)| event.ended.is_some()) {
            if let Some(next) = apply(event.op, value) {
                take(&[at], next);
                continue;
            }
            // Of deletes that may have happened one is as good as another.
            let mut is_first_delete = true;
            for (before, perhaps) in may_be_next().filter(|(_, event)| event.ended.is_none()) {
                if matches!(perhaps.op, Op::Delete(_)) && !std::mem::take(&mut is_first_delete) {
                    continue;
                }
                if let Some(next) = perhaps.changes_to().and_then(|value| apply(event.op, value)) {
                    take(&[before, at], next);
                }
            }
        }
    }
    false
}

impl Event {
    /// What is there after it, if it happens and its result is not known.
    fn changes_to(&self) -> Option<Option<u64>> {
        match self.op {
            Op::Put(new) => Some(Some(new)),
            Op::Delete(_) => Some(None),
            Op::Get(_) => None,
        }
    }
}

/// The value afterwards, if this can have happened here.
fn apply(op: Op, value: Option<u64>) -> Option<Option<u64>> {
    match op {
        Op::Put(new) => Some(Some(new)),
        Op::Get(found) => (found == value).then_some(value),
        Op::Delete(was_there) => (was_there == value.is_some()).then_some(None),
    }
}

#[test]
fn the_check_knows_right_from_wrong() {
    let event = |op, began, ended| Event { key: 1, op, began, ended: Some(ended), did_nothing: false };
    let put = event(Op::Put(7), 1, 4);
    assert!(check(&[put, event(Op::Get(None), 2, 3), event(Op::Get(Some(7)), 5, 6)]).is_ok());
    assert!(check(&[put, event(Op::Get(None), 5, 6)]).is_err(), "it was put before");
    let early = event(Op::Get(Some(7)), 2, 3);
    assert!(check(&[put, early]).is_ok());
    let later = event(Op::Get(None), 4, 5);
    let put = event(Op::Put(7), 1, 6);
    assert!(check(&[put, early, later]).is_err(), "first the new value, then the old one");
    assert!(check(&[event(Op::Delete(true), 1, 2)]).is_err());
    assert!(check(&[Event { ended: None, ..put }, later]).is_ok());
    assert!(check(&[Event { ended: None, ..put }, early, later]).is_err());
}
