//! One scenario under one seed, and what came of it.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use outboard_wire::Time;

use crate::recorder::{Broken, RecordedEvent};
use crate::{Digest, Hardships, Recorder};

/// A small drama with promises to keep.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// Its subject, in a sentence.
    pub about: &'static str,
    pub(crate) play: fn(u64, &Recorder) -> Hardships,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct RunReport {
    /// Which scenario.
    pub scenario: &'static str,
    /// Which seed.
    pub seed: u64,
    /// How many events it had.
    pub events: u64,
    /// How long it took by its own clock.
    pub span: Duration,
    /// The fingerprint of its events.
    pub digest: Digest,
    /// The faults that were made on purpose.
    pub hardships: Hardships,
    /// The promise that was broken, if one was.
    pub broken: Option<Broken>,
    /// The last events before that.
    pub latest: Vec<RecordedEvent>,
}

impl Scenario {
    /// Plays it under `seed`. A panic of a machine counts as a broken promise.
    pub fn run(&self, seed: u64, recorder: &Recorder) -> RunReport {
        let played = catch_unwind(AssertUnwindSafe(|| (self.play)(seed, recorder)));
        let hardships = played.unwrap_or_else(|panic| {
            recorder.fail(format!("nothing panics: {}", text_of(panic.as_ref())));
            Hardships::default()
        });
        let broken = recorder.broken();
        RunReport {
            scenario: self.name,
            seed,
            events: recorder.events(),
            span: recorder.now().since(Time::ZERO),
            digest: recorder.digest(),
            hardships,
            latest: if broken.is_some() { recorder.latest() } else { Vec::new() },
            broken,
        }
    }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it did".to_owned())
}

impl fmt::Display for RunReport {
    /// One line: what was played, how it ended, how much happened, and what went wrong on purpose.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scenario, seed, events, digest, .. } = self;
        let verdict = if self.broken.is_some() { "BROKEN" } else { "ok" };
        let seconds = self.span.as_secs_f64();
        write!(
            f,
            "seed {seed}: {scenario} {verdict}, {events} events, {seconds:.1} s virtual, digest {digest}, faults: "
        )?;
        let faults = self.hardships.named().into_iter().filter(|(_, count)| *count > 0);
        let listed: Vec<String> = faults.map(|(name, count)| format!("{count} {name}")).collect();
        f.write_str(if listed.is_empty() { "none" } else { "" })?;
        f.write_str(&listed.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_broken_promise_with_the_events_before_it() {
        let scenario = Scenario {
            name: "clumsy",
            about: "falls over",
            play: |seed, recorder| {
                recorder.note("trip", &[("over", seed)]);
                panic!("fell over {seed}");
            },
        };
        let report = scenario.run(3, &Recorder::new(4));
        assert_eq!(report.broken.as_ref().unwrap().promise, "nothing panics: fell over 3");
        assert_eq!(report.latest.len(), 1);
        assert!(report.to_string().starts_with("seed 3: clumsy BROKEN, 1 events, 0.0 s virtual"), "{report}");
    }
}
