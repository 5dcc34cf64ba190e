//! Two processes that trade with each other.

use std::time::Duration;

use crate::leftovers::Leftovers;
use crate::process::Process;
use crate::spec::{Act, Side, Spec, Transport};

/// No survivor takes longer than this to report a loss, on the busiest machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// The seed of this run: everything random comes from it. Set `OUTBOARD_SEED` to see a run again.
pub(crate) fn seed() -> u64 {
    let given = std::env::var("OUTBOARD_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    println!("OUTBOARD_SEED={seed}");
    seed
}

/// Whether this machine lacks what the transport needs.
pub(crate) fn is_missing(transport: Transport) -> bool {
    let chosen = transport.provider().map(|provider| outboard_link::ofi::choose(None, Some(provider)));
    if let Some(Err(why)) = &chosen {
        println!("skipped: {why}");
    }
    matches!(chosen, Some(Err(_)))
}

/// Two processes that have found each other, or are about to.
pub(crate) struct Couple {
    listening: Process,
    dialling: Process,
}

impl Couple {
    pub(crate) fn start(transport: Transport, acts: [Act; 2], seed: u64, leftovers: &Leftovers) -> Self {
        let at = leftovers.address(transport, seed);
        let spec = Spec { transport, side: Side::Listen, act: acts[0], at, seed };
        let mut listening = Process::start(&spec, leftovers);
        let at = listening.line("at ", LIMIT).expect("the listening side says where");
        let spec = Spec { side: Side::Dial, act: acts[1], at, seed: seed ^ 1, ..spec };
        Self { dialling: Process::start(&spec, leftovers), listening }
    }

    /// Both sides have traded something.
    pub(crate) fn wait_until_trading(&mut self) {
        self.listening.line("trading", LIMIT).expect("the listening side trades");
        self.dialling.line("trading", LIMIT).expect("the dialling side trades");
    }

    /// The one that will die and the one that will mourn, with the name of the former.
    pub(crate) fn split(self, kill_listening: bool) -> (Process, Process, &'static str) {
        let Self { listening, dialling } = self;
        match kill_listening {
            true => (listening, dialling, Side::Listen.name()),
            false => (dialling, listening, Side::Dial.name()),
        }
    }
}
