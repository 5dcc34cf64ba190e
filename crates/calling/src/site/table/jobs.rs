//! Functions that wait for a thread which looks at them.
//!
//! Short and long functions have a thread each, so that a short one never waits for long ones. In either lane clients have
//! turns. How many functions a client has in a lane is bounded by its share of the table.

use std::collections::VecDeque;
use std::sync::Arc;

use outboard_wire::calling::{CallerId, FunctionName, RegisterRefusal};

use super::{FunctionImage, PreparedFunction, Refused};

/// The longest image that counts as short, in bytes: some 2000 instructions.
const SHORT_BYTES: usize = 16 << 10;
/// How many functions that others have brought a client may wait for as well. For more it waits as long as the others do.
const SHARED_MAX: usize = 64;

/// How much memory it may take at once to compile a byte of an image, from the worst that was measured: 235 MiB for 256 KiB
/// of code full of joins.
const COMPILING: u64 = 1024;

/// Which thread looks at a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionLength {
    /// Such as take milliseconds.
    Short,
    /// Such as may take seconds.
    Long,
}

impl FunctionLength {
    pub(super) fn of(bytes: usize) -> Self {
        if bytes <= SHORT_BYTES { Self::Short } else { Self::Long }
    }
}

/// What is to be done about a function.
#[derive(Debug)]
pub(super) enum What {
    /// It is looked at and compiled.
    Prepare(FunctionImage),
    /// Code that was left out is compiled.
    Complete(Arc<PreparedFunction>),
}

/// Work on a function, for a thread that has time.
#[derive(Debug)]
pub struct PreparationJob {
    name: FunctionName,
    pub(super) what: What,
}

/// What came of a job, for [`FunctionTable::done`](super::FunctionTable::done).
#[derive(Debug)]
pub struct Done {
    pub(super) name: FunctionName,
    pub(super) result: Option<Result<PreparedFunction, Refused>>,
}

impl PreparationJob {
    pub(super) fn new(name: FunctionName, what: What) -> Self {
        Self { name, what }
    }

    /// How much memory it may take while it is done.
    pub(crate) fn memory(&self) -> u64 {
        let image = match &self.what {
            What::Prepare(image) => image.bytes().len(),
            What::Complete(function) => function.image_bytes,
        };
        image as u64 * COMPILING
    }

    /// Does it. `miss` is called, once, by a run of the function that needs code which was left out; see
    /// [`FunctionTable::missed`](super::FunctionTable::missed).
    pub fn run(&self, miss: impl Fn(FunctionName) + Send + Sync + 'static) -> Done {
        let name = self.name;
        let result = match &self.what {
            What::Prepare(image) => Some(PreparedFunction::prepare_in_parts(image, move || miss(name))),
            What::Complete(function) => {
                function.complete();
                None
            }
        };
        Done { name, result }
    }

    /// It cannot be done.
    pub fn not_done(&self, why: &str) -> Done {
        let result = match self.what {
            What::Prepare(_) => Some(Err((RegisterRefusal::TooMuch, why.to_owned()))),
            // Runs that need the code are interpreted.
            What::Complete(_) => None,
        };
        Done { name: self.name, result }
    }
}

/// What waits for one thread: the functions of each client, in the order of the clients' turns.
#[derive(Debug, Default)]
struct Queue {
    turns: VecDeque<(CallerId, VecDeque<FunctionName>)>,
    has_thread: bool,
}

/// What waits for the threads of all lanes.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    lanes: [Queue; 2],
}

impl Jobs {
    /// Appends a function to those of a client. Returns the lane if it has no thread.
    pub(super) fn push(
        &mut self,
        lane: FunctionLength,
        by: CallerId,
        name: FunctionName,
    ) -> Option<FunctionLength> {
        let queue = &mut self.lanes[lane as usize];
        match queue.turns.iter_mut().find(|(whose, _)| *whose == by) {
            Some((_, names)) => names.push_back(name),
            None => queue.turns.push_back((by, VecDeque::from([name]))),
        }
        (!std::mem::replace(&mut queue.has_thread, true)).then_some(lane)
    }

    /// Does the same with a function that is there already. Says whether it was appended.
    pub(super) fn push_shared(&mut self, lane: FunctionLength, by: CallerId, name: FunctionName) -> bool {
        let mut own = self.lanes[lane as usize].turns.iter().filter(|(whose, _)| *whose == by);
        let may_wait = own.all(|(_, names)| names.len() < SHARED_MAX && !names.contains(&name));
        if may_wait {
            // It waits, so that there is a thread.
            self.push(lane, by, name);
        }
        may_wait
    }

    /// The next function. Where there is none, the lane has no thread any more.
    pub(super) fn next(&mut self, lane: FunctionLength) -> Option<FunctionName> {
        let queue = &mut self.lanes[lane as usize];
        let turn = queue.turns.pop_front();
        queue.has_thread = turn.is_some();
        let (by, mut names) = turn?;
        let name = names.pop_front();
        if !names.is_empty() {
            queue.turns.push_back((by, names));
        }
        name
    }

    /// Takes out the functions of a client that may be given up.
    pub(super) fn cancel(
        &mut self,
        by: CallerId,
        may_give_up: impl Fn(&FunctionName) -> bool,
    ) -> Vec<FunctionName> {
        let mut given_up = Vec::new();
        for queue in &mut self.lanes {
            for (_, names) in queue.turns.iter_mut().filter(|(whose, _)| *whose == by) {
                names.retain(|name| {
                    let goes = may_give_up(name);
                    given_up.extend(goes.then_some(*name));
                    !goes
                });
            }
            queue.turns.retain(|(_, names)| !names.is_empty());
        }
        given_up
    }
}
