//! Does it matter how many different functions are called?

use std::time::{Duration, Instant};

use outboard::{Caller, FarRegion, FunctionHandle, FunctionImage, FunctionOptions, Rights};

use super::stage::{Stage, caller, register, wrong};
use crate::harness::{Duel, Effort, Figure, Progress, Round, Side, Unit, percentile};
use crate::{BenchError, BenchOptions};

/// How many questions there are.
pub(super) const COUNT: usize = NUMBERS.len();

/// How many functions, beside one.
const NUMBERS: [usize; 3] = [128, 512, 1024];
const OBJECT: &[u8] = include_bytes!("../../functions/mix-v3.o");
/// What stands in the object for the number of a copy.
const NUMBER: u32 = 0x4d49_5845;
/// How many calls are under way at most.
const DEPTH: usize = 512;
/// The memory that functions read, in bytes.
pub(super) const REGION: u64 = 64 << 10;
/// How much of what one function could do is asked for.
const LOAD: f64 = 0.7;
/// Arrivals that later ones take turns in.
const ARRIVALS: usize = 1 << 16;

/// Copy `number` of the function.
pub(super) fn image(number: u32) -> Result<FunctionImage, BenchError> {
    let place = OBJECT.windows(4).position(|bytes| bytes == NUMBER.to_le_bytes());
    let at = place.ok_or_else(|| BenchError::Function { why: "mix.c has no NUMBER".to_owned() })?;
    let mut object = OBJECT.to_vec();
    object[at..at + 4].copy_from_slice(&(NUMBER ^ number).to_le_bytes());
    FunctionImage::from_object(&object, "mix").map_err(wrong)
}

/// What the copy `number` gives for an argument, as all of its memory is zero.
pub(super) fn expected(number: u32, argument: u64) -> u64 {
    let step = |sum: u64, _| {
        let sum = sum.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        sum ^ sum >> 32
    };
    (0..8).fold(argument ^ u64::from(NUMBER ^ number), step)
}

/// A caller with some functions.
pub(super) struct Crowd {
    caller: Caller,
    functions: Vec<FunctionHandle>,
    random: fastrand::Rng,
    /// When calls that are under way were due, and what they give.
    due: Vec<(u64, u64)>,
    /// Times between arrivals, in nanoseconds on average 1000.
    gaps: Vec<u32>,
}

impl Crowd {
    pub(super) fn gather(stage: &Stage, region: &FarRegion, count: usize) -> Result<Self, BenchError> {
        let mut caller = caller(&stage.host.local, DEPTH)?;
        let mut functions = Vec::with_capacity(count);
        for number in 0..count {
            let options = FunctionOptions::default().with_reply_max(8).with_region(region, Rights::READ);
            functions.push(register(&mut caller, &image(number as u32)?, options)?);
        }
        let mut random = fastrand::Rng::with_seed(3);
        // Arrivals that know nothing of each other.
        let gaps = (0..ARRIVALS).map(|_| (-1000.0 * (1.0 - random.f64()).ln()) as u32).collect();
        Ok(Self { caller, functions, random, due: vec![(0, 0); 8192], gaps })
    }

    /// Begins a call of any function.
    fn begin(&mut self, due: u64) -> Result<(), BenchError> {
        let number = self.random.usize(..self.functions.len());
        let argument = self.random.u64(..);
        let id = self.caller.begin(self.functions[number], &argument.to_le_bytes()).map_err(wrong)?;
        let places = self.due.len();
        self.due[id.0 as usize % places] = (due, expected(number as u32, argument));
        Ok(())
    }

    /// Takes answers, each of which must be right, and tells when each was due.
    fn drain(&mut self, mut tell: impl FnMut(u64)) -> Result<usize, BenchError> {
        let (due, mut failed) = (&self.due, None);
        let ended = self.caller.drain(|id, result| {
            let (at, value) = due[id.0 as usize % due.len()];
            match result {
                Ok((given, reply)) if given == value && reply == value.to_le_bytes() => tell(at),
                Ok(_) => failed = Some(BenchError::Calls { why: "a function gave a wrong value".to_owned() }),
                Err(error) => failed = Some(wrong(error)),
            }
        });
        failed.map_or(Ok(ended), Err)
    }

