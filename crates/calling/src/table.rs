//! What a site has learned of functions.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use outboard_ebpf::{Compiled, Compiler, FunctionId};
use outboard_wire::calling::{CallerId, FunctionName, RegisterRefusal};

use crate::FunctionImage;
use crate::image::Forwards;

/// A function that can be run here: analysed and compiled by this site itself.
#[derive(Debug)]
pub struct Function {
    name: FunctionName,
    pub(crate) code: Compiled,
    pub(crate) entry: FunctionId,
    /// Where it says as which function it goes on, if it can.
    pub(crate) forwards: Forwards,
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
        let forwards = Forwards::of(&program);
        let code = compiler.compile(Arc::new(program)).map_err(|error| bad(&error))?;
        Ok(Self { name: image.name(), code, entry, forwards })
    }

    /// Its name.
    pub fn name(&self) -> FunctionName {
        self.name
    }
}

/// How much a site keeps.
#[derive(Clone, Copy, Debug)]
pub struct TableLimits {
    /// Functions that it knows; default 8192. Of those that nobody has registered any more, the ones to forget first are
    /// any. Nobody has more than are left for others.
    pub functions: usize,
    /// Functions of one client; default 4096.
    pub functions_per_client: usize,
    /// Bytes of one function's image; default 256 KiB. Machine code takes some ten times as much.
    pub image_bytes: usize,
    /// Bytes of all images together; default 16 MiB. Nobody has more than are left for others.
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
    /// Who has brought it.
    by: CallerId,
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
    /// Those of each client, in the order of their turns.
    jobs: VecDeque<(CallerId, VecDeque<Job>)>,
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

