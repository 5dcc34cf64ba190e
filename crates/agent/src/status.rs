//! What a daemon counts, in memory that others read without disturbing it.
//!
//! The page is a region like any other, exported to whoever may connect. A reader opens it and looks: one-sided,
//! so that the daemon does nothing for it. No file is left behind when the daemon is killed.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use outboard_link::Export;
use outboard_link::memory::Segment;
use outboard_wire::{Generation, Grant, RegionId, RegionKey, Rights, Role, Text};
use rustix::io::Errno;
use thiserror::Error;

/// The size of the page in bytes.
pub const STATUS_LEN: usize = 1 << 16;

/// What opens any daemon's page. Its key is no secret: whoever may connect may look.
pub const STATUS_GRANT: Grant = Grant {
    region: RegionId(u64::MAX),
    generation: Generation(1),
    key: RegionKey([0; 16]),
    rights: Rights::READ,
    size: STATUS_LEN as u64,
};

const MAGIC: u64 = u64::from_le_bytes(*b"OUTBSTAT");

const MAGIC_AT: usize = 0;
const PID_AT: usize = 8;
const STARTED_AT: usize = 16;
const ROLE_AT: usize = 24;
const COUNT_AT: usize = 32;
const NAME_AT: usize = 64;
const ENTRIES_AT: usize = 128;
const ENTRY_LEN: usize = 64;
const NAME_LEN: usize = 56;
const ENTRIES_MAX: usize = (STATUS_LEN - ENTRIES_AT) / ENTRY_LEN;

/// Where a daemon keeps its numbers.
pub struct StatusPage {
    segment: Arc<Segment>,
    adding: Mutex<()>,
}

/// One number of a page. Any thread may change it at any time.
#[derive(Clone)]
pub struct Gauge {
    segment: Arc<Segment>,
    at: usize,
}

impl StatusPage {
    /// An empty page of a process in this role.
    pub fn create(role: Role, name: &str) -> Result<Self, Errno> {
        let segment = Arc::new(Segment::create(c"outboard-status", STATUS_LEN)?);
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let started = u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX);
        segment.window_mut(NAME_AT, 32).write(0, Text::<32>::new(name).padded());
        segment.word(PID_AT).store(std::process::id().into(), Ordering::Relaxed);
        segment.word(STARTED_AT).store(started, Ordering::Relaxed);
        segment.word(ROLE_AT).store(role as u64, Ordering::Relaxed);
        segment.word(MAGIC_AT).store(MAGIC, Ordering::Release);
        Ok(Self { segment, adding: Mutex::new(()) })
    }

    /// What lets others see the page.
    pub fn export(&self) -> Export {
        Export {
            region: STATUS_GRANT.region,
            generation: STATUS_GRANT.generation,
            memory: Arc::clone(&self.segment),
            keys: vec![(STATUS_GRANT.key, STATUS_GRANT.rights)],
        }
    }

    /// The number of this name, made if it is new. When the page is full, further names share its last number.
    ///
    /// A name is letters, digits and underscores, its unit last; what only grows ends in `_total`.
    pub fn gauge(&self, name: &str) -> Gauge {
        let _adding = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        let count = self.segment.word(COUNT_AT);
        let used = count.load(Ordering::Relaxed) as usize;
        let text = Text::<NAME_LEN>::new(name);
        let found = (0..used).find(|entry| self.name_of(*entry) == text);
        let entry = found.unwrap_or_else(|| used.min(ENTRIES_MAX - 1));
        let at = ENTRIES_AT + entry * ENTRY_LEN;
        if found.is_none() && used < ENTRIES_MAX {
            self.segment.window_mut(at, NAME_LEN).write(0, text.padded());
            count.store(used as u64 + 1, Ordering::Release);
        }
        Gauge { segment: Arc::clone(&self.segment), at: at + NAME_LEN }
    }

    fn name_of(&self, entry: usize) -> Text<NAME_LEN> {
        let bytes = self.segment.window(ENTRIES_AT + entry * ENTRY_LEN, NAME_LEN).to_vec();
        Text::new(std::str::from_utf8(&bytes).unwrap_or_default())
    }

    /// What a reader would see now.
    pub fn view(&self) -> Result<StatusView, StatusError> {
        StatusView::read(&self.segment.window(0, STATUS_LEN).to_vec())
    }
}

