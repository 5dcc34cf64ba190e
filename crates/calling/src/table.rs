//! What a site has learned of functions.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use outboard_ebpf::{Compiled, Compiler, FunctionId};
use outboard_wire::calling::{FunctionName, RegisterRefusal};

use crate::FunctionImage;
use crate::image::forwards_at;

/// A function that can be run here: analysed and compiled by this site itself.
#[derive(Debug)]
pub struct Function {
    name: FunctionName,
    pub(crate) code: Compiled,
    pub(crate) entry: FunctionId,
    /// Where it says as which function it goes on, if it can.
    pub(crate) forwards_at: Option<u32>,
}

/// Why a function cannot be run here.
type No = (RegisterRefusal, String);

impl Function {
    /// Looks at an image and compiles it. Takes a while, up to some hundred milliseconds for a long one.
    pub fn prepare(image: &FunctionImage) -> Result<Self, No> {
        let bad = |error: &dyn std::fmt::Display| (RegisterRefusal::BadCode, error.to_string());
        let (program, entry) = image.program().map_err(|error| bad(&error))?;
        let entry = program.entry(&entry).ok_or_else(|| bad(&"it has no entry point"))?;
        let compiler = Compiler::native().map_err(|error| bad(&error))?;
        let forwards_at = forwards_at(&program);
        let code = compiler.compile(Arc::new(program)).map_err(|error| bad(&error))?;
        Ok(Self { name: image.name(), code, entry, forwards_at })
    }

    /// Its name.
    pub fn name(&self) -> FunctionName {
        self.name
    }
}

/// How much a site keeps.
#[derive(Clone, Copy, Debug)]
pub struct TableLimits {
    /// Functions that it knows; default 4096. Of those that nobody has registered any more, the ones to forget first are
    /// any.
    pub functions: usize,
    /// Bytes of one function's image; default 256 KiB. Machine code takes some ten times as much.
    pub image_bytes: usize,
    /// Bytes of all images together; default 16 MiB.
    pub total_bytes: usize,
}

impl Default for TableLimits {
    fn default() -> Self {
        Self { functions: 4096, image_bytes: 256 << 10, total_bytes: 16 << 20 }
    }
}

/// What is known of a function.
#[derive(Clone, Debug)]
pub enum Found {
    /// It can be called.
    Ready(Arc<Function>),
    /// Nothing: its code is needed.
    Nothing,
    /// It is being looked at.
    Preparing,
    /// It cannot be run here.
    Bad(RegisterRefusal, String),
}

/// A function to be looked at, in a thread that has time.
#[derive(Debug)]
pub struct Job {
    image: FunctionImage,
}

impl Job {
    /// Does it; tell the table by [`FunctionTable::prepared`].
    pub fn prepare(&self) -> Result<Function, No> {
        Function::prepare(&self.image)
    }

    /// Of which function.
    pub fn name(&self) -> FunctionName {
        self.image.name()
    }
}

#[derive(Debug)]
struct Entry {
    bytes: usize,
    found: Found,
}

/// The functions of a site. Images are believed only when their hash is the name that they go by.
#[derive(Debug, Default)]
pub struct FunctionTable {
    limits: TableLimits,
    known: HashMap<FunctionName, Entry>,
    bytes: usize,
    jobs: VecDeque<Job>,
    is_somebody_preparing: bool,
}

