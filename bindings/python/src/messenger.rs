//! Messages between ranks, sent and received as arrays.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use outboard::{Bundle, Messenger, MessengerError, SendError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::bytes::{Loan, Received};
use crate::errors::{bad_value, raise, raised, refuse};
use crate::process::Owned;
use crate::wait::{locked, until};

/// Messages of one size from one rank, which came one after the other.
struct Run {
    source: u32,
    size: usize,
    count: usize,
}

/// The messages of a space that have arrived, and that the program has not taken.
#[derive(Default)]
struct Inbox {
    runs: Vec<Run>,
    bytes: Vec<u8>,
    /// One that was no message.
    wrong: Option<(u32, &'static str)>,
}

struct Connected {
    messenger: Messenger,
    inboxes: Vec<Inbox>,
    /// When something has arrived last.
    moved: Instant,
}

/// The ranks of a job, connected.
#[pyclass(frozen, name = "Messenger", module = "outboard._native")]
pub(crate) struct PyMessenger {
    connected: Owned<Mutex<Option<Connected>>>,
    deadline: Duration,
    rank: u32,
    ranks: u32,
}

impl Inbox {
    fn add(&mut self, source: u32, size: usize, count: usize, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        match self.runs.last_mut() {
            Some(run) if run.source == source && run.size == size => run.count += count,
            _ => self.runs.push(Run { source, size, count }),
        }
    }

    fn take_bundle(&mut self, bundle: Bundle<'_>) {
        let source = bundle.source();
        if let Some(size) = bundle.each().filter(|size| *size > 0 && size % 8 == 0) {
            // Nothing lies between them.
            self.add(source, size, bundle.len() / size, bundle.bytes());
            return;
        }
        for message in bundle.messages() {
            match message {
                Ok(message) => self.add(source, message.len(), 1, message),
                Err(why) => self.wrong = Some((source, why)),
            }
        }
    }
}

impl Connected {
    /// Takes what has arrived in a space. Returns whether anything waits for the program there.
    fn receive(&mut self, space: u8) -> Result<bool, MessengerError> {
        let inbox = self.inboxes.get_mut(usize::from(space));
        let mut unused = Inbox::default();
        let inbox = inbox.unwrap_or(&mut unused);
        if self.messenger.receive_bundles(space, |_, bundle| inbox.take_bundle(bundle))? > 0 {
            self.moved = Instant::now();
        }
        match inbox.wrong.take() {
            Some((rank, why)) => Err(MessengerError::Nonsense { rank, why: why.to_owned() }),
            None => Ok(!inbox.runs.is_empty()),
        }
    }

    /// Takes what has arrived in all spaces, so that other ranks have room.
    fn make_room(&mut self) -> Result<(), MessengerError> {
        for space in 0..self.messenger.spaces() {
            self.receive(space)?;
        }
        self.messenger.pause()
    }

    /// Sends messages from one number on, as many as there is room for. Returns how far it got.
    fn send(&mut self, space: u8, mail: &Mail<'_>, from: usize) -> Result<usize, SendError> {
        match mail.each {
            8 => self.send_values::<u64>(space, mail, from, |bytes| {
                bytes.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word))
            }),
            4 => self.send_values::<u32>(space, mail, from, |bytes| {
                bytes.first_chunk().map_or(0, |word| u32::from_ne_bytes(*word))
            }),
            _ => {
                for number in from..mail.count {
                    match self.messenger.send_in(space, mail.rank(number), mail.message(number)) {
                        Ok(()) => {}
                        Err(SendError::Full) => return Ok(number),
                        Err(error) => return Err(error),
                    }
                }
                Ok(mail.count)
            }
        }
    }

    /// Messages of a size that has a fast way.
    fn send_values<T: outboard::Plain>(
        &mut self,
        space: u8,
        mail: &Mail<'_>,
        from: usize,
        value: impl Fn(&[u8]) -> T,
    ) -> Result<usize, SendError> {
        for number in from..mail.count {
            match self.messenger.send_value_in(space, mail.rank(number), value(mail.message(number))) {
                Ok(()) => {}
                Err(SendError::Full) => return Ok(number),
                Err(error) => return Err(error),
            }
        }
        Ok(mail.count)
    }
}

