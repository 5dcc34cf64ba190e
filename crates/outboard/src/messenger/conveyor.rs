//! The interface that many kernels are written for: push, pull, advance.

use std::marker::PhantomData;

use super::error::{MessengerError, SendError};
use super::messages::Messenger;
use super::receive::Item;
use crate::Plain;

/// Items of one type for other ranks, pushed and pulled as with bale's conveyors. Each conveyor has a message space for
/// itself; several can be used at once.
///
/// ```
/// use outboard::{Conveyor, Job};
/// let mut messenger = Job::join()?.messenger()?;
/// let mut conveyor = Conveyor::<u64>::new(0);
/// let (mut table, mut next) = (vec![0u64; 1024], 0);
/// let targets: Vec<(u64, u32)> = vec![(17, 0)];
/// while conveyor.advance(&mut messenger, next == targets.len())? {
///     while next < targets.len() && conveyor.push(&mut messenger, targets[next].0, targets[next].1)? {
///         next += 1;
///     }
///     while let Some((index, _from)) = conveyor.pull(&mut messenger)? {
///         table[index as usize] += 1;
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Conveyor<T> {
    space: u8,
    /// The bundle that is being pulled from, and how many of its items have been.
    current: Option<(Item, usize)>,
    has_ended_pushing: bool,
    is_over: bool,
    items: PhantomData<T>,
}

impl<T: Plain> Conveyor<T> {
    /// A conveyor that uses a message space.
    pub fn new(space: u8) -> Self {
        Self { space, current: None, has_ended_pushing: false, is_over: false, items: PhantomData }
    }

    /// Offers an item for a rank. Returns false if there is no room: advance, pull and try again.
    #[inline]
    pub fn push(&mut self, messenger: &mut Messenger, item: T, rank: u32) -> Result<bool, MessengerError> {
        match messenger.send_value_in(self.space, rank, item) {
            Ok(()) => Ok(true),
            Err(SendError::Full) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes an item that has arrived, with the rank that pushed it.
    pub fn pull(&mut self, messenger: &mut Messenger) -> Result<Option<(T, u32)>, MessengerError> {
        messenger.check_space(self.space)?;
        let set = usize::from(self.space);
        loop {
            let (item, taken) = match self.current.take() {
                Some(current) => current,
                None => match messenger.inbox[set].pop_front() {
                    Some(item) => (item, 0),
                    None => return Ok(None),
                },
            };
            let source = item.source;
            let value = messenger.with_bytes(&item, |this, bytes| {
                let values = super::bundle::Bundle::new((source, this.rank), bytes, item.form);
                let values = if taken == 0 { values.values::<T>() } else { Some(values.known_values()) };
                values.map(|values| values.get(taken))
            });
            match value {
                None => {
                    messenger.finish(set, item);
                    let why = format!("not items of {} bytes each", size_of::<T>());
                    return Err(MessengerError::Nonsense { rank: source, why });
                }
                Some(None) => messenger.finish(set, item),
                Some(Some(value)) => {
                    self.current = Some((item, taken + 1));
                    return Ok(Some((value, source)));
                }
            }
        }
    }

    /// Puts back the item that was pulled last: it is pulled again. Call it once after a pull.
    pub fn unpull(&mut self) {
        if let Some((_, taken)) = &mut self.current {
            *taken = taken.saturating_sub(1);
        }
    }

    /// Moves items. Returns whether there is more to do: until all ranks have said `done` (nothing more will be pushed) and
    /// every item has been pulled. Once said, `done` stays.
    pub fn advance(&mut self, messenger: &mut Messenger, done: bool) -> Result<bool, MessengerError> {
        if self.is_over {
            return Ok(false);
        }
        if done && !self.has_ended_pushing {
            self.has_ended_pushing = true;
            messenger.begin_quiesce(self.space)?;
        }
        if self.has_ended_pushing && self.current.is_none() {
            self.is_over = messenger.poll_quiesce(self.space)?;
        }
        let moved = messenger.progress()?;
        let is_empty = messenger.inbox[usize::from(self.space)].is_empty() && self.current.is_none();
        messenger.idle = if moved || !is_empty { 0 } else { messenger.idle.saturating_add(1) };
        messenger.pause()?;
        Ok(!self.is_over)
    }

    /// Begins anew after the end. All ranks have to.
    pub fn reset(&mut self) {
        (self.has_ended_pushing, self.is_over) = (false, false);
    }
}
