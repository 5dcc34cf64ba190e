//! Calls for all kinds of keys, as fast as they are answered.

use std::time::{Duration, Instant};

use outboard::{
    CallPlacement, Caller, CallerOptions, FarRegion, FunctionHandle, FunctionOptions, Outboard, Rights,
};
use outboard_link::Address;

use super::super::mix::{expected, image};
use super::super::stage::{register, wrong};
use crate::BenchError;

/// Numbers of calls that are under way at the same time differ by less.
const PLACES: usize = 8192;

/// How long it waits for an answer before it looks at the clock.
const PAUSE: Duration = Duration::from_millis(1);

/// A caller at work.
pub(super) struct SteeredLoad {
    pub(super) caller: Caller,
    function: FunctionHandle,
    /// How many calls are under way at once.
    depth: usize,
    key: u64,
    values: Vec<u64>,
}

impl SteeredLoad {
    pub(super) fn start(
        server: &Address,
        agent: &Address,
        (placement, depth): (CallPlacement, usize),
        region: &FarRegion,
    ) -> Result<Self, BenchError> {
        let outboard = Outboard::at(server.clone()).with_agent(agent.clone()).with_name("bench calling");
        let mut caller = outboard.caller_with(CallerOptions::default().with_placement(placement))?;
        let rights = FunctionOptions::default().with_reply_max(8).with_region(region, Rights::READ);
        let function = register(&mut caller, &image(0)?, rights)?;
        Ok(Self { caller, function, depth, key: 0, values: vec![0; PLACES] })
    }

    /// Calls until `look` says that it is enough, or for so long. Returns how many calls ended, each with the right value.
    pub(super) fn call(
        &mut self,
        span: Duration,
        mut look: impl FnMut(&Caller) -> bool,
    ) -> Result<u64, BenchError> {
        let began = Instant::now();
        let mut ended = 0;
        while began.elapsed() < span && !look(&self.caller) {
            while self.caller.under_way() < self.depth {
                self.begin()?;
            }
            ended += self.drain()?;
        }
        Ok(ended)
    }

    fn begin(&mut self) -> Result<(), BenchError> {
        self.key += 1;
        let key = self.key.to_le_bytes();
        let id = self.caller.begin_keyed(self.function, &key, &key).map_err(wrong)?;
        self.values[id.0 as usize % PLACES] = expected(0, self.key);
        Ok(())
    }

    fn drain(&mut self) -> Result<u64, BenchError> {
        let (values, mut failed) = (&self.values, None);
        let ended = self.caller.drain(|id, result| match result {
            Ok((value, _)) if value == values[id.0 as usize % PLACES] => {}
            Ok(_) => failed = Some(BenchError::Calls { why: "a function gave a wrong value".to_owned() }),
            Err(error) => failed = Some(wrong(error)),
        });
        if let Some(error) = failed {
            return Err(error);
        }
        if ended > 0 {
            return Ok(ended as u64);
        }
        let Some(ended) = self.caller.wait(PAUSE) else { return Ok(0) };
        match ended.result {
            Ok(reply) if reply.value == self.values[ended.id.0 as usize % PLACES] => Ok(1),
            Ok(_) => Err(BenchError::Calls { why: "a function gave a wrong value".to_owned() }),
            Err(error) => Err(wrong(error)),
        }
    }

    /// Waits for what is under way: nothing is lost.
    pub(super) fn finish(&mut self) -> Result<(), BenchError> {
        let began = Instant::now();
        while self.caller.under_way() > 0 {
            if began.elapsed() > crate::pair::PATIENCE {
                let awaited = "calls that are under way";
                return Err(BenchError::Stalled { waited: crate::pair::PATIENCE, awaited });
            }
            self.drain()?;
        }
        Ok(())
    }
}
