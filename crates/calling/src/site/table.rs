//! What a site has learned of functions.

mod jobs;

use std::collections::HashMap;
use std::sync::Arc;

pub use jobs::{Done, FunctionLength, PreparationJob};
use jobs::{Jobs, What};

use outboard_ebpf::{CompileError, Compiled, Compiler, FunctionId, Program};
use outboard_wire::calling::{CallerId, FunctionName, RegisterRefusal};

use crate::FunctionImage;
use crate::image::Forwards;

/// A function that can be run here: analysed and compiled by this site itself.
#[derive(Debug)]
pub struct PreparedFunction {
    name: FunctionName,
    pub(crate) code: Compiled,
    pub(crate) entry: FunctionId,
    /// Where it says as which function it goes on, if it can.
    pub(crate) forwards: Forwards,
    /// How long its image was.
    pub(crate) image_bytes: usize,
}

/// Why a function cannot be run here, for programs and for people.
pub type Refused = (RegisterRefusal, String);

impl PreparedFunction {
    /// Looks at an image and compiles it. Takes a while: milliseconds for most, some seconds for the longest.
    pub fn prepare(image: &FunctionImage) -> Result<Self, Refused> {
        Self::prepare_by(image, |compiler, program| compiler.compile(program))
    }

    /// Does the same for threads that have no time to compile: `miss` is called, once, when a run needs code that was left
    /// out, and such runs are slow until another thread has [completed](Self::complete) it.
    fn prepare_in_parts(
        image: &FunctionImage,
        miss: impl Fn() + Send + Sync + 'static,
    ) -> Result<Self, Refused> {
        Self::prepare_by(image, |compiler, program| compiler.compile_in_parts(program, miss))
    }

    fn prepare_by(
        image: &FunctionImage,
        compile: impl FnOnce(Compiler, Arc<Program>) -> Result<Compiled, CompileError>,
    ) -> Result<Self, Refused> {
        let bad = |error: &dyn std::fmt::Display| (RegisterRefusal::BadCode, error.to_string());
        let (program, entry) = image.program().map_err(|error| bad(&error))?;
        let entry = program.entry(&entry).ok_or_else(|| bad(&"it has no entry point"))?;
        let compiler = Compiler::native().map_err(|error| bad(&error))?;
        let forwards = Forwards::of(&program);
        let code = compile(compiler, Arc::new(program)).map_err(|error| match error {
            CompileError::TooMuch { .. } => (RegisterRefusal::TooMuch, error.to_string()),
            error => bad(&error),
        })?;
        Ok(Self { name: image.name(), code, entry, forwards, image_bytes: image.bytes().len() })
    }

    /// Compiles what was left out.
    fn complete(&self) {
        self.code.complete();
    }

    /// Its name.
    pub fn name(&self) -> FunctionName {
        self.name
    }
}

/// How much a site keeps.
#[derive(Clone, Copy, Debug)]
pub struct TableLimits {
    /// Functions that it knows; default 8192. Of those that no client has registered any more, the ones to forget first are
    /// any. No client has more than are left for others.
    pub functions: usize,
    /// Functions of one client; default 4096.
    pub functions_per_client: usize,
    /// Bytes of one function's image; default 256 KiB. Machine code takes some ten times as much.
    pub image_bytes: usize,
    /// Bytes of all images together; default 16 MiB. No client has more than are left for others.
    pub total_bytes: usize,
}

impl Default for TableLimits {
    fn default() -> Self {
        Self { functions: 8192, functions_per_client: 4096, image_bytes: 256 << 10, total_bytes: 16 << 20 }
    }
}

/// What is known of a function.
#[derive(Clone, Debug)]
pub enum Found {
    /// It can be called.
    Ready(Arc<PreparedFunction>),
    /// Nothing: its code is needed.
    Nothing,
    /// It is being looked at.
    Preparing,
    /// It cannot be run here.
    Bad(RegisterRefusal, String),
}

#[derive(Debug)]
struct Entry {
    bytes: usize,
    found: Found,
    /// Who has brought it.
    by: CallerId,
    /// Until a thread looks at it.
    image: Option<FunctionImage>,
    /// A run has needed code that was left out, and no thread has begun to compile it.
    is_missed: bool,
    /// How many clients wait for a thread to take it.
    waiting: usize,
}

impl Entry {
    /// What a thread is to do about it, once.
    fn take_work(&mut self) -> Option<What> {
        if let Some(image) = self.image.take() {
            return Some(What::Prepare(image));
        }
        match &self.found {
            Found::Ready(function) if std::mem::take(&mut self.is_missed) => {
                Some(What::Complete(Arc::clone(function)))
            }
            _ => None,
        }
    }
}

/// How much of a table is whose.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    functions: usize,
    bytes: usize,
}

/// The functions of a site. Images are believed only when their hash is the name that they go by.
#[derive(Debug, Default)]
pub struct FunctionTable {
    limits: TableLimits,
    known: HashMap<FunctionName, Entry>,
    bytes: usize,
    shares: HashMap<CallerId, Share>,
    jobs: Jobs,
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