impl Gauge {
    fn word(&self) -> &AtomicU64 {
        self.segment.word(self.at)
    }

    /// Sets it.
    pub fn set(&self, value: u64) {
        self.word().store(value, Ordering::Relaxed);
    }

    /// Adds to it.
    pub fn add(&self, value: u64) {
        self.word().fetch_add(value, Ordering::Relaxed);
    }

    /// What it shows.
    pub fn get(&self) -> u64 {
        self.word().load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Gauge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gauge({})", self.get())
    }
}

/// Why bytes are no status page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StatusError {
    /// Not the size of a page.
    #[error("{0} bytes are no status page")]
    Size(usize),
    /// A field makes no sense.
    #[error("not a status page of this version: {0}")]
    Field(&'static str),
}

/// A page as it was at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusView {
    /// What kind of daemon it is.
    pub role: Role,
    /// Its name.
    pub name: String,
    /// Its process id.
    pub pid: u32,
    /// When it was started.
    pub started: SystemTime,
    /// Its numbers, in the order in which they were made.
    pub entries: Vec<(String, u64)>,
}

impl StatusView {
    /// Reads a copy of a page.
    pub fn read(bytes: &[u8]) -> Result<Self, StatusError> {
        let sized = bytes.len() == STATUS_LEN;
        let word = |at: usize| {
            let word = bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
            word.map(u64::from_le_bytes).ok_or(StatusError::Size(bytes.len()))
        };
        if !sized {
            return Err(StatusError::Size(bytes.len()));
        }
        if word(MAGIC_AT)? != MAGIC {
            return Err(StatusError::Field("magic"));
        }
        let count = word(COUNT_AT)? as usize;
        if count > ENTRIES_MAX {
            return Err(StatusError::Field("count"));
        }
        let role = u8::try_from(word(ROLE_AT)?).ok().and_then(|role| Role::try_from(role).ok());
        let text = |at: usize, len: usize| {
            let text = std::str::from_utf8(&bytes[at..at + len]).map_err(|_| StatusError::Field("name"))?;
            Ok(text.trim_end_matches('\0').to_owned())
        };
        let entry = |at: usize| Ok((text(at, NAME_LEN)?, word(at + NAME_LEN)?));
        Ok(Self {
            role: role.ok_or(StatusError::Field("role"))?,
            name: text(NAME_AT, 32)?,
            pid: u32::try_from(word(PID_AT)?).map_err(|_| StatusError::Field("process id"))?,
            started: SystemTime::UNIX_EPOCH + Duration::from_nanos(word(STARTED_AT)?),
            entries: (0..count)
                .map(|index| entry(ENTRIES_AT + index * ENTRY_LEN))
                .collect::<Result<_, _>>()?,
        })
    }

    /// The number of this name.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.entries.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_sees_what_was_counted() {
        let page = StatusPage::create(Role::Agent, "node-7").unwrap();
        let clients = page.gauge("clients");
        clients.set(3);
        page.gauge("frames_total").add(10);
        page.gauge("frames_total").add(5);
        let view = page.view().unwrap();
        assert_eq!((view.role, view.name.as_str(), view.pid), (Role::Agent, "node-7", std::process::id()));
        assert_eq!(
            (view.get("clients"), view.get("frames_total"), view.get("nothing")),
            (Some(3), Some(15), None)
        );
    }

    #[test]
    fn a_full_page_loses_names_but_nothing_else() {
        let page = StatusPage::create(Role::Agent, "full").unwrap();
        for entry in 0..ENTRIES_MAX + 5 {
            page.gauge(&format!("number_{entry}")).set(entry as u64);
        }
        let view = page.view().unwrap();
        assert_eq!(view.entries.len(), ENTRIES_MAX);
        assert_eq!(view.get("number_0"), Some(0));
    }

    #[test]
    fn no_bytes_make_the_reader_panic() {
        assert_eq!(StatusView::read(&[]), Err(StatusError::Size(0)));
        assert_eq!(StatusView::read(&[0; STATUS_LEN]), Err(StatusError::Field("magic")));
        let page = StatusPage::create(Role::Agent, "x").unwrap();
        page.gauge("a");
        let good = page.segment.window(0, STATUS_LEN).to_vec();
        for at in 0..ENTRIES_AT + ENTRY_LEN {
            let mut bad = good.clone();
            bad[at] = 0xff;
            let _ = StatusView::read(&bad);
        }
    }
}