    /// Calls per second when as many as possible are under way all the time.
    pub(super) fn saturation(&mut self, time: Duration) -> Result<f64, BenchError> {
        let began = Instant::now();
        let mut ended = 0;
        while began.elapsed() < time {
            while self.caller.under_way() < DEPTH {
                self.begin(0)?;
            }
            ended += self.drain(|_| ())?;
        }
        let rate = ended as f64 / began.elapsed().as_secs_f64();
        while self.caller.under_way() > 0 {
            self.drain(|_| ())?;
        }
        Ok(rate)
    }

    /// The time within which 99 of 100 calls end, from when they were due, at this rate, in nanoseconds.
    pub(super) fn p99(&mut self, rate: f64, time: Duration) -> Result<f64, BenchError> {
        self.p99_while(rate, time, || Ok(()))
    }

    /// The same while something else is done again and again.
    pub(super) fn p99_while(
        &mut self,
        rate: f64,
        time: Duration,
        mut meanwhile: impl FnMut() -> Result<(), BenchError>,
    ) -> Result<f64, BenchError> {
        let mean_ns = 1e9 / rate;
        let mut times: Vec<f32> = Vec::with_capacity((rate * time.as_secs_f64() * 1.1) as usize);
        let (mut next, mut due) = (self.random.usize(..ARRIVALS), 0.0f64);
        let began = Instant::now();
        loop {
            let now = began.elapsed().as_nanos() as f64;
            if now >= time.as_nanos() as f64 {
                break;
            }
            while due <= now && self.caller.under_way() < DEPTH {
                self.begin(due as u64)?;
                next = (next + 1) % ARRIVALS;
                due += f64::from(self.gaps[next]) * mean_ns / 1000.0;
            }
            self.drain(|at| times.push((began.elapsed().as_nanos() as u64).saturating_sub(at) as f32))?;
            meanwhile()?;
        }
        while self.caller.under_way() > 0 {
            self.drain(|at| times.push((began.elapsed().as_nanos() as u64).saturating_sub(at) as f32))?;
        }
        Ok(percentile(&mut times, 0.99))
    }
}

/// How long one look takes.
fn span(effort: Effort) -> Duration {
    match effort {
        Effort::Tiny => Duration::from_millis(2),
        Effort::Quick => Duration::from_millis(150),
        Effort::Full => Duration::from_millis(300),
    }
}

/// The figures.
pub(super) fn figures(
    options: &BenchOptions,
    stage: &mut Stage,
    progress: &mut Progress,
) -> Result<Vec<Figure>, BenchError> {
    let (effort, span) = (options.effort, span(options.effort));
    let region = stage.memory.reserve_shared(REGION, "bench-calling-mix")?;
    let mut one = Crowd::gather(stage, &region, 1)?;
    let mut rates = (0..3).map(|_| one.saturation(span)).collect::<Result<Vec<f64>, _>>()?;
    let rate = percentile(&mut rates, 0.5) * LOAD;
    let mut figures = Vec::new();
    for number in NUMBERS {
        let name = format!("calling.mix.p99_{number}_over_1");
        progress.begin(&name);
        // A test has no time for so many.
        let count = if effort == Effort::Tiny { number / 32 } else { number };
        let mut many = Crowd::gather(stage, &region, count)?;
        let duel = Duel::run(effort, progress, |side| {
            let score = match side {
                Side::Ours => many.p99(rate, span)?,
                Side::Yardstick => one.p99(rate, span)?,
            };
            Ok(Round { score, samples_ns: Vec::new() })
        })?;
        let both = duel.figure("", Unit::Nanoseconds, 1.0, "");
        let versus = format!(
            "the time within which 99 of 100 calls of one function end, {:.0} ns, {:.0} calls a second due at random times; {number} functions: {:.0} ns",
            both.yardstick, rate, both.value
        );
        figures.push(Figure::new(name, Unit::Slowdown, both.ratio, 1.0, &versus));
        progress.end();
    }
    drop(one);
    stage.memory.free(region)?;
    Ok(figures)
}
