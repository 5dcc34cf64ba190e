//! What was found out, for people.

use std::collections::BTreeMap;
use std::fmt;

use super::value::Value;
use super::{Analysis, Loop, Reach};
use crate::memory::{
    AREA_SHIFT, CONTEXT_AREA, DATA_AREA, FIRST_GRANT_AREA, FRAME_LEN, RODATA_AREA, STACK_AREA,
};
use crate::program::FunctionId;

/// What is known about one access, at one depth of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessFinding {
    /// The slot of the instruction.
    pub index: u32,
    /// How many frames lie below the function's own.
    pub depth: u32,
    /// What is known.
    pub reach: Reach,
    address: Value,
}

impl AccessFinding {
    /// Whether it needs no check, given a context of the [length](Analysis::context_of) that is needed.
    pub fn is_proven(&self) -> bool {
        matches!(self.reach, Reach::Proven { .. })
    }
}

impl Analysis {
    /// What is known about every load, store and atomic operation that can be reached, by slot.
    pub fn findings(&self) -> Vec<AccessFinding> {
        let mut findings = Vec::new();
        for body in &self.bodies {
            for &(index, address) in &body.facts.addresses {
                let reach = body.facts.reaches[(index - body.start) as usize].unwrap_or(Reach::Anywhere);
                findings.push(AccessFinding { index, depth: body.depth, reach, address });
            }
        }
        findings.sort_by_key(|finding| (finding.index, finding.depth));
        findings
    }
}

impl Analysis {
    /// All loops that can be reached, by the slot at which they begin.
    pub fn loops(&self) -> Vec<Loop> {
        let mut found: BTreeMap<u32, Option<u64>> = BTreeMap::new();
        for Loop { start, rounds } in self.bodies.iter().flat_map(|body| &body.loops) {
            let known = found.entry(*start).or_insert(Some(0));
            *known = known.zip(*rounds).map(|(known, rounds)| known.max(rounds));
        }
        found.into_iter().map(|(start, rounds)| Loop { start, rounds }).collect()
    }

    /// How much fuel a run that starts in this function uses at most, if that is known. Whatever else starts there
    /// may use all it is given.
    pub fn fuel_of(&self, function: FunctionId) -> Option<u64> {
        self.bodies[self.body(function.index(), 0)?].fuel
    }
}

fn name_of(area: usize) -> String {
    match area {
        CONTEXT_AREA => "context".to_owned(),
        STACK_AREA => "stack".to_owned(),
        RODATA_AREA => "constants".to_owned(),
        DATA_AREA => "variables".to_owned(),
        _ => format!("buffer {}", area.saturating_sub(FIRST_GRANT_AREA)),
    }
}

impl fmt::Display for AccessFinding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mask = (1u64 << AREA_SHIFT) - 1;
        let (low, high) = (self.address.low & mask, self.address.high & mask);
        let place = |area: usize| {
            // As programs write it: from the end of the frame.
            let end = (u64::from(self.depth) + 1) * FRAME_LEN as u64;
            let offset = |offset: u64| match area {
                STACK_AREA => format!("{:+}", offset as i64 - end as i64),
                _ => format!("{offset:+}"),
            };
            if low == high {
                format!("{} {}", name_of(area), offset(low))
            } else {
                format!("{} {} to {}", name_of(area), offset(low), offset(high))
            }
        };
        match self.reach {
            Reach::Proven { area, .. } => write!(formatter, "proven: {}", place(area)),
            Reach::Area(area) if self.address.or_zero => {
                write!(formatter, "checked: {}, or zero", place(area))
            }
            Reach::Area(area) => write!(formatter, "checked: {}, which may be too far", place(area)),
            Reach::Anywhere if self.address == Value::ANY => write!(formatter, "checked: may be anywhere"),
            Reach::Anywhere => write!(
                formatter,
                "checked: anything from {:#x} to {:#x}",
                self.address.least(),
                self.address.greatest()
            ),
        }
    }
}
