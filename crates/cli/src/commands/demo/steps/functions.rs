//! A hash table made of functions, which run at the memory server, at the agent or here.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use outboard::{CallError, CallPlacement, CallSite, Caller, CallerOptions, FunctionImage, FunctionOptions};
use outboard_kv::ycsb::{Distribution, Mix, YcsbLoad, YcsbOperation, trace};
use outboard_kv::{Kv, KvError, KvTable, TableOptions};

use super::{Finding, per_second, times};
use crate::commands::demo::stage::{By, PATIENCE, Stage};
use crate::numbers;

const TABLE: &str = "demo-table";
const KEYS: u32 = 2000;
const OPTIONS: TableOptions = TableOptions { keys: 2 * KEYS as u64, key_max: 8, value_max: 64 };
const VALUE: usize = 64;
/// Calls that are under way at once.
const DEPTH: usize = 64;
/// Operations between two looks at the clock.
const CHUNK: usize = 512;
/// How long is measured, and how often while the server is loaded: of all rounds the best counts.
const SPAN: Duration = Duration::from_millis(80);
const ROUNDS: usize = 2;
/// Slots that the server's table of sites has.
const SLOTS: usize = 256;

/// Gets by functions at each site; then at the server while others load it, and wherever the calls move meanwhile.
pub(super) fn three_sites(stage: &mut Stage) -> Result<Finding> {
    let mut memory = stage.connect_memory(By::Shm)?;
    let table = KvTable::create(&mut memory, TABLE, &OPTIONS)?;
    YcsbLoad::new(kv(stage, &table, CallPlacement::Fixed(CallSite::Server))?, VALUE, DEPTH).fill(KEYS)?;
    let mut free = [0.0; 3];
    for site in CallSite::ALL {
        let mut load = load(stage, &table, CallPlacement::Fixed(site))?;
        free[site as usize] = rate(stage, &mut load)?;
    }
    let mut fixed = load(stage, &table, CallPlacement::Fixed(CallSite::Server))?;
    let mut steered = load(stage, &table, CallPlacement::Steered)?;
    rate(stage, &mut steered)?;
    let is_over = AtomicBool::new(false);
    let spender = Spender::start(stage)?;
    let measured = thread::scope(|scope| {
        let spending = scope.spawn(|| spender.spend(&is_over));
        let measured = while_loaded(stage, &mut fixed, &mut steered);
        is_over.store(true, Ordering::Release);
        let spent = spending.join().ok().context("the thread that loads the server has panicked")?;
        spent.and(measured)
    });
    let Loaded { at_server, moved, moving, slots } = measured?;
    drop((fixed, steered));
    table.free(&mut memory)?;
    memory.close("done");
    let [server, agent, here] = [CallSite::Server, CallSite::Agent, CallSite::Application]
        .map(|site| per_second(free[site as usize]));
    let how_moved = match moving {
        Some(took) => format!("moved within {}", numbers::time(took)),
        None => "had moved before".to_owned(),
    };
    let text = format!(
        "gets from a hash table: {server} at the memory server, {agent} at the agent, {here} here; then others keep \
         the server busy: {} there, {} where calls {how_moved} ({} of {SLOTS} slots now at the agent, {} here)",
        per_second(at_server),
        per_second(moved),
        slots[CallSite::Agent as usize],
        slots[CallSite::Application as usize],
    );
    let gain = match moved >= at_server {
        true => format!("{} the calls of staying", times(moved, at_server)),
        false => "none here: other programs keep the processors busy that the calls moved to".to_owned(),
    };
    let mut finding = Finding::text(text).gained(gain);
    for site in CallSite::ALL {
        finding = finding.with(format!("gets_at_{site}_per_s"), free[site as usize]);
        finding = finding.with(format!("slots_at_{site}_when_loaded"), slots[site as usize] as f64);
    }
    Ok(finding
        .with("gets_at_loaded_server_per_s", at_server)
        .with("gets_moved_per_s", moved)
        .with("moving_ms", moving.unwrap_or_default().as_secs_f64() * 1e3))
}

/// The measurements while the server was loaded.
struct Loaded {
    at_server: f64,
    moved: f64,
    /// How long it took until most calls had moved; none if they had before.
    moving: Option<Duration>,
    slots: [usize; 3],
}

fn while_loaded(stage: &Stage, fixed: &mut YcsbLoad, steered: &mut YcsbLoad) -> Result<Loaded> {
    let began = Instant::now();
    let slots = |load: &YcsbLoad| load.kv().caller().slots();
    let has_moved = |load: &YcsbLoad| slots(load)[CallSite::Server as usize] <= SLOTS / 4;
    let had_moved = has_moved(steered);
    while !has_moved(steered) {
        if began.elapsed() > PATIENCE {
            bail!("calls stayed at a loaded server for {PATIENCE:?}: {:?}", steered.kv().caller().explain());
        }
        stage.go_on()?;
        get(steered)?;
    }
    let (moving, slots) = ((!had_moved).then(|| began.elapsed()), slots(steered));
    let (mut at_server, mut moved) = (0.0_f64, 0.0_f64);
    // By turns, so that whatever else the machine does is there for both.
    for _ in 0..ROUNDS {
        at_server = at_server.max(rate(stage, fixed)?);
        moved = moved.max(rate(stage, steered)?);
    }
    Ok(Loaded { at_server, moved, moving, slots })
}

/// A client whose functions compute for long at the server.
struct Spender {
    caller: Caller,
    spend: outboard::FunctionHandle,
}

/// Counts down from its argument.
const SPEND: &str = "
    ldxdw r2, [r1+0]
    again:
    add r2, -1
    jsgt r2, 0, again
    mov r0, 0
    exit";
