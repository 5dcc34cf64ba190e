//! A graph in far memory, and what an application on it costs.

mod daemons;
mod facts;
mod figures;
mod flags;
mod source;

use std::cell::Cell;
use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use outboard::{CacheMode, FarMemory, FarOptions, FarStats, Outboard, Path};
use outboard_graph::far::{FarArrays, FarLayout};
use outboard_graph::{Dram, GraphView, RunContext, Sweeps, Workers};
use outboard_limits::Allowance;
use outboard_link::Address;
use outboard_settings::{AddressChoice, Configuration, LossChoice, Origin, Settings, default_socket};

use self::daemons::Daemons;
pub(super) use self::facts::Facts;
use self::figures::{AgentRead, Figures};
pub(super) use self::flags::Flags;
use self::flags::{LinkName, Plan};
use self::source::Source;
use super::report::Report;
use super::{Args, Measured, Memory, Wanted};
use crate::commands::graph::bar::Bar;
use crate::daemon_ready::show;
use crate::failure::wrong_usage;
use crate::{children, numbers};

/// How long an agent may take to say what it will do with the graph's arrays, besides the time for copies.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long an agent may take to reach a memory server that it knows, and how often is looked whether it has.
const DIALLED: Duration = Duration::from_millis(2500);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// The least that an agent copies in a second.
const COPIED_PER_SECOND: u64 = 50 << 20;

/// The state that the steps of a run share.
struct Task<'a> {
    args: &'a Args,
    wanted: Wanted<'a>,
    workers: &'a Workers,
    plan: &'a Plan,
    daemons: &'a Daemons,
    began: Instant,
}

/// Gets the graph into far memory, computes, and puts what came out into words.
pub(super) fn run(
    args: &Args,
    wanted: Wanted<'_>,
    workers: &Workers,
    configuration: &Configuration,
) -> Result<String> {
    let plan = &args.far.plan(configuration)?;
    refuse_idle_settings(plan, configuration)?;
    let began = Instant::now();
    let bar = Bar::new();
    let source = match (&args.graph, &args.far.served, plan.servers.first()) {
        (_, Some(name), Some(server)) => Source::served(name, server, &configuration.settings.link)?,
        (Some(file), ..) => Source::file(file, args.from, plan.servers.is_empty(), &bar)?,
        _ => return Err(wrong_usage("name a graph with --graph, or with --served and --server")),
    };
    let state = match plan.state {
        Memory::Dram => 0,
        Memory::Far => args.application.state_bytes(source.vertices()),
    };
    let footprint = source.bytes() + state;
    // The addresses are not known yet; whether the rest fits together is.
    let trial = plan.far_options(footprint, &at(configuration, &[default_socket("memory")], None))?;
    if let Err(large) = trial.check_memory() {
        // A user who does not read the standard error misses it; it may be known, and right.
        let _ = writeln!(std::io::stderr(), "outboard: warning: {large}");
    }
    if plan.servers.is_empty() {
        require_room(footprint, configuration)?;
    }
    args.require_source(source.vertices())?;
    if plan.is_checked {
        source.check(&bar)?;
    }
    let daemons = Daemons::start(plan, configuration, source.data_dir()?)?;
    let mut settings = at(configuration, &daemons.servers, daemons.agent.clone());
    // A server that was started here does not come back, and within the machine its loss is its death.
    if plan.servers.is_empty()
        && plan.link == LinkName::Shm
        && children::is_default(configuration, "far.grace")
    {
        settings.far.grace = Duration::ZERO;
    }
    let far_options = plan.far_options(footprint, &settings)?;
    let task = Task { args, wanted, workers, plan, daemons: &daemons, began };
    let outboard = Outboard::from_settings(&settings).with_name("graph run");
    let text = task.perform(source, (&outboard, far_options), bar)?;
    daemons.stop();
    Ok(text)
}

/// The settings of the user, with these daemons.
fn at(configuration: &Configuration, servers: &[Address], agent: Option<Address>) -> Settings {
    let mut settings = configuration.settings.clone();
    settings.far.servers = servers.to_vec();
    settings.job.agent = agent.map_or(AddressChoice::None, AddressChoice::At);
    // No application here could go on without what is lost.
    if children::is_default(configuration, "far.on_loss") {
        settings.far.on_loss = LossChoice::Exit;
    }
    settings
}

/// Waits until the agent has answered for everything. Returns whether it has; if not, which servers it does not know.
fn await_agent(far: &FarMemory, patience: Duration) -> (bool, Vec<usize>) {
    let began = Instant::now();
    loop {
        if far.wait_for_agent(LOOK_AGAIN) {
            return (true, Vec::new());
        }
        let unknown = far.servers_unknown_to_agent();
        let is_over = began.elapsed() > if unknown.is_empty() { patience } else { DIALLED };
        if is_over {
            return (false, unknown);
        }
    }
}

/// Settings for daemons that are not started here would have no effect.
fn refuse_idle_settings(plan: &Plan, configuration: &Configuration) -> Result<()> {
    for entry in configuration.entries() {
        let is_idle = match entry.key.section {
            "memory" => !plan.servers.is_empty(),
            "agent" => plan.agent.is_some() || plan.path == Path::Direct,
            _ => false,
        };
        if let (true, Origin::Flag(flag)) = (is_idle, &entry.origin) {
            let daemon = if entry.key.section == "agent" { "an agent" } else { "a memory server" };
            return Err(wrong_usage(&format!("{flag} is for {daemon} that is started here, and none is")));
        }
    }
    Ok(())
}

