//! The counts of traffic, and how others learn of them.

use std::ffi::OsStr;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use outboard_routing::Carried;

use super::messages::Messenger;

/// The variable that names a folder for reports.
const VARIABLE: &str = "OUTBOARD_REPORT";
/// How often a report is written anew.
const EVERY: Duration = Duration::from_secs(1);

/// The traffic so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessengerStats {
    /// Bundles that were sent, to this rank itself and those of signals included.
    pub bundles_sent: u64,
    /// Their bytes, heads included.
    pub bytes_sent: u64,
    /// Bundles that were handled.
    pub bundles_handled: u64,
    /// Their bytes.
    pub bytes_handled: u64,
    /// Bundles of messages that this rank sent to itself. They stay where they are.
    pub own_bundles: u64,
    /// Their bytes.
    pub own_bytes: u64,
    /// Bundles of messages that went to other ranks without an agent.
    pub direct_bundles: u64,
    /// Their bytes.
    pub direct_bytes: u64,
    /// Bundles of messages that went to other ranks by an agent.
    pub agent_bundles: u64,
    /// Their bytes.
    pub agent_bytes: u64,
    /// Parcels of bundles that came from an agent.
    pub agent_parcels: u64,
    /// Their bytes.
    pub agent_parcel_bytes: u64,
    /// How often there was no free bundle.
    pub full: u64,
    /// How long this rank left its processor to others because there was nothing to do, in all. What it spent on looking again
    /// before that is not in it.
    pub waited: Duration,
}

impl MessengerStats {
    /// A bundle of messages was sent.
    pub(super) fn count_hop(&mut self, is_own: bool, len: u32) {
        let (bundles, bytes) = match is_own {
            true => (&mut self.own_bundles, &mut self.own_bytes),
            false => (&mut self.direct_bundles, &mut self.direct_bytes),
        };
        *bundles += 1;
        *bytes += u64::from(len);
    }

    /// Adds the traffic that an agent has carried: until then all that left this rank is thought to have gone directly.
    pub(super) fn with_carried(self, carried: Carried) -> Self {
        let Carried { bundles_sent, bytes_sent, parcels, parcel_bytes } = carried;
        Self {
            direct_bundles: self.direct_bundles.saturating_sub(bundles_sent),
            direct_bytes: self.direct_bytes.saturating_sub(bytes_sent),
            agent_bundles: bundles_sent,
            agent_bytes: bytes_sent,
            agent_parcels: parcels,
            agent_parcel_bytes: parcel_bytes,
            ..self
        }
    }

    /// All numbers with their names.
    fn numbers(&self) -> [(&'static str, u64); 13] {
        [
            ("bundles_sent", self.bundles_sent),
            ("bytes_sent", self.bytes_sent),
            ("bundles_handled", self.bundles_handled),
            ("bytes_handled", self.bytes_handled),
            ("own_bundles", self.own_bundles),
            ("own_bytes", self.own_bytes),
            ("direct_bundles", self.direct_bundles),
            ("direct_bytes", self.direct_bytes),
            ("agent_bundles", self.agent_bundles),
            ("agent_bytes", self.agent_bytes),
            ("agent_parcels", self.agent_parcels),
            ("agent_parcel_bytes", self.agent_parcel_bytes),
            ("full", self.full),
        ]
    }
}

/// Where a rank's report goes: `rank-N.json` in the folder that `OUTBOARD_REPORT` names. It is written anew every second and
/// at the end, always as a whole.
pub(super) struct Report {
    folder: PathBuf,
    began: Instant,
    next: Instant,
}

impl Report {
    /// As the environment says, if it does.
    pub(super) fn from_environment() -> Option<Self> {
        std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty()).map(|folder| Self::new(&folder))
    }

    fn new(folder: &OsStr) -> Self {
        let now = Instant::now();
        Self { folder: folder.into(), began: now, next: now + EVERY }
    }

    fn write(&self, rank: u32, text: &str) -> std::io::Result<()> {
        std::fs::create_dir_all(&self.folder)?;
        let unfinished = self.folder.join(format!("rank-{rank}.json.new"));
        std::fs::write(&unfinished, text)?;
        std::fs::rename(&unfinished, path(&self.folder, rank))
    }
}

fn path(folder: &Path, rank: u32) -> PathBuf {
    folder.join(format!("rank-{rank}.json"))
}

impl Messenger {
    /// Writes a report, if one is wanted and it is time.
    #[inline]
    pub(super) fn report_in_time(&mut self) {
        if self.report.is_some() {
            self.report_if(|report| Instant::now() >= report.next, false);
        }
    }

    /// Writes the last report.
    pub(super) fn report_at_the_end(&mut self) {
        self.report_if(|_| true, true);
    }

    #[cold]
    fn report_if(&mut self, is_time: impl FnOnce(&Report) -> bool, is_over: bool) {
        let Some(mut report) = self.report.take() else { return };
        if !is_time(&report) {
            self.report = Some(report);
            return;
        }
        match report.write(self.rank, &self.report_text(report.began.elapsed(), is_over)) {
            Ok(()) => {
                report.next = Instant::now() + EVERY;
                self.report = Some(report);
            }
            // It will not be better the next time, and no person wants to read it every second.
            Err(error) => {
                let path = path(&report.folder, self.rank);
                tracing::warn!("cannot write the report {}: {error}; see ${VARIABLE}", path.display());
            }
        }
    }

    fn report_text(&self, lasted: Duration, is_over: bool) -> String {
        let mut text = format!(
            "{{\"rank\":{},\"ranks\":{},\"placement\":\"{}\",\"is_over\":{is_over},\"seconds\":{:.6},\"bundle_bytes\":{}",
            self.rank,
            self.ranks,
            self.placement().name(),
            lasted.as_secs_f64(),
            self.bundle_bytes
        );
        for (name, number) in self.stats().numbers() {
            // Nothing can go wrong in memory.
            let _ = write!(text, ",\"{name}\":{number}");
        }
        let _ = writeln!(text, ",\"waited_seconds\":{:.6}}}", self.stats.waited.as_secs_f64());
        text
    }
}