impl FunctionTable {
    /// A table without functions.
    pub fn new(limits: TableLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// How many functions are known, good and bad ones.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// What is known of a function.
    pub fn find(&self, name: FunctionName) -> Found {
        self.known.get(&name).map_or(Found::Nothing, |entry| entry.found.clone())
    }

    /// The longest image that is taken, in bytes.
    pub fn image_bytes_max(&self) -> usize {
        self.limits.image_bytes
    }

    /// Takes an image. Returns whether somebody has to be found who does the [jobs](Self::next_job).
    pub fn offer(&mut self, image: FunctionImage) -> Result<bool, No> {
        if self.known.contains_key(&image.name()) {
            return Ok(false);
        }
        let bytes = image.bytes().len();
        let max = self.limits.image_bytes;
        if bytes > max {
            let detail = format!("the function has {bytes} bytes and this site takes {max}");
            return Err((RegisterRefusal::TooMuch, detail));
        }
        if self.is_full(bytes) {
            self.forget_unused();
        }
        if self.is_full(bytes) {
            let detail = format!("this site has {} functions in use and takes no more", self.known.len());
            return Err((RegisterRefusal::TooMuch, detail));
        }
        self.bytes += bytes;
        self.known.insert(image.name(), Entry { bytes, found: Found::Preparing });
        self.jobs.push_back(Job { image });
        Ok(!std::mem::replace(&mut self.is_somebody_preparing, true))
    }

    fn is_full(&self, more: usize) -> bool {
        self.known.len() >= self.limits.functions || self.bytes + more > self.limits.total_bytes
    }

    fn forget_unused(&mut self) {
        let bytes = &mut self.bytes;
        self.known.retain(|_, entry| {
            let stays = match &entry.found {
                Found::Ready(function) => Arc::strong_count(function) > 1,
                Found::Preparing => true,
                Found::Nothing | Found::Bad(..) => false,
            };
            if !stays {
                *bytes -= entry.bytes;
            }
            stays
        });
    }

    /// The next function to be looked at. Whoever gets none need not come again until [`offer`](Self::offer) asks.
    pub fn next_job(&mut self) -> Option<Job> {
        let job = self.jobs.pop_front();
        self.is_somebody_preparing = job.is_some();
        job
    }

    /// A function was looked at.
    pub fn prepared(&mut self, name: FunctionName, result: Result<Function, No>) {
        if let Some(entry) = self.known.get_mut(&name) {
            entry.found = match result {
                Ok(function) => Found::Ready(Arc::new(function)),
                Err((refusal, detail)) => Found::Bad(refusal, detail),
            };
        }
    }

    /// Nobody could be found to do the jobs: those who wait are told.
    pub fn nobody_prepares(&mut self, why: &str) {
        while let Some(job) = self.next_job() {
            self.prepared(job.name(), Err((RegisterRefusal::TooMuch, why.to_owned())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(number: u32) -> FunctionImage {
        FunctionImage::from_text(&format!("mov r0, {number}\nexit"), "main").unwrap()
    }

    fn do_jobs(table: &mut FunctionTable) {
        while let Some(job) = table.next_job() {
            let result = job.prepare();
            table.prepared(job.name(), result);
        }
    }

    #[test]
    fn a_function_is_prepared_once() {
        let mut table = FunctionTable::new(TableLimits::default());
        assert!(matches!(table.find(image(1).name()), Found::Nothing));
        assert!(table.offer(image(1)).unwrap(), "somebody has to prepare it");
        assert!(!table.offer(image(1)).unwrap());
        assert!(!table.offer(image(2)).unwrap(), "whoever prepares takes all there are");
        assert!(matches!(table.find(image(1).name()), Found::Preparing));
        do_jobs(&mut table);
        for number in [1, 2] {
            let Found::Ready(function) = table.find(image(number).name()) else { panic!("not ready") };
            assert_eq!(function.name(), image(number).name());
        }
        assert!(table.offer(image(3)).unwrap(), "the one before has gone home");
    }

    #[test]
    fn bad_functions_are_remembered_as_such() {
        let mut table = FunctionTable::new(TableLimits::default());
        let mut bytes = image(1).bytes().to_vec();
        bytes.pop();
        let damaged = FunctionImage::from_bytes(bytes);
        let name = damaged.name();
        table.offer(damaged).unwrap();
        do_jobs(&mut table);
        let Found::Bad(RegisterRefusal::BadCode, detail) = table.find(name) else { panic!("not bad") };
        assert!(detail.contains("ends too early"), "{detail}");
    }

    #[test]
    fn a_full_table_forgets_what_nobody_uses() {
        let limits = TableLimits { functions: 2, ..TableLimits::default() };
        let mut table = FunctionTable::new(limits);
        table.offer(image(1)).unwrap();
        table.offer(image(2)).unwrap();
        assert_eq!(table.offer(image(3)).unwrap_err().0, RegisterRefusal::TooMuch);
        do_jobs(&mut table);
        let used = table.find(image(1).name());
        table.offer(image(3)).unwrap();
        assert!(matches!(used, Found::Ready(_)));
        assert!(matches!(table.find(image(1).name()), Found::Ready(_)), "it is in use");
        assert!(matches!(table.find(image(2).name()), Found::Nothing));
        let small = TableLimits { image_bytes: 8, ..limits };
        assert_eq!(FunctionTable::new(small).offer(image(1)).unwrap_err().0, RegisterRefusal::TooMuch);
    }

    #[test]
    fn without_anybody_to_prepare_nobody_waits() {
        let mut table = FunctionTable::new(TableLimits::default());
        assert!(table.offer(image(1)).unwrap());
        table.nobody_prepares("no thread");
        assert!(matches!(table.find(image(1).name()), Found::Bad(RegisterRefusal::TooMuch, _)));
        assert!(table.offer(image(2)).unwrap());
    }
}
