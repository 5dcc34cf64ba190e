//! The common work of all ranks: they wait for each other, and find out that nothing is left.

use std::time::{Duration, Instant};

use super::bundle::Bundle;
use super::error::{MessengerError, SendError};
use super::lanes::Lane;
use super::messages::Messenger;

/// How often a rank that has nothing to do looks again before it lets others run, and before it sleeps.
const LOOKS: u32 = 64;
const YIELDS: u32 = 2_000;

impl Messenger {
    /// Waits until everything that was sent anywhere in this space, by handlers too, has been handled everywhere. All ranks
    /// have to take part. Some leave it earlier than others: if messages of the next phase need another handler, a
    /// [`barrier`](Self::barrier) comes between.
    ///
    /// A rank that waits here handles messages of this space alone. If other ranks may still be sending in another space, and
    /// would wait for room there before they come here, use [`begin_quiesce`](Self::begin_quiesce) and receive in all spaces.
    pub fn quiesce(
        &mut self,
        space: u8,
        mut handler: impl FnMut(&mut Self, u32, &[u8]),
    ) -> Result<(), MessengerError> {
        self.wait_for(
            "to the end of the messages",
            |this| {
                let handled = this.receive(space, &mut handler)?;
                Ok(handled > 0)
            },
            Some(space),
        )
    }

    /// Waits with a handler for whole bundles.
    pub fn quiesce_bundles(
        &mut self,
        space: u8,
        mut handler: impl FnMut(&mut Self, Bundle<'_>),
    ) -> Result<(), MessengerError> {
        self.wait_for(
            "to the end of the messages",
            |this| Ok(this.receive_bundles(space, &mut handler)? > 0),
            Some(space),
        )
    }

    /// Begins what [`quiesce`](Self::quiesce) waits for. Until it is over a rank may go on sending, as long as it
    /// [asks](Self::poll_quiesce) only when it has nothing of its own left to send.
    pub fn begin_quiesce(&mut self, space: u8) -> Result<(), MessengerError> {
        self.check_space(space)?;
        self.agreement.begin(Some(space));
        Ok(())
    }

    /// Whether everything has been handled everywhere since [`begin_quiesce`](Self::begin_quiesce). Go on receiving until then.
    pub fn poll_quiesce(&mut self, space: u8) -> Result<bool, MessengerError> {
        self.flush_in(space)?;
        self.agreement.advance(Some(space), self.is_idle(usize::from(space)));
        self.drain_signals();
        self.is_agreed(Some(space))
    }

    /// Whether this rank has nothing of a space that others do not know of: also what has just left the backlog may lie in
    /// an open bundle, which is not counted yet.
    fn is_idle(&self, set: usize) -> bool {
        let ranks = self.ranks as usize;
        let lanes = &self.lanes[set * ranks..(set + 1) * ranks];
        self.inbox[set].is_empty() && self.backlogs[set].is_empty() && lanes.iter().all(Lane::is_empty)
    }

    /// Waits until all ranks are here. Handles nothing.
    pub fn barrier(&mut self) -> Result<(), MessengerError> {
        self.wait_for("to the barrier", |_| Ok(false), None)
    }

    /// Begins what [`barrier`](Self::barrier) waits for.
    pub fn begin_barrier(&mut self) {
        self.agreement.begin(None);
    }

    /// Whether all ranks have come since [`begin_barrier`](Self::begin_barrier).
    pub fn poll_barrier(&mut self) -> Result<bool, MessengerError> {
        self.progress()?;
        self.agreement.advance(None, true);
        self.drain_signals();
        self.is_agreed(None)
    }

    /// Whether it is over, unless it never will be.
    fn is_agreed(&mut self, space: Option<u8>) -> Result<bool, MessengerError> {
        if self.agreement.is_over(space) {
            return Ok(true);
        }
        if let Some(rank) = self.agreement.absentee(space) {
            return Err(SendError::Departed { rank, why: "it has left".to_owned() }.into());
        }
        self.fail_if_lost()?;
        Ok(false)
    }

    pub(super) fn wait_for(
        &mut self,
        what: &'static str,
        mut work: impl FnMut(&mut Self) -> Result<bool, MessengerError>,
        space: Option<u8>,
    ) -> Result<(), MessengerError> {
        let (began, patience) = (Instant::now(), self.options.deadline);
        match space {
            Some(space) => self.begin_quiesce(space)?,
            None => self.begin_barrier(),
        }
        let mut idle = 0;
        loop {
            let has_worked = work(self)?;
            let is_over = match space {
                Some(space) => self.poll_quiesce(space)?,
                None => self.poll_barrier()?,
            };
            if is_over {
                return Ok(());
            }
            idle = if has_worked { 0 } else { idle + 1 };
            if idle > 0 && idle % 1024 == 0 && began.elapsed() > patience {
                return Err(MessengerError::Deadline { what, waited: patience });
            }
            self.pause_for(idle)?;
        }
    }

    /// For a rank that got [`Full`](super::SendError::Full): handles what has arrived, or lets others run if nothing has, so that
    /// there will be room. Then try again.
    pub fn make_room(
        &mut self,
        space: u8,
        handler: impl FnMut(&mut Self, Bundle<'_>),
    ) -> Result<(), MessengerError> {
        self.receive_bundles(space, handler)?;
        self.pause()
    }

    /// For a rank that can do nothing but wait: lets others run, the longer nothing has arrived the more. A rank that is lost
    /// without a goodbye is an error, once, so that a rank can go on without it.
    pub fn pause(&mut self) -> Result<(), MessengerError> {
        let departed = self.worker.service().departed();
        if let Some(departed) = departed.get(self.departed_told) {
            self.departed_told += 1;
            if !departed.has_left {
                let (rank, why) = (departed.rank, departed.why.clone());
                return Err(SendError::Departed { rank, why }.into());
            }
        }
        self.pause_for(self.idle)
    }

    /// Leaves the processor to others, the longer the more.
    fn pause_for(&mut self, idle: u32) -> Result<(), MessengerError> {
        match idle {
            0 => {}
            1..LOOKS => std::hint::spin_loop(),
            _ => {
                let began = Instant::now();
                if idle < YIELDS {
                    std::thread::yield_now();
                } else {
                    self.worker.rest(Duration::from_millis(1)).map_err(std::io::Error::from)?;
                }
                self.stats.waited += began.elapsed();
            }
        }
        Ok(())
    }

    /// Sends signals, as far as there are bundles for them. Returns whether any was sent.
    pub(super) fn drain_signals(&mut self) -> bool {
        let set = usize::from(self.spaces);
        let mut moved = false;
        while let Some((to, letter)) = self.agreement.letter() {
            if !self.send_signal(to, &letter) {
                break;
            }
            self.agreement.letter_sent();
            moved = true;
        }
        if moved {
            (0..self.ranks).for_each(|rank| self.seal(set, rank));
            // Others may wait for nothing else, and the rank that has told them may not call again for long. A failure shows again
            // in `progress`.
            let _ = self.worker.step();
        }
        moved
    }

    /// Reads the signals that have come.
    pub(super) fn read_signals(&mut self) {
        let set = usize::from(self.spaces);
        while let Some(item) = self.inbox[set].pop_front() {
            let source = item.source;
            self.with_bytes(&item, |this, bytes| {
                let bundle = Bundle::new((source, this.rank), bytes, item.form);
                for letter in bundle.messages().map_while(Result::ok) {
                    this.agreement.on_letter(source, letter);
                }
            });
            self.finish(set, item);
        }
    }
}