    /// Takes an image of a client. Returns the lane for which a thread has to be found that does the
    /// [jobs](Self::next_job), if there is none.
    pub fn offer(&mut self, by: CallerId, image: FunctionImage) -> Result<Option<FunctionLength>, Refused> {
        let name = image.name();
        if let Some(entry) = self.known.get_mut(&name) {
            // So that it is looked at although the client goes that has brought it first.
            let lane = FunctionLength::of(entry.bytes);
            if entry.image.is_some() && self.jobs.push_shared(lane, by, name) {
                entry.waiting += 1;
            }
            return Ok(None);
        }
        let bytes = image.bytes().len();
        let max = self.limits.image_bytes;
        if bytes > max {
            let detail = format!("the function has {bytes} bytes and this site takes {max}");
            return Err((RegisterRefusal::TooMuch, detail));
        }
        if self.room_for(by, bytes).is_err() {
            self.forget_unused();
        }
        self.room_for(by, bytes).map_err(|detail| (RegisterRefusal::TooMuch, detail))?;
        self.bytes += bytes;
        let share = self.shares.entry(by).or_default();
        (share.functions, share.bytes) = (share.functions + 1, share.bytes + bytes);
        let found = Found::Preparing;
        let entry = Entry { bytes, found, by, image: Some(image), is_missed: false, waiting: 1 };
        self.known.insert(name, entry);
        Ok(self.jobs.push(FunctionLength::of(bytes), by, name))
    }

    /// A run of a function has needed code that was left out. Returns the lane for which a thread has to be found, as
    /// [`offer`](Self::offer) does.
    pub fn missed(&mut self, name: FunctionName) -> Option<FunctionLength> {
        let entry = self.known.get_mut(&name)?;
        entry.is_missed = true;
        entry.waiting += 1;
        self.jobs.push(FunctionLength::of(entry.bytes), entry.by, name)
    }

    /// A client has gone: what only it waits for, and no thread has begun, is given up.
    pub fn cancel(&mut self, by: CallerId) {
        let known = &mut self.known;
        // Code that was left out is for all who have registered the function.
        let given_up = self.jobs.cancel(by, |name| known.get(name).is_some_and(|entry| !entry.is_missed));
        for name in given_up {
            let Some(entry) = self.known.get_mut(&name) else { continue };
            entry.waiting -= 1;
            if entry.waiting == 0 && entry.image.is_some() {
                let (bytes, by) = (entry.bytes, entry.by);
                self.known.remove(&name);
                give_back((&mut self.bytes, &mut self.shares), bytes, by);
            }
        }
        self.shares.retain(|_, share| share.functions > 0);
    }

    /// Whether one more function of a client has room. No client takes more than is left for others, so that there is always
    /// something left.
    fn room_for(&self, by: CallerId, bytes: usize) -> Result<(), String> {
        let TableLimits { functions, functions_per_client, total_bytes, .. } = self.limits;
        let share = self.shares.get(&by).copied().unwrap_or_default();
        let left = functions.saturating_sub(self.known.len());
        let bytes_left = total_bytes.saturating_sub(self.bytes);
        if share.functions >= functions_per_client {
            Err(format!("its caller has {functions_per_client} functions here, as many as one can have"))
        } else if share.functions >= left {
            let all = self.known.len();
            Err(format!(
                "its caller has {} of the {all} functions here, and {left} are left for others",
                share.functions
            ))
        } else if share.bytes + bytes > bytes_left {
            let all = self.bytes;
            Err(format!(
                "its caller has {} of the {all} bytes of code here, and {bytes_left} are left for others",
                share.bytes
            ))
        } else {
            Ok(())
        }
    }

    fn forget_unused(&mut self) {
        let (bytes, shares) = (&mut self.bytes, &mut self.shares);
        self.known.retain(|_, entry| {
            let stays = match &entry.found {
                Found::Ready(function) => Arc::strong_count(function) > 1,
                Found::Preparing => true,
                Found::Nothing | Found::Bad(..) => false,
            };
            if !stays {
                give_back((bytes, shares), entry.bytes, entry.by);
            }
            stays
        });
        shares.retain(|_, share| share.functions > 0);
    }

    /// What a thread of a lane does next; clients have turns. A thread that gets nothing ends: one is asked for when there
    /// is something again.
    pub fn next_job(&mut self, lane: FunctionLength) -> Option<PreparationJob> {
        while let Some(name) = self.jobs.next(lane) {
            let Some(entry) = self.known.get_mut(&name) else { continue };
            entry.waiting -= 1;
            if let Some(what) = entry.take_work() {
                return Some(PreparationJob::new(name, what));
            }
        }
        None
    }

    /// A job was done.
    pub fn done(&mut self, Done { name, result }: Done) {
        if let (Some(entry), Some(result)) = (self.known.get_mut(&name), result) {
            entry.found = match result {
                Ok(function) => Found::Ready(Arc::new(function)),
                Err((refusal, detail)) => Found::Bad(refusal, detail),
            };
        }
    }

    /// No thread could be had for a lane: those who wait are told.
    pub fn no_thread_prepares(&mut self, lane: FunctionLength, why: &str) {
        while let Some(job) = self.next_job(lane) {
            self.done(job.not_done(why));
        }
    }
}

/// A function is forgotten.
fn give_back((all, shares): (&mut usize, &mut HashMap<CallerId, Share>), bytes: usize, by: CallerId) {
    *all -= bytes;
    if let Some(share) = shares.get_mut(&by) {
        (share.functions, share.bytes) = (share.functions - 1, share.bytes - bytes);
    }
}

#[cfg(test)]
mod tests;
