//! Queues of seats, linked through the seats themselves so that nothing is allocated.

/// No seat.
pub(super) const NONE: u32 = u32::MAX;

/// A seat's place in its queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    older: u32,
    newer: u32,
}

impl Default for Links {
    fn default() -> Self {
        Self { older: NONE, newer: NONE }
    }
}

/// A queue, oldest first. A seat is in one queue at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    oldest: u32,
    newest: u32,
    len: usize,
}

impl Default for Queue {
    fn default() -> Self {
        Self { oldest: NONE, newest: NONE, len: 0 }
    }
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// The next newer one.
    pub(super) fn newer(&self, links: &[Links], seat: u32) -> Option<u32> {
        let newer = links[seat as usize].newer;
        (newer != NONE).then_some(newer)
    }

    pub(super) fn push_newest(&mut self, links: &mut [Links], seat: u32) {
        links[seat as usize] = Links { older: self.newest, newer: NONE };
        match self.newest {
            NONE => self.oldest = seat,
            newest => links[newest as usize].newer = seat,
        }
        self.newest = seat;
        self.len += 1;
    }

    pub(super) fn push_oldest(&mut self, links: &mut [Links], seat: u32) {
        links[seat as usize] = Links { older: NONE, newer: self.oldest };
        match self.oldest {
            NONE => self.newest = seat,
            oldest => links[oldest as usize].older = seat,
        }
        self.oldest = seat;
        self.len += 1;
    }

    pub(super) fn remove(&mut self, links: &mut [Links], seat: u32) {
        let Links { older, newer } = links[seat as usize];
        match older {
            NONE => self.oldest = newer,
            older => links[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => links[newer as usize].older = older,
        }
        links[seat as usize] = Links::default();
        self.len -= 1;
    }
}
