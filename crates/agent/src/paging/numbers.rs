//! What is shown of paging.

use std::time::Duration;

use outboard_paging::cache::{Bandwidth, CacheCounters, RegionName, Sources, SwitchReport};
use outboard_wire::paging::CacheMode;

use crate::status::{Gauge, Lines, StatusPage};

/// How often the numbers are shown while something happens.
pub(super) const PERIOD: Duration = Duration::from_millis(20);

/// What is counted of paging.
pub(super) struct Numbers {
    used_bytes: Gauge,
    pub(super) static_bytes: Gauge,
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
    pub(super) read_bytes_total: Gauge,
    pub(super) write_backs_total: Gauge,
    pub(super) frames_total: Gauge,
    net: Gauge,
    intra: Gauge,
    lines: Lines,
}

impl Numbers {
    pub(super) fn new(page: &StatusPage, cache_bytes: u64) -> Self {
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

    pub(super) fn show(&self, counters: &CacheCounters, used_bytes: u64) {
        let CacheCounters { demand, background, .. } = counters;
        self.used_bytes.set(used_bytes);
        self.hits_total.set(demand.hits);
        self.late_total.set(demand.late);
        self.misses_total.set(demand.misses);
        self.uncached_total.set(demand.uncached);
        self.read_ahead_hits_total.set(background.hits);
        self.read_ahead_misses_total.set(background.total() - background.hits);
        self.demand_bytes_total.set(counters.demand_bytes);
        self.prefetched_bytes_total.set(counters.prefetched_bytes);
        self.unused_bytes_total.set(counters.unused_bytes);
        self.evictions_total.set(counters.evictions);
    }

    pub(super) fn show_rates(&self, net: Option<Bandwidth>, intra: Option<Bandwidth>) {
        self.net.set(net.map_or(0, |Bandwidth(rate)| rate as u64));
        self.intra.set(intra.map_or(0, |Bandwidth(rate)| rate as u64));
    }

    /// Writes a line about each region, as far as there is room.
    pub(super) fn show_regions(&self, regions: &[RegionLine], intra: Option<Bandwidth>) {
        let texts = regions.iter().map(|region| region.text(intra));
        self.lines.set(texts);
    }
}

/// What is said of a region.
pub(super) struct RegionLine {
    pub(super) name: RegionName,
    pub(super) size: u64,
    pub(super) mode: CacheMode,
    pub(super) is_copied: bool,
    pub(super) sources: Sources,
    pub(super) report: Option<SwitchReport>,
    pub(super) net: Option<Bandwidth>,
}

impl RegionLine {
    /// What was counted is told first, and what is expected of the cache behind the semicolon, by the switch.
    fn text(&self, intra: Option<Bandwidth>) -> String {
        let mode = match self.mode {
            CacheMode::Off => "off",
            CacheMode::Static if self.is_copied => "static",
            CacheMode::Static | CacheMode::Dynamic => "dynamic",
            CacheMode::Auto => "auto",
        };
        let RegionLine { name, size, sources, .. } = self;
        let mut text = format!("region {} ({}): {mode}", name.region.0, spoken_size(*size));
        match sources.hit_rate() {
            Some(rate) if self.mode != CacheMode::Off => {
                text += &format!(", {} fetches so far, {:.0} % hits", sources.total(), 100.0 * rate);
            }
            Some(_) => text += &format!(", {} fetches so far", sources.total()),
            None => {}
        }
        if let Some(report) = &self.report {
            return text + &format!("; {report}");
        }
        if let (Some(net), Some(intra)) = (self.net, intra) {
            text += &format!("; B_net {net}, B_intra {intra}");
        }
        text
    }
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
    use outboard_paging::cache::CacheSwitch;
    use outboard_steering::Config;
    use outboard_wire::{Generation, Incarnation, RegionId, Time};

    use super::*;

    fn line(mode: CacheMode) -> RegionLine {
        RegionLine {
            name: RegionName { server: Incarnation(1), region: RegionId(7), generation: Generation(1) },
            size: 8 << 20,
            mode,
            is_copied: false,
            sources: Sources { hits: 3, late: 0, misses: 1, uncached: 0 },
            report: None,
            net: Some(Bandwidth(1e9)),
        }
    }

    #[test]
    fn a_line_says_how_a_region_is_cached_and_how_well() {
        let intra = Some(Bandwidth(5e9));
        assert_eq!(
            line(CacheMode::Dynamic).text(intra),
            "region 7 (8.0 MiB): dynamic, 4 fetches so far, 75 % hits; B_net 1.0 GB/s, B_intra 5.0 GB/s"
        );
        assert_eq!(
            line(CacheMode::Off).text(intra),
            "region 7 (8.0 MiB): off, 4 fetches so far; B_net 1.0 GB/s, B_intra 5.0 GB/s"
        );
        let switch = CacheSwitch::new(Config::default(), Time::ZERO);
        let auto = RegionLine { report: Some(switch.report(Time::ZERO)), ..line(CacheMode::Auto) };
        assert_eq!(
            auto.text(intra),
            "region 7 (8.0 MiB): auto, 4 fetches so far, 75 % hits; not cached: too little measured yet"
        );
    }

    #[test]
    fn sizes_have_units_that_suit_them() {
        let sizes = [0, 1023, 1 << 10, (1 << 20) - 1, 3 << 29, 5 << 40].map(spoken_size);
        assert_eq!(sizes, ["0 B", "1023 B", "1.0 KiB", "1.0 MiB", "1.5 GiB", "5.0 TiB"]);
    }
}
