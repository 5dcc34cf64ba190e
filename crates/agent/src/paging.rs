//! What an agent's paging is given by its process, and what is shown of it.

use std::sync::Arc;

use outboard_link::memory::{Buffer, Segment};
use outboard_link::{Clock, Export, Exports};
use outboard_paging::agent::cache::{ByteRate, CacheConfig, Forwarding, PrefetchConfig};
use outboard_paging::agent::{
    AgentPagingConfig, Lent, PagingReport, RegionReport, SharedPaging, Surroundings,
};
use outboard_settings::{AgentPlan, AgentSettings, ForwardingChoice};
use outboard_wire::paging::CacheMode;
use outboard_wire::{Generation, Grant, RegionId, RegionKey, Rights, Time};
use rustix::io::Errno;

use crate::room::has_room;
use crate::status::{Gauge, Lines, StatusPage};

/// What follows for paging from an agent's settings.
pub(crate) fn config(settings: &AgentSettings, plan: &AgentPlan) -> AgentPagingConfig {
    let entry_log2 = settings.cache_entry.0.ilog2() as u8;
    let slots = u32::try_from(plan.cache >> entry_log2).unwrap_or(u32::MAX);
    let depth_max = settings.prefetch as u32;
    let prefetch = PrefetchConfig { depth_max, ..PrefetchConfig::default() };
    let cache = CacheConfig { slots: slots.max(1), entry_log2, prefetch, ..CacheConfig::default() };
    let forwarding = match settings.forwarding {
        ForwardingChoice::Serial => Forwarding::Serial,
        ForwardingChoice::Batched => Forwarding::Batched,
        ForwardingChoice::Pipelined => Forwarding::Pipelined,
    };
    let AgentPlan { workers, static_max, .. } = *plan;
    AgentPagingConfig { workers, slots, cache, forwarding, static_max }
}

/// An agent's paging with the memory that it needs; `wake` has a worker look for what others have for it.
pub(crate) fn shared_paging(
    config: AgentPagingConfig,
    exports: &Arc<Exports>,
    clock: Clock,
    wake: impl Fn(usize) + Send + Sync + 'static,
) -> Result<SharedPaging, Errno> {
    let memory = Buffer::allocate(config.memory_len().ok_or(Errno::NOMEM)?)?;
    let process = Process { exports: Arc::clone(exports), clock, wake: Box::new(wake) };
    Ok(SharedPaging::new(config, memory, process))
}

/// The process that an agent's paging runs in.
struct Process {
    exports: Arc<Exports>,
    clock: Clock,
    wake: Box<dyn Fn(usize) + Send + Sync>,
}

impl Surroundings for Process {
    fn time(&self, _turn: Time) -> Time {
        self.clock.now()
    }

    fn wake(&self, worker: usize) {
        (self.wake)(worker);
    }

    fn lend(&self, copy: RegionId, size: u64) -> Option<Lent> {
        has_room(size).then(|| lend(&self.exports, copy, size)).flatten()
    }

    fn take_back(&self, copy: RegionId) {
        self.exports.remove(copy);
    }
}

/// Memory for a static copy, exported to those who are told its key.
fn lend(exports: &Exports, region: RegionId, size: u64) -> Option<Lent> {
    let len = usize::try_from(size).ok()?.checked_next_multiple_of(rustix::param::page_size())?;
    let segment = Arc::new(Segment::create(c"outboard-static", len).ok()?);
    let mut key = [0; 16];
    let drawn = rustix::rand::getrandom(&mut key[..], rustix::rand::GetRandomFlags::empty());
    let (generation, rights, key) = (Generation(1), Rights::READ, RegionKey(key));
    let keys = (drawn == Ok(key.0.len())).then(|| vec![(key, rights)])?;
    exports.add(Export { region, generation, memory: Arc::clone(&segment), keys });
    Some(Lent { grant: Grant { region, generation, key, rights, size }, memory: segment.into_buffer() })
}

/// What is shown of paging.
pub(crate) struct Numbers {
    used_bytes: Gauge,
    static_bytes: Gauge,
    hits_total: Gauge,
    late_total: Gauge,
    misses_total: Gauge,
    uncached_total: Gauge,
    read_ahead_hits_total: Gauge,
    read_ahead_misses_total: Gauge,
    demand_bytes_total: Gauge,
    prefetched_bytes_total: Gauge,
    unused_bytes_total: Gauge,
    evictions_total: Gauge,
    read_bytes_total: Gauge,
    write_backs_total: Gauge,
    frames_total: Gauge,
    net: Gauge,
    intra: Gauge,
    lines: Lines,
}