/// Messages of one size, for one rank or for one each.
struct Mail<'a> {
    ranks: &'a [u8],
    bytes: &'a [u8],
    each: usize,
    count: usize,
}

impl Mail<'_> {
    #[inline]
    fn rank(&self, number: usize) -> u32 {
        let at = if self.ranks.len() == 4 { 0 } else { 4 * number };
        self.ranks[at..].first_chunk().map_or(u32::MAX, |rank| u32::from_ne_bytes(*rank))
    }

    #[inline]
    fn message(&self, number: usize) -> &[u8] {
        &self.bytes[number * self.each..(number + 1) * self.each]
    }
}

impl PyMessenger {
    pub(crate) fn new(messenger: Messenger, deadline: Duration) -> Self {
        let (rank, ranks) = (messenger.rank(), messenger.ranks());
        let inboxes = (0..messenger.spaces()).map(|_| Inbox::default()).collect();
        let connected = Connected { messenger, inboxes, moved: Instant::now() };
        Self { connected: Owned::new(Mutex::new(Some(connected))), deadline, rank, ranks }
    }

    /// Does something that takes a moment, without the interpreter's lock.
    fn with<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut Connected) -> T + Send) -> PyResult<T> {
        let connected = self.connected.get()?;
        let done = py.detach(|| {
            let mut connected = connected.lock().unwrap_or_else(PoisonError::into_inner);
            connected.as_mut().map(work)
        });
        done.ok_or_else(closed)
    }

    /// Turns `step` until it says something, or nothing has arrived for too long.
    fn until<T: Send>(
        &self,
        py: Python<'_>,
        what: &str,
        mut step: impl FnMut(&mut Connected) -> Result<Option<T>, MessengerError> + Send,
    ) -> PyResult<T> {
        self.with(py, |connected| connected.moved = Instant::now())?;
        let (connected, deadline) = (self.connected.get()?, self.deadline);
        let said = until(py, || {
            let mut connected = connected.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(connected) = connected.as_mut() else { return Some(Err(closed())) };
            match step(connected) {
                Ok(Some(said)) => Some(Ok(Some(said))),
                Ok(None) => (connected.moved.elapsed() > deadline).then_some(Ok(None)),
                Err(error) => Some(Err(raise(error))),
            }
        })??;
        said.ok_or_else(|| {
            raised("DeadlineError", format!("after {deadline:?} not all ranks have come {what}"))
        })
    }
}

fn closed() -> PyErr {
    refuse("this messenger is closed")
}

#[pymethods]
impl PyMessenger {
    #[getter]
    fn rank(&self) -> u32 {
        self.rank
    }

    #[getter]
    fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Sends `count` messages of `each` bytes to ranks of 32 bits: one for all, or one for each.
    fn send(
        &self,
        py: Python<'_>,
        ranks: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
        count: usize,
        each: usize,
        space: u8,
    ) -> PyResult<()> {
        let (ranks, data) = (Loan::read(ranks)?, Loan::read(data)?);
        if data.len() != count * each || (ranks.len() != 4 && ranks.len() != 4 * count) {
            return Err(bad_value("there is a rank for each message, or one for all of them"));
        }
        let mail = Mail { ranks: ranks.bytes(), bytes: data.bytes(), each, count };
        let mut sent = 0;
        self.until(py, "to take messages", |connected| {
            let until = connected.send(space, &mail, sent)?;
            if until > sent {
                (sent, connected.moved) = (until, Instant::now());
            }
            if sent == mail.count {
                return Ok(Some(()));
            }
            connected.make_room()?;
            Ok(None)
        })
    }

