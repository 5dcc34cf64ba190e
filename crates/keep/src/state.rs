//! The state that the records of a journal add up to.

use std::collections::{BTreeMap, BTreeSet};

use outboard_wire::RegionId;

use crate::{JournalRecord, KeptRegion, ServerLife};

/// The state that the records of a journal add up to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptState {
    /// The last start of a server, unless there was none.
    pub life: Option<ServerLife>,
    /// Whether that server has ended as it was asked to.
    pub has_ended: bool,
    /// The regions.
    pub regions: BTreeMap<RegionId, KeptRegion>,
}

/// A record that cannot follow those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contradiction;

impl KeptState {
    /// No journal has said anything yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a record.
    pub(crate) fn try_apply(&mut self, record: &JournalRecord) -> Result<(), Contradiction> {
        if self.life.is_none() && !matches!(record, JournalRecord::Began(_)) {
            return Err(Contradiction);
        }
        self.has_ended = matches!(record, JournalRecord::Ended);
        match record {
            JournalRecord::Began(life) => self.life = Some(*life),
            JournalRecord::Region(region) => {
                self.note_number(region.region);
                self.regions.insert(region.region, (**region).clone());
            }
            JournalRecord::Epoch { region, epoch } => {
                let known = self.regions.get_mut(region).ok_or(Contradiction)?;
                // Two threads that begin epochs may write them down the other way round.
                known.epoch = known.epoch.max(*epoch);
            }
            JournalRecord::Held { region, epoch, holders } => {
                let known = self.regions.get_mut(region).ok_or(Contradiction)?;
                known.epoch = known.epoch.max(*epoch);
                known.holders.clone_from(holders);
            }
            JournalRecord::Freed { region } => {
                self.regions.remove(region).ok_or(Contradiction)?;
            }
            JournalRecord::Ended => {}
        }
        Ok(())
    }

    /// Adds a record that was just written. One that cannot follow changes nothing.
    pub fn apply(&mut self, record: &JournalRecord) {
        let _ = self.try_apply(record);
    }

    fn note_number(&mut self, region: RegionId) {
        if let Some(life) = &mut self.life {
            life.last_region = life.last_region.max(region);
        }
    }

    /// The fewest records that add up to this.
    pub fn records(&self) -> Vec<JournalRecord> {
        let life = self.life.map(JournalRecord::Began);
        let regions = self.regions.values().map(|region| JournalRecord::Region(Box::new(region.clone())));
        let ended = self.has_ended.then_some(JournalRecord::Ended);
        life.into_iter().chain(regions).chain(ended).collect()
    }

    /// Whether no two regions have one name.
    pub(crate) fn names_differ(&self) -> bool {
        let names: BTreeSet<&str> = self.regions.values().map(|region| region.name.as_str()).collect();
        names.len() == self.regions.len()
    }
}