impl Numbers {
    pub(crate) fn new(page: &StatusPage, cache_bytes: u64) -> Self {
        page.gauge("cache_bytes").set(cache_bytes);
        Self {
            used_bytes: page.gauge("cache_used_bytes"),
            static_bytes: page.gauge("cache_static_bytes"),
            hits_total: page.gauge("fetches_hit_total"),
            late_total: page.gauge("fetches_late_total"),
            misses_total: page.gauge("fetches_missed_total"),
            uncached_total: page.gauge("fetches_uncached_total"),
            read_ahead_hits_total: page.gauge("background_fetches_hit_total"),
            read_ahead_misses_total: page.gauge("background_fetches_missed_total"),
            demand_bytes_total: page.gauge("loaded_on_demand_bytes_total"),
            prefetched_bytes_total: page.gauge("prefetched_bytes_total"),
            unused_bytes_total: page.gauge("prefetched_unused_bytes_total"),
            evictions_total: page.gauge("cache_evictions_total"),
            read_bytes_total: page.gauge("read_from_servers_bytes_total"),
            write_backs_total: page.gauge("write_backs_total"),
            frames_total: page.gauge("write_back_frames_total"),
            net: page.gauge("net_bytes_per_second"),
            intra: page.gauge("intra_bytes_per_second"),
            lines: page.lines(),
        }
    }

    pub(crate) fn show(&self, report: &PagingReport) {
        let counters = &report.cache;
        self.used_bytes.set(report.used_bytes);
        self.static_bytes.set(report.static_bytes);
        self.hits_total.set(counters.demand.hits);
        self.late_total.set(counters.demand.late);
        self.misses_total.set(counters.demand.misses);
        self.uncached_total.set(counters.demand.uncached);
        self.read_ahead_hits_total.set(counters.background.hits);
        self.read_ahead_misses_total.set(counters.background.total() - counters.background.hits);
        self.demand_bytes_total.set(counters.demand_bytes);
        self.prefetched_bytes_total.set(counters.prefetched_bytes);
        self.unused_bytes_total.set(counters.unused_bytes);
        self.evictions_total.set(counters.evictions);
        self.read_bytes_total.set(report.read_bytes);
        self.write_backs_total.set(report.write_backs);
        self.frames_total.set(report.write_back_frames);
        self.net.set(report.net.map_or(0, |ByteRate(rate)| rate as u64));
        self.intra.set(report.intra.map_or(0, |ByteRate(rate)| rate as u64));
        self.lines.set(report.regions.iter().map(|region| line(region, report.intra)));
    }
}

/// A line about a region. What was counted is told first, and what is expected of the cache behind the semicolon, by the
/// switch.
fn line(region: &RegionReport, intra: Option<ByteRate>) -> String {
    let RegionReport { name, size, sources, .. } = region;
    let mode = match region.mode {
        CacheMode::Off => "off",
        CacheMode::Static if region.is_copied => "static",
        CacheMode::Static | CacheMode::Dynamic => "dynamic",
        CacheMode::Auto => "auto",
    };
    let mut text = format!("region {} ({}): {mode}", name.region.0, spoken_size(*size));
    match sources.hit_rate() {
        Some(rate) if region.mode != CacheMode::Off => {
            text += &format!(", {} fetches so far, {:.0} % hits", sources.total(), 100.0 * rate);
        }
        Some(_) => text += &format!(", {} fetches so far", sources.total()),
        None => {}
    }
    if let Some(switch) = &region.switch {
        return text + &format!("; {switch}");
    }
    if let (Some(net), Some(intra)) = (region.net, intra) {
        text += &format!("; B_net {net}, B_intra {intra}");
    }
    text
}

/// `8.0 MiB`.
fn spoken_size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1 << 10 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // What rounds up to 1024 belongs to the next unit.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use outboard_paging::agent::cache::{CacheSwitch, RegionIdentity, Sources};
    use outboard_steering::SteeringConfig;
    use outboard_wire::Incarnation;

    use super::*;

    fn report(mode: CacheMode) -> RegionReport {
        RegionReport {
            name: RegionIdentity { server: Incarnation(1), region: RegionId(7), generation: Generation(1) },
            size: 8 << 20,
            mode,
            is_copied: false,
            sources: Sources { hits: 3, late: 0, misses: 1, uncached: 0 },
            switch: None,
            net: Some(ByteRate(1e9)),
        }
    }

    #[test]
    fn a_line_says_how_a_region_is_cached_and_how_well() {
        let intra = Some(ByteRate(5e9));
        assert_eq!(
            line(&report(CacheMode::Dynamic), intra),
            "region 7 (8.0 MiB): dynamic, 4 fetches so far, 75 % hits; B_net 1.0 GB/s, B_intra 5.0 GB/s"
        );
        assert_eq!(
            line(&report(CacheMode::Off), intra),
            "region 7 (8.0 MiB): off, 4 fetches so far; B_net 1.0 GB/s, B_intra 5.0 GB/s"
        );
        let switch = CacheSwitch::new(SteeringConfig::default(), Time::ZERO);
        let auto = RegionReport { switch: Some(switch.report(Time::ZERO)), ..report(CacheMode::Auto) };
        assert_eq!(
            line(&auto, intra),
            "region 7 (8.0 MiB): auto, 4 fetches so far, 75 % hits; not cached: too little measured yet"
        );
    }

    #[test]
    fn sizes_have_units_that_suit_them() {
        let sizes = [0, 1023, 1 << 10, (1 << 20) - 1, 3 << 29, 5 << 40].map(spoken_size);
        assert_eq!(sizes, ["0 B", "1023 B", "1.0 KiB", "1.0 MiB", "1.5 GiB", "5.0 TiB"]);
    }
}