    /// Takes an image of a client. Returns whether somebody has to be found who does the [jobs](Self::next_job).
    pub fn offer(&mut self, by: CallerId, image: FunctionImage) -> Result<bool, No> {
        if self.known.contains_key(&image.name()) {
            return Ok(false);
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
        self.known.insert(image.name(), Entry { bytes, found: Found::Preparing, by });
        match self.jobs.iter_mut().find(|(whose, _)| *whose == by) {
            Some((_, jobs)) => jobs.push_back(Job { image }),
            None => self.jobs.push_back((by, VecDeque::from([Job { image }]))),
        }
        Ok(!std::mem::replace(&mut self.is_somebody_preparing, true))
    }

    /// Whether one more function of a client has room. Nobody takes more than is left for others, so that there is always
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
                *bytes -= entry.bytes;
                if let Some(share) = shares.get_mut(&entry.by) {
                    (share.functions, share.bytes) = (share.functions - 1, share.bytes - entry.bytes);
                }
            }
            stays
        });
        shares.retain(|_, share| share.functions > 0);
    }

    /// The next function to be looked at; clients have turns. Whoever gets none need not come again until
    /// [`offer`](Self::offer) asks.
    pub fn next_job(&mut self) -> Option<Job> {
        let turn = self.jobs.pop_front();
        self.is_somebody_preparing = turn.is_some();
        let (by, mut jobs) = turn?;
        let job = jobs.pop_front();
        if !jobs.is_empty() {
            self.jobs.push_back((by, jobs));
        }
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

    const ANNA: CallerId = CallerId([1; 16]);
    const BERT: CallerId = CallerId([2; 16]);

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
        assert!(table.offer(ANNA, image(1)).unwrap(), "somebody has to prepare it");
        assert!(!table.offer(ANNA, image(1)).unwrap());
        assert!(!table.offer(ANNA, image(2)).unwrap(), "whoever prepares takes all there are");
        assert!(matches!(table.find(image(1).name()), Found::Preparing));
        do_jobs(&mut table);
        for number in [1, 2] {
            let Found::Ready(function) = table.find(image(number).name()) else { panic!("not ready") };
            assert_eq!(function.name(), image(number).name());
        }
        assert!(table.offer(ANNA, image(3)).unwrap(), "the one before has gone home");
    }

    #[test]
    fn bad_functions_are_remembered_as_such() {
        let mut table = FunctionTable::new(TableLimits::default());
        let mut bytes = image(1).bytes().to_vec();
        bytes.pop();
        let damaged = FunctionImage::from_bytes(bytes);
        let name = damaged.name();
        table.offer(ANNA, damaged).unwrap();
        do_jobs(&mut table);
        let Found::Bad(RegisterRefusal::BadCode, detail) = table.find(name) else { panic!("not bad") };
        assert!(detail.contains("ends too early"), "{detail}");
    }

    #[test]
    fn a_full_table_forgets_what_nobody_uses() {
        let limits = TableLimits { functions: 4, ..TableLimits::default() };
        let mut table = FunctionTable::new(limits);
        table.offer(ANNA, image(1)).unwrap();
        table.offer(ANNA, image(2)).unwrap();
        assert_eq!(table.offer(ANNA, image(3)).unwrap_err().0, RegisterRefusal::TooMuch);
        do_jobs(&mut table);
        let used = table.find(image(1).name());
        table.offer(ANNA, image(3)).unwrap();
        assert!(matches!(used, Found::Ready(_)));
        assert!(matches!(table.find(image(1).name()), Found::Ready(_)), "it is in use");
        assert!(matches!(table.find(image(2).name()), Found::Nothing));
        let small = TableLimits { image_bytes: 8, ..limits };
        assert_eq!(FunctionTable::new(small).offer(ANNA, image(1)).unwrap_err().0, RegisterRefusal::TooMuch);
    }

    #[test]
    fn without_anybody_to_prepare_nobody_waits() {
        let mut table = FunctionTable::new(TableLimits::default());
        assert!(table.offer(ANNA, image(1)).unwrap());
        table.nobody_prepares("no thread");
        assert!(matches!(table.find(image(1).name()), Found::Bad(RegisterRefusal::TooMuch, _)));
        assert!(table.offer(ANNA, image(2)).unwrap());
    }

    #[test]
    fn nobody_takes_what_is_left_for_others() {
        let mut table = FunctionTable::new(TableLimits { functions: 100, ..TableLimits::default() });
        let taken = |table: &mut FunctionTable, by, first: u32| {
            (first..).take_while(|number| table.offer(by, image(*number)).is_ok()).count()
        };
        assert_eq!(taken(&mut table, ANNA, 0), 50);
        assert_eq!(taken(&mut table, BERT, 1000), 25);
        let (_, detail) = table.offer(ANNA, image(2000)).unwrap_err();
        assert!(detail.contains("has 50 of the 75 functions here, and 25 are left"), "{detail}");
        assert!(table.offer(CallerId([3; 16]), image(2000)).is_ok());
        assert!(!table.offer(BERT, image(7)).unwrap(), "what is known takes no room");
        // What nobody uses is given back to those who had it.
        do_jobs(&mut table);
        assert!(table.offer(BERT, image(3000)).is_ok());
        assert_eq!((table.len(), table.shares.len()), (1, 1));
        let few = TableLimits { functions_per_client: 3, ..TableLimits::default() };
        assert_eq!(taken(&mut FunctionTable::new(few), ANNA, 0), 3);
        let bytes = 10 * image(0).bytes().len();
        let little = TableLimits { total_bytes: bytes, ..TableLimits::default() };
        assert_eq!(taken(&mut FunctionTable::new(little), ANNA, 0), 5);
    }

    #[test]
    fn clients_have_turns_in_being_looked_at() {
        let mut table = FunctionTable::new(TableLimits::default());
        for (by, number) in (0..10).map(|number| (ANNA, number)).chain([(BERT, 20), (BERT, 21)]) {
            table.offer(by, image(number)).unwrap();
        }
        let order: Vec<FunctionName> =
            std::iter::from_fn(|| table.next_job().map(|job| job.name())).collect();
        assert_eq!(order.len(), 12);
        let expected = [0, 20, 1, 21, 2].map(|number| image(number).name());
        assert_eq!(order[..5], expected);
    }
}