/// Whether a memory server with these settings can hold so much.
fn require_room(footprint: u64, configuration: &Configuration) -> Result<()> {
    let capacity = configuration.settings.memory.plan(&Allowance::of_this_process()).capacity;
    if footprint <= capacity {
        return Ok(());
    }
    bail!(
        "{} of far memory are needed, and a memory server that is started here gives out {}: enlarge it with \
         --memory-capacity, or name one elsewhere with --server",
        numbers::bytes(footprint),
        numbers::bytes(capacity)
    )
}

impl Task<'_> {
    /// Brings the graph into far memory, computes, and puts what came out into words.
    fn perform(
        &self,
        source: Source,
        (outboard, far_options): (&Outboard, FarOptions),
        bar: Bar,
    ) -> Result<String> {
        let (footprint, is_served) = (far_options.footprint, source.is_served());
        let chunk = far_options.chunk;
        let far = outboard.far_with(far_options)?;
        let cached = FarLayout::cached(self.plan.cache);
        let state_chunk = self.plan.chunk.unwrap_or(cached.state_chunk);
        let placement = FarLayout { chunk, state_chunk, path: self.plan.path, ..cached };
        bar.say(source.way());
        let bytes = source.bytes();
        let placed = source.place(&far, &placement)?;
        let graph = placed.graph.view()?;
        let is_agent_ready = self.meet_agent(&far, bytes)?;
        if is_served && self.plan.is_checked {
            bar.say("checking");
            graph.check(self.workers).context("the graph that is served is broken")?;
        }
        drop(bar);
        let loading = self.began.elapsed();
        let (read_before, before) = (self.daemons.read_by_agent(), far.stats());
        let (measured, after, state) = self.measure(graph, &far, &placement)?;
        let read = self.daemons.read_by_agent().map(|after| AgentRead::between(read_before, after));
        let facts = Facts {
            plan: self.plan,
            chunk,
            daemons: self.daemons,
            is_agent_ready,
            origin: placed.origin,
            buffer: far.buffer(),
            footprint,
            figures: Figures::between(&before, &after, read),
            explanation: if self.plan.explains { self.explain(&far, state) } else { Vec::new() },
        };
        let report = Report {
            application: self.args.application,
            file: self.args.file(),
            format: placed.format,
            graph,
            memory: "far",
            threads: self.workers.threads(),
            loading,
            notes: &placed.notes,
            measured: &measured,
            far: Some(facts),
        };
        if self.args.json { Ok(report.json()?.to_string()) } else { Ok(report.table()) }
    }

    /// Waits until the agent knows the graph's arrays, and has copied those that it is to keep. Chunks would go without
    /// it before, which is not what was asked for. Returns whether it does.
    fn meet_agent(&self, far: &FarMemory, bytes: u64) -> Result<bool> {
        let Some(agent) = &self.daemons.agent else { return Ok(false) };
        let copying = match self.plan.cache {
            CacheMode::Static => Duration::from_secs(bytes / COPIED_PER_SECOND),
            _ => Duration::ZERO,
        };
        let patience = PATIENCE + copying;
        let (is_ready, unknown) = await_agent(far, patience);
        // Whatever is faster goes without it as well.
        if is_ready || self.plan.path == Path::Auto {
            return Ok(is_ready);
        }
        let servers = &self.daemons.servers;
        let unknown: Vec<Address> = unknown.iter().filter_map(|at| servers.get(*at).cloned()).collect();
        match unknown.len() {
            0 => bail!("the agent at {agent} did not take the graph within {patience:?}"),
            count if count == servers.len() => bail!(
                "the agent at {agent} does not know the memory server at {}: name it among its memory servers \
                 (agent.memory_servers)",
                show(servers)
            ),
            _ => {
                // A user who does not read the standard error misses it; the result does not change.
                let _ = writeln!(
                    std::io::stderr(),
                    "outboard: warning: the agent at {agent} does not know the memory server at {}: what lies there goes \
                     past it; name it among its memory servers (agent.memory_servers)",
                    show(&unknown)
                );
                Ok(true)
            }
        }
    }

    /// Computes. Returns also what far memory had done by then, and what was chosen for the state, if that is far.
    fn measure(
        &self,
        graph: GraphView<'_>,
        far: &FarMemory,
        placement: &FarLayout,
    ) -> Result<(Measured, FarStats, Vec<String>)> {
        // Reads of the summary, afterwards, are not the application's.
        let after = Cell::new(FarStats::default());
        let note = || after.set(far.stats());
        // The part of the graph that is here at the end of one pass is what the next one begins with.
        let sweeps = Sweeps::BackAndForth;
        let (wanted, workers) = (self.wanted, self.workers);
        let (measured, state) = match self.plan.state {
            Memory::Dram => {
                let run = RunContext { workers, arrays: &Dram, progress: &(), sweeps };
                (self.args.measure(graph, wanted, run, note)?, Vec::new())
            }
            Memory::Far => {
                let arrays = FarArrays::new(far, placement);
                let run = RunContext { workers, arrays: &arrays, progress: &(), sweeps };
                let measured = self.args.measure(graph, wanted, run, note)?;
                (measured, arrays.explain_past())
            }
        };
        Ok((measured, after.get(), state))
    }

    /// The choices and their reasons, here, for state that is gone by now, and at the agent.
    fn explain(&self, far: &FarMemory, state: Vec<String>) -> Vec<String> {
        let mut lines = far.explain();
        lines.extend(state);
        lines.extend(self.daemons.agent_lines().iter().map(|line| format!("agent: {line}")));
        lines
    }
}
