//! What a daemon counts, in memory that others read without disturbing it.
//!
//! The page is a region like any other, exported to every process that may connect. A reader opens it and looks: one-sided,
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

/// What opens any daemon's page. Its key is no secret: every process that may connect may look.
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
const ENTRIES_MAX: usize = (LINES_AT - ENTRIES_AT) / ENTRY_LEN;
/// Lines of text are at the end of the page: a checksum, the length, the text.
const LINES_MAX: usize = 32;
const LINE_LEN: usize = 256;
const LINE_TEXT_MAX: usize = LINE_LEN - 16;
const LINES_AT: usize = STATUS_LEN - LINES_MAX * LINE_LEN;

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

/// The lines of text on a page. They belong to the thread that asked for them last.
#[derive(Clone)]
pub struct Lines {
    segment: Arc<Segment>,
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

    /// What to write lines of text with.
    pub fn lines(&self) -> Lines {
        Lines { segment: Arc::clone(&self.segment) }
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

impl Lines {
    /// Writes these lines in place of all others, as far as there is room. A reader who looks meanwhile sees each of
    /// them whole or not at all.
    pub fn set(&self, texts: impl IntoIterator<Item = String>) {
        let mut texts = texts.into_iter();
        for at in (LINES_AT..STATUS_LEN).step_by(LINE_LEN) {
            let text = texts.next().unwrap_or_default();
            let mut end = text.len().min(LINE_TEXT_MAX);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            let bytes = &text.as_bytes()[..end];
            self.segment.word(at).store(0, Ordering::Release);
            self.segment.window_mut(at + 16, bytes.len()).write(0, bytes);
            self.segment.word(at + 8).store(bytes.len() as u64, Ordering::Relaxed);
            self.segment.word(at).store(checksum(bytes), Ordering::Release);
        }
    }
}

/// Tells a whole line from parts of two (FNV-1a); that of an empty line is not zero.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
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
    /// What it says in words, a line each.
    pub lines: Vec<String>,
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
        let line = |at: usize| {
            let len = word(at + 8).ok().filter(|len| (1..=LINE_TEXT_MAX as u64).contains(len))? as usize;
            let line = &bytes[at + 16..at + 16 + len];
            let is_whole = word(at).ok() == Some(checksum(line));
            is_whole.then(|| String::from_utf8_lossy(line).replace(char::is_control, " "))
        };
        Ok(Self {
            role: role.ok_or(StatusError::Field("role"))?,
            name: text(NAME_AT, 32)?,
            pid: u32::try_from(word(PID_AT)?).map_err(|_| StatusError::Field("process id"))?,
            started: SystemTime::UNIX_EPOCH + Duration::from_nanos(word(STARTED_AT)?),
            entries: (0..count)
                .map(|index| entry(ENTRIES_AT + index * ENTRY_LEN))
                .collect::<Result<_, _>>()?,
            lines: (LINES_AT..STATUS_LEN).step_by(LINE_LEN).filter_map(line).collect(),
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
    fn lines_are_whole_or_not_there() {
        let page = StatusPage::create(Role::Agent, "lines").unwrap();
        assert!(page.view().unwrap().lines.is_empty());
        let long = "ä".repeat(LINE_TEXT_MAX);
        page.lines().set(["one\x1b".to_owned(), String::new(), long.clone()]);
        let lines = page.view().unwrap().lines;
        assert_eq!(lines[0], "one ", "a terminal is not steered");
        assert!(long.starts_with(&lines[1]) && lines[1].len() == LINE_TEXT_MAX && lines.len() == 2);
        page.segment.window_mut(LINES_AT + 16, 1).write(0, b"x");
        assert_eq!(page.view().unwrap().lines.len(), 1, "half of it is of another time");
        page.lines().set((0..LINES_MAX + 9).map(|line| line.to_string()));
        assert_eq!(page.view().unwrap().lines.len(), LINES_MAX);
        page.lines().set([]);
        assert!(page.view().unwrap().lines.is_empty());
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
