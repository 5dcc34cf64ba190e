//! Do agent and server answer more together than the better one alone, if there are more calls than one can answer?

use outboard::{CallPlacement, CallSite};

use super::Scene;
use crate::BenchError;
use crate::harness::{Figure, Progress, Unit};
use crate::pair::Cores;

/// Callers at least, and how many calls each has under way.
const CALLERS: usize = 2;
const DEPTH: usize = 256;

impl Scene<'_> {
    /// The cores of callers: those that are left, or else the first.
    fn caller_cores(&self) -> Vec<usize> {
        let is_free = |core: &usize| !self.cores.contains(core);
        let free: Vec<usize> = self.stage.allowed.iter().copied().filter(is_free).collect();
        match free.len() {
            0 => vec![self.cores[0]; CALLERS],
            few if few < CALLERS => vec![free[0]; CALLERS],
            _ => free,
        }
    }

    /// Calls that all callers together have answered in a while.
    fn flood(&self, placement: CallPlacement) -> Result<u64, BenchError> {
        let cores = self.caller_cores();
        let loads = cores.iter().map(|_| self.load(placement, DEPTH)).collect::<Result<Vec<_>, _>>()?;
        let span = self.plan.flood;
        std::thread::scope(|scope| {
            let call = |(mut load, core): (super::SteeredLoad, usize)| {
                scope.spawn(move || {
                    Cores::settle(Some(core))?;
                    // Slots find their places.
                    load.call(span / 2, |_| false)?;
                    let ended = load.call(span, |_| false)?;
                    load.finish()?;
                    Ok(ended)
                })
            };
            let threads: Vec<_> = loads.into_iter().zip(cores).map(call).collect();
            let failed = || BenchError::Calls { why: "a caller has panicked".to_owned() };
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(failed()))).sum()
        })
    }
}

pub(super) fn figure(scene: &Scene<'_>, progress: &mut Progress) -> Result<Figure, BenchError> {
    progress.begin("calling.steer.sum_over_best_site");
    let at_server = scene.flood(CallPlacement::Fixed(CallSite::Server))?;
    let at_agent = scene.flood(CallPlacement::Fixed(CallSite::Agent))?;
    let steered = scene.flood(CallPlacement::Steered)?;
    progress.end();
    let rate = |calls: u64| calls as f64 / scene.plan.flood.as_secs_f64();
    let callers = scene.caller_cores().len();
    let versus = format!(
        "the better of server and agent alone, with {callers} callers of {DEPTH} calls each on the cores that are left: {:.0} k and {:.0} k calls a second, {:.0} k together",
        rate(at_server) / 1e3,
        rate(at_agent) / 1e3,
        rate(steered) / 1e3,
    );
    let best = at_server.max(at_agent).max(1);
    let ratio = steered as f64 / best as f64;
    Ok(Figure::new("calling.steer.sum_over_best_site", Unit::Ratio, ratio, 1.0, &versus))
}
