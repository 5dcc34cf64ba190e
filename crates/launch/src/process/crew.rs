//! Several processes, listened to by one thread.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::Member;
use crate::output::{Acceptance, Sink, Stream};

/// Read from one output in one turn, so that a process that prints much does not silence the others.
const READ_BYTES_MAX: usize = 16 << 10;

/// Processes that are waited for together. Dropping it kills and reaps them.
pub(crate) struct Crew {
    pub(crate) members: Vec<Member>,
    pub(crate) grace: Duration,
    buffer: Box<[u8]>,
}

/// Something to wait for besides the members.
pub(crate) struct Other<'a> {
    pub(crate) fd: BorrowedFd<'a>,
    pub(crate) flags: PollFlags,
}

#[derive(Clone, Copy)]
enum Event {
    Ended(usize),
    Printed(usize, Stream),
    SinkReady,
    Other(usize),
}

impl Crew {
    pub(crate) fn new(grace: Duration) -> Self {
        Self { members: Vec::new(), grace, buffer: vec![0; READ_BYTES_MAX].into() }
    }

    /// Whether nothing more is expected of any member.
    pub(crate) fn is_over(&self) -> bool {
        self.members.iter().all(Member::is_over)
    }

    /// Asks all members to end.
    pub(crate) fn ask_all(&mut self) {
        let now = Instant::now();
        self.members.iter_mut().for_each(|member| member.ask(now, self.grace));
    }

    /// Kills all members.
    pub(crate) fn kill_all(&mut self) {
        let now = Instant::now();
        self.members.iter_mut().for_each(|member| member.kill(now));
    }

    /// Kills all members and closes their outputs without waiting for what they still hold.
    pub(crate) fn abandon(&mut self) {
        self.members.iter_mut().for_each(Member::finish);
    }

    /// Gives the numbers of all members back. They must have been ended before.
    pub(crate) fn reap(&mut self) {
        self.members.iter_mut().for_each(Member::reap);
    }

    /// Waits until something happens, `until` at the latest, and acts on it. Returns which of the others are ready.
    pub(crate) fn turn(
        &mut self,
        sink: &mut dyn Sink,
        others: &[Other<'_>],
        until: Option<Instant>,
    ) -> io::Result<Vec<usize>> {
        self.close_unread(sink);
        let held_back = Stream::BOTH.iter().any(|stream| is_blocked(sink, *stream));
        let deadlines = self.members.iter().filter_map(|member| member.next_deadline(held_back));
        let until = deadlines.chain(until).min();
        let mut ready_others = Vec::new();
        for event in self.wait(sink, others, until)? {
            match event {
                Event::Ended(at) => self.members[at].note_end(),
                // An earlier event of this turn may have filled the sink.
                Event::Printed(at, stream) if !is_blocked(sink, stream) => {
                    self.members[at].read_output(stream, &mut self.buffer, sink);
                    sink.flush();
                }
                Event::Printed(..) => {}
                Event::SinkReady => sink.flush(),
                Event::Other(at) => ready_others.push(at),
            }
        }
        let (now, grace) = (Instant::now(), self.grace);
        let held_back = held_back || Stream::BOTH.iter().any(|stream| is_blocked(sink, *stream));
        self.members.iter_mut().for_each(|member| member.advance(now, grace, held_back));
        Ok(ready_others)
    }

    fn wait(&self, sink: &dyn Sink, others: &[Other<'_>], until: Option<Instant>) -> io::Result<Vec<Event>> {
        let mut fds = Vec::with_capacity(3 * self.members.len() + others.len() + 2);
        let mut events = Vec::with_capacity(fds.capacity());
        let mut watch = |fd, flags, event| {
            fds.push(PollFd::from_borrowed_fd(fd, flags));
            events.push(event);
        };
        for stream in Stream::BOTH {
            match sink.acceptance(stream) {
                Acceptance::Blocked(fd) => watch(fd, PollFlags::OUT, Event::SinkReady),
                Acceptance::Open => {
                    for (at, member) in self.members.iter().enumerate() {
                        if let Some(fd) = member.output(stream) {
                            watch(fd, PollFlags::IN, Event::Printed(at, stream));
                        }
                    }
                }
                Acceptance::Closed => {}
            }
        }
        for (at, member) in self.members.iter().enumerate() {
            if let Some(fd) = member.awaited_end() {
                watch(fd, PollFlags::IN, Event::Ended(at));
            }
        }
        for (at, other) in others.iter().enumerate() {
            watch(other.fd, other.flags, Event::Other(at));
        }
        poll_until(&mut fds, until)?;
        let ready = fds.iter().zip(events).filter(|(fd, _)| !fd.revents().is_empty());
        Ok(ready.map(|(_, event)| event).collect())
    }

    /// When the reader has gone, the members find out as if they wrote there themselves.
    fn close_unread(&mut self, sink: &dyn Sink) {
        for stream in Stream::BOTH {
            if matches!(sink.acceptance(stream), Acceptance::Closed) {
                self.members.iter_mut().for_each(|member| member.close_output(stream));
            }
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.abandon();
        self.reap();
    }
}

/// Whether the sink has to be waited for before more of `stream` is read.
fn is_blocked(sink: &dyn Sink, stream: Stream) -> bool {
    matches!(sink.acceptance(stream), Acceptance::Blocked(_))
}

/// Waits for one descriptor; false when it is not ready by `until`.
pub(crate) fn wait_readable(fd: BorrowedFd<'_>, until: Instant) -> bool {
    loop {
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
        if poll_until(&mut fds, Some(until)).is_err() {
            return false;
        }
        if !fds[0].revents().is_empty() {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
    }
}

/// An interrupted wait is one in which nothing happened: who interrupted it has left a mark elsewhere.
fn poll_until(fds: &mut [PollFd<'_>], until: Option<Instant>) -> io::Result<()> {
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    // A wait longer than the kernel can express is cut short; callers look again.
    let timeout = left.map(|left| Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX).min(1 << 30),
        tv_nsec: left.subsec_nanos().into(),
    });
    match poll(fds, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
