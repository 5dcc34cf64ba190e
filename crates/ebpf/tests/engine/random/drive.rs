//! Runs a case from its beginning to its end, by different ways.

use std::sync::Arc;

use outboard_ebpf::{Continuation, Engine, Exit, Instance, Program};

use super::generator::Case;
use super::host::{Pace, Site};

/// What can be seen of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) exit: Exit,
    fuel: u64,
    context: Vec<u8>,
    /// Everything that helpers were asked and answered.
    trace: u64,
}

/// What happens to a run that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// It never waits.
    Straight,
    /// It goes on where it is.
    InPlace,
    /// It becomes bytes, and goes on in another instance.
    AsBytes,
}

/// Runs `case` on the first executor; whenever it waits, the next one goes on.
pub(super) fn drive(executors: &[&dyn Engine], case: &Case, way: Way) -> Seen {
    let program = executors[0].program();
    let mut instance = Instance::default();
    instance.set_context(&case.context).unwrap();
    let pace = if way == Way::Straight { Pace::Never } else { Pace::Always };
    let mut site = Site::new(pace);
    let main = program.entry("main").unwrap();
    let mut exit = executors[0].start(&mut instance, main, &mut site, case.fuel);
    for executor in executors.iter().cycle().skip(1) {
        if exit != Exit::Suspended {
            break;
        }
        if way == Way::AsBytes {
            instance = travel(program, &instance);
        }
        let value = site.answer_later(&mut instance);
        exit = executor.resume(&mut instance, &mut site, value);
    }
    Seen { exit, fuel: instance.fuel(), context: instance.context().to_vec(), trace: site.trace }
}

fn travel(program: &Arc<Program>, instance: &Instance) -> Instance {
    let mut bytes = Vec::new();
    assert!(instance.save(&mut bytes));
    let mut other = Instance::default();
    other.restore(program, &Continuation::parse(&bytes).unwrap(), u64::MAX).unwrap();
    let mut again = Vec::new();
    assert!(other.save(&mut again));
    assert_eq!(again, bytes, "what was restored is what was saved");
    other
}

/// The bytes of all places where the case waits.
pub(super) fn continuations(executor: &dyn Engine, case: &Case) -> Vec<Vec<u8>> {
    let mut instance = Instance::default();
    instance.set_context(&case.context).unwrap();
    let mut site = Site::new(Pace::Always);
    let main = executor.program().entry("main").unwrap();
    let mut exit = executor.start(&mut instance, main, &mut site, case.fuel);
    let mut all = Vec::new();
    while exit == Exit::Suspended && all.len() < 4 {
        let mut bytes = Vec::new();
        instance.save(&mut bytes);
        all.push(bytes);
        let value = site.answer_later(&mut instance);
        exit = executor.resume(&mut instance, &mut site, value);
    }
    all
}

/// Goes on from bytes that the test made up, if they are taken at all.
pub(super) fn go_on(executor: &dyn Engine, bytes: &[u8]) -> Option<Seen> {
    let continuation = Continuation::parse(bytes).ok()?;
    let mut instance = Instance::default();
    instance.restore(executor.program(), &continuation, 3000).ok()?;
    let mut site = Site::new(Pace::Never);
    let value = site.answer_later(&mut instance);
    let exit = executor.resume(&mut instance, &mut site, value);
    Some(Seen { exit, fuel: instance.fuel(), context: instance.context().to_vec(), trace: site.trace })
}
