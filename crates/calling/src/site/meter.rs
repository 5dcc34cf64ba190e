//! How busy workers are with calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use outboard_wire::Time;
use outboard_wire::calling::SiteLoad;

/// What one worker notes of its calls, for the controller. Only that worker writes.
#[derive(Debug, Default)]
pub struct SiteMeter {
    /// When the present turn began, in which there are calls; zero if there are none.
    turn_at: AtomicU64,
    /// Time in turns with calls.
    busy_ns: AtomicU64,
    /// That time multiplied by how many calls were there: how long all calls together have waited and run.
    stay_ns: AtomicU64,
    /// Calls that ended.
    calls: AtomicU64,
}

/// A worker's end of a [`SiteMeter`].
#[derive(Debug, Default)]
pub(crate) struct Metering {
    meter: Arc<SiteMeter>,
    /// The turn before, if there were calls.
    before: Option<Turn>,
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    began: Time,
    calls: u64,
    /// Not all of them are suspended.
    is_busy: bool,
}

fn add(sum: &AtomicU64, value: u64) {
    sum.store(sum.load(Ordering::Relaxed).wrapping_add(value), Ordering::Relaxed);
}

impl Metering {
    pub(crate) fn meter(&self) -> &Arc<SiteMeter> {
        &self.meter
    }

    /// A turn begins in which so many calls are there, and something is done for them or not.
    #[inline]
    pub(crate) fn turn(&mut self, now: Time, calls: usize, is_busy: bool) {
        if self.before.is_none() && calls == 0 {
            return;
        }
        if let Some(Turn { began, calls, is_busy }) = self.before {
            let span = now.since(began).as_nanos() as u64;
            add(&self.meter.busy_ns, if is_busy { span } else { 0 });
            add(&self.meter.stay_ns, span.saturating_mul(calls));
        }
        self.before = (calls > 0).then_some(Turn { began: now, calls: calls as u64, is_busy });
        let turn_at = if is_busy { now.as_nanos().max(1) } else { 0 };
        self.meter.turn_at.store(turn_at, Ordering::Relaxed);
    }

    /// So many calls have ended.
    #[inline]
    pub(crate) fn ended(&self, calls: u64) {
        add(&self.meter.calls, calls);
    }
}

/// Reads the meters of a site's workers.
#[derive(Debug, Default)]
pub struct MeterReader {
    workers: Vec<(Arc<SiteMeter>, [u64; 3])>,
    read_at: Time,
}

impl MeterReader {
    /// Reads these from now on.
    pub fn new(meters: impl IntoIterator<Item = Arc<SiteMeter>>) -> Self {
        let workers = meters.into_iter().map(|meter| (meter, [0; 3])).collect();
        Self { workers, read_at: Time::ZERO }
    }

    /// What has happened since it was last asked. Workers without calls count as if they were not there: the calls of a
    /// link belong to one worker, and others do not help it.
    pub fn read(&mut self, now: Time) -> SiteLoad {
        let span_ns = now.since(self.read_at).as_nanos() as u64;
        self.read_at = now;
        let mut load = SiteLoad { span_ns, ..SiteLoad::default() };
        for (meter, before) in &mut self.workers {
            let read = [&meter.busy_ns, &meter.stay_ns, &meter.calls].map(|sum| sum.load(Ordering::Relaxed));
            let [busy_ns, stay_ns, calls] = [0, 1, 2].map(|index| read[index].wrapping_sub(before[index]));
            *before = read;
            let turn_at = meter.turn_at.load(Ordering::Relaxed);
            let turn_ns = if turn_at == 0 { 0 } else { now.as_nanos().saturating_sub(turn_at) };
            load.workers += u32::from(calls > 0 || turn_at > 0);
            load.calls = load.calls.saturating_add(u32::try_from(calls).unwrap_or(u32::MAX));
            load.busy_ns += busy_ns;
            load.service_ns += busy_ns.min(stay_ns);
            load.queueing_ns += stay_ns.saturating_sub(busy_ns);
            load.oldest_ns = load.oldest_ns.max(turn_ns);
        }
        load
    }

    /// Forgets what has happened until now.
    pub fn skip(&mut self, now: Time) {
        self.read(now);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn time_with_calls_is_work_and_calls_beside_one_another_wait() {
        let at = |micros: u64| Time::ZERO + Duration::from_micros(1000 + micros);
        let mut worker = Metering::default();
        let mut reader = MeterReader::new([Arc::clone(worker.meter()), Arc::default()]);
        reader.skip(at(0));
        worker.turn(at(10), 0, false);
        worker.turn(at(20), 4, true);
        worker.ended(3);
        worker.turn(at(50), 1, true);
        let load = reader.read(at(55));
        assert_eq!((load.workers, load.calls, load.span_ns), (1, 3, 55_000));
        assert_eq!((load.busy_ns, load.service_ns, load.queueing_ns), (30_000, 30_000, 90_000));
        assert_eq!(load.oldest_ns, 5_000, "it is in a turn");
        worker.ended(1);
        worker.turn(at(60), 0, false);
        let load = reader.read(at(100));
        assert_eq!((load.busy_ns, load.queueing_ns, load.oldest_ns), (10_000, 0, 0));
        assert_eq!(reader.read(at(200)), SiteLoad { span_ns: 100_000, ..SiteLoad::default() });
        worker.turn(at(210), 2, false);
        worker.turn(at(220), 0, false);
        let load = reader.read(at(230));
        assert_eq!((load.busy_ns, load.queueing_ns, load.oldest_ns), (0, 20_000, 0), "suspended calls");
    }
}