/// How far each call counts, and what that costs.
const COUNTED: u64 = 200_000;
const FUEL: u64 = 4 * COUNTED;
const SPENDING: usize = 16;

impl Spender {
    fn start(stage: &Stage) -> Result<Self> {
        let options = CallerOptions::default().with_placement(CallSite::Server);
        let mut caller = stage.outboard(By::Shm)?.caller_with(options)?;
        let image = FunctionImage::from_text(SPEND, "main")?;
        let spend = caller.register(&image, FunctionOptions::default().with_fuel(FUEL))?;
        Ok(Self { caller, spend })
    }

    fn spend(mut self, is_over: &AtomicBool) -> Result<()> {
        const PAUSE: Duration = Duration::from_millis(20);
        while !is_over.load(Ordering::Acquire) {
            while self.caller.under_way() < SPENDING {
                self.caller.begin(self.spend, &COUNTED.to_le_bytes())?;
            }
            if let Some(ended) = self.caller.wait(PAUSE) {
                ended.result?;
            }
        }
        Ok(())
    }
}

/// Puts by functions at an agent that is killed in the middle.
pub(super) fn without_agent(stage: &mut Stage) -> Result<Finding> {
    let mut memory = stage.connect_memory(By::Shm)?;
    let table = KvTable::create(&mut memory, TABLE, &OPTIONS)?;
    let mut puts = Puts::new(kv(stage, &table, CallPlacement::Hinted(CallSite::Agent))?);
    let (victim, half) = (stage.victim()?, u64::from(KEYS / 2));
    let mut at_agent = 0;
    for number in 0..u64::from(KEYS) {
        stage.go_on()?;
        puts.begin(number)?;
        puts.drain(DEPTH)?;
        if number == half {
            at_agent = puts.kv.caller().sites()[CallSite::Agent as usize].answered;
            victim.kill()?;
        }
    }
    puts.drain(0)?;
    stage.bury_agent()?;
    ensure!(at_agent > 0, "no call ran at the agent");
    let Puts { mut kv, again, .. } = puts;
    for number in 0..u64::from(KEYS) {
        let found = kv.get(&number.to_le_bytes())?;
        ensure!(found.as_deref() == Some(&number.to_le_bytes()), "key {number} has the value {found:?}");
    }
    drop(kv);
    table.free(&mut memory)?;
    memory.close("done");
    let text = format!(
        "{KEYS} puts; killed when {at_agent} had run at the agent; of {again} others it was unclear whether they had \
         run, which their error said, and they were put again; the rest ran at the memory server"
    );
    Ok(Finding::text(text)
        .gained(format!("all {KEYS} keys have their values"))
        .with("puts_at_agent_before_kill", at_agent as f64)
        .with("puts_again", again as f64))
}

/// Puts that are under way: a key is a number, and its value as well.
struct Puts {
    kv: Kv,
    under_way: HashMap<outboard::CallId, u64>,
    /// How many had to be put again, because it was not known whether they had run.
    again: u64,
}

impl Puts {
    fn new(kv: Kv) -> Self {
        Self { kv, under_way: HashMap::new(), again: 0 }
    }

    fn begin(&mut self, number: u64) -> Result<()> {
        let bytes = number.to_le_bytes();
        self.under_way.insert(self.kv.begin_put(&bytes, &bytes)?, number);
        Ok(())
    }

    /// Waits until at most so many are under way.
    fn drain(&mut self, most: usize) -> Result<()> {
        let began = Instant::now();
        while self.kv.under_way() > most {
            ensure!(
                began.elapsed() < PATIENCE,
                "{} puts have not ended after {PATIENCE:?}",
                self.kv.under_way()
            );
            let (mut unclear, mut failed) = (Vec::new(), None);
            let under_way = &mut self.under_way;
            self.kv.drain(|id, answer| {
                let number = under_way.remove(&id);
                match answer {
                    Ok(_) => {}
                    Err(KvError::Busy | KvError::Call(CallError::Lost { .. })) => unclear.extend(number),
                    Err(error) => failed = Some(error),
                }
            });
            if let Some(error) = failed {
                return Err(error.into());
            }
            self.again += unclear.len() as u64;
            unclear.into_iter().try_for_each(|number| self.begin(number))?;
            thread::yield_now();
        }
        Ok(())
    }
}

/// A user of the table whose functions run there.
fn kv(stage: &mut Stage, table: &KvTable, placement: CallPlacement) -> Result<Kv> {
    let outboard = stage.outboard(By::Shm)?.with_agent(stage.agent_address()?);
    let options = CallerOptions::default().with_placement(placement).with_calls_here();
    Ok(Kv::new(outboard.caller_with(options)?, table)?)
}

fn load(stage: &mut Stage, table: &KvTable, placement: CallPlacement) -> Result<YcsbLoad> {
    Ok(YcsbLoad::new(kv(stage, table, placement)?, VALUE, DEPTH))
}

/// Gets some keys, and checks their values.
fn get(load: &mut YcsbLoad) -> Result<u64> {
    let operations: Vec<YcsbOperation> = trace(KEYS, Mix::C, Distribution::Uniform, CHUNK, 1);
    let tally = load.run(operations)?;
    ensure!(tally.wrong == 0, "{} of {} values were wrong", tally.wrong, tally.done);
    Ok(tally.done)
}

/// Gets in a second.
fn rate(stage: &Stage, load: &mut YcsbLoad) -> Result<f64> {
    let (began, mut done) = (Instant::now(), 0);
    while began.elapsed() < SPAN {
        stage.go_on()?;
        done += get(load)?;
    }
    Ok(done as f64 / began.elapsed().as_secs_f64())
}