    /// Sends what is in open bundles.
    fn flush(&self, py: Python<'_>, space: u8) -> PyResult<()> {
        self.with(py, |connected| connected.messenger.flush_in(space))?.map_err(raise)
    }

    /// Moves what can be moved, and says whether messages of a space wait to be taken.
    fn poll(&self, py: Python<'_>, space: u8) -> PyResult<bool> {
        self.with(py, |connected| connected.receive(space))?.map_err(raise)
    }

    /// Takes messages of `size` bytes each: from which ranks, and their bytes.
    fn take(&self, py: Python<'_>, space: u8, size: usize) -> PyResult<(Received, Received)> {
        let inbox = self.with(py, |connected| {
            let inbox = connected.inboxes.get_mut(usize::from(space));
            inbox.map_or(Ok(Inbox::default()), |inbox| match inbox.runs.iter().find(|run| run.size != size) {
                Some(run) => Err((run.source, run.size)),
                None => Ok(std::mem::take(inbox)),
            })
        })?;
        let inbox = inbox.map_err(|(source, long)| {
            bad_value(format!(
                "rank {source} sent a message of {long} bytes, and the dtype has {size}: receive them as bytes"
            ))
        })?;
        let mut sources = Vec::with_capacity(inbox.runs.iter().map(|run| run.count).sum());
        for run in &inbox.runs {
            sources.extend(std::iter::repeat_n(run.source, run.count));
        }
        Ok((Received::of_words(&sources), Received::new(inbox.bytes)))
    }

    /// Takes messages of any size, each with its rank.
    fn take_bytes<'py>(&self, py: Python<'py>, space: u8) -> PyResult<Vec<(u32, Bound<'py, PyBytes>)>> {
        let inbox = self.with(py, |connected| {
            connected.inboxes.get_mut(usize::from(space)).map(std::mem::take).unwrap_or_default()
        })?;
        let (mut at, mut messages) = (0, Vec::new());
        for run in inbox.runs {
            for _ in 0..run.count {
                messages.push((run.source, PyBytes::new(py, &inbox.bytes[at..at + run.size])));
                at += run.size;
            }
        }
        Ok(messages)
    }

    fn begin_quiesce(&self, py: Python<'_>, space: u8) -> PyResult<()> {
        self.with(py, |connected| connected.messenger.begin_quiesce(space))?.map_err(raise)
    }

    /// Waits until messages of a space have arrived, or until everything has been handled everywhere. Returns whether it is over.
    fn quiesce(&self, py: Python<'_>, space: u8) -> PyResult<bool> {
        self.until(py, "to the end of the messages", |connected| {
            // What the program has not taken may have it send more.
            if connected.receive(space)? {
                return Ok(Some(false));
            }
            if connected.messenger.poll_quiesce(space)? {
                return Ok(Some(true));
            }
            connected.messenger.pause()?;
            Ok(None)
        })
    }

    /// Waits until all ranks are here. What arrives meanwhile is kept.
    fn barrier(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |connected| connected.messenger.begin_barrier())?;
        self.until(py, "to the barrier", |connected| {
            if connected.messenger.poll_barrier()? {
                return Ok(Some(()));
            }
            connected.make_room()?;
            Ok(None)
        })
    }

    /// Says goodbye, once others have what was sent.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let taken = locked(py, self.connected.get()?).take();
        py.detach(|| drop(taken));
        Ok(())
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (stats, counts) = (self.with(py, |connected| connected.messenger.stats())?, PyDict::new(py));
        for (name, count) in [
            ("bundles_sent", stats.bundles_sent),
            ("bytes_sent", stats.bytes_sent),
            ("bundles_handled", stats.bundles_handled),
            ("bytes_handled", stats.bytes_handled),
            ("agent_bundles", stats.agent_bundles),
            ("direct_bundles", stats.direct_bundles),
            ("full", stats.full),
        ] {
            counts.set_item(name, count)?;
        }
        Ok(counts)
    }

    fn explain(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.with(py, |connected| connected.messenger.explain())
    }
}
